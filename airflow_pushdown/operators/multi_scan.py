"""The operator for several scans in one Spark application, each with its own output, checks and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

from airflow.sdk import Asset, AssetAlias, Context
from pydantic import TypeAdapter

from airflow_pushdown.assets import inlets_of, outlet_of, record_output
from airflow_pushdown.connections.credentials import airflow_connection
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.base_operator import (
    JobRequest,
    PushdownBaseOperator,
    all_renderers,
    all_template_fields,
)
from airflow_pushdown.operators.declared_sources import declared_paths, declared_source, source_connections
from airflow_pushdown.operators.output_parameters import (
    FILES_ONLY,
    OUTPUT_PARAMETERS,
    TABLES_ONLY,
    OutputParameters,
    output_spec,
)
from airflow_pushdown.operators.values import naming_parameters, run_interval, sequence_as_list
from airflow_pushdown.parameters import MULTI_SCAN
from pushdown_spark.contract import AnySourceSpec, IntervalSpec, JobResult, OutputMode, ScanSpec, SecretValues

_SCANS = TypeAdapter(dict[str, dict[str, object]])
_QUERY_PARAMETERS = ("columns", "where", "data_interval", "limit")


class _ScanParts(NamedTuple):
    """The parameters of one scan: those of its source, of its query, and all of its output."""

    source: dict[str, object]
    query: dict[str, object]
    output: OutputParameters


class PushdownMultiScanOperator(PushdownBaseOperator):
    """Run several scans in one Spark application, which starts once for all of them.

    The scans run one after the other and do not depend on each other. If one fails, the others still run and keep their
    outputs, and the task then fails with an error that names the scans that failed. A retry repeats these, and leaves
    the outputs as one clean run would.

    All parameters are keyword-only and can be mapped with `.partial().expand()`. The operator also accepts every
    parameter of `SparkSubmitOperator` except `application`, `application_args` and `java_class`. The task returns one
    report of all scans. The result of each scan is also an XCom value under the name of the scan, in the form of
    PushdownScanOperator's.

    :param scans: Scans by name. Each has a source, declared like those of PushdownJoinOperator: `path` and `format`
        with `schema`, `options`, `reader`, `filter_pushdown`, `orc`, `on_schema_conflict`, `on_missing_column`,
        `max_malformed`, `implicit_names` and `implicit_columns`; or `table`; or `source_conn_id` and `table` or
        `query`. Each may have `columns`, `where`, `data_interval`, `limit`, and the output parameters of this operator,
        whose values are the defaults. (templated)
    :param output: Directory in which each scan without an `output` or `output_table` of its own writes a directory with
        its name. Without any output, the rows of a scan are only counted. (templated)
    :param kwargs: Parameters of `PushdownBaseOperator` and of Airflow's operators.
    """

    operator_name: ClassVar[str] = MULTI_SCAN
    template_fields: Sequence[str] = all_template_fields(MULTI_SCAN)
    template_fields_renderers: ClassVar[dict[str, str]] = all_renderers(MULTI_SCAN)
    ui_color = "#cfe8d5"

    def __init__(
        self,
        *,
        scans: dict[str, dict[str, object]],
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(**kwargs)
        self.scans = scans
        self._intervals: dict[str, IntervalSpec] = {}
        self._outlets: dict[str, Asset | AssetAlias] = {}
        self._declare_assets(declared_paths(self.scans))
        self._check_literals(PushdownMultiScanOperator)

    def job_request(self) -> JobRequest:
        """Return a source and a scan of it under each name."""
        sources: dict[str, AnySourceSpec] = {}
        scans: dict[str, ScanSpec] = {}
        scan_parts = self._parts_by_scan()
        _check_shared_tables(scan_parts)
        for name, parts in scan_parts.items():
            parameter = f"scans.{name}"
            sources[name] = declared_source(parameter, parts.source)
            output = output_spec(parts.output, f"{parameter}.")
            with naming_parameters({field: f"{parameter}.{field}" for field in ScanSpec.model_fields}):
                scans[name] = ScanSpec.model_validate(
                    {
                        "columns": sequence_as_list(parts.query.get("columns")),
                        "where": parts.query.get("where"),
                        "interval": self._intervals.get(name),
                        "limit": parts.query.get("limit"),
                        "output": output,
                    }
                )
        return JobRequest(sources=sources, scans=scans)

    def _parts_by_scan(self) -> dict[str, _ScanParts]:
        """Return the parts of each scan. Raises `ConfigError` unless `scans` is a dict of dicts."""
        with naming_parameters({"": "scans"}):
            scans = _SCANS.validate_python(self.scans)
        if not scans:
            raise config_error("scans: declare at least one scan, under a name of its own")
        own = (*_QUERY_PARAMETERS, *OUTPUT_PARAMETERS)
        return {
            name: _ScanParts(
                source={field: value for field, value in scan.items() if field not in own},
                query={field: scan[field] for field in _QUERY_PARAMETERS if field in scan},
                output=_with_defaults(name, scan, self._output_parameters()),
            )
            for name, scan in scans.items()
        }

    def _read_interval(self, context: Context) -> None:
        """Read the run's data interval for the scans that need it."""
        columns = {name: parts.query.get("data_interval") for name, parts in self._parts_by_scan().items()}
        self._intervals = {
            name: run_interval(str(column), context) for name, column in columns.items() if column is not None
        }

    def _source_secrets(self) -> SecretValues:
        """Return the credentials of the object store and the connections of the sources."""
        declarations = {name: parts.source for name, parts in self._parts_by_scan().items()}
        return super()._source_secrets().model_copy(update={"remote": source_connections("scans", declarations)})

    def _output_secrets(self) -> dict[str, object]:
        """Return the field of `SecretValues` with the connections of the tables that take rows."""
        connections = {}
        for name, parts in self._parts_by_scan().items():
            if parts.output.output_conn_id is not None:
                parameter = f"scans.{name}.output_conn_id"
                connection = airflow_connection(parameter, str(parts.output.output_conn_id))
                connections[name] = database_connection(connection, parameter)
        return {"outputs": connections}

    def _declare_assets(self, paths: object) -> None:
        """Declare the source paths as inlets and each output as an outlet."""
        if self.assets is not True or self._is_from_mapped or not isinstance(self.scans, Mapping):
            return
        self.add_inlets(inlets_of(paths))
        for name, scan in self.scans.items():
            if not isinstance(scan, Mapping):
                continue
            output = _with_defaults(name, scan, self._output_parameters())
            alias = f"{self.dag_id}.{self.task_id}.{name}"
            # The address of a table is known when the task has its connection.
            is_table = output.output_table is not None
            outlet = AssetAlias(alias) if is_table else outlet_of(output.output, alias)
            if outlet is not None:
                self._outlets[name] = outlet
        self.add_outlets(list(self._outlets.values()))

    def _record_outputs(self, context: Context, result: JobResult) -> None:
        """Add rows and bytes of each scan to the asset event of its output."""
        secrets = SecretValues() if self._submission is None else self._submission.secrets
        for name, outlet in self._outlets.items():
            record_output(context, outlet, result.of_scan(name), secrets.outputs.get(name))


