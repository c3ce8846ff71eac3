"""The program that spark-submit starts. It reads a job spec, runs the query and writes the result."""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import signal
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from pydantic import ValidationError
from pyspark import SparkConf
from pyspark import __version__ as pyspark_version
from pyspark.sql import SparkSession

from pushdown_spark.connect.connect_session import connect_session
from pushdown_spark.contract import ErrorCode, JobError, JobResult, JobSpec, ScanReport, SecretValues
from pushdown_spark.contract.progress import Progress
from pushdown_spark.contract.report_text import render_text
from pushdown_spark.contract.versions import unsupported_spark
from pushdown_spark.driver.job_exchange import (
    claim_result,
    read_secrets,
    read_text,
    replaced_driver_error,
    write_progress,
    write_result,
)
from pushdown_spark.driver.parent_watch import watch_parent
from pushdown_spark.driver.progress_thread import publish_progress
from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.jvm_gateway import has_jvm, java_class, start_jvm
from pushdown_spark.runtime.spark_internals import hadoop_configuration, java_context, stop_spark
from pushdown_spark.secret_text import is_secret_name, redact

if TYPE_CHECKING:
    from pushdown_spark.query_run import QueryRun

_QUERIES = "pushdown_spark.query_run"
"""The module that runs queries. It is imported while Spark starts, because both take time."""
_DEFAULT_SETTINGS = {
    "spark.app.name": "airflow_pushdown",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}
"""Default settings of the session. The submission and the spec take precedence."""

_ONLY_QUERY = ""
"""The name of the query of a job without `scans`."""
_STREAMING_SINK = "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink"
"""The class that looks for metadata of streaming queries. For a glob, it logs a warning with a stack trace."""


@dataclass(frozen=True)
class SpecFile:
    """The file of a job spec, if it has one. Encrypted secrets belong to its text."""

    path: str | None = None
    text: str = ""


_NO_FILE = SpecFile()


