"""The hook that submits a job with spark-submit and reads its result. It extends the Spark provider's hook."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from airflow_pushdown.clusters.standalone import shared_program, standalone_command, standalone_environment
from airflow_pushdown.clusters.yarn import run_tag
from airflow_pushdown.connections.credentials import confidential
from airflow_pushdown.exceptions import PushdownTaskError, config_error, retryable_error
from airflow_pushdown.exchange.exchange import Exchange, ExchangeLocation
from airflow_pushdown.hooks.cluster_driver import ClusterDriverHook
from airflow_pushdown.hooks.job_runner import JobRunner, notify
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.packaging import job_archive, job_program
from airflow_pushdown.spark_settings import SUBMIT_DEFAULTS, serialize_all
from airflow_pushdown.spark_submit.application import (
    HISTORY_KEY,
    history_page,
    history_server,
    submitted_pod,
)
from airflow_pushdown.spark_submit.archive_recording import use_archive
from airflow_pushdown.spark_submit.class_archive import DIRECTORY_VARIABLE
from airflow_pushdown.spark_submit.conf_directory import CLASS_PATH_KEY, CONF_DIRECTORY, submit_settings, unmovable_file
from airflow_pushdown.spark_submit.environment import child_environment
from airflow_pushdown.spark_submit.failures import check_exit, driver_lost_error, no_result_error, task_killed_error
from airflow_pushdown.spark_submit.jvm_options import SUBMIT_OPTIONS, compiler_options, user_options
from airflow_pushdown.spark_submit.name_check import check_names
from airflow_pushdown.spark_submit.processes import JobProcess
from airflow_pushdown.spark_submit.secret_settings import (
    mask_setting,
    properties_text,
    separate_secrets,
    with_properties,
)
from airflow_pushdown.spark_submit.spark_installation import find_installation
from airflow_pushdown.spark_submit.spark_python import usable_driver_python
from pushdown_spark.contract import JobResult

_DEFAULT_FILES = "fs.defaultFS"
"""Hadoop's setting of the file system of paths without a scheme."""


