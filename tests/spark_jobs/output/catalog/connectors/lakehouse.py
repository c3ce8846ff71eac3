"""Runs that write tables of Iceberg and Delta."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pushdown_spark.contract import CatalogOutputSpec, OutputMode
from pushdown_spark.output.catalog.catalog_targets import open_catalog_output
from pushdown_spark.output.catalog.connector_output import ConnectorOutput

CATALOG = "lakehouse"
OLD = [(1, "a", "old 1"), (2, "b", "old 2"), (3, "b", "old 3")]
NEW = [(2, "b", "new 2"), (4, "b", "new 4")]
Rows = list[tuple[int, str, str]]
EXPECTED: dict[OutputMode, Rows] = {
    OutputMode.APPEND: sorted([*OLD, *NEW]),
    OutputMode.OVERWRITE: NEW,
    OutputMode.OVERWRITE_PARTITIONS: [OLD[0], *NEW],
    OutputMode.MERGE: [OLD[0], NEW[0], OLD[2], NEW[1]],
}
CREATING = [mode for mode in OutputMode if mode is not OutputMode.MERGE]


def output_of(
    spark: SparkSession, table: str, mode: OutputMode, run: str = "run", generation: str = "", **options: object
) -> ConnectorOutput:
    keys = {"merge_keys": ("id",)} if mode is OutputMode.MERGE else {}
    source_format = "iceberg" if table.startswith(CATALOG) else "delta"
    spec = CatalogOutputSpec(catalog_table=table, mode=mode, format=source_format, **{**keys, **options})
    output = open_catalog_output(spark, spec, run, generation)
    assert isinstance(output, ConnectorOutput)
    return output


def write(spark: SparkSession, output: ConnectorOutput, rows: Rows = NEW) -> ConnectorOutput:
    if output.prepare():
        with output.transaction():
            output.stage(spark.createDataFrame(rows, "id int, day string, x string"))
    return output


def create(spark: SparkSession, table: str) -> None:
    write(spark, output_of(spark, table, OutputMode.OVERWRITE, "earlier", partition_by=("day",)), OLD)


def stored_rows(spark: SparkSession, table: str) -> Rows:
    spark.catalog.refreshTable(table)
    return sorted(tuple(row) for row in spark.table(table).collect())


def versions(spark: SparkSession, table: str) -> int:
    if table.startswith(CATALOG):
        return spark.table(f"{table}.snapshots").count()
    return spark.sql(f"DESCRIBE HISTORY {table}").count()