class JobRun:
    """One execution of a spec. It keeps partial results, so that the result of a failed job has them too."""

    def __init__(self, spec: JobSpec, file: SpecFile = _NO_FILE) -> None:
        """Create the run of a spec, and of the file that it comes from."""
        self._spec = spec
        self._file = file
        self._start_time = time.monotonic()
        self._secrets = SecretValues()
        self._application_id: str | None = None
        self._runs: dict[str, QueryRun] = {}
        self._reports: dict[str, ScanReport] = {}

    def execute(self) -> JobResult:
        """Run the job and write its result to the path in the spec.

        A failure or a signal becomes the `error` of the result. Raises only if the result cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                spark = stack.enter_context(self.session())
                with publish_progress(self._progress, lambda progress: self._publish(spark, progress)):
                    result = self.run_queries(spark)
            except BaseException as problem:
                result = self._result(self.error_of(problem))
            # Spark is still running, because the result may go to a file system of Hadoop.
            if self._spec.result_path is not None:
                write_result(self._spec.result_path, result, self._file.path)
        return result

    @contextlib.contextmanager
    def session(self, *, keep_secrets: bool = False) -> Iterator[SparkSession]:
        """Start a Spark session with the settings of the spec, or open one of the Spark Connect server of the secrets.

        Other secrets are only set in its Hadoop configuration. The file of secrets is deleted before Spark starts,
        unless `keep_secrets`.
        """
        if problem := unsupported_spark(pyspark_version):
            raise BadSpecError(f"spark_python: {problem}")
        if self._spec.secrets_path is not None:
            self._secrets = read_secrets(self._spec.secrets_path, self._file.text, keep=keep_secrets)
        if self._secrets.spark_connect is not None:
            with connect_session(self._secrets.spark_connect, self._spec.conf) as spark:
                self._announce(spark.conf.get("spark.app.id"), None)
                yield spark
            return
        with ThreadPoolExecutor(1) as pool:
            queries = pool.submit(import_module, _QUERIES)
            spark = _start_spark(self._spec.conf)
        try:
            queries.result()
            context = spark.sparkContext
            self._announce(context.applicationId, context.uiWebUrl)
            configuration = hadoop_configuration(spark)
            for key, value in self._secrets.hadoop.items():
                configuration.set(key, value)
            yield spark
        finally:
            # Stopping a JVM that has ended fails, which must not hide the reason of its end.
            with contextlib.suppress(Exception):
                stop_spark(spark)

    def _announce(self, application_id: str | None, ui: str | None) -> None:
        """Print a line by which the task links to the application."""
        self._application_id = application_id
        print(f"airflow_pushdown: application {application_id}, UI {ui or 'off'}", flush=True)

    def explain(self, spark: SparkSession) -> str:
        """Return the plan of each query as text, without running any."""
        plans = {name: run.plan().explain() for name, run in self.query_runs(spark).items()}
        return "\n".join(plan if name == _ONLY_QUERY else f"Scan {name}\n{plan}" for name, plan in plans.items())

    def query_runs(self, spark: SparkSession) -> dict[str, QueryRun]:
        """Return the run of each scan of the job by its name, or the run of its query under `_ONLY_QUERY`."""
        from pushdown_spark.query_run import ClassicQueryRun, SharedApplication

        spec, secrets = self._spec, self._secrets
        if not has_jvm(spark):
            from pushdown_spark.connect.connect_query_run import ConnectQueryRun

            if spec.scans:
                raise BadSpecError("scans: over Spark Connect, each scan needs a task of its own, which starts at once")
            return {_ONLY_QUERY: ConnectQueryRun(spark, spec, secrets)}
        application = SharedApplication(spark)
        if not spec.scans:
            return {_ONLY_QUERY: ClassicQueryRun(application, spec, secrets)}
        return {
            name: ClassicQueryRun(
                application,
                spec.job_of(name),
                secrets.of_scan(name),
                other_sources=[source for other, source in spec.sources.items() if other != name],
                other_outputs=[scan.output for other, scan in spec.scans.items() if other != name],
            )
            for name in spec.scans
        }

    def run_queries(self, spark: SparkSession) -> JobResult:
        """Run the query, or one scan after the other. Only a failure of Spark itself stops the scans after it."""
        queries = self.query_runs(spark)
        if self._spec.scans:
            from pushdown_spark.output.shared_targets import check_shared_targets

            check_shared_targets(spark, self._spec, self._secrets)
        for name, run in queries.items():
            self._runs[name] = run
            start = time.monotonic()
            rows, error = None, None
            try:
                rows = run.run()
            except BaseException as problem:
                error = self.error_of(problem)
                if not isinstance(problem, Exception) or error.code is ErrorCode.DRIVER_KILLED:
                    self._reports[name] = run.report(rows, time.monotonic() - start, error)
                    return self._result(error)
            self._reports[name] = run.report(rows, time.monotonic() - start, error)
        return self._result(None)

    def _progress(self) -> Progress | None:
        """Return the progress of the query or the scan that runs, or None if none does."""
        if not self._runs:
            return None
        name, run = list(self._runs.items())[-1]
        progress = run.progress()
        if progress is None or name == _ONLY_QUERY:
            return progress
        position = {"scan": name, "scan_number": len(self._runs), "scans_total": len(self._spec.scans)}
        return progress.model_copy(update=position)

    def _publish(self, spark: SparkSession, progress: Progress) -> None:
        """Send the progress to the task: in the output of this process, or in a file if the task cannot read that."""
        if self._spec.result_path is None:
            return
        if java_context(spark).deployMode() == "cluster":
            write_progress(self._spec.result_path, progress, self._file.path)
        else:
            # One write, because the JVM writes to the same stream.
            sys.stdout.write(f"{progress.line()}\n")
            sys.stdout.flush()

    def _result(self, error: JobError | None) -> JobResult:
        """Return the result. `error` is the reason why the job stopped."""
        runs, reports = self._runs, self._reports
        result = JobResult(application_id=self._application_id, seconds=round(time.monotonic() - self._start_time, 3))
        if self._spec.scans:
            sources = {name: source for name, run in runs.items() for source in run.sources.values()}
            counts = [report.rows for report in reports.values() if report.rows is not None]
            return result.model_copy(
                update={
                    "rows": sum(counts) if counts else None,
                    "sources": sources,
                    "scans": reports,
                    "error": error_of_scans(self._spec.scans, reports) or error,
                }
            )
        report = reports.get(_ONLY_QUERY) or ScanReport(error=error)
        sources, joins = (runs[_ONLY_QUERY].sources, runs[_ONLY_QUERY].joins) if runs else ({}, ())
        return result.model_copy(update={**dict(report), "seconds": result.seconds, "sources": sources, "joins": joins})

    def error_of(self, problem: BaseException) -> JobError:
        """Return an exception as an error without credentials."""
        return _without_secrets(classify(problem), self._secrets)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job of `--spec`. Return 0 on success, otherwise 1 after one line on stderr with the reason."""
    parser = argparse.ArgumentParser(prog="job.py", description="Run one job of airflow_pushdown.")
    parser.add_argument("--spec", required=True, help="the path or URI of the job spec, a JSON file")
    parser.add_argument("--result", help="run only a spec with this result; each submission has its own")
    parser.add_argument("--claim", action="store_true", help="run only if no other process has claimed the result")
    options = parser.parse_args(arguments)
    return run(options.spec, options.result, is_claiming=options.claim)


