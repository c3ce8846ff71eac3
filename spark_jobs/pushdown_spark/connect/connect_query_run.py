"""One run of a query in a session of a Spark Connect server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame

from pushdown_spark.connect.connect_output import open_connect_output
from pushdown_spark.connect.query import ConnectResult, plan_query
from pushdown_spark.connect.relation import ConnectRelation
from pushdown_spark.contract import AnyOutputSpec, OutputSpec, RemoteSourceSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.base_output import Output
from pushdown_spark.query_run import QueryRun
from pushdown_spark.sources.declaration import Source


class ConnectQueryRun(QueryRun):
    """One run of the query of a job spec over Spark's public API."""

    def plan(self) -> ConnectResult:
        """Plan the query over its sources, without running it."""
        return plan_query(self._spark, self._sources(), self._query)

    def _sources(self) -> dict[str, Source]:
        """Return the declared sources by name. Raises BadSpecError for tables of databases."""
        sources = {}
        for name, source in self._spec.sources.items():
            if isinstance(source, RemoteSourceSpec):
                raise _connect_error(f"source {name!r}: a table of a database cannot be read")
            sources[name] = Source.of(name, source)
        return sources

    def _open_output(self, output: AnyOutputSpec) -> Output:
        if not isinstance(output, OutputSpec):
            raise _connect_error("output_table: a table cannot be written all or nothing")
        return open_connect_output(self._spark, output, self._spec.run_key, self._spec.generation, self._read_files)

    def _read_files(self) -> Iterator[str]:
        """Yield the URIs of the files that the sources read."""
        for source in self._sources().values():
            yield from ConnectRelation.open(self._spark, source).spark_frame.inputFiles()

    def _run_query(self, action: Callable[[DataFrame], None]) -> int | None:
        query = self.plan()
        self.sources = query.report()
        try:
            query.run(action, single_pass=True)
        except KeyboardInterrupt:
            # The server would go on writing files that the clean-up has just deleted.
            self._spark.interruptAll()
            raise
        self.sources = query.report()
        return query.rows


def _connect_error(problem: str) -> BadSpecError:
    return BadSpecError(f"{problem} over Spark Connect; use a connection of type spark")
