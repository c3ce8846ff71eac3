"""The output parameters of an operator, or of one of its scans, as the output of a job spec."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.values import entries, listed, naming_parameters
from pushdown_spark.contract import AnyOutputSpec, OutputSpec, TableOutputSpec

TABLES_ONLY = ("output_conn_id", "replace_where", "merge_keys")
FILES_ONLY = ("output_options", "partition_by")
OUTPUT_PARAMETERS = ("output", "output_table", *TABLES_ONLY, "output_format", "output_mode", *FILES_ONLY, "checks")


def output_spec(given: Mapping[str, object], prefix: str = "") -> AnyOutputSpec | None:
    """Return the output of a job, None if the rows are only counted. `given` has all output parameters by their names.

    Raises `ConfigError` with the name of the invalid parameter after `prefix`.
    """
    _refuse_mixed_outputs(given, prefix)
    names = {"path": "output", "table": "output_table", "format": "output_format", "mode": "output_mode"}
    fields = (*OutputSpec.model_fields, *TableOutputSpec.model_fields)
    parameters = {field: prefix + names.get(field, field) for field in fields}
    with naming_parameters({"": prefix.removesuffix("."), **parameters}):
        if given["output_table"] is not None:
            return TableOutputSpec.model_validate(
                {
                    "table": given["output_table"],
                    "mode": given["output_mode"],
                    "replace_where": given["replace_where"],
                    "merge_keys": listed(given["merge_keys"]) or (),
                    "checks": given["checks"] or {},
                }
            )
        if given["output"] is None:
            if given["checks"]:
                raise config_error(f"{prefix}checks: they need an output; give output or output_table as well")
            return None
        return OutputSpec.model_validate(
            {
                "path": given["output"],
                "format": given["output_format"],
                "mode": given["output_mode"],
                "options": entries(f"{prefix}output_options", given["output_options"]),
                "partition_by": given["partition_by"] or (),
                "checks": given["checks"] or {},
            }
        )


def _refuse_mixed_outputs(given: Mapping[str, object], prefix: str) -> None:
    """Raise `ConfigError` for parameters that do not apply to the kind of output."""
    if given["output_table"] is None:
        for name in TABLES_ONLY:
            if given[name]:
                raise config_error(f"{prefix}{name}: it is for tables; give output_table as well, or remove it")
        return
    if given["output_conn_id"] is None:
        raise config_error(
            f"{prefix}output_table: it needs the connection of its database; give output_conn_id as well"
        )
    for name in ("output", "output_options"):
        if given[name]:
            raise config_error(f"{prefix}{name}: it is for files; give either output or output_table")
    if given["partition_by"]:
        raise config_error(f"{prefix}partition_by: it is for files; use replace_where to replace a part of a table")