def run(spec_path: str, result_path: str | None = None, *, is_claiming: bool = False) -> int:
    """Run the job of a spec file and return the exit code. The report is printed if the spec has no result path.

    With `result_path`, only a spec with this result is run: a task that has submitted another driver waits for another
    one. With `is_claiming`, the driver claims the submission before it reads the spec.
    """
    signal.signal(signal.SIGTERM, _stop)
    watch_parent()
    try:
        if is_claiming and result_path is not None:
            claim_result(result_path)
        spec, file = read_spec(spec_path)
        if result_path not in (None, spec.result_path):
            raise replaced_driver_error(str(result_path))
        job = JobRun(spec, file)
    except BaseException as problem:
        return _fail(classify(problem))
    try:
        result = job.execute()
    except BaseException as problem:
        return _fail(job.error_of(problem))
    if spec.result_path is None:
        print(render_text(result))
    return 0 if result.error is None else _fail(result.error)


def read_spec(path: str) -> tuple[JobSpec, SpecFile]:
    """Return a spec and its file. For an invalid one, write a result with the error for the task."""
    text = read_text("--spec", path)
    try:
        raw = json.loads(text)
    except ValueError as problem:
        raise BadSpecError(f"--spec: cannot read {path}: {problem}") from problem
    try:
        return JobSpec.model_validate(raw), SpecFile(path, text)
    except ValidationError as problem:
        result_path = raw.get("result_path") if isinstance(raw, dict) else None
        if isinstance(result_path, str):
            write_result(result_path, JobResult(error=classify(problem)))
        raise


def explain(spec_path: str) -> int:
    """Print the plan of a spec file without running its query or deleting its secrets, and return the exit code."""
    try:
        job = JobRun(*read_spec(spec_path))
    except BaseException as problem:
        return _fail(classify(problem))
    try:
        with job.session(keep_secrets=True) as spark:
            print(job.explain(spark))
    except BaseException as problem:
        return _fail(job.error_of(problem))
    return 0


def _start_spark(conf: dict[str, str]) -> SparkSession:
    """Start Spark with the settings of the job. Settings of the submission replace the defaults."""
    # Only the JVM knows the settings of spark-submit, so it starts before the defaults are applied.
    start_jvm()
    spark_conf = SparkConf()
    builder = SparkSession.builder
    for key, value in _DEFAULT_SETTINGS.items():
        if not spark_conf.contains(key):
            builder = builder.config(key, value)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    level = java_class(spark, "org.apache.logging.log4j.Level").toLevel("ERROR")
    java_class(spark, "org.apache.logging.log4j.core.config.Configurator").setLevel(_STREAMING_SINK, level)
    return spark


def error_of_scans(scans: Collection[str], reports: Mapping[str, ScanReport]) -> JobError | None:
    """Return one error for all failed scans, or None if none failed. It is retryable if one of their errors is."""
    errors = {name: report.error for name, report in reports.items() if report.error is not None}
    if not errors:
        return None
    representative = next((error for error in errors.values() if error.retryable), next(iter(errors.values())))
    missing = [name for name in scans if name not in reports]
    successes = [name for name in reports if name not in errors]
    parts = [f"{len(errors)} of {len(scans)} scans failed: "]
    parts.append("; ".join(f"{name}: {error.message} ({error.code.value})" for name, error in errors.items()))
    if successes:
        parts.append(f". Completed: {', '.join(successes)}")
    if missing:
        parts.append(f". Not run: {', '.join(missing)}")
    return representative.model_copy(update={"message": "".join(parts)})


def _without_secrets(error: JobError, secrets: SecretValues) -> JobError:
    """Return an error without credentials, which a library may have put into a message."""
    values = [*secrets.passwords, *(value for key, value in secrets.hadoop.items() if is_secret_name(key))]
    traceback = None if error.traceback is None else redact(error.traceback, values)
    return error.model_copy(update={"message": redact(error.message, values), "traceback": traceback})


def _fail(error: JobError) -> int:
    print(f"Error: {error.message} ({error.code.value})", file=sys.stderr, flush=True)
    return 1


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """End the job like Ctrl-C, so that staged rows are deleted and the result has the reason."""
    # A job may get the signal several times. A second signal must not interrupt the clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    code = main()
    # Python collects garbage once more when it ends. That takes longer than stopping Spark, and frees nothing of use.
    gc.freeze()
    sys.exit(code)
