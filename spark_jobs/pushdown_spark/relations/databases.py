"""Relations of databases: tables and queries whose columns are known."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport
from pushdown_spark.databases.address import Address, address_of
from pushdown_spark.databases.catalog import described
from pushdown_spark.databases.classify import Classified, classify
from pushdown_spark.databases.connections import Connections
from pushdown_spark.databases.jdbc import JdbcRoute, jdbc_route
from pushdown_spark.databases.model import RemoteTable
from pushdown_spark.databases.rules import SparkRules
from pushdown_spark.databases.scan import RemotePlan, RemoteScan, may_be_gathered
from pushdown_spark.databases.stand_in import StandIn
from pushdown_spark.databases.statistics import statistics
from pushdown_spark.databases.whole import Answered, AnswerScan, answered
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError, UnknownColumnError
from pushdown_spark.folding import folding
from pushdown_spark.predicates.parse import conjuncts, parse_predicate
from pushdown_spark.projection.resolve import Projection, resolve
from pushdown_spark.readers.predicate_settings import misread
from pushdown_spark.relations.base import Relation, TableStatistics
from pushdown_spark.relations.declaration import RemoteSource
from pushdown_spark.relations.request import ScanRequest, undivided, unsupported


class DatabaseRelation(Relation):
    """A table or query of a database. `open` makes one: it asks the database for the columns."""

    def __init__(
        self,
        spark: SparkSession,
        source: RemoteSource,
        connections: Connections,
        table: RemoteTable,
        route: JdbcRoute | str,
    ) -> None:
        """`route` is the way over JDBC, or why there is none."""
        declaration = source.as_files
        super().__init__(spark, declaration.catalog)
        self.source = declaration
        self._remote = source
        self._connections = connections
        self._table = table
        self._route = route
        place = address_of(source.connection).place
        self.stand_in = StandIn(spark, f"{place}: {_full_name(table)}", table.spark_schema)
        """A scan with the columns of the table and without its rows."""

    @classmethod
    def open(cls, spark: SparkSession, source: RemoteSource) -> DatabaseRelation:
        """Ask the database for the columns. Raises RemoteRefusedError and RemoteFailedError."""
        address: Address = address_of(source.connection)
        connections = Connections(address, source.spec)
        with connections.lent() as client:
            table = described(client, source.connection.kind, source.spec)
            route = jdbc_route(spark, client, address, source.spec, table)
        return cls(spark, source, connections, table, route)

    @property
    def native(self) -> DataFrame:
        """A DataFrame with the columns of the table. Reading a row of it is an error."""
        return self.stand_in.frame()

    @property
    def schema(self) -> StructType:
        """The columns with their Spark types."""
        return self._table.spark_schema

    def projection(self, columns: Sequence[str] | None) -> Projection:
        """Resolve the columns of a query, all with None. Raises UnknownColumnError, also for columns of files."""
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
        """Return where a column's type comes from, for error messages."""
        return f"so it is in the {'query' if self._remote.spec.table is None else 'table'} of {self._remote.name!r}"

    def request(self, projection: Projection, where: str | None) -> ScanRequest:
        """Return what must be read for a projection and a predicate."""
        predicate = None if where is None else parse_predicate(where)
        columns = set(projection.table_columns)
        if where is not None:
            columns |= set(self.schema.fieldNames()) if predicate is None else self.referenced_columns(predicate)
        selected = tuple(name for name in self.schema.fieldNames() if name in columns)
        return ScanRequest(self.source, self.stand_in.frame, self.schema, selected, (), where, predicate)

    def statistics(self, where: str | None, columns: Sequence[str]) -> TableStatistics | None:
        """Return the database's estimates for a predicate and some columns, None if it has none. Reads no row."""
        classified = self._classify(self.request(self.projection(list(columns)), where))
        try:
            with self._connections.lent() as client:
                estimates = statistics(client, self._table, columns or self.schema.fieldNames()[:1], classified)
        except (RemoteFailedError, RemoteRefusedError):
            # Estimates are optional: a catalog that the user may not read must not fail the query.
            return None
        may_fetch_local = may_be_gathered(self._remote.spec)
        return estimates if estimates is None or may_fetch_local else replace(estimates, few=False)

    def scan(self, request: ScanRequest, notes: tuple[str, ...]) -> RemoteScan:
        """Return the scan with every conjunct pushed down that the database evaluates as Spark does."""
        classified = self._classify(request)
        # A statement without columns returns batches without rows.
        columns = request.columns or tuple(self.schema.fieldNames()[:1])
        is_exact = request.where is None or (bool(classified.conjuncts) and classified.is_exact)
        reports = classified.reports or _unsupported_conjuncts(request)
        reason = "the table is in a database, which evaluates what means the same there"
        plan = RemotePlan(
            *(self._table, columns, classified, reports, is_exact, self._remote.spec, self._connections, reason, notes),
            route=self._route,
        )
        return RemoteScan(self._spark, plan)

    def full_pushdown(
        self, query: exp.Select, request: ScanRequest, notes: tuple[str, ...]
    ) -> tuple[AnswerScan, Answered] | None:
        """Return the scan of a whole query: the first rows of an order, counts, extremes and groups.

        None if the database cannot run the query as Spark does; the predicate must be exact.
        """
        spec, has_where = self._remote.spec, query.args.get("where") is not None
        if not spec.filter_pushdown or (has_where and request.where is None):
            return None
        classified = self._classify(request)
        if has_where and not classified.conjuncts:
            return None
        answer = answered(query, self._table, classified, case_sensitive=self._case_sensitive)
        if answer is None:
            return None
        scan = AnswerScan(self._spark, answer, self._table, spec, self._connections).planned(classified, notes)
        return scan, answer

    def _classify(self, request: ScanRequest) -> Classified:
        """Return the conjuncts that the database evaluates as Spark does."""
        if request.predicate is None or not self._remote.spec.filter_pushdown or undivided(request.where):
            return Classified(self._table.dialect, ())
        is_trusted = misread(self._spark, request.where or "") is None
        rules = SparkRules(case_sensitive=self._case_sensitive, trusted=is_trusted, fold=folding(self._spark))
        return classify(request.predicate, self._table, rules)


def _unsupported_conjuncts(request: ScanRequest) -> tuple[ConjunctReport, ...]:
    """Return the reports of a predicate of which nothing is pushed down."""
    if request.where is None:
        return ()
    if request.predicate is None:
        return (unsupported(request.where, "the predicate is beyond the parser, Spark alone evaluates it"),)
    conjunct_sql = (conjunct.sql(dialect="spark", copy=False) for conjunct in conjuncts(request.predicate))
    return tuple(unsupported(sql, undivided(request.where) or "nothing is pushed") for sql in conjunct_sql)


def _full_name(table: RemoteTable) -> str:
    """Return the qualified name of a table, or the SQL of a query."""
    return table.subquery or ".".join(filter(None, (table.catalog, table.schema, table.name)))
