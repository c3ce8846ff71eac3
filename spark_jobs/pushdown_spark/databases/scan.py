"""A scan of a remote table as the session sees it: frames, limits, and the report."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, RemoteSourceSpec, SourceReport, Transport
from pushdown_spark.databases.address import Settings
from pushdown_spark.databases.classify import Classified
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.connections import Connections
from pushdown_spark.databases.jdbc import JdbcRoute
from pushdown_spark.databases.keys_first import is_worth, keys_first
from pushdown_spark.databases.model import Dialect, RemoteTable
from pushdown_spark.databases.mysql_sample import sampled
from pushdown_spark.databases.query import RemoteQuery, remote_query
from pushdown_spark.databases.run import RemoteRun, wanted_field
from pushdown_spark.databases.slices import FEW_ROWS, LIGHT_ROWS, Slices, expects_few, may_be_sliced, slices, whole
from pushdown_spark.errors import BadSpecError, LostConnectionError, RemoteFailedError
from pushdown_spark.scan.base import IncrementalScan, Scan
from pushdown_spark.scan.incremental import OnePiece

_MOST_FOUND = 20_000
"""Rows that may pass by a look at some, errors of the sample included, for the driver to fetch them."""


@runtime_checkable
class SharesSnapshots(Protocol):
    """A client whose state of the database other connections can read as well."""

    def export_snapshot(self) -> str:
        """The snapshot's name, good until the client closes."""


@dataclass(frozen=True)
class RemotePlan:
    """What is asked of a table: its columns, and what of the predicate its database takes over."""

    table: RemoteTable
    columns: tuple[str, ...]
    classified: Classified
    conjuncts: tuple[ConjunctReport, ...]
    exact: bool
    spec: RemoteSourceSpec
    connections: Connections
    reason: str
    notes: tuple[str, ...] = ()
    route: JdbcRoute | str = ""

    def carried(self, *, small: bool) -> JdbcRoute | str:
        """The way over JDBC, or why the rows come as Arrow. A small answer is there before Spark's source asks."""
        if isinstance(self.route, str):
            return self.route
        refusal = self.route.refusal(self.columns)
        if self.spec.transport is Transport.JDBC:
            if refusal is not None:
                raise BadSpecError(f"transport: 'jdbc' is not possible: {refusal}; leave the column out")
            return self.route
        return refusal or ("a small answer comes faster so" if small else self.route)


