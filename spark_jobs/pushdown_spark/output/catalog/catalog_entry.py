"""The entry of a table in Spark's session catalog: its description and its partitions, and changes of them.

Changes go through the commands that Spark itself runs after an insert, so that they mean the same in the built-in
catalog and in a Hive metastore. None of them touches files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from pydantic import JsonValue
from pyspark.sql import types as t

from pushdown_spark.errors import MissingPathError
from pushdown_spark.expressions.session_settings import is_enabled
from pushdown_spark.output.files.layout import unescape_name
from pushdown_spark.output.files.partition_names import PartitionNames, unescaped_names
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.jvm_gateway import java_class, java_string, scala_map, scala_object, scala_seq, scala_value
from pushdown_spark.runtime.spark_internals import analyzed_statement, java_session, session_catalog
from pushdown_spark.sources.stores.listing import decode_uri

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

PROPERTY = "airflow_pushdown."
"""The prefix of the properties of a table that a run has created."""
_COMMANDS = "org.apache.spark.sql.execution.command"
_TRACKS_PARTITIONS = "spark.sql.hive.manageFilesourcePartitions"


@dataclass(frozen=True, kw_only=True)
class TableDefinition:
    """A table as the catalog describes it. `location` has no percent-encoding."""

    location: str
    provider: str
    kind: str
    schema: t.StructType
    partition_by: tuple[str, ...]
    options: Mapping[str, str]
    properties: Mapping[str, str]
    is_bucketed: bool
    is_clustered: bool
    tracks_partitions: bool
    created: int

    def has_same_rows_as(self, other: TableDefinition) -> bool:
        """Return whether files that were written for the other definition have the right rows for this one."""

        def relevant_fields(table: TableDefinition) -> tuple[object, ...]:
            return (table.location, table.provider, table.kind, table.schema, table.partition_by, table.options)

        return relevant_fields(self) == relevant_fields(other) and self.created == other.created


class CatalogEntry:
    """The entry of one table. Each method asks the catalog again."""

    def __init__(self, spark: SparkSession, database: str, table: str) -> None:
        self._spark = spark
        self.database = database
        self.table = table

    @property
    def name(self) -> str:
        """The qualified name for messages."""
        return f"{self.database}.{self.table}"

    @property
    def sql(self) -> str:
        """The qualified name in SQL. A temporary view of that name does not hide the table."""
        return f"spark_catalog.{quote_name(self.database)}.{quote_name(self.table)}"

    def definition(self) -> TableDefinition | None:
        """Return the description of the table, or None if there is no table. Raises typed errors of the catalog."""
        if not self._catalog.tableExists(self._identifier):
            return None
        table = self._catalog.getTableMetadata(self._identifier)
        raw = cast("dict[str, Any]", scala_value(self._spark, table))
        schema = json.loads(java_string(self._spark, table.schema().json()))
        storage = raw["storage"]
        return TableDefinition(
            location=decode_uri(storage["locationUri"] or ""),
            provider=raw["provider"] or "",
            kind=raw["tableType"]["name"],
            schema=t.StructType.fromJson(schema),
            partition_by=tuple(raw["partitionColumnNames"]),
            options=storage["properties"],
            properties=raw["properties"],
            is_bucketed=raw["bucketSpec"] is not None,
            is_clustered=raw.get("clusterBySpec") is not None,
            tracks_partitions=raw["tracksPartitionsInCatalog"],
            created=raw["createTime"],
        )

    def default_location(self) -> str:
        """Return the directory of a new table. Raises MissingPathError if there is no such database."""
        if not self._catalog.databaseExists(self.database):
            raise MissingPathError(f"output_table: the catalog has no database {self.database}; create it first")
        return decode_uri(str(self._catalog.defaultTablePath(self._identifier).toString()))

    def partitions(self) -> set[str]:
        """Return the directories of all partitions, as they are below the directory of the table."""
        names = self._catalog.listPartitionNames(self._identifier, self._none)
        text = java_string(self._spark, names.mkString("\n"))
        return set(text.split("\n")) if text else set()

    def partitions_elsewhere(self, table: TableDefinition, partitions: Iterable[str] | None) -> list[str]:
        """Return the locations of those of the given partitions, or of all, that are not where Spark would write them.

        Other programs write `k=a%20b` where Spark writes `k=a b`. They also write `n=01` where Spark writes `n=1`, and
        Spark's commands change `n=1` if they are given `n=01`.
        """
        names = self.partitions() if partitions is None else set(partitions)
        entries = [
            (spec, location, decode_uri(location).removeprefix(f"{table.location}/"))
            for spec, location in self._locations(partitions)
        ]
        own = PartitionNames(self._spark, table.schema, is_declared=True).of(directory for _, _, directory in entries)
        locations = []
        for spec, location, directory in entries:
            has_values = list(partition_spec(directory).items()) == [(key, spec.get(key)) for key in table.partition_by]
            is_own = own[directory] == unescaped_names(directory)
            if not (directory in names and has_values and is_own):
                locations.append(location)
        return locations

    def _locations(self, partitions: Iterable[str] | None) -> list[tuple[dict[str, str], str]]:
        """Return values and location of partitions."""
        if partitions is None:
            entries = self._catalog.listPartitions(self._identifier, self._none)
        else:
            specs = [scala_map(self._spark, partition_spec(name)) for name in partitions]
            entries = scala_seq(self._spark, [self._catalog.getPartition(self._identifier, spec) for spec in specs])
        values = cast("list[dict[str, Any]]", scala_value(self._spark, entries))
        return [(entry["spec"], entry["storage"]["locationUri"] or "") for entry in values]

    def create(self, statement: str, location: str) -> None:
        """Create a table whose directory exists, as Spark does after CREATE TABLE AS SELECT has written the files.

        `statement` is CREATE TABLE without a location. Nothing happens if the table exists.
        """
        command = analyzed_statement(self._spark, statement)
        table = command.table()
        uri = java_class(self._spark, "org.apache.hadoop.fs.Path")(location).toUri()
        option = java_class(self._spark, "scala.Option")
        is_partitioned = not table.partitionColumnNames().isEmpty()
        located_table = _copy_with(
            table,
            storage=_copy_with(table.storage(), locationUri=option.apply(uri)),
            tracksPartitionsInCatalog=is_partitioned and tracks_new_partitions(self._spark),
        )
        # Spark's own check of the directory would reject the files.
        self._catalog.createTable(located_table, True, False)

    def drop(self) -> None:
        """Remove the entry of a table without files."""
        self._spark.sql(f"DROP TABLE IF EXISTS {self.sql}")

    def add_partitions(self, partitions: Sequence[str]) -> None:
        """Add those of the partitions that are missing, at their default directories."""
        entry = java_class(self._spark, "scala.Tuple2")
        specs = [entry(scala_map(self._spark, partition_spec(name)), self._none) for name in partitions]
        add = java_class(self._spark, f"{_COMMANDS}.AlterTableAddPartitionCommand")
        add(self._identifier, scala_seq(self._spark, specs), True).run(java_session(self._spark))

    def remove_partitions(self, partitions: Sequence[str]) -> None:
        """Remove the entries of partitions that exist, and keep their files."""
        specs = [scala_map(self._spark, partition_spec(name)) for name in partitions]
        drop = java_class(self._spark, f"{_COMMANDS}.AlterTableDropPartitionCommand")
        if_exists, purge, keep_files = True, False, True
        command = drop(self._identifier, scala_seq(self._spark, specs), if_exists, purge, keep_files)
        command.run(java_session(self._spark))

    def refresh(self) -> None:
        """Forget statistics and listings of files that are older than a change of the files."""
        self._spark.catalog.refreshTable(self.sql)
        table = self._catalog.getTableMetadata(self._identifier)
        java_class(self._spark, f"{_COMMANDS}.CommandUtils").updateTableStats(java_session(self._spark), table)

    @property
    def _catalog(self) -> JavaObject:
        return session_catalog(self._spark)

    @cached_property
    def _identifier(self) -> JavaObject:
        option = java_class(self._spark, "scala.Option")
        identifier = java_class(self._spark, "org.apache.spark.sql.catalyst.TableIdentifier")
        return identifier(self.table, option.apply(self.database))

    @cached_property
    def _none(self) -> JavaObject:
        return scala_object(self._spark, "scala.None")


def tracks_new_partitions(spark: SparkSession) -> bool:
    """Return whether the catalog has the partitions of new tables. Otherwise Spark lists their directories."""
    return is_enabled(spark, _TRACKS_PARTITIONS, default=True)


def partition_spec(directory: str) -> dict[str, str]:
    """Return the values of a partition by its directory, as the catalog stores them.

    >>> partition_spec("day=2026-01-01/name=a%2Fb")
    {'day': '2026-01-01', 'name': 'a/b'}
    """
    steps = (step.partition("=") for step in directory.split("/"))
    return {unescape_name(key): unescape_name(value) for key, _, value in steps}


def property_text(values: Mapping[str, str]) -> str:
    """Return properties or options in SQL.

    >>> property_text({"sep": "'"})
    "'sep' = '\\\\''"
    """
    return ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in values.items())


def _literal(text: str) -> str:
    content = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{content}'"


def _copy_with(instance: JavaObject, **values: JsonValue | JavaObject) -> JavaObject:
    """Return a copy of an instance of a case class with other values of some fields."""
    names = [str(instance.productElementName(number)) for number in range(instance.productArity())]
    return instance.copy(*(values.get(name, instance.productElement(number)) for number, name in enumerate(names)))
