"""The part of the operators that submits one job, waits for its driver on a cluster or defers, and reads its result."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Protocol, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseOperatorLink, Context

from airflow_pushdown.clusters.drivers import DriverPhase, driver_unreachable_error
from airflow_pushdown.exceptions import PushdownTaskError, config_error
from airflow_pushdown.hooks.connect_client import CONNECTION_TYPE, PushdownConnectHook, uses_spark_connect
from airflow_pushdown.hooks.job_runner import notify
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.operators.values import entries
from airflow_pushdown.plugin.links import PushdownReportLink, SparkApplicationLink, report_path
from airflow_pushdown.progress_reports import ProgressReports, store_progress
from airflow_pushdown.spark_submit.application import Application
from airflow_pushdown.spark_submit.failures import task_killed_error
from airflow_pushdown.task_state import StoredDriver
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from airflow_pushdown.version_compat import AirflowTaskTimeout, TaskDeferralError, conf
from pushdown_spark.contract import JobResult, JobSpec, SecretValues

if TYPE_CHECKING:
    from pydantic import JsonValue

_RESUME_METHOD = "execute_complete"


class _JobHook(Protocol):
    """The common interface of the hooks that run a job."""

    def collect(self) -> JobResult: ...
    def history_page(self, application_id: str | None, /) -> str: ...
    def release(self) -> None: ...
    def on_kill(self) -> None: ...


class JobOperator(SparkSubmitOperator):
    """An operator that submits one packaged job. Subclasses describe the job, and report its result.

    The provider's operator submits the job, and stores the id of a driver on a cluster for the next try. This class
    replaces its requests for the status, because the result of the job is in the exchange directory, and because a task
    may be deferred. Other modules use no private member of it, because its releases may change them.

    :param spark_home: Spark installation whose bin/spark-submit starts the job. By default, it is located next to
        spark_python, then in SPARK_HOME, then on PATH. (templated)
    :param spark_python: Python interpreter of the Spark environment. By default, AIRFLOW_PUSHDOWN_SPARK_PYTHON or
        PYSPARK_PYTHON of the worker. (templated)
    :param exchange_dir: Directory or URI (s3a, hdfs, gs, abfss) that both the worker and the driver can access, for the
        job spec and the result in deploy mode cluster. By default, the extra exchange-dir of the Spark connection.
        (templated)
    :param exchange_conn_id: Airflow connection that gives the worker access to exchange_dir, by default the
        extra exchange-conn-id of the Spark connection. The driver uses the credentials of the cluster. (templated)
    :param class_archives: Directory on the worker for class data sharing archives, which shorten the start of Spark's
        JVM, or `off`. The first task creates the archive. By default, AIRFLOW_PUSHDOWN_CLASS_ARCHIVES of the worker,
        otherwise a private directory where the first task records its own classes. Not for deploy mode cluster.
        (templated)
    :param name: Name of the Spark application. (templated)
    :param deferrable: Whether the task releases its worker slot while its driver runs on a cluster. Needs deploy mode
        cluster and a triggerer. By default, Airflow's setting [operators] default_deferrable, in deploy mode cluster.
    :param kwargs: Parameters of `SparkSubmitOperator` and `BaseOperator`.
    """

    operator_name: ClassVar[str]
    """The name of the operator in the parameter table."""
    operator_extra_links: Collection[BaseOperatorLink] = (PushdownReportLink(), SparkApplicationLink())

    def __init__(
        self,
        *,
        spark_home: str | None = None,
        spark_python: str | None = None,
        exchange_dir: str | None = None,
        exchange_conn_id: str | None = None,
        class_archives: str | None = None,
        name: str = "{{ ti.dag_id }}.{{ ti.task_id }}",
        deferrable: bool | None = None,
        **kwargs: Any,  # noqa: ANN401 - the parameters of the base operators, under their own names
    ) -> None:
        super().__init__(name=name, **kwargs)
        self.spark_home = spark_home
        self.spark_python = spark_python
        self.exchange_dir = exchange_dir
        self.exchange_conn_id = exchange_conn_id
        self.class_archives = class_archives
        self.deferrable = deferrable
        self.history_page = ""
        self._submission: Submission | None = None
        # The attribute of the provider's operator is only for hooks of spark-submit.
        self._job_hook: _JobHook | None = None
        self._is_killed = False
        if deferrable and self._deploy_mode == "client":
            raise _needs_cluster("deploy_mode is client")
        if deferrable and self._yarn_rm_auth is not None:
            raise config_error(
                "deferrable: the triggerer cannot get the object yarn_rm_auth; use a connection with keytab and "
                "principal, or deferrable=False"
            )

    @abstractmethod
    def build_spec(self, run_key: str, generation: str = "") -> JobSpec:
        """Return the job spec for the rendered parameters.

        `run_key` is the same for every try of the run. `generation` differs if a user has cleared or recreated the run.

        Raises `ConfigError` with the name of the invalid parameter. Airflow also calls this when it parses the DAG, so
        it must not ask for a connection.
        """

    def complete_spec(self, spec: JobSpec) -> JobSpec:
        """Return the spec with the values that come from connections."""
        return spec

    @abstractmethod
    def job_secrets(self) -> SecretValues:
        """Return the credentials of the job, which are never part of its spec."""

    def check_no_program(self) -> None:
        """Raise `ConfigError` for parameters of SparkSubmitOperator that name a program."""
        program = {
            "application": self.application,
            "application_args": self.application_args,
            "java_class": self._java_class,
        }
        for name, value in program.items():
            if value:
                raise config_error(f"{name}: {self.operator_name} submits its own program; remove it")

    def submit_job(self, context: Context) -> str | None:
        """Submit the job, unless an earlier try died after it had submitted a driver and before it stored its id."""
        driver_id = self._submit_hook().earlier_driver() if self.durable else None
        if driver_id is None:
            driver: str | None = super().submit_job(context)
            return driver
        self._remember_driver(context, driver_id)
        return driver_id

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """Return the phase of the driver of an earlier try, for the decision whether to submit another one."""
        return self._submit_hook().phase_of(str(external_id)).value

    def is_job_active(self, status: str) -> bool:
        """Return whether the driver of an earlier try still runs."""
        return status == DriverPhase.ACTIVE.value

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job of an earlier try has a result that was not read yet."""
        return status == DriverPhase.SUCCEEDED.value

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait for the driver, or defer the task until it has ended."""
        driver_id = str(external_id)
        if self._submit_hook().is_deferred:
            self._defer_until_end(driver_id, context)
        self._submit_hook().wait_for_driver(driver_id)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Context) -> Any:  # noqa: ANN401
        """Continue after a deferral. If the trigger itself has failed, end the driver."""
        try:
            return super().resume_execution(next_method, next_kwargs, context)
        except TaskDeferralError:
            self._prepare(context)
            with self._job_files():
                hook = self._get_hook()
                # Without the id, the driver is found by its tag or by its files.
                if (driver_id := self._stored_driver(context).recall()) is not None:
                    hook.attach(driver_id)
                self.on_kill()
            raise

    def on_kill(self) -> None:
        """Stop the Spark job, or prevent its start. `execute` then raises."""
        was_killed, self._is_killed = self._is_killed, True
        if self._job_hook is not None and not was_killed:
            self._job_hook.on_kill()

    def _run(self, context: Context) -> JobResult:
        """Submit the job through the provider's operator, which also tracks drivers on a cluster."""
        submission = self._prepare(context)
        ti = context["ti"]
        # Airflow stores the links of a task only at its end, but users need them while it runs.
        address = report_path(ti.dag_id, ti.task_id, ti.run_id, ti.map_index)
        notify(partial(ti.xcom_push, PushdownReportLink().xcom_key), address)
        # In one process, the hook of an earlier try may still be set. It would submit the job of that try.
        self._hook = self._job_hook = None
        with self._job_files():
            if uses_spark_connect(self._conn_id):
                return self._collect(self._submit_over_spark_connect(submission), context)
            super().execute(context)
            return self._collect(self._submit_hook(), context)

    def _resume(self, context: Context, event: Mapping[str, object]) -> JobResult:
        """Read the result of a job whose driver a trigger has waited for."""
        self._prepare(context)
        with self._job_files():
            hook = self._get_hook()
            self._take_event(event)
            return self._collect(hook, context)

    @contextmanager
    def _job_files(self) -> Iterator[None]:
        """Release the files of the job at the end of a block."""
        try:
            yield
        except AirflowTaskTimeout:
            # Airflow also calls on_kill, but only after the files of the job have been released.
            self.on_kill()
            raise
        finally:
            if self._job_hook is not None:
                try:
                    self._job_hook.release()
                except PushdownTaskError as error:
                    # Raising here would replace the error with which the task ends, or its deferral.
                    self.log.warning("The files of the job may not have been deleted: %s", error)

    def _collect(self, hook: _JobHook, context: Context) -> JobResult:
        """Read the result of a job that has ended."""
        result = hook.collect()
        # The files of the result are deleted, so another try could not read it.
        notify(StoredDriver.forget, self._stored_driver(context))
        self.history_page = hook.history_page(result.application_id)
        return result

    def _prepare(self, context: Context) -> Submission:
        """Set and return the submission of this run from the rendered parameters and the connections."""
        ti = context["ti"]
        run_key = f"{ti.dag_id}/{ti.task_id}/{ti.run_id}/{ti.map_index}"
        spec = self.build_spec(run_key, _generation(context, self.retries or 0))
        self._submission = submission = Submission(
            spec=self.complete_spec(spec),
            secrets=self.job_secrets(),
            spark_home=self.spark_home,
            spark_python=self.spark_python,
            exchange_dir=self.exchange_dir,
            exchange_conn_id=self.exchange_conn_id,
            class_archives=self.class_archives,
            try_number=getattr(ti, "try_number", 1),
            on_started=lambda started: self._link_to(context, started),
            on_submitted=lambda driver_id: self._remember_driver(context, driver_id),
            leaves_driver=lambda: self.durable and self._stored_driver(context).has_next_try(self.log),
            on_progress=ProgressReports(self.log.info, partial(store_progress, ti) if self.do_xcom_push else None),
        )
        return submission

    def _link_to(self, context: Context, application: Application) -> None:
        """Push the link to the running application's UI. The history server's page replaces it when the job ends."""
        if self._job_hook is not None:
            self.history_page = self._job_hook.history_page(application.application_id)
        if application.ui is not None:
            context["ti"].xcom_push(key=SparkApplicationLink().xcom_key, value=application.ui)

    def _stored_driver(self, context: Context) -> StoredDriver:
        return StoredDriver(context, self.external_id_key)

    def _remember_driver(self, context: Context, driver_id: str) -> None:
        """Store the id of the driver for the next try, if that one may continue with it."""
        if self.durable:
            self._stored_driver(context).remember(driver_id)

    def _submit_hook(self) -> PushdownSubmitHook:
        """Return the hook of the provider's operator with its actual type."""
        return cast("PushdownSubmitHook", self._hook)

    def _submit_over_spark_connect(self, submission: Submission) -> PushdownConnectHook:
        """Run the job on the server of the connection, and return its hook.

        Raises `ConfigError` for a parameter of spark-submit.
        """
        own = {
            "spark_home": self.spark_home,
            "exchange_dir": self.exchange_dir,
            "exchange_conn_id": self.exchange_conn_id,
            "class_archives": self.class_archives,
            "deferrable": self.deferrable,
        }
        for name, value in {**own, **self._spark_submit_options()}.items():
            if value:
                raise config_error(
                    f"{name}: a connection of type {CONNECTION_TYPE} uses a server that runs already, without "
                    "spark-submit; remove it"
                )
        self._job_hook = hook = PushdownConnectHook(
            submission, conn_id=self._conn_id, conf=entries("conf", self.conf), env_vars=self.env_vars
        )
        # A signal that arrived earlier found no hook whose job it could end.
        if self._is_killed:
            raise task_killed_error()
        hook.submit()
        return hook

    def _get_hook(self) -> PushdownSubmitHook:
        """Set and return the hook of the submission. The provider's operator calls this when `conf` is complete."""
        if self._submission is None:
            raise config_error(f"{self.operator_name}: there is no job to submit before `execute`; run the task")
        # Set the attribute first, so that the files of the hook are released even if a parameter is invalid.
        self._hook = self._job_hook = hook = PushdownSubmitHook.open(
            self._submission,
            conf=entries("conf", self.conf),
            conn_id=self._conn_id,
            env_vars=self.env_vars,
            name=self.name,
            spark_binary=self._spark_binary,
            status_poll_interval=self._status_poll_interval,
            verbose=self._verbose,
            **self._spark_submit_options(),
        )
        # A signal that arrived earlier found no hook whose job it could end.
        if self._is_killed:
            raise task_killed_error()
        self._follow_driver(hook)
        return hook

    def _follow_driver(self, hook: PushdownSubmitHook) -> None:
        """Decide who waits for the driver: a trigger, this task or spark-submit."""
        if self._should_defer(hook):
            hook.defer()
        elif self.durable and not hook.track_application():
            # The provider's operator would raise, because a retry cannot continue with the application.
            self.durable = False

    def _should_defer(self, hook: PushdownSubmitHook) -> bool:
        """Return whether the task is deferred while its driver runs. The default is Airflow's own setting.

        Raises `ConfigError` if that was requested for a driver that runs in the task.
        """
        if self.deferrable is None:
            return hook.is_cluster and conf.getboolean("operators", "default_deferrable", fallback=False)
        if self.deferrable and not hook.is_cluster:
            raise _needs_cluster(f"the deploy mode of the connection {self._conn_id!r} is client")
        return self.deferrable

    def _defer_until_end(self, driver_id: str, context: Context) -> NoReturn:
        hook = self._submit_hook()
        drivers = hook.drivers()
        if drivers is None:
            raise _needs_cluster(f"the deploy mode of the connection {self._conn_id!r} is not cluster")
        end_time = None
        if self.execution_timeout is not None:
            start = getattr(context["ti"], "start_date", None)
            begin = time.time() if start is None else start.timestamp()
            end_time = begin + self.execution_timeout.total_seconds()
        self.defer(
            trigger=DriverTrigger(
                kind=drivers.kind,
                settings=drivers.settings(),
                driver_id=driver_id,
                exchange=asdict(hook.shared_location),
                poll_seconds=max(float(self._status_poll_interval), drivers.min_interval),
                end_time=end_time,
                stores_progress=bool(self.do_xcom_push),
            ),
            method_name=_RESUME_METHOD,
        )

    def _take_event(self, payload: Mapping[str, object]) -> None:
        """Continue with the event of a trigger. Raises if the driver has not ended."""
        event = DriverEvent.from_payload(payload)
        hook = self._submit_hook()
        if event.status is not None:
            hook.take_status(event.driver_id, event.status)
            return
        hook.attach(event.driver_id)
        if not event.is_timeout:
            raise driver_unreachable_error(event.driver_id, event.problem)
        raise AirflowTaskTimeout(f"driver {event.driver_id} ran longer than execution_timeout and was ended")

    def _spark_submit_options(self) -> dict[str, object]:
        """Return the options of the provider's hook that only matter to spark-submit, by the names of parameters."""
        return {
            "deploy_mode": self._deploy_mode,
            "files": self.files,
            "py_files": self.py_files,
            "archives": self._archives,
            "driver_class_path": self.driver_class_path,
            "jars": self.jars,
            "packages": self.packages,
            "exclude_packages": self.exclude_packages,
            "repositories": self._repositories,
            "total_executor_cores": self._total_executor_cores,
            "executor_cores": self._executor_cores,
            "executor_memory": self._executor_memory,
            "driver_memory": self._driver_memory,
            "num_executors": self._num_executors,
            "keytab": self.keytab,
            "principal": self.principal,
            "proxy_user": self.proxy_user,
            "use_krb5ccache": self._use_krb5ccache,
            "properties_file": self.properties_file,
            "yarn_queue": self._yarn_queue,
            "yarn_rm_auth": self._yarn_rm_auth,
            "post_submit_commands": self.post_submit_commands,
            "track_driver_via_k8s_api": self._track_driver_via_k8s_api,
            "yarn_track_via_rm_api": self._yarn_track_via_rm_api,
        }


def _needs_cluster(reason: str) -> Exception:
    return config_error(
        f"deferrable: only a driver on a cluster can run without the task, and {reason}; use deploy_mode='cluster', or "
        "deferrable=False"
    )


def _generation(context: Context, retries: int) -> str:
    """Return a string that changes when a user clears a task or recreates its DAG run, but not for a retry.

    When a task is cleared, Airflow adds the number of tries so far to the maximum. `retries` is the parameter of the
    task.
    """
    earlier_tries = getattr(context["ti"], "max_tries", retries) - retries
    start = getattr(context.get("dag_run"), "start_date", None)
    return f"{earlier_tries} {start or ''}"
