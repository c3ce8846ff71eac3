"""Random ORC files of one table by Spark, pyarrow and pyorc: missing, added, moved, renamed and narrower columns."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyorc
from orc_values import Times, random_type, table_of
from pyarrow import orc
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from schema_change import Change

ROW = "row"
"""The column that numbers the rows of all files."""
_NARROWER = {
    t.LongType: (t.IntegerType, t.ShortType, t.ByteType),
    t.IntegerType: (t.ShortType, t.ByteType),
    t.ShortType: (t.ByteType,),
    t.DoubleType: (t.FloatType,),
}
_PYORC_NAMES = {
    t.BooleanType: "boolean",
    t.ByteType: "tinyint",
    t.ShortType: "smallint",
    t.IntegerType: "int",
    t.LongType: "bigint",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "binary",
    t.DateType: "date",
    t.TimestampNTZType: "bigint",
}


SOME_CHANGE = Change(missing=0.1, added=0.15, moved=0.5, narrower=0.3, recased=0.15, foreign=0.01, nameless=0.1)


def random_table(rng: random.Random) -> t.StructType:
    """Return row numbers, random columns, and one type twice so that columns can be compared."""
    kinds = [random_type(rng) for _ in range(rng.randint(3, 7))]
    kinds.append(rng.choice(kinds))
    fields = [t.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)]
    return t.StructType([t.StructField(ROW, t.LongType()), *fields])


def stored_schema(rng: random.Random, table: t.StructType, change: Change) -> t.StructType:
    """Return the schema of a file of the table. Row numbers do not change."""
    fields = _change_fields(rng, table.fields[1:], change)
    return t.StructType([table.fields[0], *fields])


def nameless(fields: list[t.StructField]) -> t.StructType:
    """Return the first columns of a table as old Hive wrote them: by position, without names."""
    return t.StructType([t.StructField(f"_col{number}", field.dataType) for number, field in enumerate(fields)])


def _change_fields(rng: random.Random, fields: list[t.StructField], change: Change) -> list[t.StructField]:
    old_fields = [field for field in fields if rng.random() >= change.missing]
    new_fields = [
        t.StructField(_rename(rng, f.name, change), _change_type(rng, f.dataType, change)) for f in old_fields
    ]
    if rng.random() < change.moved:
        rng.shuffle(new_fields)
    if rng.random() < change.added:
        new_fields.insert(rng.randint(0, len(new_fields)), t.StructField("extra", random_type(rng, 1)))
    return new_fields


def _rename(rng: random.Random, name: str, change: Change) -> str:
    return name.swapcase() if rng.random() < change.recased else name


def _change_type(rng: random.Random, kind: t.DataType, change: Change) -> t.DataType:
    if rng.random() < change.foreign:
        return random_type(rng, 1)
    match kind:
        case t.StructType():
            members = _change_fields(rng, kind.fields, change)
            return t.StructType(members or kind.fields)
        case t.ArrayType():
            return t.ArrayType(_change_type(rng, kind.elementType, change))
        case t.MapType():
            return t.MapType(_change_type(rng, kind.keyType, change), _change_type(rng, kind.valueType, change))
    if rng.random() >= change.narrower:
        return kind
    if isinstance(kind, t.DecimalType) and kind.precision > 20:
        return t.DecimalType(rng.randint(kind.scale, kind.precision), kind.scale)
    return rng.choice(_NARROWER[type(kind)])() if type(kind) in _NARROWER else kind


@dataclass(frozen=True)
class Files:
    """The files of a case, written into a directory."""

    spark: SparkSession
    rng: random.Random
    directory: Path

    def by_spark(self, name: str, table: pa.Table, schema: t.StructType, options: Mapping[str, str]) -> Path:
        """Write a file with the Java library."""
        frame = self.spark.createDataFrame(table, schema).coalesce(1)
        with TemporaryDirectory(dir=self.directory, prefix="_") as scratch:
            frame.write.mode("overwrite").options(**options).orc(scratch)
            (part,) = Path(scratch).glob("part-*.orc")
            return Path(shutil.move(part, self.directory / f"{name}.orc"))

    def by_pyarrow(self, name: str, table: pa.Table) -> Path:
        """Write a file with the C++ library. Times with a time zone keep it or lose it."""
        rng = self.rng
        path = self.directory / f"{name}.orc"
        plain = [number for number, kind in enumerate(table.schema.types) if not pa.types.is_nested(kind)]
        orc.write_table(
            storable(table, zoned=rng.random() < 0.5),
            path,
            batch_size=rng.choice((64, 1024)),
            stripe_size=rng.choice((4096, 65536, 1 << 26)),
            compression=rng.choice(("uncompressed", "zlib", "snappy", "lz4", "zstd")),
            compression_block_size=rng.choice((65_536, 262_144)),
            compression_strategy=rng.choice(("speed", "compression")),
            row_index_stride=rng.choice((13, 50, 100, 333, 10_000)),
            dictionary_key_size_threshold=rng.choice((0.0, 0.5, 1.0)),
            padding_tolerance=rng.choice((0.0, 0.0, 0.05)),
            bloom_filter_columns=[number for number in plain if rng.random() < 0.5] or None,
            bloom_filter_fpp=rng.choice((0.01, 0.2)),
        )
        return path

    def by_pyorc(self, name: str, table: pa.Table, schema: t.StructType) -> Path:
        """Write a file with the C++ library through pyorc, with char and varchar."""
        rng = self.rng
        path = self.directory / f"{name}.orc"
        block = rng.choice((1024, 4096, 65536))
        with (
            path.open("wb") as out,
            pyorc.Writer(
                out,
                _pyorc_type(rng, schema),
                batch_size=rng.choice((64, 1024)),
                stripe_size=rng.choice((4096, 65536, 1 << 26)),
                row_index_stride=rng.choice((0, 13, 50, 100, 333, 10_000)),
                compression=pyorc.CompressionKind(rng.choice((0, 1, 2, 4, 5))),
                compression_block_size=block,
                memory_block_size=block,
                bloom_filter_columns=[f.name for f in schema.fields if _is_plain(f.dataType) and rng.random() < 0.5],
                dict_key_size_threshold=rng.choice((0.0, 0.5, 1.0)),
            ) as writer,
        ):
            writable = storable(table, zoned=True)
            for row in zip(*(column.to_pylist() for column in writable.columns), strict=True):
                writer.write(tuple(map(_pyorc_value, row, writable.schema.types)))
        return path


def spark_options(rng: random.Random, schema: t.StructType) -> dict[str, str]:
    """Return options of Spark's writer: codecs, sizes, indexes and encodings."""
    choices = {
        "compression": ("none", "zlib", "snappy", "lz4", "zstd"),
        "orc.compress.size": ("1024", "4096", "262144"),
        "orc.row.index.stride": ("1000", "1000", "1000", "10000", "0"),
        "orc.stripe.row.count": ("1500", "2000", "100000"),
        "orc.dictionary.key.threshold": ("0", "0.5", "1"),
        "orc.encoding.strategy": ("SPEED", "COMPRESSION"),
        "orc.block.padding.tolerance": ("0.05", "0.05", "0"),
        "orc.bloom.filter.fpp": ("0.01", "0.2"),
    }
    chosen_options = {key: rng.choice(values) for key, values in choices.items()}
    if chosen_options["orc.row.index.stride"] == "0":
        chosen_options["orc.create.index"] = "false"
    with_filter = [field.name for field in schema.fields if _is_plain(field.dataType) and rng.random() < 0.5]
    return {**chosen_options, "orc.bloom.filter.columns": ",".join(with_filter)} if with_filter else chosen_options


