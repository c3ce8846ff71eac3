"""The hook that runs a job in a session of a Spark Connect server, without spark-submit and without a JVM."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from urllib.parse import quote

from airflow.sdk import BaseHook, Connection
from airflow.sdk.log import mask_secret
from airflow.utils.log.logging_mixin import LoggingMixin

from airflow_pushdown.connections.credentials import airflow_connection, confidential
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.exchange.exchange import Exchange
from airflow_pushdown.hooks.job_runner import JobRunner
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.packaging import job_archive, job_program
from airflow_pushdown.spark_settings import serialize_all
from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.failures import check_exit, no_result_error, task_killed_error
from airflow_pushdown.spark_submit.spark_installation import SPARK_PYTHON_VARIABLE, SparkInstallation
from airflow_pushdown.version_compat import AirflowNotFoundException
from pushdown_spark.contract import JobResult

CONNECTION_TYPE = "spark_connect"
"""The type of connections to Spark Connect servers, as Airflow's Spark provider names it."""
_SESSION_SETTING = "spark.sql."
"""The prefix of the settings that a session can have."""


def uses_spark_connect(conn_id: str) -> bool:
    """Return whether a connection leads to a Spark Connect server."""
    try:
        return bool(BaseHook.get_connection(conn_id).conn_type == CONNECTION_TYPE)
    except AirflowNotFoundException:
        return False


class PushdownConnectHook(LoggingMixin):
    """A hook that runs the program of all jobs in the Python of the Spark environment, as a client of a server."""

    def __init__(
        self,
        submission: Submission,
        *,
        conn_id: str,
        conf: Mapping[str, str],
        env_vars: Mapping[str, object] | None = None,
    ) -> None:
        """`conf` are the user's settings. Raises `ConfigError` with the name of the invalid parameter."""
        super().__init__()  # type: ignore[no-untyped-call]
        if submission.secrets.hadoop:
            raise config_error(
                "source_conn_id: a Spark Connect server reads object stores with its own credentials; remove it"
            )
        for key in conf:
            if not key.startswith(_SESSION_SETTING):
                raise config_error(f"conf: {key} is a setting of the Spark Connect server; set it there, and remove it")
        session = {key: value for key, value in submission.spec.conf.items() if key.startswith(_SESSION_SETTING)}
        self._spec = submission.spec.model_copy(update={"conf": {**conf, **session}})
        url = server_url(airflow_connection("conn_id", conn_id))
        self._secrets = submission.secrets.model_copy(update={"spark_connect": url})
        self._python = _spark_python(submission.spark_python)
        self._env_vars = serialize_all(env_vars)
        self._job = JobRunner(submission)
        self._exchange: Exchange | None = None

    def submit(self) -> None:
        """Run the job. Raises a `PushdownTaskError` if its process fails without a result."""
        exchange = self._exchange = Exchange.create_private()
        exchange.prepare(self._spec, self._secrets)
        program = [self._python, str(job_program()), "--spec", exchange.spec_location]
        environment = child_environment(
            os.environ,
            SparkInstallation(binary="spark-submit", python=self._python, home=None),
            extra=self._env_vars,
            secrets=confidential(self._secrets),
        )
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(job_archive()), environment.get("PYTHONPATH"))))
        returncode = self._job.run(program, environment, exchange.private_directories)
        if self._job.is_ended:
            raise task_killed_error()
        check_exit(returncode, self._job.output, exchange.read_result(), program="the job")

    def collect(self) -> JobResult:
        """Return the result of the job. Raises if there is none."""
        result = None if self._exchange is None else self._exchange.read_result()
        if result is None:
            raise no_result_error(self._job.output)
        return result

    def history_page(self, _application_id: str | None) -> str:
        """Return no page, because the application belongs to the server."""
        return ""

    def release(self) -> None:
        """Delete the files of the job."""
        if self._exchange is not None:
            self._exchange.discard()

    def on_kill(self) -> None:
        """End the job's process within 5 seconds. It interrupts what the server runs for it."""
        self._job.end()


def server_url(connection: Connection) -> str:
    """Return the `sc://` URL of a connection, with its token. Raises `ConfigError` for a connection without a host."""
    host = (connection.host or "").removeprefix("sc://").rstrip("/")
    if not host or "/" in host:
        raise config_error(
            f"conn_id: connection {connection.conn_id!r} needs the name of the Spark Connect server as its host, "
            "without a path"
        )
    use_ssl = connection.extra_dejson.get("use_ssl")
    parameters = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": None if use_ssl is None else str(use_ssl).lower(),
    }
    if connection.password:
        for form in (connection.password, quote(connection.password, safe="")):
            mask_secret(form)
    address = f"{host}:{connection.port}" if connection.port else host
    return f"sc://{address}/" + "".join(f";{key}={quote(value, safe='')}" for key, value in parameters.items() if value)


def _spark_python(parameter: str | None) -> str:
    program = parameter or os.environ.get(SPARK_PYTHON_VARIABLE) or os.environ.get("PYSPARK_PYTHON")
    python = shutil.which(program) if program else None
    if python is None:
        problem = f"{program} is not an executable file" if program else "not set"
        raise config_error(
            f'spark_python: {problem}; set it to the Python of an environment with "pushdown-spark[spark,connect]"'
        )
    return python