def _check_shared_tables(scan_parts: Mapping[str, _ScanParts]) -> None:
    """Raise `ConfigError` if two scans may change the same rows of a table."""
    tables = {name: parts.output for name, parts in scan_parts.items() if parts.output.output_table is not None}
    for (one, first), (other, second) in combinations(tables.items(), 2):
        is_same = (first.output_table, first.output_conn_id) == (second.output_table, second.output_conn_id)
        if is_same and not first.output_mode == second.output_mode == OutputMode.APPEND:
            raise config_error(
                f"scans: {one!r} and {other!r} write to one table ({first.output_table}); give each a table "
                "of its own, or let both append"
            )


def _with_defaults(name: str, scan: Mapping[str, object], defaults: OutputParameters) -> OutputParameters:
    """Return all output parameters of a scan: its own, and those of the operator that apply to the kind of its output.

    >>> output = _with_defaults("orders", {"path": "/in"}, OutputParameters(output="/lake", output_mode="overwrite"))
    >>> output.output, output.output_mode
    ('/lake/orders', 'overwrite')
    """
    own = {field: scan[field] for field in OUTPUT_PARAMETERS if field in scan}
    if own.get("output") is not None or own.get("output_table") is not None:
        defaults = replace(defaults, output=None, output_table=None)
    elif isinstance(defaults.output, str):
        defaults = replace(defaults, output=f"{defaults.output.rstrip('/')}/{name}")
    parameters = replace(defaults, **own)
    if parameters.output_table is None:
        defaults = replace(defaults, **dict.fromkeys(TABLES_ONLY))
    elif parameters.output_conn_id is not None:
        defaults = replace(defaults, **dict.fromkeys(FILES_ONLY))
    if parameters.output_table is None and parameters.output is None:
        defaults = replace(defaults, checks=None)
    return replace(defaults, **own)
