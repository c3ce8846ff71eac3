"""The program that spark-submit starts. It reads a job spec, runs the query and writes the result."""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

from pyspark import SparkConf, SparkContext
from pyspark import __version__ as pyspark_version
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import (
    AnyOutputSpec,
    CheckReport,
    JobError,
    JobResult,
    JobSpec,
    JoinReport,
    SecretValues,
    SourceReport,
    SourceSpec,
    TableOutputSpec,
    TableSourceSpec,
)
from pushdown_spark.contract.report_text import render_text
from pushdown_spark.contract.versions import unsupported_spark
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.base import Output
from pushdown_spark.output.checks import raise_failed
from pushdown_spark.output.database_output import open_database_output
from pushdown_spark.output.writer import open_output
from pushdown_spark.relations.listing import escaped
from pushdown_spark.relations.tables import table_directories
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.exchange import parse_spec, read_secrets, read_text, write_result
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.preflight import needs_python, start_check
from pushdown_spark.runtime.worker_startup import warm_up_workers
from pushdown_spark.session import PushdownSession

_QUIET = {
    "spark.app.name": "airflow_pushdown",
    "spark.log.level": "WARN",
    "spark.ui.showConsoleProgress": "false",
}
"""Default settings of the session. The submission and the spec take precedence."""

_STREAMING_SINK = "org.apache.spark.sql.execution.streaming.sinks.FileStreamSink"
"""The class that looks for metadata of streaming queries. For a glob, it logs a warning with a stack trace."""
_SECRET_KEY = re.compile(r"secret|passw|token|credential|(access|account|private)[._-]?key", re.IGNORECASE)


