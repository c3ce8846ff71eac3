"""Spark's analyzed plan of a catalog table, and the facts in it that the pushdown readers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.scope import is_char
from pushdown_spark.expressions.types import DECLARED_TYPE
from pushdown_spark.projection.nested_types import types_in
from pushdown_spark.runtime.jvm_gateway import class_name, elements, scala_object, string_map
from pushdown_spark.runtime.spark_internals import AVRO_CLASS, analyzed_plan, session_catalog
from pushdown_spark.sources.stores.listing import CATALOG_INDEX, all_partitions, decode_uri

MEMORY_INDEX = "org.apache.spark.sql.execution.datasources.InMemoryFileIndex"
"""The file index of a table without partitions, or whose partitions Spark finds in the directory of the table."""
_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_FILE_FORMATS = {
    f"{_DATASOURCES}.parquet.ParquetFileFormat": SourceFormat.PARQUET,
    f"{_DATASOURCES}.orc.OrcFileFormat": SourceFormat.ORC,
    f"{_DATASOURCES}.json.JsonFileFormat": SourceFormat.JSON,
    f"{_DATASOURCES}.csv.CSVFileFormat": SourceFormat.CSV,
    f"{_DATASOURCES}.text.TextFileFormat": SourceFormat.TEXT,
    AVRO_CLASS: SourceFormat.AVRO,
}
"""Formats by the exact class of Spark's reader. Subclasses, such as Delta's, read other rows from the same files."""
_CATALOG_OPTIONS = frozenset({"path", "serialization.format", "partitionoverwritemode"})
"""Options that the catalog adds. No reader uses them."""
_SHOWN_PATH = 60
"""Characters of a path that Spark's plans always show."""
_NODES = {
    "View": "it is a view, which Spark expands",
    "HiveTableRelation": "it is a Hive table, which Spark reads with Hive's SerDe",
}
"""Why only Spark reads a table, by the node of its plan."""


@dataclass(frozen=True)
class CatalogTable:
    """A table of files, as Spark resolved it.

    `options` are the options of the table and of the declaration, with names in lower case. `roots` are the directories
    that Spark lists. `is_listed_by_catalog` is whether only the partitions that the catalog knows belong to the table.
    `is_bucketed` is whether Spark may skip buckets. `pads` is whether Spark pads values of char(n) columns in a node
    above the relation.
    """

    format: SourceFormat
    options: Mapping[str, str]
    roots: tuple[str, ...]
    is_listed_by_catalog: bool
    is_bucketed: bool
    pads: bool


def describe_catalog_table(frame: DataFrame) -> CatalogTable:
    """Return the table of files that a DataFrame reads. Raises UnsupportedError if only Spark can read it."""
    node, pads = plan_below_names(frame), False
    if class_name(node) == "Project" and any(map(is_char, frame.schema.fields)):
        node, pads = node.child(), True
    name = class_name(node)
    if name != "LogicalRelation" or class_name(node.relation()) != "HadoopFsRelation":
        provider = _provider(node)
        by_provider = f"it is a table of {provider}, which Spark reads with its connector"
        raise UnsupportedError(by_provider if provider else _NODES.get(name, f"Spark reads it by the plan {name}"))
    relation = node.relation()
    file_format = str(relation.fileFormat().getClass().getName())
    index = str(relation.location().getClass().getName())
    if file_format not in _FILE_FORMATS or index not in (MEMORY_INDEX, CATALOG_INDEX):
        raise UnsupportedError(f"it has files that Spark reads with {file_format.rpartition('.')[2]}")
    options = {key.lower(): value for key, value in string_map(relation.options()).items()}
    return CatalogTable(
        _FILE_FORMATS[file_format],
        {key: value for key, value in options.items() if key not in _CATALOG_OPTIONS},
        tuple(str(path.toString()) for path in elements(relation.location().rootPaths())),
        index == CATALOG_INDEX,
        bool(relation.bucketSpec().isDefined()),
        pads,
    )