class PushdownSubmitHook(ClusterDriverHook):
    """A hook that submits `pushdown_spark/job.py` for one `JobSpec` and reads its `JobResult`.

    Unlike the provider's hook, it puts no secret on the command line, does not pass the worker's secrets on to the
    child, and ends every process of the job on a kill. `open` makes one.
    """

    def __init__(
        self,
        submission: Submission,
        *,
        conf: Mapping[str, object] | None = None,
        conn_id: str = "spark_default",
        py_files: str | None = None,
        **options: Any,  # noqa: ANN401 - other parameters of the provider's hook
    ) -> None:
        """Resolve connection and installation. Raises `ConfigError` with the name of the invalid parameter.

        `conf` is the user's Spark configuration and `py_files` are the user's archives, as in the provider's hook.
        """
        self._submission = submission
        self._has_no_driver = False
        self._job = JobRunner(submission)
        try:
            super().__init__(
                conf={**SUBMIT_DEFAULTS, **serialize_all(conf)},
                conn_id=conn_id,
                py_files=",".join(filter(None, (str(job_archive()), py_files))),
                **options,
            )
        except PermissionError as error:
            raise config_error(str(error)) from error
        if self.is_yarn:
            # YARN must not start a second driver: it would find no credentials, and overwrite the result of the first
            # one. Airflow retries the task.
            self.conf.setdefault("spark.yarn.maxAppAttempts", "1")
        self._installation = find_installation(
            binary=self.binary,
            spark_home=submission.spark_home,
            spark_python=submission.spark_python,
            environ=os.environ,
        )
        self._installation.check_supported()
        class_path = {CLASS_PATH_KEY: self.driver_class_path} if self.driver_class_path else {}
        self._settings = submit_settings(
            self._installation,
            {**serialize_all(conf), **class_path},
            self.properties_file,
            {**os.environ, **serialize_all(self.submit_variables)}.get(CONF_DIRECTORY),
        )
        self._history_server = history_server(self.history_extra, serialize_all(conf).get(HISTORY_KEY))

    @classmethod
    def open(cls, submission: Submission, **options: Any) -> Self:  # noqa: ANN401 - those of the constructor
        """Return a hook with the files of its job. Raises `ConfigError` with the name of the invalid parameter."""
        hook = cls(submission, **options)
        # A driver on this machine needs no files that others can read.
        hook.exchange = Exchange.open_shared(hook.shared_location) if hook.is_cluster else Exchange.create_private()
        hook.set_arguments(["--spec", hook.exchange.spec_location])
        if hook.is_cluster:
            hook.tag_applications(run_tag(hook.exchange.spec_location))
        return hook

    def submit(self, application: str = "", **kwargs: object) -> str | None:
        """Submit the job, wait for spark-submit, and return the id of the driver if the cluster has one.

        `application` is ignored, because the program is always the same. Raises a `PushdownTaskError` if spark-submit
        fails without a result. `collect` returns failures of the job itself.
        """
        submission = self._submission
        self.check_yarn_polling()
        self._check_rest_server()
        self.wait_in_spark_submit()
        self._end_earlier_driver()
        self.detach()
        self._has_no_driver = True
        if self.is_cluster:
            self.exchange.take_over(submission.try_number)
        self.exchange.prepare(submission.spec, submission.secrets)
        command = self._hide_secrets(self.build_command(str(job_program())))
        try:
            returncode = self._run_spark_submit(command)
        finally:
            if not self._tracked_after_submit:
                self.run_post_submit_commands()
        try:
            self._check_success(returncode)
        except PushdownTaskError:
            # spark-submit may have failed after the cluster accepted the application. If it was not killed by a signal,
            # no driver is left now.
            self.end_applications()
            self._has_no_driver = returncode >= 0
            raise
        return self.driver_id

    def collect(self) -> JobResult:
        """Return the result of the job and delete the exchange directory. Raises if there is no result."""
        if self._is_taken_over():
            raise retryable_error("the next try of this task continues with the driver")
        result = self.exchange.read_result()
        try:
            self.exchange.discard()
        except PushdownTaskError as error:
            # The job has ended, and its outcome counts.
            self.log.warning("The files of the job cannot be deleted: %s", error)
        if self._is_killed:
            raise task_killed_error()
        if (driver := self.tracked_driver()) is not None:
            driver.delete_pod(result)
        if result is None and self._status is not None:
            raise driver_lost_error(str(self.driver_id), self._status)
        if result is None:
            raise no_result_error(self._job.output)
        return result

    def history_page(self, application_id: str | None) -> str:
        """Return the page of an application on the history server, or an empty string if it is unknown."""
        return history_page(self._history_server, application_id)

    def release(self) -> None:
        """Delete the files of the job, unless a driver on a cluster may still need them."""
        self.exchange.delete_hidden()
        if not self._may_have_driver() and not self._is_taken_over():
            self.exchange.discard()

    def _may_have_driver(self) -> bool:
        """Return whether a driver on a cluster may need the files of the run."""
        has_ended = self._is_killed or self._has_no_driver or not self.is_cluster
        return not has_ended and self.exchange.read_spec() is not None

    def on_kill(self) -> None:
        """End every process of the job within 5 seconds. On a cluster, also stop the driver."""
        self._is_killed = True
        is_own = not self._leave_driver()
        if is_own and not self._kill_driver() and self.is_cluster:
            super().on_kill()
        self.end_submission()
        if is_own and self.is_standalone_cluster and self.driver_id is None:
            # The master may have accepted a driver before spark-submit was killed.
            self._attach_to_earlier_driver()
            self._kill_driver()

    def _run_spark_submit(self, command: list[str]) -> int:
        """Run spark-submit with its output in the task log, and return its exit code."""
        environment = child_environment(
            os.environ,
            self._installation,
            extra=serialize_all(self.submit_variables),
            secrets=confidential(self._submission.secrets),
        )
        if self.is_standalone_cluster:
            environment = standalone_environment(environment)
        env_vars = serialize_all(self.env_vars)
        if self.is_cluster and env_vars.keys() & {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}:
            # The driver gets these variables as settings. spark-submit itself runs here, and needs a Python of this
            # machine. YARN would pass PYSPARK_DRIVER_PYTHON of this worker on to the driver.
            environment.pop("PYSPARK_DRIVER_PYTHON", None)
            environment["PYSPARK_PYTHON"] = self._installation.python or env_vars.get("PYSPARK_PYTHON", "python3")
        if self.is_cluster:
            return self._run_process(command, environment)
        python = usable_driver_python(self._installation, self._settings, environment)
        # In another file system, the names of directories are not known here. Each may be a partition column, so no
        # name in the query is certainly wrong.
        if python is not None and self._has_local_files(environment):
            check_names(python.executable, environment, self._submission.spec, Path(self.exchange.spec_location))
        return self._run_with_fast_start(command, environment)

    def _run_with_fast_start(self, command: list[str], environment: dict[str, str]) -> int:
        """Run spark-submit with JVM options that shorten its start, and without them if the JVM refuses them."""
        fast_command, fast_environment = command, self._with_compiler(environment)
        directory = self._submission.class_archives or os.environ.get(DIRECTORY_VARIABLE) or None
        with use_archive(directory, self._installation, fast_environment, self._settings) as archive_use:
            if archive_use is not None:
                fast_command, fast_environment = archive_use.configure(fast_command, fast_environment)
            returncode = self._run_process(fast_command, fast_environment)
            has_result = self.exchange.read_result() is not None
            if archive_use is not None:
                archive_use.finish(returncode, has_result=has_result)
            if has_result:
                # The JVM records the archive after the job has written its result. If recording fails, the job has
                # still succeeded.
                return 0 if archive_use is not None and archive_use.is_recording else returncode
            if returncode == 0 or not self._job.output.is_jvm_refused or fast_environment == environment:
                return returncode
            self.log.warning(
                "The job starts again without the JVM options of this provider: %s", self._job.output.cause
            )
            returncode = self._run_process(command, environment)
            if archive_use is not None and self.exchange.read_result() is not None:
                archive_use.give_up()
            return returncode

    def _run_process(self, command: list[str], environment: Mapping[str, str]) -> int:
        """Start spark-submit, log its output, and return its exit code."""
        return self._job.run(
            command,
            environment,
            self.exchange.private_directories,
            on_start=self._note_start,
            # On a cluster, the provider's hook extracts the ids of driver and application.
            on_line=self._process_submit_line if self.is_cluster else None,
        )

    def _note_start(self, process: JobProcess) -> None:
        """Record that spark-submit runs."""
        self._has_no_driver = False
        if self.is_cluster:
            self.take_process(process.popen)

    def _with_compiler(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the environment with options for the compiler of the driver's JVM."""
        options = compiler_options(
            self._submission.spec,
            user_options(environment, self._settings),
            has_local_files=self._has_local_files(environment),
        )
        if not options:
            return environment
        return {**environment, SUBMIT_OPTIONS: " ".join(filter(None, (options, environment.get(SUBMIT_OPTIONS))))}

    def _has_local_files(self, environment: Mapping[str, str]) -> bool:
        """Return whether paths without a scheme are on this machine."""
        home = self._installation.jars_home
        is_set = any(key.endswith(_DEFAULT_FILES) for key in self._settings)
        return home is not None and not is_set and unmovable_file(home, environment) is None

    def _process_submit_line(self, line: str) -> None:
        """Log a line of a spark-submit on a cluster, and report the driver that it names."""
        previous_id = self.driver_id
        self.take_line(line)
        if self.is_kubernetes and (pod := submitted_pod(line)) is not None:
            # The provider's hook finds the name of the pod only in a namespace that is called "spark".
            self.attach_pod(pod)
        if self.driver_id != previous_id and self.driver_id is not None:
            # If the id is not stored, the next try finds the driver by its tag or its files.
            notify(self._submission.on_submitted, self.driver_id)

    def build_command(self, application: str) -> list[str]:
        """Return the command of the provider, changed for a Python program on a standalone cluster.

        A driver on a cluster gets the location of its result, by which it knows whether the task still waits for it.
        """
        command = super().build_command(application)
        result = ["--result", self.exchange.result_location] if self.is_cluster else []
        if not self.is_standalone_cluster:
            return [*command, *result]
        program = shared_program(str(self.shared_location.exchange_dir))
        command = standalone_command(command, program, str(job_archive()), self.rest_port, self._installation.python)
        return [*command, *result, "--claim"]

    def _check_success(self, returncode: int) -> None:
        """Raise unless spark-submit succeeded or the job wrote a result."""
        if self._is_killed:
            raise task_killed_error()
        result = self.exchange.read_result()
        check_exit(returncode, self._job.output, result)
        if result is not None:
            return
        if self.driver_exit_code:
            raise retryable_error(
                f"the driver pod ended with exit code {self.driver_exit_code}: {self._job.output.cause}; see the log "
                "of the pod"
            )
        if self._tracked_after_submit and self.driver_id is None:
            raise retryable_error(f"spark-submit ended without printing the id of a driver; {self._job.output.note}")

    @property
    def _tracked_after_submit(self) -> bool:
        """Whether spark-submit ends before the job, so that the driver is polled."""
        return self.is_standalone_cluster or self.polls_kubernetes or self.polls_yarn

    @property
    def shared_location(self) -> ExchangeLocation:
        """Where the run exchanges files with a driver on another machine."""
        submission = self._submission
        return self.exchange_location(submission.exchange_dir, submission.spec.run_key, submission.exchange_conn_id)

    def submit_program(self) -> str:
        """Return the spark-submit of the installation."""
        return self._installation.binary

    def mask(self, words: Sequence[str]) -> str:
        """Return a command for the log. Values that may have a credential are masked."""
        return super().mask([mask_setting(word) for word in words])

    def _hide_secrets(self, command: list[str]) -> list[str]:
        """Move settings that look secret to a private properties file, which includes the user's properties file."""
        command_without_secrets, secrets = separate_secrets(command)
        if not secrets:
            return command
        if self.is_standalone_cluster:
            raise config_error(
                f"conf: {', '.join(secrets)}: a standalone cluster starts the driver with all settings on its command "
                "line; use source_conn_id for credentials of an object store, or set them on the cluster's machines"
            )
        text = properties_text(secrets, self.properties_file)
        return with_properties(command_without_secrets, self.exchange.hide(text), replaces=bool(self.properties_file))