class RemoteScan(Scan):
    """A planned scan whose rows come as Arrow through Python workers, or over Spark's JDBC source."""

    def __init__(self, spark: SparkSession, plan: RemotePlan) -> None:
        self._spark = spark
        self._plan = plan
        self._run = RemoteRun(spark, plan.connections, plan.spec)
        self._held: weakref.finalize[[], RemoteScan] | None = None
        self._snapshot: str | None = None
        self._ahead: Slices | None = None
        self._uncut: dict[int | None, RemoteQuery] = {}
        self._key: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the database evaluates the whole predicate as Spark would."""
        return self._plan.exact

    def frame(self) -> DataFrame:
        """The rows that the database lets through, in partitions that all see one state where it can give one."""
        cut = self._cut()
        settings = Settings(snapshot=self._snapshot, few=cut.few or cut.light)
        return self._reading(None, cut.conditions, settings, cut.how, small=cut.few or cut.small)

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return whether the rows that the scan counts are the rows of the result."""
        return not has_predicate or self.is_exact

    def incremental(self, limit: int) -> IncrementalScan | None:
        """Return the rows of a statement with a LIMIT, or None if Spark has to drop rows."""
        frame = self.limited_frame(limit)
        return None if frame is None else OnePiece(frame)

    def limited_frame(self, limit: int) -> DataFrame | None:
        """At most `limit` rows, which need no LIMIT of Spark's: ending a Python worker early takes seconds."""
        if not self.is_exact or not self._in_one_piece(limit).limited:
            return None
        settings = Settings(few=limit <= LIGHT_ROWS)
        small = limit <= FEW_ROWS
        return self._reading(limit, (None,), settings, "a limited answer comes in one piece", small=small)

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """The rows at hand, where the database expects few. None where the user says how they are to come."""
        plan, query = self._plan, self._in_one_piece(limit)
        if not may_be_gathered(plan.spec):
            return None
        if limit is not None and (limit > FEW_ROWS or not self.is_exact or not query.limited):
            return None
        # SQLite's library lets no signal through while it looks for rows: it is asked for what it finds at once.
        is_server = plan.table.dialect is not Dialect.SQLITE
        with suppress(LostConnectionError):
            return self._gathered(query.sql, small=limit is not None and (is_server or not plan.classified.conjuncts))
        return None

    def _gathered(self, statement: str, *, small: bool) -> DataFrame | None:
        """The rows, where they are known to be few or the database expects few. What else it told serves `frame`."""
        plan = self._plan
        client = plan.connections.opened()
        with ExitStack() as stack:
            stack.callback(client.close)
            if not small and plan.table.dialect is Dialect.POSTGRES and may_be_sliced(plan.table, plan.spec) is None:
                cut = self._cut_by(client, stack)
                if not cut.few:
                    self._ahead = cut
                    return None
            elif not small and not expects_few(client, plan.table, statement):
                if not self._found_few(client):
                    return None
                statement = self._in_one_piece().sql
            return self._run.gathered(client, statement, *_fields(plan))

    def _found_few(self, client: Client) -> bool:
        """Whether a look at some rows tells that few pass, where the server expects nothing of a condition."""
        plan, condition = self._plan, self._plan.classified.where
        if not plan.table.dialect.is_mysql or plan.table.subquery is not None or condition is None:
            return False
        found = sampled(client, plan.table, condition)
        if found is None:
            return False
        if is_worth(found.share, plan.columns, found.key, condition):
            self._key = found.key
            self._uncut.pop(None, None)
        return found.rows <= _MOST_FOUND

    def close(self) -> None:
        """Give up the snapshot that the partitions share, and what was found of them."""
        self._ahead = None
        if self._held is not None:
            self._held()
        self._held = self._snapshot = None

    def report(self) -> SourceReport:
        """The plan, and the figures of the partitions that have run."""
        plan = self._plan
        planned = SourceReport(
            reader="remote", reason=plan.reason, conjuncts=plan.conjuncts, columns=plan.columns, notes=plan.notes
        )
        return self._run.report(planned, self._in_one_piece().sql)

    def _in_one_piece(self, limit: int | None = None) -> RemoteQuery:
        """The query of the whole table. It is written once: thousands of values take a tenth of a second."""
        if limit not in self._uncut:
            self._uncut[limit] = self._query(limit)
        return self._uncut[limit]

    def _query(
        self, limit: int | None = None, bounds: exp.Expr | None = None, table: RemoteTable | None = None
    ) -> RemoteQuery:
        plan = self._plan
        known = table or plan.table
        query = remote_query(known, plan.columns, plan.classified, limit=limit, partition_bounds=bounds)
        return keys_first(query, known, self._key) if self._key and limit is None and bounds is None else query

    def _cut(self) -> Slices:
        """How the scan is cut into partitions; with several, the state is held that all of them are to see."""
        plan = self._plan
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            return ahead
        reason = may_be_sliced(plan.table, plan.spec)
        if reason is not None:
            return whole(reason)
        client = plan.connections.opened()
        with ExitStack() as stack:
            stack.callback(client.close)
            return self._cut_by(client, stack)

    def _cut_by(self, client: Client, stack: ExitStack) -> Slices:
        """The same, by a connection that `stack` closes, but for one that holds the state."""
        plan = self._plan
        self.close()
        cut = slices(
            client, plan.table, plan.spec, self._in_one_piece().sql, self._spark.sparkContext.defaultParallelism
        )
        if cut.several and plan.spec.consistent and isinstance(client, SharesSnapshots):
            self._snapshot = client.export_snapshot()
            self._held = weakref.finalize(self, client.close)
            stack.pop_all()
        return cut

    def _reading(
        self, limit: int | None, conditions: Sequence[exp.Expr | None], settings: Settings, how: str, *, small: bool
    ) -> DataFrame:
        """The rows of the statements for some parts of the table, each of them a task."""
        route = self._plan.carried(small=small)
        if isinstance(route, JdbcRoute):
            statements = tuple(route.statement(self._query(limit, part, route.selected).select) for part in conditions)
            try:
                frame = route.frame(statements, self._plan.columns, settings.snapshot)
                return self._run.carried(frame, statements, f"{how}; over Spark's JDBC source")
            except RemoteFailedError as problem:
                # Drivers differ in how they log in: what was read without a jar is read with one as well.
                if self._plan.spec.transport is Transport.JDBC:
                    raise
                route = str(problem)
        queries = [self._in_one_piece(limit) if part is None else self._query(limit, part) for part in conditions]
        return self._by_arrow(queries, settings, f"{how}; as Arrow: {route}" if route else how)

    def _by_arrow(self, queries: Sequence[RemoteQuery], settings: Settings, how: str) -> DataFrame:
        return self._run.frame(tuple(query.sql for query in queries), *_fields(self._plan), settings, how)


def may_be_gathered(spec: RemoteSourceSpec) -> bool:
    """Whether the driver may fetch few rows by itself: the user says nothing of how they are to come."""
    return spec.transport is not Transport.JDBC and spec.partition_column is None and spec.num_partitions is None


def _fields(plan: RemotePlan) -> tuple[list[pa.Field], t.StructType]:
    """The columns as they arrive, and as Spark has them."""
    wanted = set(plan.columns)
    schema = t.StructType([field for field in plan.table.spark_schema.fields if field.name in wanted])
    return [wanted_field(field, plan.table) for field in schema.fields], schema