def _hive_directories(spark: SparkSession, table: JavaObject) -> Iterator[str]:
    """Yield the directories of a table of Hive and of its partitions, which may be elsewhere."""
    yield decode_uri(str(table.location().toString()))
    if not table.partitionColumnNames().isEmpty():
        catalog = session_catalog(spark)
        for partition in elements(catalog.listPartitions(table.identifier(), scala_object(spark, "scala.None"))):
            yield decode_uri(str(partition.location().toString()))


def _has_files(relation: JavaObject) -> bool:
    """Return whether a relation consists of files. Delta's relation is a nameless subclass."""
    names = (class_name(relation), str(relation.getClass().getSuperclass().getSimpleName()))
    return "HadoopFsRelation" in names


def _provider(node: JavaObject) -> str | None:
    """Return the name of the data source of a table, or None if the plan has none."""
    match class_name(node):
        case "DataSourceV2Relation":
            return str(node.table().properties().get("provider") or node.table().name())
        case "LogicalRelation" if node.catalogTable().isDefined():
            provider = node.catalogTable().get().provider()
            return str(provider.get()) if provider.isDefined() else None
    return None


def plan_below_names(frame: DataFrame) -> JavaObject:
    """Return the analyzed plan of a DataFrame without the nodes that only name it."""
    node = analyzed_plan(frame)
    while class_name(node) == "SubqueryAlias":
        node = node.child()
    return node


def check_column(field: t.StructField) -> None:
    """Raise UnsupportedError if the catalog stores more about a column than its type and a comment.

    Defaults of missing values, expressions of generated columns and identifiers of fields change the rows.
    """
    members = (member for part in types_in(field.dataType) if isinstance(part, t.StructType) for member in part.fields)
    for member in (field, *members):
        unknown = sorted(member.metadata.keys() - {"comment", DECLARED_TYPE})
        if any("DEFAULT" in key for key in unknown):
            raise UnsupportedError(f"column {field.name} has a default for missing values")
        if unknown:
            raise UnsupportedError(f"column {field.name} has {unknown[0]} in the catalog, which only Spark applies")


def is_plain_table(frame: DataFrame) -> bool:
    """Return whether a DataFrame is a table, not a view whose plan has its own conditions."""
    return class_name(plan_below_names(frame)) in ("LogicalRelation", "DataSourceV2Relation", "HiveTableRelation")


def tables_in_plan(frame: DataFrame) -> tuple[str, ...]:
    """Return the tables that a DataFrame reads, as Spark's plans show them.

    A table without a name has the start of its path, because Spark cuts off long ones.
    """
    return tuple(_name_in_plan(leaf) for leaf in elements(analyzed_plan(frame).collectLeaves()))


def _name_in_plan(leaf: JavaObject) -> str:
    match class_name(leaf):
        case "DataSourceV2Relation":
            return str(leaf.table().name())
        case "HiveTableRelation":
            return str(leaf.tableMeta().identifier().unquotedString())
        case "LogicalRelation" if leaf.catalogTable().isDefined():
            return str(leaf.catalogTable().get().identifier().unquotedString())
        case "LogicalRelation" if _has_files(leaf.relation()):
            return str(leaf.relation().location().rootPaths().head().toString())[:_SHOWN_PATH]
    return str(leaf.nodeName())


def source_directories(frame: DataFrame) -> set[str]:
    """Return the directories of all tables that a DataFrame reads, and those of partitions elsewhere.

    They have no percent-encoding. Tables of data sources without files have none.
    """
    directories: set[str] = set()
    plan = analyzed_plan(frame)
    for leaf in (leaf for part in (plan, *elements(plan.subqueriesAll())) for leaf in elements(part.collectLeaves())):
        match class_name(leaf):
            case "LogicalRelation" if _has_files(leaf.relation()):
                index = leaf.relation().location()
                for file_index in (index, all_partitions(frame.sparkSession, index)):
                    directories.update(str(path.toString()) for path in elements(file_index.rootPaths()))
            case "HiveTableRelation":
                directories.update(_hive_directories(frame.sparkSession, leaf.tableMeta()))
            case "DataSourceV2Relation":
                location = leaf.table().properties().get("location")
                directories.update(() if location is None else (str(location),))
    return directories