class JobRun:
    """One execution of a spec. It keeps partial results, so that the result of a failed job has them too."""

    def __init__(self, spec: JobSpec, text: str = "", path: str | None = None) -> None:
        """Create the run of a spec. `text` is its file, which encrypted secrets belong to, and `path` its location."""
        self._spec = spec
        self._text = text
        self._path = path
        self._started = time.monotonic()
        self._secrets = SecretValues()
        self._application_id: str | None = None
        self._sources: dict[str, SourceReport] = {}
        self._joins: tuple[JoinReport, ...] = ()
        self._output: Output | None = None
        self._checks: tuple[CheckReport, ...] = ()

    def execute(self) -> JobResult:
        """Run the job and write its result to the path in the spec.

        A failure or a signal becomes the `error` of the result. Raises only if the result cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                result = self._result(rows=self._work(stack.enter_context(self.session())))
            except BaseException as exc:
                result = self._result(error=_without_secrets(classify(exc), self._secrets))
            # Spark is still running, because the result may go to a file system of Hadoop.
            if self._spec.result_path is not None:
                write_result(self._spec.result_path, result, self._path)
        return result

    @contextlib.contextmanager
    def session(self, *, keep_secrets: bool = False) -> Iterator[SparkSession]:
        """Start a Spark session with the settings of the spec. Secrets are only set in its Hadoop configuration.

        The file of secrets is deleted before Spark starts, unless `keep_secrets`.
        """
        if problem := unsupported_spark(pyspark_version):
            raise BadSpecError(f"spark_python: {problem}")
        if self._spec.secrets_path is not None:
            self._secrets = read_secrets(self._spec.secrets_path, self._text, keep=keep_secrets)
        spark = _start_spark(self._spec.conf)
        try:
            context = spark.sparkContext
            self._application_id = context.applicationId
            print(f"airflow_pushdown: application {context.applicationId}, UI {context.uiWebUrl or 'off'}", flush=True)
            configuration = context._jsc.hadoopConfiguration()
            for key, value in self._secrets.hadoop.items():
                configuration.set(key, value)
            yield spark
        finally:
            # Stopping a JVM that has ended fails, which must not hide the reason of its end.
            with contextlib.suppress(Exception):
                spark.stop()

    def plan(self, spark: SparkSession) -> PushdownResult:
        """Plan the query of the spec over its sources, without running it."""
        session = PushdownSession(spark, cold=True)
        for name, source in self._spec.sources.items():
            session.add(name, source, self._secrets.remote.get(name))
        return session.query(self._spec.query)

    def _work(self, spark: SparkSession) -> int | None:
        """Write the query to its output. Return the number of rows, None if mode `ignore` keeps an existing output."""
        if self._spec.output is None:
            return self._rows(spark, _compute_all)
        self._output = self._open_output(spark, self._spec.output)
        if not self._output.prepare():
            return self._output.committed_rows
        with self._output.guarded():
            return self._rows(spark, self._output.stage)

    def _open_output(self, spark: SparkSession, output: AnyOutputSpec) -> Output:
        if isinstance(output, TableOutputSpec):
            if self._secrets.output is None:
                raise BadSpecError("output_table: a table of a database needs a connection in the secrets")
            return open_database_output(spark, output, self._secrets.output, self._spec.run_key, self._spec.generation)
        return open_output(spark, output, self._spec.run_key, sources=self._source_paths(spark))

    def _source_paths(self, spark: SparkSession) -> Iterator[str]:
        """Yield the paths of the sources, with glob characters, and the directories of tables, without any."""
        for source in self._spec.sources.values():
            if isinstance(source, SourceSpec):
                yield from source.path
            elif isinstance(source, TableSourceSpec):
                yield from map(escaped, table_directories(spark, source))

    def _rows(self, spark: SparkSession, action: Callable[[DataFrame], None]) -> int | None:
        in_python = [source.format for source in self._spec.sources.values() if needs_python(source)]
        finish_check = start_check(spark.sparkContext) if in_python else None
        query = self.plan(spark)
        self._sources, self._joins = query.report(), query.joins()
        readers = {report.reader for report in self._sources.values() if report.carrier != "jvm"}
        if any("pushdown" in reader for reader in readers):
            warm_up_workers(spark, in_python)
        if finish_check is not None and not readers <= {"spark"}:
            finish_check()
        try:
            query.run(action, as_they_come=True)
        except KeyboardInterrupt:
            # Running tasks would write files that the clean-up has just deleted.
            spark.sparkContext.cancelAllJobs()
            raise
        self._sources, self._joins = query.report(), query.joins()
        self._checks = tuple(self._malformed_checks())
        raise_failed(self._checks)
        return query.rows

    def _malformed_checks(self) -> Iterator[CheckReport]:
        """Yield the results of the sources' limits of malformed lines."""
        for name, source in self._spec.sources.items():
            limit = source.max_malformed if isinstance(source, SourceSpec) else None
            if limit is not None:
                count = self._sources[name].malformed_lines
                yield CheckReport(
                    check=f"max_malformed: {name}",
                    required=f"at most {limit:,} malformed lines",
                    found="a number that Spark did not report" if count is None else f"{count:,}",
                    passed=count is not None and count <= limit,
                )

    def _result(self, *, rows: int | None = None, error: JobError | None = None) -> JobResult:
        return JobResult(
            rows=rows,
            output=self._output.name if self._output is not None and error is None else None,
            output_summary=self._output.summary if self._output is not None and error is None else None,
            checks=(*self._checks, *(self._output.checks if self._output is not None else ())),
            application_id=self._application_id,
            sources=self._sources,
            joins=self._joins,
            seconds=round(time.monotonic() - self._started, 3),
            error=error,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job of `--spec`. Return 0 on success, otherwise 1 after one line on stderr with the reason."""
    parser = argparse.ArgumentParser(prog="job.py", description="Run one job of airflow_pushdown.")
    parser.add_argument("--spec", required=True, help="the path or URI of the job spec, a JSON file")
    return run(parser.parse_args(arguments).spec)


def run(spec_path: str) -> int:
    """Run the job of a spec file and return the exit code. The report is printed if the spec has no result path."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        text = read_text("--spec", spec_path)
        spec = parse_spec(text, spec_path)
        result = JobRun(spec, text, spec_path).execute()
    except BaseException as exc:
        return _fail(classify(exc))
    if spec.result_path is None:
        print(render_text(result))
    return 0 if result.error is None else _fail(result.error)


def explain(spec_path: str) -> int:
    """Print the plan of a spec file without running its query or deleting its secrets, and return the exit code."""
    try:
        text = read_text("--spec", spec_path)
        job = JobRun(parse_spec(text, spec_path), text)
        with job.session(keep_secrets=True) as spark:
            print(job.plan(spark).explain())
    except BaseException as exc:
        return _fail(classify(exc))
    return 0


def _start_spark(conf: dict[str, str]) -> SparkSession:
    # Only the JVM knows the settings of spark-submit, so it starts before the defaults are applied.
    SparkContext._ensure_initialized()
    submitted = SparkConf()
    builder = SparkSession.builder
    for key, value in _QUIET.items():
        if not submitted.contains(key):
            builder = builder.config(key, value)
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _log_errors_only(spark, _STREAMING_SINK)
    return spark


def _log_errors_only(spark: SparkSession, logger: str) -> None:
    """Set a logger of the JVM to log only errors."""
    level = java_class(spark, "org.apache.logging.log4j.Level").toLevel("ERROR")
    java_class(spark, "org.apache.logging.log4j.core.config.Configurator").setLevel(logger, level)


def _compute_all(frame: DataFrame) -> None:
    """Compute every row without writing any."""
    frame.write.format("noop").mode("overwrite").save()


def _without_secrets(error: JobError, secrets: SecretValues) -> JobError:
    """Return an error without credentials, which a library may have put into a message."""
    message, traceback = error.message, error.traceback
    values = list(secrets.passwords)
    for key, value in secrets.hadoop.items():
        if value and _SECRET_KEY.search(key):
            values.append(value)
    for value in values:
        message = message.replace(value, "***")
        traceback = traceback.replace(value, "***") if traceback is not None else None
    return error.model_copy(update={"message": message, "traceback": traceback})


def _fail(error: JobError) -> int:
    print(f"Error: {error.message} ({error.code.value})", file=sys.stderr, flush=True)
    return 1


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """End the job like Ctrl-C, so that staged rows are deleted and the result has the reason."""
    # A job may get the signal several times. A second signal must not interrupt the clean-up.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
