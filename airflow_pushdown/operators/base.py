"""The base class of all operators: builds a `JobSpec` from parameters, and reports a `JobResult`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, AssetAlias, BaseOperatorLink, Context
from airflow.sdk.bases.xcom import BaseXCom

from airflow_pushdown.assets import inlets_of, outlet_of, record_output
from airflow_pushdown.exceptions import config_error, exception_for
from airflow_pushdown.hooks.application import Application
from airflow_pushdown.hooks.cluster_driver import Submission
from airflow_pushdown.hooks.credentials import airflow_connection, object_store_secrets
from airflow_pushdown.hooks.database_connections import database_connection
from airflow_pushdown.hooks.failures import task_killed_error
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.metrics import emit
from airflow_pushdown.operators.cluster import ClusterOperator
from airflow_pushdown.operators.outputs import output_spec
from airflow_pushdown.operators.parse_checks import check_literals
from airflow_pushdown.operators.values import entries, naming_parameters, run_interval, switch
from airflow_pushdown.parameters import parameters_of, renderers_for, template_fields_for
from airflow_pushdown.plugin.links import PushdownReportLink, SparkApplicationLink, report_path
from airflow_pushdown.progress_reports import ProgressReports, log_group, store_progress
from airflow_pushdown.spark_settings import (
    ParameterConflictError,
    UnsafeSettingError,
    refuse_unsafe_settings,
    session_conf,
)
from airflow_pushdown.version_compat import AirflowTaskTimeout, TaskDeferralError
from pushdown_spark.contract import (
    AnySourceSpec,
    ErrorCode,
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
    from airflow.providers.openlineage.extractors import OperatorLineage

_OWN_PROGRAM = ("application", "application_args", "_java_class")


@dataclass(frozen=True)
class JobRequest:
    """The sources of an operator by name, and the query over them with its output, or a scan of each."""

    sources: Mapping[str, AnySourceSpec]
    query: QuerySpec | None = None
    scans: Mapping[str, ScanSpec] = field(default_factory=dict)


class PushdownBaseOperator(ClusterOperator):
    """An operator that submits one packaged job and returns its `JobResult` as a JSON dict.

    Subclasses convert their parameters to a `JobRequest`. Parameters are validated when the task runs, because
    templates are rendered after the constructor. The constructor finds mistakes that do not depend on templates.

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
    :param nested_pruning: Whether to read only the required struct members and to push predicates on struct members.
        (templated)
    :param source_conn_id: Airflow connection of type aws, wasb, adls or google_cloud_platform with the credentials of
        the object store. They reach the job in a private file. (templated)
    :param spark_home: Spark installation whose bin/spark-submit starts the job. By default, it is located next to
        spark_python, then in SPARK_HOME, then on PATH. (templated)
    :param spark_python: Python interpreter of the Spark environment. By default, AIRFLOW_PUSHDOWN_SPARK_PYTHON or
        PYSPARK_PYTHON of the worker. (templated)
    :param exchange_dir: Directory or URI (s3a, hdfs, gs, abfss) that both the worker and the driver can access, for the
        job spec and the result in deploy mode cluster. By default, the extra exchange-dir of the Spark connection.
        (templated)
    :param exchange_conn_id: Airflow connection with which the worker accesses exchange_dir, by default the extra
        exchange-conn-id of the Spark connection. The driver uses the credentials of the cluster. (templated)
    :param deferrable: Whether the task gives back its worker slot while its driver runs on a cluster. Needs deploy mode
        cluster and a triggerer. By default, Airflow's setting [operators] default_deferrable, in deploy mode cluster.
    :param class_archives: Directory on the worker for class data sharing archives, which shorten the start of Spark's
        JVM, or `off`. The first task creates the archive. By default, AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker,
        otherwise a private directory where the first task records its own classes. Not for deploy mode cluster.
        (templated)
    :param assets: Whether the source files become inlets of the task and the output an outlet. The asset events contain
        rows and bytes. Not for mapped tasks.
    :param name: Name of the Spark application. (templated)
    :param kwargs: Parameters of `SparkSubmitOperator` and `BaseOperator`.
    """

    table_name: ClassVar[str]
    """Name of the operator in the parameter table."""
    data_interval: str | None = None
    """The column that the run's data interval restricts, if the operator has the parameter."""
    operator_extra_links: Collection[BaseOperatorLink] = (PushdownReportLink(), SparkApplicationLink())

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
        spark_home: str | None = None,
        spark_python: str | None = None,
        exchange_dir: str | None = None,
        exchange_conn_id: str | None = None,
        deferrable: bool | None = None,
        class_archives: str | None = None,
        assets: bool = False,
        name: str = "{{ ti.dag_id }}.{{ ti.task_id }}",
        **kwargs: Any,  # noqa: ANN401 - the parameters of SparkSubmitOperator and BaseOperator, under their own names
    ) -> None:
        super().__init__(name=name, deferrable=deferrable, **kwargs)
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
        self.spark_home = spark_home
        self.spark_python = spark_python
        self.exchange_dir = exchange_dir
        self.exchange_conn_id = exchange_conn_id
        self.class_archives = class_archives
        self.assets = assets
        self._outlet: Asset | AssetAlias | None = None
        self._result: JobResult | None = None
        self._submission: Submission | None = None
        self._killed = False
        self._interval: IntervalSpec | None = None
        self.history_page = ""

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

    def execute_complete(self, context: Context, event: Mapping[str, Any]) -> dict[str, object]:
        """Continue after the driver has ended, or the trigger has stopped waiting for it."""
        self._prepare(context)
        with self._job_files():
            self._get_hook()
            self._take_event(event)
            return self._finish(context, self._collect(context))

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:  # noqa: ANN401
        """Continue after a deferral. If the trigger itself failed, end its driver."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralError:
            driver_id = self._remembered_driver(context)
            if driver_id is not None:
                self._prepare(context)
                with self._job_files():
                    self._get_hook().attach(driver_id)
                    self.on_kill()
            raise

    def _finish(self, context: Context, result: JobResult) -> dict[str, object]:
        """Report a result and return it as a JSON dict. Raises the exception for its error."""
        self._result = result
        if self._submission is not None:
            emit(type(self).__name__, self._submission.spec, result)
        log_group(self.log.info, "Pushdown report", render_text(result))
        self._push_scans(context, result)
        if result.error is not None:
            if self.do_xcom_push:
                context["ti"].xcom_push(key=BaseXCom.XCOM_RETURN_KEY, value=result.as_xcom())
            if result.error.traceback:
                log_group(self.log.error, "Traceback of the job", result.error.traceback)
            raise exception_for(result.error)
        self._record_outputs(context, result)
        return result.as_xcom()

    def get_openlineage_facets_on_complete(self, task_instance: object) -> OperatorLineage[Any, Any] | None:
        """Return the job's inputs and outputs. Airflow's OpenLineage provider calls this method."""
        if self._submission is None or self._result is None:
            return None
        from airflow_pushdown.lineage import job_lineage

        return job_lineage(self._submission.spec, self._submission.secrets, self._result)

    def build_spec(self, run_key: str, generation: str = "") -> JobSpec:
        """Return the job spec for the rendered parameters. `run_key` is the same for every try of the run.

        `generation` differs if a user has cleared or recreated the run.

        Raises `ConfigError` with the name of the invalid parameter.
        """
        self._refuse_own_program()
        request = self.job_request()
        output = None if request.scans else output_spec(self._output_values())
        conf = entries("conf", self.conf)
        formats = frozenset(str(source.format) for source in request.sources.values())
        try:
            for source in request.sources.values():
                if isinstance(source, RemoteSourceSpec):
                    continue
                # The table of a catalog may have files of any format.
                files = source.format.value if isinstance(source, SourceSpec) else None
                refuse_unsafe_settings(conf, source.options, files)
            mapped = session_conf(self.table_name, self._mapped_values(), conf, formats)
        except UnsafeSettingError as error:
            raise config_error(str(error), ErrorCode.UNSAFE_SETTING) from error
        except ParameterConflictError as error:
            raise config_error(str(error)) from error
        # Errors of scans that depend on each other name the parameter themselves.
        with naming_parameters({}):
            return JobSpec(
                run_key=run_key,
                generation=generation,
                sources=dict(request.sources),
                query=request.query,
                output=output,
                scans=dict(request.scans),
                conf=mapped,
            )

    def _check_literals(self, operator: type) -> None:
        """Raise `ConfigError` for mistakes that no template can correct. Operators call this last in the constructor.

        A subclass of `operator` is not complete at that time, and a mapped task is created when it runs.
        """
        if type(self) is operator and not self._is_from_mapped:
            check_literals(self)

    @property
    def _is_from_mapped(self) -> bool:
        """Whether Airflow creates this task from a mapped one."""
        return bool(getattr(self, "_BaseOperator__from_mapped", False))

    def _declare_assets(self, paths: object) -> None:
        """Declare the source paths as inlets and the output as an outlet. Subclasses call this in the constructor.

        Mapped tasks declare nothing, because Airflow needs to know a task's assets before it expands the task.
        """
        if self.assets is not True or self._is_from_mapped:
            return
        self.add_inlets(inlets_of(paths))
        alias = f"{self.dag_id}.{self.task_id}"
        # The address of a table is known when the task has its connection.
        self._outlet = AssetAlias(alias) if self.output_table is not None else outlet_of(self.output_path, alias)
        if self._outlet is not None:
            self.add_outlets([self._outlet])

    def on_kill(self) -> None:
        """Stop the Spark job, or prevent its start. `execute` then raises."""
        is_repeated, self._killed = self._killed, True
        if self._hook is not None and not is_repeated:
            self._hook.on_kill()

    def _run(self, context: Context) -> JobResult:
        """Submit the job through the provider's operator, which also tracks drivers on a cluster."""
        self._prepare(context)
        ti = context["ti"]
        # Airflow stores a task's links when it ends. Users want them while it runs.
        address = report_path(ti.dag_id, ti.task_id, ti.run_id, ti.map_index)
        ti.xcom_push(key=PushdownReportLink().xcom_key, value=address)
        # A hook of an earlier try in this process would submit that try's job.
        self._hook = None
        with self._job_files():
            super().execute(context)
            return self._collect(context)

    @contextmanager
    def _job_files(self) -> Iterator[None]:
        """Release the files of the job at the end of a block."""
        try:
            yield
        except AirflowTaskTimeout:
            # Airflow calls on_kill too, but only when the files of the job have been released.
            self.on_kill()
            raise
        finally:
            if self._hook is not None:
                self._pushdown_hook().release()

    def _collect(self, context: Context) -> JobResult:
        """Read the result of a job that has ended."""
        result = self._pushdown_hook().collect()
        self._forget_driver(context)
        self.history_page = self._pushdown_hook().history_page(result.application_id)
        return result

    def _prepare(self, context: Context) -> None:
        """Build the submission of this run from the rendered parameters and the connections."""
        ti = context["ti"]
        self._read_interval(context)
        self._submission = Submission(
            spec=self.build_spec(
                f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}",
                _generation(context, self.retries or 0),
            ),
            secrets=self._source_secrets().model_copy(update=self._output_secrets()),
            spark_home=self.spark_home,
            spark_python=self.spark_python,
            exchange_dir=self.exchange_dir,
            exchange_conn_id=self.exchange_conn_id,
            class_archives=self.class_archives,
            try_number=getattr(ti, "try_number", 1),
            on_started=lambda started: self._link_to(context, started),
            on_submitted=lambda driver_id: self._remember_driver(context, driver_id),
            leaves_driver=lambda: self._leaves_driver(context),
            on_progress=ProgressReports(self.log.info, partial(store_progress, ti) if self.do_xcom_push else None),
        )

    def _read_interval(self, context: Context) -> None:
        """Read the run's data interval, if a parameter needs it."""
        self._interval = None if self.data_interval is None else run_interval(self.data_interval, context)

    def _push_scans(self, context: Context, result: JobResult) -> None:
        """Push the result of each of several scans to XCom, under the name of the scan."""
        for name in result.scans if self.do_xcom_push else ():
            context["ti"].xcom_push(key=name, value=result.of_scan(name).as_xcom())

    def _record_outputs(self, context: Context, result: JobResult) -> None:
        """Add rows and bytes to the asset event of the output."""
        if self._outlet is not None:
            connection = None if self._submission is None else self._submission.secrets.output
            record_output(context, self._outlet, result, connection)

    def _link_to(self, context: Context, started: Application) -> None:
        """Push the link to the running application's UI. The history server's page replaces it when the job ends."""
        self.history_page = self._pushdown_hook().history_page(started.application_id)
        if started.ui is not None:
            context["ti"].xcom_push(key=SparkApplicationLink().xcom_key, value=started.ui)

    def _get_hook(self) -> PushdownSubmitHook:
        """Set and return the hook of the submission. The provider's operator calls this when `conf` is complete."""
        if self._submission is None:
            raise config_error(f"{self.table_name}: nothing to submit before execute")
        # Set at once, so that its files are released although a parameter does not fit.
        self._hook = hook = PushdownSubmitHook(
            self._submission,
            conf=entries("conf", self.conf),
            conn_id=self._conn_id,
            files=self.files,
            py_files=self.py_files,
            archives=self._archives,
            driver_class_path=self.driver_class_path,
            jars=self.jars,
            packages=self.packages,
            exclude_packages=self.exclude_packages,
            repositories=self._repositories,
            total_executor_cores=self._total_executor_cores,
            executor_cores=self._executor_cores,
            executor_memory=self._executor_memory,
            driver_memory=self._driver_memory,
            keytab=self.keytab,
            principal=self.principal,
            proxy_user=self.proxy_user,
            name=self.name,
            num_executors=self._num_executors,
            status_poll_interval=self._status_poll_interval,
            env_vars=self.env_vars,
            verbose=self._verbose,
            spark_binary=self._spark_binary,
            properties_file=self.properties_file,
            yarn_queue=self._yarn_queue,
            deploy_mode=self._deploy_mode,
            use_krb5ccache=self._use_krb5ccache,
            post_submit_commands=self.post_submit_commands,
            track_driver_via_k8s_api=self._track_driver_via_k8s_api,
            yarn_track_via_rm_api=self._yarn_track_via_rm_api,
            yarn_rm_auth=self._yarn_rm_auth,
        )
        # A signal that arrived earlier found no hook whose job it could end.
        if self._killed:
            raise task_killed_error()
        self._follow_driver(hook)
        return hook

    def _refuse_own_program(self) -> None:
        """Raise `ConfigError` for parameters of SparkSubmitOperator that name a program."""
        for attribute in _OWN_PROGRAM:
            if getattr(self, attribute):
                raise config_error(f"{attribute.lstrip('_')}: {self.table_name} submits its own program; remove it")

    def _output_values(self) -> dict[str, object]:
        """Return the output parameters by their names."""
        return {
            "output": self.output_path,
            "output_conn_id": self.output_conn_id,
            "output_table": self.output_table,
            "replace_where": self.replace_where,
            "merge_keys": self.merge_keys,
            "output_format": self.output_format,
            "output_mode": self.output_mode,
            "output_options": self.output_options,
            "partition_by": self.partition_by,
            "checks": self.checks,
        }

    def _output_secrets(self) -> dict[str, object]:
        """Return the field of `SecretValues` with the connection of a database table, nothing for other outputs."""
        if self.output_table is None or self.output_conn_id is None:
            return {}
        name = "output_conn_id"
        return {"output": database_connection(airflow_connection(name, self.output_conn_id), name)}

    def _mapped_values(self) -> dict[str, object]:
        """Return the values of the parameters that map to Spark keys, None if not given."""
        parameters = (row for row in parameters_of(self.table_name) if row.sets_spark_keys or row.replaced_keys)
        return {row.name: switch(row.name, getattr(self, row.field)) for row in parameters}

    def _source_secrets(self) -> SecretValues:
        """Return the credentials of the connection `source_conn_id`, if it was given."""
        if self.source_conn_id is None:
            return SecretValues()
        return object_store_secrets(airflow_connection("source_conn_id", self.source_conn_id))


def _generation(context: Context, retries: int) -> str:
    """Return a text that differs when a user clears a task or recreates its DAG run, but not for a retry.

    When a task is cleared, Airflow adds the number of tries so far to the maximum. `retries` are those of the task.
    """
    earlier_tries = getattr(context["ti"], "max_tries", retries) - retries
    started = getattr(context.get("dag_run"), "start_date", None)
    return f"{earlier_tries} {started or ''}"


def all_template_fields(operator: str) -> tuple[str, ...]:
    """Return the distinct template fields of an operator: its own and those of SparkSubmitOperator."""
    return tuple(dict.fromkeys((*template_fields_for(operator), *SparkSubmitOperator.template_fields)))


def all_renderers(operator: str) -> dict[str, str]:
    """Return the renderers of an operator's template fields, including those of SparkSubmitOperator."""
    return {**renderers_for(operator), "conf": "json", "env_vars": "json", "application_args": "json"}
