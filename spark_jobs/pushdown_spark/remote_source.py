"""A declared remote table, opened: its columns are known, its scans can be planned."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError, UnknownColumnError
from pushdown_spark.expressions.constant_folding import folding
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.projection.resolve import Projection, resolve
from pushdown_spark.readers.predicate_settings import misread
from pushdown_spark.readers.protocol import RemoteSource, ScanRequest, TableStatistics, undivided, unsupported
from pushdown_spark.readers.remote.address import address_of
from pushdown_spark.readers.remote.catalog import described
from pushdown_spark.readers.remote.classify import Classified, classify
from pushdown_spark.readers.remote.connections import Connections
from pushdown_spark.readers.remote.jdbc import jdbc_route
from pushdown_spark.readers.remote.model import Dialect, RemoteTable
from pushdown_spark.readers.remote.rules import SparkRules
from pushdown_spark.readers.remote.scan import RemotePlan, RemoteScan, may_be_gathered
from pushdown_spark.readers.remote.stand_in import StandIn
from pushdown_spark.readers.remote.statistics import statistics
from pushdown_spark.readers.remote.whole import AnswerScan, answered
from pushdown_spark.result import Shape
from pushdown_spark.source import OpenedSource, PlannedScan, WholeAnswer


class PlannedRemoteScan(PlannedScan):
    """A scan that nothing can take over: only we read the table."""

    def fallback(self, shaped: Callable[[DataFrame], DataFrame]) -> Callable[[str], Shape] | None:
        """Nothing."""
        return None


class OpenedRemote(OpenedSource):
    """A table whose columns are known. Raises RemoteRefusedError or RemoteFailedError where they are not told."""

    def __init__(self, spark: SparkSession, source: RemoteSource) -> None:
        self._spark = spark
        self._source = source.as_files
        self._case_sensitive = spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        self._remote = source
        self._address = address_of(source.connection)
        self._connections = Connections(self._address, source.spec)
        with self._connections.lent() as client:
            self._table = described(client, source.connection.kind, source.spec)
            self._route = jdbc_route(spark, client, self._address, source.spec, self._table)
        self._stand_in = StandIn(spark, f"{self._address.place}: {_named(self._table)}", self.schema)

    @property
    def native(self) -> DataFrame:
        """The columns, of which no row can be read."""
        return self._stand_in.frame()

    @property
    def schema(self) -> StructType:
        """The columns as Spark gets them."""
        return self._table.spark_schema

    @property
    def roots(self) -> tuple[str, ...]:
        """A table has no directories."""
        return ()

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """The columns asked for, resolved. Raises UnknownColumnError for those that only files have."""
        projection = resolve(
            columns, self.schema, sys.maxsize, case_sensitive=self._case_sensitive, origin=self._origin
        )
        if projection.implicit:
            raise UnknownColumnError(
                f"source {self._remote.name!r} is a remote table and has no file columns such as "
                f"{', '.join(projection.implicit)}; leave them out"
            )
        return projection

    def _origin(self, column: str) -> str:
        """Where a column's type was found, in words."""
        return f"so it is in the {'query' if self._remote.spec.table is None else 'table'} of {self._remote.name!r}"

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """What must be read for a projection and a predicate."""
        predicate = None if where is None else Predicate.parse(where)
        columns = set(projection.table_columns)
        if predicate is not None:
            tree = predicate.tree
            columns |= set(self.schema.fieldNames()) if tree is None else self.mentioned(tree)
        return self._request(tuple(name for name in self.schema.fieldNames() if name in columns), predicate)

    def planned(self, request: ScanRequest, notes: tuple[str, ...]) -> PlannedScan:
        """The scan with everything pushed that can be; behind it only what Spark may analyse."""
        classified = self._classified(request)
        reason = "the table is in a database, which evaluates what means the same there"
        scan = self._scan(request, classified, notes, reason)
        return PlannedRemoteScan(scan, lambda _: self._stand_in, is_understood=scan.exact)

    def answer(self, query: exp.Select, request: ScanRequest, notes: tuple[str, ...]) -> WholeAnswer | None:
        """The first rows of an order, counts, extremes and groups, where the predicate is exact."""
        spec, filters = self._remote.spec, query.args.get("where") is not None
        if not spec.filter_pushdown or (filters and request.predicate is None):
            return None
        classified = self._classified(request)
        if filters and not classified.conjuncts:
            return None
        found = answered(query, self._table, classified, case_sensitive=self._case_sensitive)
        if found is None:
            return None
        scan = AnswerScan(self._spark, found, self._table, spec, self._connections).planned(classified, notes)
        return WholeAnswer(scan, found.shaped)

    def statistics(self, where: str | None, columns: Sequence[str]) -> TableStatistics | None:
        """What the database expects of a predicate and some columns, None where it cannot be asked. Reads no row."""
        classified = self._classified(self.request(self.projection(list(columns)), where))
        try:
            with self._connections.lent() as client:
                found = statistics(client, self._table, columns or self.schema.fieldNames()[:1], classified)
        except (RemoteFailedError, RemoteRefusedError):
            # Estimates are an extra: a catalogue that this user may not read must not make the query fail.
            return None
        may_gather = may_be_gathered(self._remote.spec)
        return found if found is None or may_gather else replace(found, few=False)

    def _request(self, columns: tuple[str, ...], predicate: Predicate | None) -> ScanRequest:
        return ScanRequest(self._source, self._stand_in.frame, self.schema, columns, (), predicate)

    def _classified(self, request: ScanRequest) -> Classified:
        """What the database can evaluate of the predicate as Spark would."""
        predicate = request.predicate
        if predicate is None or not self._remote.spec.filter_pushdown or undivided(predicate):
            return _nothing(self._table.dialect)
        alike = misread(self._spark, predicate.sql) is None
        rules = SparkRules(case_sensitive=self._case_sensitive, trusted=alike, fold=folding(self._spark))
        return classify(predicate.conjuncts, self._table, rules)

    def _scan(self, request: ScanRequest, classified: Classified, notes: tuple[str, ...], reason: str) -> RemoteScan:
        # A statement without columns would leave its rows with no batch to count them in.
        columns = request.columns or tuple(self.schema.fieldNames()[:1])
        exact = request.predicate is None or (bool(classified.conjuncts) and classified.is_exact)
        reports = classified.reports or self._left(request)
        plan = RemotePlan(
            *(self._table, columns, classified, reports, exact, self._remote.spec, self._connections, reason, notes),
            route=self._route,
        )
        return RemoteScan(self._spark, plan)

    def _left(self, request: ScanRequest) -> tuple[ConjunctReport, ...]:
        """The conjuncts where all of them are left to Spark."""
        predicate = request.predicate
        if predicate is None:
            return ()
        reason = undivided(predicate) or "nothing is pushed"
        if predicate.tree is None:
            reason = "the predicate is beyond the parser, Spark alone evaluates it"
        return tuple(unsupported(text, reason) for text in predicate.conjunct_texts)


def _named(table: RemoteTable) -> str:
    """A table by its names, a query by its text."""
    return table.subquery or ".".join(filter(None, (table.catalog, table.schema, table.name)))


def _nothing(dialect: Dialect) -> Classified:
    """No condition at all."""
    return Classified(dialect, ())