def _is_plain(kind: t.DataType) -> bool:
    return not isinstance(kind, t.StructType | t.ArrayType | t.MapType | t.BooleanType | t.BinaryType)


def storable(table: pa.Table, *, zoned: bool) -> pa.Table:
    """Return times without a zone as Spark stores them, in microseconds. With `zoned`, the others keep their zone."""
    schema = pa.schema([field.with_type(_storable(field.type, zoned)) for field in table.schema])
    return table.cast(schema)


def _storable(kind: pa.DataType, zoned: bool) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        if kind.tz is None:
            return pa.int64()
        return kind if zoned else pa.timestamp("us")
    if pa.types.is_list(kind):
        return pa.list_(_storable(kind.value_type, zoned))
    if pa.types.is_map(kind):
        return pa.map_(_storable(kind.key_type, zoned), _storable(kind.item_type, zoned))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_storable(field.type, zoned)) for field in kind])
    return kind


def _pyorc_type(rng: random.Random, kind: t.DataType) -> str:
    match kind:
        case t.StructType():
            return "struct<" + ",".join(f"{f.name}:{_pyorc_type(rng, f.dataType)}" for f in kind.fields) + ">"
        case t.ArrayType():
            return f"array<{_pyorc_type(rng, kind.elementType)}>"
        case t.MapType():
            return f"map<{_pyorc_type(rng, kind.keyType)},{_pyorc_type(rng, kind.valueType)}>"
        case t.DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case t.TimestampType():
            return rng.choice(("timestamp", "timestamp with local time zone"))
        case t.StringType():
            return rng.choice(("string", "string", "varchar(3000)"))
    return _PYORC_NAMES[type(kind)]


def _pyorc_value(value: object, kind: pa.DataType) -> object:
    """Return structs as tuples and maps as dictionaries."""
    if value is None:
        return None
    if isinstance(value, dict):
        return tuple(_pyorc_value(value[field.name], field.type) for field in kind)
    if pa.types.is_map(kind) and isinstance(value, list):
        return {key: _pyorc_value(item, kind.item_type) for key, item in value}
    if isinstance(value, list):
        return [_pyorc_value(item, kind.value_type) for item in value]
    return value


def write_files(files: Files, table: t.StructType, change: Change, *, old: bool) -> list[Path]:
    """Write a directory of files of one table: one by Java, two by C++, sometimes one without rows."""
    rng = files.rng
    paths = []
    first = 0
    for number, writer in enumerate(("spark", "pyarrow", "pyorc")):
        rows = rng.choice((0, 1, 700)) if writer != "spark" else rng.choice((0, 1, 3500, 5200))
        schema = stored_schema(rng, table, change)
        if rng.random() < change.nameless:
            schema = nameless(table.fields[: rng.randint(1, len(table.fields))])
        # Spark fails on what pyarrow writes for fractions of seconds before 1970.
        times = Times(old=old and writer == "spark", early_fractions=writer != "pyarrow")
        data = table_of(rng, schema, rows, first, times)
        first += rows
        name = f"f{number}-{writer}"
        if writer == "spark":
            paths.append(files.by_spark(name, data, schema, spark_options(rng, schema)))
        elif writer == "pyarrow":
            paths.append(files.by_pyarrow(name, data))
        else:
            paths.append(files.by_pyorc(name, data, schema))
    return paths
