"""Random tables in Spark's catalog: formats, partitions, buckets, and changes that only the catalog knows."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql import types as t
from typed_rows import random_rows, random_schema

from pushdown_spark.contract import SourceFormat
from pushdown_spark.projection.paths import quote_name, sql_text
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

FORMATS = (
    *(SourceFormat.PARQUET, SourceFormat.PARQUET, SourceFormat.ORC),
    *(SourceFormat.JSON, SourceFormat.CSV, SourceFormat.AVRO),
)
"""Formats by their frequency: most tables have Parquet files."""
PARTITION_VALUES: dict[str, tuple[object, ...]] = {
    "int": (0, 1, -7, None),
    "string": ("a", "", "x y", "a=b/c", "100%25", "ä#?", "7", None),
    "date": ("2024-02-29", "1969-12-31", None),
}
"""Values of partition columns by type. An empty string is stored as NULL."""
_WIDER: dict[str, t.DataType] = {"tinyint": t.IntegerType(), "int": t.LongType(), "smallint": t.LongType()}
_NUMBERS = count()


@dataclass(frozen=True)
class Table:
    """A table of the catalog: its name, its columns and its partition columns."""

    name: str
    schema: t.StructType
    partition_names: tuple[str, ...]


class TableMaker:
    """Creates the table of a seed. Spark writes all files."""

    def __init__(self, spark: SparkSession, rng: random.Random, directory: Path) -> None:
        self._spark = spark
        self._rng = rng
        self._directory = directory
        self._format = rng.choice(FORMATS)
        self._partitions = {
            f"p{number}": rng.choice(sorted(PARTITION_VALUES)) for number in range(rng.choice((0, 1, 1, 2)))
        }
        self._options = {"header": rng.choice(("true", "false"))} if self._format is SourceFormat.CSV else {}

    def table(self) -> Table:
        """Create a table with rows, change it, and return it."""
        schema = self._random_schema()
        location = self._place("table")
        is_external = self._rng.random() < 0.5
        table = self._create(schema, location if is_external else None, bucketed=self._rng.random() < 0.2)
        for _ in range(self._rng.choice((1, 2))):
            self._insert(table)
        if self._rng.random() < 0.3:
            table = self._add_column(table)
            self._insert(table)
        if table.partition_names:
            self._change_partitions(table)
        if is_external and self._rng.random() < 0.5:
            table = self._declare_again(table, location)
        return table

    def _random_schema(self) -> t.StructType:
        """Return columns that the format can store."""
        schema = random_schema(self._rng)
        if self._format is not SourceFormat.CSV:
            return schema
        return t.StructType([field for field in schema.fields if not isinstance(field.dataType, t.StructType)])

    def _place(self, name: str) -> Path:
        """Return a new directory, whose name may have characters with a meaning in globs and URIs."""
        return self._directory / f"{name}{next(_NUMBERS)}{self._rng.choice(('', ' x', '%20', '[1]', '+'))}"

    def _create(self, schema: t.StructType, location: Path | None, *, bucketed: bool = False) -> Table:
        name = f"t{next(_NUMBERS)}"
        columns = [f"{quote_name(field.name)} {field.dataType.simpleString()}" for field in schema.fields]
        columns += [f"{partition} {kind} COMMENT 'a key'" for partition, kind in self._partitions.items()]
        clauses = [f"PARTITIONED BY ({', '.join(self._partitions)})"] if self._partitions else []
        if bucketed:
            clauses.append(f"CLUSTERED BY ({quote_name(schema.fields[1].name)}) INTO 3 BUCKETS")
        if self._options:
            clauses.append(f"OPTIONS ({', '.join(f'{key} {sql_text(value)}' for key, value in self._options.items())})")
        if location is not None:
            clauses.append(f"LOCATION {sql_text(location.as_uri())}")
        provider = AVRO_CLASS if self._format is SourceFormat.AVRO else self._format.value
        self._spark.sql(f"CREATE TABLE {name} ({', '.join(columns)}) USING {provider} {' '.join(clauses)}")
        kinds = [
            t.StructField(partition, t._parse_datatype_string(kind)) for partition, kind in self._partitions.items()
        ]
        return Table(name, t.StructType([*schema.fields, *kinds]), tuple(self._partitions))

    def _insert(self, table: Table) -> None:
        """Insert rows, each into one of a few partitions."""
        data = t.StructType([field for field in table.schema.fields if field.name not in table.partition_names])
        frame = self._spark.createDataFrame(random_rows(self._rng, data, 40), data)
        for partition in table.partition_names:
            kind = self._partitions[partition]
            values = [f.lit(self._rng.choice(PARTITION_VALUES[kind])).cast(kind) for _ in range(3)]
            frame = frame.withColumn(partition, f.get(f.array(*values), (f.col(data.fieldNames()[0]) % 3).cast("int")))
        frame.write.insertInto(table.name)

    def _add_column(self, table: Table) -> Table:
        """Add a column, which the existing files lack. Its default may be a value."""
        default = self._rng.choice(("", "", " DEFAULT 42"))
        self._spark.sql(f"ALTER TABLE {table.name} ADD COLUMN added INT{default}")
        data = [field for field in table.schema.fields if field.name not in table.partition_names]
        keys = [table.schema[partition] for partition in table.partition_names]
        schema = t.StructType([*data, t.StructField("added", t.IntegerType()), *keys])
        return Table(table.name, schema, table.partition_names)

    def _change_partitions(self, table: Table) -> None:
        """Drop a partition, and add one whose directory is elsewhere or that of another partition."""
        partitions = [row[0] for row in self._spark.sql(f"SHOW PARTITIONS {table.name}").collect()]
        kinds = list(self._partitions.values())
        if any("string" in kind for kind in kinds):
            return
        clauses = [", ".join(_assignment(part) for part in partition.split("/")) for partition in sorted(partitions)]
        if self._rng.random() < 0.3 and len(clauses) > 1:
            self._spark.sql(f"ALTER TABLE {table.name} DROP PARTITION ({clauses.pop()})")
        if self._rng.random() < 0.5:
            values = {"int": "99", "date": "DATE'2030-01-01'"}
            clause = ", ".join(f"{name} = {values[kind]}" for name, kind in self._partitions.items())
            details = f"DESCRIBE TABLE EXTENDED {table.name} PARTITION ({self._rng.choice(clauses)})"
            directory = next(row[1] for row in self._spark.sql(details).collect() if row[0] == "Location")
            place = directory if self._rng.random() < 0.2 else self._place("partition").as_uri()
            self._spark.sql(f"ALTER TABLE {table.name} ADD PARTITION ({clause}) LOCATION {sql_text(place)}")
            data = [name for name in table.schema.fieldNames() if name not in table.partition_names]
            columns = ", ".join(map(quote_name, data))
            if place != directory:
                rows = f"SELECT {columns} FROM {table.name} LIMIT 20"
                self._spark.sql(f"INSERT INTO {table.name} PARTITION ({clause}) {rows}")

    def _declare_again(self, table: Table, location: Path) -> Table:
        """Declare another table over the same files: its columns differ, and it may lack partitions."""
        data = [field for field in table.schema.fields if field.name not in table.partition_names]
        new_columns = [self._change(field) for field in data[1:] if self._rng.random() < 0.8]
        if self._rng.random() < 0.5:
            self._rng.shuffle(new_columns)
        new_columns.insert(self._rng.randint(0, len(new_columns)), t.StructField("absent", t.StringType()))
        again = self._create(t.StructType([data[0], *new_columns]), location)
        if self._partitions and self._rng.random() < 0.8:
            self._spark.sql(f"MSCK REPAIR TABLE {again.name}")
        return again

    def _change(self, field: t.StructField) -> t.StructField:
        """Return a column in another case or with a wider type."""
        name = field.name.upper() if self._rng.random() < 0.2 else field.name
        wider = _WIDER.get(field.dataType.simpleString())
        return t.StructField(name, wider if wider is not None and self._rng.random() < 0.3 else field.dataType)


def _assignment(partition: str) -> str:
    """Return a part of a partition's name as SQL."""
    name, _, value = partition.partition("=")
    return f"{name} = NULL" if value == "__HIVE_DEFAULT_PARTITION__" else f"{name} = '{value}'"
