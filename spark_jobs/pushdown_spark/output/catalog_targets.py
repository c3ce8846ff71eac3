"""Opens tables of Spark's catalogs as outputs: tables of files, and tables of connectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.errors import ParseException

from pushdown_spark.contract import CatalogOutputSpec, ErrorCode
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.base import Output
from pushdown_spark.output.catalog_entry import CatalogEntry
from pushdown_spark.output.catalog_output import open_file_table
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.jvm_gateway import elements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SESSION_CATALOG = "spark_catalog"


def open_catalog_output(
    spark: SparkSession, output: CatalogOutputSpec, run_key: str, generation: str = "", *, sources: Iterable[str] = ()
) -> Output:
    """Return a new attempt of the run with this key to write a table. `sources` are the paths that the job reads.

    Raises BadSpecError for a name that is not one of a table.
    """
    catalog, database, table = _resolved(spark, output.catalog_table)
    if catalog != _SESSION_CATALOG:
        raise BadSpecError(f"output_table: {catalog} is not the session's catalog")
    entry = CatalogEntry(spark, database, table)
    return open_file_table(spark, output, entry, run_key, sources=sources)


def _resolved(spark: SparkSession, name: str) -> tuple[str, str, str]:
    """Return catalog, database and table of a name."""
    state = spark._jsparkSession.sessionState()
    try:
        parts = [str(part) for part in elements(state.sqlParser().parseMultipartIdentifier(name))]
    except ParseException as problem:
        raise typed_error(problem, about="output_table", text_error=ErrorCode.BAD_SPEC) from problem
    manager = state.catalogManager()
    catalog = str(manager.currentCatalog().name())
    if len(parts) > 1 and manager.isCatalogRegistered(parts[0]):
        catalog, *parts = parts
        database = "default"
    else:
        database = ".".join(str(part) for part in manager.currentNamespace())
    if len(parts) > 2 and catalog == _SESSION_CATALOG:
        raise BadSpecError(f"output_table: {name!r} has more parts than database and table")
    return catalog, ".".join(parts[:-1]) or database, parts[-1]
