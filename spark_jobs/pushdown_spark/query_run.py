"""One run of one query into one output, in an application that may run several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import (
    AnyOutputSpec,
    AnySourceSpec,
    CatalogOutputSpec,
    CheckReport,
    JobError,
    JobSpec,
    JoinReport,
    OutputSpec,
    RemoteSourceSpec,
    ScanReport,
    SecretValues,
    SourceReport,
    SourceSpec,
    TableOutputSpec,
    TableSourceSpec,
)
from pushdown_spark.contract.progress import Progress
from pushdown_spark.driver.preflight import needs_python, start_version_check
from pushdown_spark.driver.progress_thread import QueryProgress
from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.expressions.session_settings import is_option_on
from pushdown_spark.formats.worker_startup import warm_up_workers
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.output.base_output import Output
from pushdown_spark.output.catalog.catalog_targets import open_catalog_output
from pushdown_spark.output.checks import raise_failures
from pushdown_spark.output.database.database_output import open_database_output
from pushdown_spark.output.files.file_output import open_output
from pushdown_spark.output.source_protection import OTHER_OUTPUT, OTHER_SOURCE, OWN_SOURCE, ReadPath
from pushdown_spark.relations.tables import table_directories
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.query_metrics import job_tag
from pushdown_spark.scan.base_scan import WorkerUse
from pushdown_spark.session import PushdownSession


@dataclass
class SharedApplication:
    """What the queries of one Spark application share. `has_workers` is whether Python workers have been started."""

    spark: SparkSession
    has_workers: bool = False


class QueryRun(ABC):
    """One run of the query of a job spec. It keeps partial results, so that a failed job has them too."""

    def __init__(self, spark: SparkSession, spec: JobSpec, secrets: SecretValues) -> None:
        """`spec` has a query. A job with several scans has a spec for each."""
        assert spec.query is not None
        self._spark = spark
        self._spec = spec
        self._query = spec.query
        self._secrets = secrets
        self._output: Output | None = None
        self._checks: tuple[CheckReport, ...] = ()
        self.sources: dict[str, SourceReport] = {}
        """The reports of the sources, as far as they are known."""
        self.joins: tuple[JoinReport, ...] = ()
        """The reports of the joins, as far as they are known."""

    @abstractmethod
    def plan(self) -> PushdownResult:
        """Plan the query over its sources, without running it."""

    @abstractmethod
    def _open_output(self, output: AnyOutputSpec) -> Output:
        """Return a new attempt of the run to write an output."""

    @abstractmethod
    def _run_query(self, action: Callable[[DataFrame], None]) -> int | None:
        """Run the query, and keep its reports. Return the number of rows."""

    def progress(self) -> Progress | None:
        """Return the progress of the query, or None if it is unknown. Another thread calls this."""
        return None

    def run(self) -> int | None:
        """Write the query to its output. Return the number of rows, or None if mode `ignore` keeps the output."""
        if self._spec.output is None:
            return self._run_query(_compute_all)
        output = self._output = self._open_output(self._spec.output)
        if output.prepare():
            with output.transaction():
                output.staged_rows = self._run_query(output.stage)
        return output.rows

    def report(self, rows: int | None, seconds: float, error: JobError | None) -> ScanReport:
        """Return the outcome, without the reports of the sources."""
        output = self._output
        return ScanReport(
            rows=rows,
            output=output.name if output is not None and error is None else None,
            output_summary=output.summary if output is not None and error is None else None,
            checks=(*self._checks, *(output.checks if output is not None else ())),
            seconds=round(seconds, 3),
            error=error,
        )


class ClassicQueryRun(QueryRun):
    """One run of a query in a session with a JVM."""

    def __init__(
        self,
        application: SharedApplication,
        spec: JobSpec,
        secrets: SecretValues,
        *,
        other_sources: Iterable[AnySourceSpec] = (),
        other_outputs: Iterable[AnyOutputSpec | None] = (),
    ) -> None:
        """`other_sources` and `other_outputs` belong to the other scans of the job. The output must not delete them."""
        super().__init__(application.spark, spec, secrets)
        self._application = application
        self._other_sources = tuple(other_sources)
        self._other_outputs = tuple(other_outputs)
        self._progress: QueryProgress | None = None
        """Set while the query runs."""

    def plan(self) -> PushdownResult:
        """Plan the query over its sources, without running it."""
        session = PushdownSession(self._spark, has_just_started=not self._application.has_workers)
        for name, source in self._spec.sources.items():
            session.add(name, source, self._secrets.remote.get(name))
        return session.query(self._query)

    def progress(self) -> Progress | None:
        """Return the progress of the query, or None unless it runs."""
        progress = self._progress
        return None if progress is None else progress.measure()

    def _open_output(self, output: AnyOutputSpec) -> Output:
        run_key, generation = self._spec.run_key, self._spec.generation
        if isinstance(output, TableOutputSpec):
            if self._secrets.output is None:
                raise BadSpecError(
                    "output_table: a table of a database needs its connection; give it as `output` in the secrets"
                )
            return open_database_output(self._spark, output, self._secrets.output, run_key, generation)
        sources = self._source_paths()
        if isinstance(output, CatalogOutputSpec):
            return open_catalog_output(self._spark, output, run_key, generation, sources=sources)
        return open_output(self._spark, output, run_key, generation=generation, sources=sources)

    def _source_paths(self) -> Iterator[ReadPath]:
        """Yield the paths of the sources, with glob characters, and the directories of tables and other outputs."""
        for source in (*self._spec.sources.values(), *self._other_sources):
            paths: Iterable[str] = ()
            if isinstance(source, SourceSpec):
                paths = source.path
            elif isinstance(source, TableSourceSpec):
                # Another scan reports that its table is missing.
                with suppress(PushdownError) if source in self._other_sources else nullcontext():
                    paths = map(escape_glob, table_directories(self._spark, source))
            for path in paths:
                owner = OTHER_SOURCE if source in self._other_sources else OWN_SOURCE
                yield ReadPath(path, _is_recursive(source), owner)
        for output in self._other_outputs:
            if isinstance(output, OutputSpec):
                yield ReadPath(escape_glob(output.path), owner=OTHER_OUTPUT)

    def _run_query(self, action: Callable[[DataFrame], None]) -> int | None:
        query = self._plan_with_workers()
        try:
            with job_tag(self._spark) as tag:
                self._progress = QueryProgress(self._spark, tag, query.progress)
                query.run(action, single_pass=True)
        except KeyboardInterrupt:
            # Running tasks would write files that the clean-up has just deleted.
            self._spark.sparkContext.cancelAllJobs()
            raise
        finally:
            self._progress = None
        self.sources, self.joins = query.report(), query.joins()
        self._checks = tuple(self._malformed_checks())
        raise_failures(self._checks)
        return query.rows

    def _plan_with_workers(self) -> PushdownResult:
        """Plan the query, and keep the reports of the plan. Start the Python workers if it needs the first ones."""
        python_formats = [source.format for source in self._spec.sources.values() if needs_python(source)]
        is_first = not self._application.has_workers
        # The check of the Python workers runs while the query is planned.
        finish_check = start_version_check(self._spark.sparkContext) if python_formats and is_first else None
        query = self.plan()
        self.sources, self.joins = query.report(), query.joins()
        if is_first and query.worker_use is WorkerUse.ALWAYS:
            warm_up_workers(self._spark, python_formats)
            self._application.has_workers = True
        if finish_check is not None and query.worker_use is not WorkerUse.NEVER:
            finish_check()
        return query

    def _malformed_checks(self) -> Iterator[CheckReport]:
        """Yield the results of the sources' limits of malformed lines."""
        for name, source in self._spec.sources.items():
            limit = source.max_malformed if isinstance(source, SourceSpec) else None
            if limit is not None:
                count = self.sources[name].malformed_lines
                yield CheckReport(
                    check=f"max_malformed: {name}",
                    required=f"at most {limit:,} malformed lines",
                    found="a number that Spark did not report" if count is None else f"{count:,}",
                    passed=count is not None and count <= limit,
                )


def _is_recursive(source: AnySourceSpec) -> bool:
    """Return whether Spark lists the directories of a source at any depth."""
    if isinstance(source, RemoteSourceSpec):
        return False
    options = {key.lower(): value for key, value in source.options.items()}
    return is_option_on(options, "recursivefilelookup")


def _compute_all(frame: DataFrame) -> None:
    """Compute every row without writing any."""
    frame.write.format("noop").mode("overwrite").save()
