"""The base class of all operators, which builds a `JobSpec` from parameters and reports a `JobResult`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias, Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_pushdown.assets import inlets_of, outlet_of, record_output
from airflow_pushdown.connections.credentials import airflow_connection, object_store_secrets
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.connections.hdfs_connections import HDFS_TYPES, NameNode
from airflow_pushdown.counters import emit
from airflow_pushdown.exceptions import config_error, exception_for
from airflow_pushdown.hooks.job_runner import notify
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.operators.job_operator import JobOperator
from airflow_pushdown.operators.output_parameters import OUTPUT_PARAMETERS, OutputParameters, output_spec
from airflow_pushdown.operators.parse_checks import check_literals
from airflow_pushdown.operators.values import entries, naming_parameters, run_interval, sequence_as_list, switch
from airflow_pushdown.parameters import parameters_of
from airflow_pushdown.progress_reports import log_group
from airflow_pushdown.spark_settings import check_safe_settings, session_conf
from airflow_pushdown.version_compat import is_from_mapped
from pushdown_spark.contract import (
    ONLY_SOURCE,
    AnySourceSpec,
    IntervalSpec,
    JobResult,
    JobSpec,
    QuerySpec,
    RemoteSourceSpec,
    ScanSpec,
    SecretValues,
    SourceSpec,
)
from pushdown_spark.contract.report_text import render_text

if TYPE_CHECKING:
    from airflow_pushdown.lineage import JobLineage


_TARGET_ATTRIBUTES = ("output_path", "output_conn_id", "output_table", "replace_where")
"""The attributes that name the target of the rows, and the rows that they replace."""


@dataclass(frozen=True)
class JobRequest:
    """The sources of an operator by name, and either one query over them or one scan of each."""

    sources: Mapping[str, AnySourceSpec]
    query: QuerySpec | None = None
    scans: Mapping[str, ScanSpec] = field(default_factory=dict)


class PushdownBaseOperator(JobOperator):
    """An operator that submits one packaged job and returns its `JobResult` as a JSON dict.

    Subclasses convert their parameters to a `JobRequest`. Parameters are validated when the task runs, because Airflow
    renders templates after the constructor. The constructor reports mistakes that do not depend on templates.

    :param output: Directory for the rows. Without it, the rows are only counted. (templated)
    :param output_conn_id: Airflow connection of type postgres, mysql or sqlite, whose database has `output_table`. The
        credentials reach the job in a private file. Without it, `output_table` is a table of Spark's catalog.
        (templated)
    :param output_table: Table for the rows instead of `output`, as `schema.table` or `table`. It is created if it is
        missing. It is in the database of `output_conn_id`, or in Spark's catalog. (templated)
    :param replace_where: Predicate in Spark SQL. In mode `overwrite_partitions`, the rows of `output_table` for which
        it is true are replaced, and every new row must satisfy it. (templated)
    :param merge_keys: Columns that identify a row of `output_table` in mode `merge`. (templated)
    :param output_format: Format of the output: parquet, orc, avro, json, csv, text or xml. For a new table in Spark's
        catalog also iceberg or delta. (templated)
    :param output_mode: Action if the output exists: `overwrite` replaces it, `overwrite_partitions` replaces the
        partitions that the run writes or the rows of `replace_where`, `merge` replaces the rows of a table with the
        same key, `append` adds rows, `ignore` writes nothing, `errorifexists` fails. (templated)
    :param output_options: Writer options with Spark's names (compression and so on). (templated)
    :param partition_by: Partition columns of the output. (templated)
    :param checks: Conditions on the rows before they are committed: `min_rows`, `max_rows`, `not_null` (columns) and
        `unique` (columns, or lists of columns that form a key). If a check fails, the task fails and the output stays
        as it was. (templated)
    :param nested_pruning: Whether to read only required struct members (not of JSON) and to push predicates on members.
        (templated)
    :param source_conn_id: Airflow connection of type aws, wasb, adls or google_cloud_platform with the credentials of
        the object store, which reach the job in a private file. A connection of type hdfs names the name node of
        paths without one. (templated)
    :param assets: Whether the source files become inlets of the task and the output an outlet. The asset events contain
        rows and bytes. Not for mapped tasks.
    :param kwargs: Parameters of `JobOperator` and Airflow's operators.
    """

    data_interval: str | None = None
    """The column that the run's data interval restricts, if the operator has the parameter."""

    def __init__(
        self,
        *,
        output: str | None = None,
        output_conn_id: str | None = None,
        output_table: str | None = None,
        replace_where: str | None = None,
        merge_keys: list[str] | None = None,
        output_format: str = "parquet",
        output_mode: str = "errorifexists",
        output_options: dict[str, object] | None = None,
        partition_by: list[str] | None = None,
        checks: dict[str, object] | None = None,
        nested_pruning: bool | None = None,
        source_conn_id: str | None = None,
        assets: bool = False,
        **kwargs: Any,  # noqa: ANN401 - the parameters of SparkSubmitOperator and BaseOperator, under their own names
    ) -> None:
        super().__init__(**kwargs)
        # The attribute `output` of every Airflow task is the reference to its XCom.
        self.output_path = output
        self.output_conn_id = output_conn_id
        self.output_table = output_table
        self.replace_where = replace_where
        self.merge_keys = merge_keys
        self.output_format = output_format
        self.output_mode = output_mode
        self.output_options = output_options
        self.partition_by = partition_by
        self.checks = checks
        self.nested_pruning = nested_pruning
        self.source_conn_id = source_conn_id
        self.assets = assets
        self._given_targets = tuple(name for name in _TARGET_ATTRIBUTES if getattr(self, name) is not None)
        self._outlet: Asset | AssetAlias | None = None
        self._result: JobResult | None = None
        self._interval: IntervalSpec | None = None

    @abstractmethod
    def job_request(self) -> JobRequest:
        """Return sources and query from the rendered parameters. Raises `ConfigError` with the invalid parameter."""

    def execute(  # type: ignore[override] # the provider's returns nothing
        self, context: Context
    ) -> dict[str, object]:
        """Run the job and return its result as a JSON dict, which becomes the task's XCom value.

        If the job fails, its result is pushed to XCom before the exception for its error is raised.
        """
        return self._finish(context, self._run(context))

    def execute_complete(self, context: Context, event: Mapping[str, object]) -> dict[str, object]:
        """Continue after the driver has ended, or the trigger has stopped waiting for it."""
        return self._finish(context, self._resume(context, event))

    def _finish(self, context: Context, result: JobResult) -> dict[str, object]:
        """Report a result and return it as a JSON dict. Raises the exception for its error."""
        self._result = result
        if self._submission is not None:
            emit(type(self).__name__, self._submission.spec, result)
        log_group(self.log.info, "Pushdown report", render_text(result))
        if result.error is not None:
            # Airflow decides about a retry by the error of the job, which no other error may replace.
            notify(partial(self._push_results, context), result)
            if result.error.traceback:
                log_group(self.log.error, "Traceback of the job", result.error.traceback)
            raise exception_for(result.error)
        self._push_results(context, result)
        self._record_outputs(context, result)
        return result.as_xcom()

    def get_openlineage_facets_on_complete(self, task_instance: object) -> JobLineage | None:
        """Return the job's inputs and outputs. Airflow's OpenLineage provider calls this method."""
        if self._submission is None or self._result is None:
            return None
        from airflow_pushdown.lineage import job_lineage

        return job_lineage(self._submission.spec, self._submission.secrets, self._result)

    def build_spec(self, run_key: str, generation: str = "") -> JobSpec:
        """Return the job spec for the rendered parameters. Raises `ConfigError` with the name of the invalid one."""
        self.check_no_program()
        request = self.job_request()
        output = None if request.scans else output_spec(self._output_parameters())
        conf = entries("conf", self.conf)
        formats = frozenset(str(source.format) for source in request.sources.values())
        for source in request.sources.values():
            if not isinstance(source, RemoteSourceSpec):
                # The files of a catalog table may have any format.
                files = source.format.value if isinstance(source, SourceSpec) else None
                check_safe_settings(conf, source.options, files)
        session = session_conf(self.operator_name, self._values_with_spark_keys(), conf, formats)
        # Errors of scans that depend on each other name the parameter themselves.
        with naming_parameters({}):
            return JobSpec(
                run_key=run_key,
                generation=generation,
                sources=dict(request.sources),
                query=request.query,
                output=output,
                scans=dict(request.scans),
                conf=session,
            )

    def complete_spec(self, spec: JobSpec) -> JobSpec:
        """Return the spec with the name node of `source_conn_id` in its paths, if this is a connection to HDFS."""
        only_databases = all(isinstance(source, RemoteSourceSpec) for source in spec.sources.values())
        if self.source_conn_id is None or only_databases:
            return spec
        connection = airflow_connection("source_conn_id", self.source_conn_id)
        if connection.conn_type not in HDFS_TYPES:
            return spec
        node = NameNode.of(connection, entries("env_vars", self.env_vars))
        return spec.model_copy(update={"sources": node.complete(spec.sources)})

    def _check_literals(self, operator: type) -> None:
        """Raise `ConfigError` for mistakes that no template can correct. Operators call this last in the constructor.

        The check is skipped for a subclass of `operator`, whose constructor has not finished yet, and for a mapped
        task, which Airflow creates when it runs.
        """
        if type(self) is operator and not self._is_from_mapped:
            check_literals(self)

    @property
    def _is_from_mapped(self) -> bool:
        """Whether Airflow creates this task from a mapped one."""
        return is_from_mapped(self)

    def _declare_assets(self, paths: object) -> None:
        """Declare the source paths as inlets and the output as an outlet. Subclasses call this in the constructor.

        Mapped tasks declare nothing, because Airflow needs to know a task's assets before it expands the task.
        """
        if self.assets is not True or self._is_from_mapped:
            return
        self.add_inlets(inlets_of(paths))
        alias = f"{self.dag_id}.{self.task_id}"
        # The address of a table is only known when the task has resolved its connection.
        self._outlet = AssetAlias(alias) if self.output_table is not None else outlet_of(self.output_path, alias)
        if self._outlet is not None:
            self.add_outlets([self._outlet])

    def job_secrets(self) -> SecretValues:
        """Return the credentials of the sources and of the output."""
        return self._source_secrets().model_copy(update=self._output_secrets())

    def _prepare(self, context: Context) -> Submission:
        self._check_targets()
        self._read_interval(context)
        return super()._prepare(context)

    def _check_targets(self) -> None:
        """Raise `ConfigError` if the template of a target has rendered to nothing."""
        for name in self._given_targets:
            if (value := getattr(self, name)) in (None, "", "None"):
                parameter = "output" if name == "output_path" else name
                raise config_error(
                    f"{parameter}: its template rendered to {value!r}, so the rows have no target; correct the "
                    "template, or remove the parameter"
                )

    def _read_interval(self, context: Context) -> None:
        """Read the run's data interval, if a parameter needs it."""
        self._interval = None if self.data_interval is None else run_interval(self.data_interval, context)

    def _push_results(self, context: Context, result: JobResult) -> None:
        """Push the result of each of several scans to XCom, under the name of the scan, and that of a failed job."""
        values = {name: result.of_scan(name) for name in result.scans if self.do_xcom_push}
        if result.error is not None and self.do_xcom_push:
            values[BaseXCom.XCOM_RETURN_KEY] = result
        for key, value in values.items():
            context["ti"].xcom_push(key=key, value=value.as_xcom())

    def _record_outputs(self, context: Context, result: JobResult) -> None:
        """Add rows and bytes to the asset event of the output."""
        if self._outlet is not None:
            connection = None if self._submission is None else self._submission.secrets.output
            record_output(context, self._outlet, result, connection)

    def _output_parameters(self) -> OutputParameters:
        attributes = {name: "output_path" if name == "output" else name for name in OUTPUT_PARAMETERS}
        return OutputParameters(**{name: getattr(self, attribute) for name, attribute in attributes.items()})

    def _output_secrets(self) -> dict[str, object]:
        """Return the field of `SecretValues` with the connection of a database table, or nothing for other outputs."""
        if self.output_table is None or self.output_conn_id is None:
            return {}
        name = "output_conn_id"
        return {"output": database_connection(airflow_connection(name, self.output_conn_id), name)}

    def _values_with_spark_keys(self) -> dict[str, object]:
        """Return the values of the parameters with Spark keys, or None if not given."""
        parameters = (row for row in parameters_of(self.operator_name) if row.sets_spark_keys or row.replaced_keys)
        return {row.name: switch(row.name, getattr(self, row.field)) for row in parameters}

    def _source_secrets(self) -> SecretValues:
        """Return the credentials of the connection `source_conn_id`, if it was given. A connection to HDFS has none."""
        if self.source_conn_id is None:
            return SecretValues()
        connection = airflow_connection("source_conn_id", self.source_conn_id)
        return SecretValues() if connection.conn_type in HDFS_TYPES else object_store_secrets(connection)


def all_template_fields(operator: str) -> tuple[str, ...]:
    """Return the distinct template fields of an operator: its own and those of SparkSubmitOperator."""
    own = (parameter.field for parameter in parameters_of(operator) if parameter.is_templated)
    return tuple(dict.fromkeys((*own, *SparkSubmitOperator.template_fields)))


def all_renderers(operator: str) -> dict[str, str]:
    """Return the renderers of an operator's template fields, including those of SparkSubmitOperator."""
    own = {parameter.field: parameter.renderer for parameter in parameters_of(operator) if parameter.renderer}
    return {**own, "conf": "json", "env_vars": "json", "application_args": "json"}


def query_of_rows(columns: object, where: object, interval: IntervalSpec | None, limit: object) -> QuerySpec:
    """Return the query for columns and rows of the only source."""
    return QuerySpec.model_validate(
        {
            "source": ONLY_SOURCE,
            "columns": sequence_as_list(columns),
            "where": where,
            "interval": interval,
            "limit": limit,
        }
    )
