"""The output parameters of an operator, or of one of its scans, as the output of a job spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.values import naming_parameters, sequence_as_list
from pushdown_spark.contract import AnyOutputSpec, CatalogOutputSpec, OutputMode, OutputSpec, TableOutputSpec

TABLES_ONLY = ("output_conn_id", "replace_where", "merge_keys")
FILES_ONLY = ("output_options", "partition_by")


@dataclass(frozen=True, kw_only=True)
class OutputParameters:
    """The values of the output parameters, before they are validated."""

    output: object = None
    output_conn_id: object = None
    output_table: object = None
    replace_where: object = None
    merge_keys: object = None
    output_format: object = None
    output_mode: object = None
    output_options: object = None
    partition_by: object = None
    checks: object = None


OUTPUT_PARAMETERS = tuple(field.name for field in fields(OutputParameters))


def output_spec(values: OutputParameters, prefix: str = "") -> AnyOutputSpec | None:
    """Return the output of a job, or None if the rows are only counted.

    Raises `ConfigError` with the name of the invalid parameter after `prefix`.
    """
    _check_one_output(values, prefix)
    names = {
        "path": "output",
        "table": "output_table",
        "catalog_table": "output_table",
        "format": "output_format",
        "mode": "output_mode",
        "options": "output_options",
    }
    spec_fields = (*OutputSpec.model_fields, *TableOutputSpec.model_fields, *CatalogOutputSpec.model_fields)
    parameters = {field: prefix + names.get(field, field) for field in spec_fields}
    checks = values.checks or {}
    if not isinstance(checks, Mapping):
        raise config_error(f"{prefix}checks: must be a dict such as {{'min_rows': 1}} (got {checks!r})")
    rows = {"replace_where": values.replace_where, "merge_keys": sequence_as_list(values.merge_keys) or ()}
    with naming_parameters({"": prefix.removesuffix("."), **parameters}):
        if values.output_conn_id is not None:
            return TableOutputSpec.model_validate(
                {"table": values.output_table, "mode": values.output_mode, "checks": checks, **rows}
            )
        layout = {
            "format": values.output_format,
            "mode": values.output_mode,
            "options": values.output_options,
            "partition_by": values.partition_by or (),
            "checks": checks,
        }
        if values.output_table is not None:
            return CatalogOutputSpec.model_validate({"catalog_table": values.output_table, **layout, **rows})
        if values.output is not None:
            return OutputSpec.model_validate({"path": values.output, **layout})
    if checks:
        raise config_error(f"{prefix}checks: they apply to written rows; set output or output_table as well")
    return None


def _check_one_output(values: OutputParameters, prefix: str) -> None:
    """Raise `ConfigError` for parameters that do not apply to the kind of output."""
    if values.output_table is None:
        for name in TABLES_ONLY:
            if getattr(values, name):
                raise config_error(f"{prefix}{name}: only tables have it; set output_table as well, or remove it")
        if values.output and values.output_mode == OutputMode.MERGE:
            raise config_error(
                f"{prefix}output_mode: files cannot be merged; set output_table, or use overwrite_partitions"
            )
        return
    if values.output:
        raise config_error(f"{prefix}output: it is for files; give either output or output_table")
    if values.output_conn_id is None:
        return
    if values.output_options:
        raise config_error(f"{prefix}output_options: they are for files and tables of Spark's catalog; remove them")
    if values.partition_by:
        raise config_error(
            f"{prefix}partition_by: it is for files and tables of Spark's catalog; use replace_where to replace a part "
            "of a table of a database"
        )
