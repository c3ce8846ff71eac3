"""How the files of a table in Spark's catalog are written, and which tables cannot be written as files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pushdown_spark.contract import CatalogOutputSpec, ConnectorFormat, OutputFormat, OutputMode, OutputSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.output.catalog.catalog_entry import CatalogEntry, TableDefinition
from pushdown_spark.output.target_checks import check_partition_by
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def file_spec(
    spark: SparkSession, output: CatalogOutputSpec, entry: CatalogEntry, table: TableDefinition | None, location: str
) -> OutputSpec:
    """Return how the files of a table are written. Raises BadSpecError if they cannot be."""
    if output.mode is OutputMode.MERGE:
        raise BadSpecError(f"output_mode: {entry.name} is a table of files; merge needs a table of Iceberg or Delta")
    if table is None:
        if isinstance(output.format, ConnectorFormat):
            raise BadSpecError(
                f"output_format: Spark has no connector for {output.format} in its catalog; configure one"
            )
        format_, options, partition_by = output.format.value, output.options, output.partition_by
    else:
        format_, options, partition_by = _existing_layout(spark, output, entry, table)
    if output.mode is OutputMode.OVERWRITE_PARTITIONS and not partition_by:
        raise BadSpecError(
            f"output_mode: overwrite_partitions needs partitions, and {entry.name} has none; use overwrite"
        )
    return OutputSpec(
        path=location,
        format=OutputFormat(format_),
        mode=output.mode,
        options=options,
        partition_by=partition_by,
        checks=output.checks,
    )


def check_writable(entry: CatalogEntry, table: TableDefinition) -> None:
    """Raise BadSpecError with the reason if a table cannot be written as files."""
    reason = _refusal(table)
    if reason is not None:
        raise BadSpecError(f"output_table: {entry.name} {reason}; write to a table of files, Iceberg or Delta")


def _existing_layout(
    spark: SparkSession, output: CatalogOutputSpec, entry: CatalogEntry, table: TableDefinition
) -> tuple[str, dict[str, str], tuple[str, ...]]:
    """Return format, options and partition columns of a table. Raises BadSpecError if it cannot be written."""
    check_writable(entry, table)
    check_partition_by(output.partition_by, table.partition_by, entry.name, name_rule=session_name_rule(spark))
    options = {key: value for key, value in table.options.items() if key.lower() != "path"}
    own = {key.lower(): value for key, value in options.items()}
    for key, value in output.options.items():
        if own.get(key.lower()) != value:
            raise BadSpecError(
                f"output_options: {entry.name} has {key}={own.get(key.lower())!r}, not {value!r}. Its files must have "
                "the options of the table; leave the option out, or write to another table"
            )
    return _format_of(table.provider), options, table.partition_by


def _format_of(provider: str) -> str:
    """Return the format of files by the provider of a table. The short name of Avro needs a jar."""
    return "avro" if provider == AVRO_CLASS else provider.lower()


def _refusal(table: TableDefinition) -> str | None:
    """Return why a table cannot be written as files, or None if it can."""
    if table.kind not in ("MANAGED", "EXTERNAL"):
        return "is a view"
    if table.provider.lower() in ("", "hive"):
        is_acid = table.properties.get("transactional", "").lower() == "true"
        return "is an ACID table of Hive" if is_acid else "is a table of Hive, whose SerDe writes the rows"
    if _format_of(table.provider) not in set(OutputFormat):
        return f"is a table of {table.provider}, which is not written as files"
    if table.is_bucketed:
        return "has buckets, whose files only Spark's INSERT names correctly"
    return "is clustered, which only a connector maintains" if table.is_clustered else None
