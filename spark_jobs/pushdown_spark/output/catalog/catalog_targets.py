"""Opens tables of Spark's catalogs as outputs: tables of files, and tables of connectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import ParseException

from pushdown_spark.contract import CatalogOutputSpec, ErrorCode
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.output.base_output import Output
from pushdown_spark.output.catalog.catalog_entry import CatalogEntry
from pushdown_spark.output.catalog.connector_output import ConnectorOutput
from pushdown_spark.output.catalog.connector_tables import ConnectorTable, DeltaTable, IcebergTable, run_of
from pushdown_spark.output.catalog.file_table import open_file_table
from pushdown_spark.output.source_protection import ReadPath
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import elements
from pushdown_spark.runtime.spark_internals import catalog_plugin, session_state, sql_parser

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION_CATALOG = "spark_catalog"
_CONNECTORS: dict[str, type[ConnectorTable]] = {"iceberg": IcebergTable, "delta": DeltaTable}
_CATALOGS = {"org.apache.iceberg.spark": "iceberg", "io.delta": "delta", "org.apache.spark.sql.delta": "delta"}
"""Packages of the classes of catalogs, and the format of their tables."""


def open_catalog_output(
    spark: SparkSession,
    output: CatalogOutputSpec,
    run_key: str,
    generation: str = "",
    *,
    sources: Iterable[ReadPath] = (),
) -> Output:
    """Return a new attempt of the run with this key to write a table. `sources` are the paths that the job reads.

    Raises BadSpecError for a name that is not one of a table, and for catalogs that no writer knows.
    """
    catalog, namespace, table = _resolve_name(spark, output.catalog_table)
    if catalog == _SESSION_CATALOG:
        entry = CatalogEntry(spark, namespace[0], table)
        definition = entry.definition()
        provider = output.format.value if definition is None else definition.provider.lower()
        if provider not in _CONNECTORS:
            return open_file_table(spark, output, entry, run_key, sources=sources)
    else:
        provider = _format_of(spark, catalog)
    if provider not in _CONNECTORS or (catalog == _SESSION_CATALOG and _format_of(spark, catalog) != provider):
        raise BadSpecError(
            f"output_table: the catalog {catalog} cannot write {output.catalog_table} all or nothing. Configure the "
            "catalog of Iceberg or Delta (spark.sql.catalog.*), or write to a table of files"
        )
    run = run_of(run_key, generation, output.mode)
    return ConnectorOutput(spark, output, _CONNECTORS[provider](spark, catalog, namespace, table, run))


def qualified_name(spark: SparkSession, name: str) -> tuple[str, ...]:
    """Return the catalog, the namespace and the table that a name means, in one spelling for each table."""
    catalog, namespace, table = _resolve_name(spark, name)
    return tuple(map(session_name_rule(spark).key, (catalog, *namespace, table)))


def table_directory(spark: SparkSession, name: str) -> str | None:
    """Return the directory of a table, also of one of files that does not exist. None if the catalog does not say."""
    catalog, namespace, table = _resolve_name(spark, name)
    if catalog == _SESSION_CATALOG:
        entry = CatalogEntry(spark, namespace[0], table)
        definition = entry.definition()
        return entry.default_location() if definition is None else definition.location
    connector = _CONNECTORS.get(_format_of(spark, catalog))
    if connector is None:
        return None
    target = connector(spark, catalog, namespace, table, "")
    return target.location() if target.exists() else None


def _format_of(spark: SparkSession, catalog: str) -> str:
    """Return the format of the tables in a catalog, or an empty string if it is unknown."""
    plugin = catalog_plugin(spark, catalog)
    kind = str(plugin.getClass().getName())
    return next((name for prefix, name in _CATALOGS.items() if kind.startswith(prefix)), "")


def _resolve_name(spark: SparkSession, name: str) -> tuple[str, tuple[str, ...], str]:
    """Return catalog, namespace and table of a name."""
    try:
        parts = [str(part) for part in elements(sql_parser(spark).parseMultipartIdentifier(name))]
    except ParseException as problem:
        raise typed_error(problem, about="output_table", text_error=ErrorCode.BAD_SPEC) from problem
    manager = session_state(spark).catalogManager()
    catalog, namespace = str(manager.currentCatalog().name()), tuple(map(str, manager.currentNamespace()))
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        catalog, *parts = parts
        namespace = ("default",)
    namespace = tuple(parts[:-1]) or namespace
    if catalog == _SESSION_CATALOG and len(namespace) != 1:
        raise BadSpecError(f"output_table: {name!r} has more parts than database and table; give database.table")
    return catalog, namespace, parts[-1]
