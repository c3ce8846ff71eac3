"""The scan of a table or query of a database."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, RemoteSourceSpec, SourceReport, Transport
from pushdown_spark.databases.client import Client, DatabaseAddress
from pushdown_spark.databases.read.database_statistics import MAX_FEW_ROWS, expects_few_rows
from pushdown_spark.databases.read.jdbc import ARROW, TransportChoice
from pushdown_spark.databases.read.mysql_selectivity import is_key_lookup_faster, key_lookup_query, sample_selectivity
from pushdown_spark.databases.read.partition_splits import (
    PartitionSplits,
    indivisible_scan,
    plan_splits,
    single_partition,
)
from pushdown_spark.databases.read.transport import QueryExecution
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.sql.remote_query import RemoteQuery, row_query
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable
from pushdown_spark.errors import BadSpecError, LostConnectionError, RemoteFailedError, UnsupportedError
from pushdown_spark.scan.base_scan import Scan, WorkerUse

_MAX_SAMPLED_ROWS = 20_000
"""The driver fetches the rows if a sample estimates at most this number, its error included."""
_LIMITED = single_partition("a limited result is one partition")


@dataclass(frozen=True, kw_only=True)
class DatabaseScanPlan:
    """A planned scan: the columns of a table, and the predicate that its database evaluates.

    `lookup_key` has the columns of the primary key if the rows are to be looked up by it.
    """

    table: RemoteTable
    columns: tuple[str, ...]
    predicate: PushedPredicate
    conjuncts: tuple[ConjunctReport, ...]
    is_exact: bool
    spec: RemoteSourceSpec
    address: DatabaseAddress
    notes: tuple[str, ...] = ()
    transport: TransportChoice = ARROW
    limit: int | None = None
    lookup_key: tuple[str, ...] = ()

    @cached_property
    def query(self) -> RemoteQuery:
        """The query of the whole table. It is kept because writing thousands of constants takes time."""
        return self.query_over(self.table)

    def query_over(self, table: RemoteTable, bounds: exp.Expr | None = None) -> RemoteQuery:
        """Return the query of a partition, the whole table without `bounds`. `table` has the transport's columns."""
        query = row_query(table, self.columns, self.predicate, limit=self.limit, bounds=bounds)
        return key_lookup_query(query, table, self.lookup_key) if self.lookup_key and bounds is None else query

    @property
    def schema(self) -> t.StructType:
        """The columns of the scan, in the order of the table."""
        names = set(self.columns)
        return t.StructType([field for field in self.table.spark_schema.fields if field.name in names])

    def with_limit(self, limit: int) -> DatabaseScanPlan | None:
        """Return the plan of at most `limit` rows, or None if Spark has to drop rows."""
        plan = replace(self, limit=limit)
        return plan if self.is_exact and plan.query.is_limited else None

    def transport_for(self, *, is_small: bool) -> TransportChoice:
        """Return the transport of the columns. Arrow is faster for small results.

        Raises BadSpecError if the source requires JDBC, and a column can only be read as Arrow.
        """
        if self.transport.jdbc is None:
            return self.transport
        is_required = self.spec.transport is Transport.JDBC
        try:
            self.transport.jdbc.check_columns(self.columns)
        except UnsupportedError as problem:
            if is_required:
                raise BadSpecError(f"transport: 'jdbc' is not possible: {problem}; leave the column out") from problem
            return TransportChoice(reason=str(problem))
        if is_small and not is_required:
            return TransportChoice(reason="it is faster for a small result")
        return self.transport


@dataclass(frozen=True)
class DatabaseRead:
    """The plan of one read: its partitions, and the name of the snapshot that all of them read."""

    scan: DatabaseScanPlan
    splits: PartitionSplits
    snapshot: str | None = None


class DatabaseScan(Scan):
    """A scan whose rows arrive as Arrow through Python workers, or over Spark's JDBC source."""

    def __init__(self, spark: SparkSession, plan: DatabaseScanPlan) -> None:
        self._spark = spark
        self._plan = plan
        self._execution = QueryExecution(spark, plan.address, plan.spec, plan.table)
        self._next_read: DatabaseRead | None = None
        """The plan that `fetch_local` made for the next call of `frame`."""
        self._release_snapshot: weakref.finalize[[], DatabaseScan] | None = None
        """Closes the connection that exports the snapshot."""

    @property
    def needs_recheck(self) -> bool:
        """Whether Spark has to evaluate the predicate, because the database may evaluate it in another way."""
        return not self._plan.is_exact

    @property
    def worker_use(self) -> WorkerUse:
        """The driver, or Spark's JDBC source, may fetch the rows instead."""
        return WorkerUse.POSSIBLE

    def frame(self) -> DataFrame:
        """Return the rows."""
        read, self._next_read = self._next_read, None
        return self._read(read or self._plan_read())

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return whether the rows that the scan counts are the rows of the result."""
        return not has_predicate or self._plan.is_exact

    def incremental(self, limit: int) -> Iterator[DataFrame] | None:
        """Return the rows of a statement with a LIMIT as one piece, or None if Spark has to drop rows."""
        frame = self.limited_frame(limit)
        return None if frame is None else iter((frame,))

    def limited_frame(self, limit: int) -> DataFrame | None:
        """Return at most `limit` rows, or None if Spark has to drop rows.

        The statement has the LIMIT. Spark's LIMIT would end the Python worker early, which takes seconds.
        """
        plan = self._plan.with_limit(limit)
        if plan is None:
            return None
        is_small = limit <= MAX_FEW_ROWS
        return self._read(DatabaseRead(plan, replace(_LIMITED, has_few_rows=is_small, is_small=is_small)))

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the rows in the driver, or return None if many are expected or options set the transport."""
        plan = self._plan if limit is None else self._plan.with_limit(limit)
        if plan is None or not allows_local_fetch(plan.spec) or (limit is not None and limit > MAX_FEW_ROWS):
            return None
        with suppress(LostConnectionError), closing(self._execution.connect()) as client:
            read, is_small = self._estimate(client, plan)
            self._next_read = None if plan.limit is not None else read
            if is_small:
                return self._execution.fetch_local(client, read.scan.query.sql, plan.schema)
        return None

    def close(self) -> None:
        """Release the shared snapshot and the planned read."""
        if self._release_snapshot is not None:
            self._release_snapshot()
        self._next_read = self._release_snapshot = None

    def report(self) -> SourceReport:
        """Return the plan, with metrics after a run."""
        plan = self._plan
        reason = "the table is in a database, which evaluates conjuncts with identical semantics"
        plan_report = SourceReport(
            reader="remote", reason=reason, conjuncts=plan.conjuncts, columns=plan.columns, notes=plan.notes
        )
        return self._execution.report(plan_report, plan.query.sql)

    def _estimate(self, client: Client, plan: DatabaseScanPlan) -> tuple[DatabaseRead, bool]:
        """Plan the read, and return whether the driver may fetch its rows: the database expects few, and soon."""
        # While SQLite's library searches for rows, signals do not reach the driver. A LIMIT alone does not make a
        # filtered scan fast, so SQLite's query plan decides.
        is_sqlite_search = plan.table.dialect is Dialect.SQLITE and plan.predicate.conjuncts
        if plan.limit is not None and not is_sqlite_search:
            return DatabaseRead(plan, _LIMITED), True
        splits = indivisible_scan(plan.table, plan.spec)
        if splits is None:
            read = self._plan_splits(client)
            return read, read.splits.has_few_rows
        if expects_few_rows(client, plan.table, plan.query.sql):
            return DatabaseRead(plan, splits), True
        return _sampled_read(client, DatabaseRead(plan, splits))

    def _plan_read(self) -> DatabaseRead:
        """Plan the read of all rows in tasks."""
        splits = indivisible_scan(self._plan.table, self._plan.spec)
        if splits is not None:
            return DatabaseRead(self._plan, splits)
        with closing(self._execution.connect()) as client:
            return self._plan_splits(client)

    def _plan_splits(self, client: Client) -> DatabaseRead:
        """Plan the splits. Several consistent partitions read a snapshot, whose connection stays open until `close`."""
        plan = self._plan
        self.close()
        parallelism = self._spark.sparkContext.defaultParallelism
        splits = plan_splits(client, plan.table, plan.spec, plan.query.sql, parallelism)
        if len(splits.conditions) == 1 or not plan.spec.consistent:
            return DatabaseRead(plan, splits)
        from pushdown_spark.databases.clients.postgresql import PostgresqlClient

        exporter = self._execution.connect()
        self._release_snapshot = weakref.finalize(self, exporter.close)
        # Splits of other databases have several partitions only with `consistent=False`.
        assert isinstance(exporter, PostgresqlClient)
        return DatabaseRead(plan, splits, exporter.export_snapshot())

    def _read(self, read: DatabaseRead) -> DataFrame:
        """Return the rows of the partitions."""
        plan, splits, partitioning = read.scan, read.splits, read.splits.reason
        transport = plan.transport_for(is_small=splits.is_small)
        if (jdbc := transport.jdbc) is not None:
            queries = [plan.query_over(jdbc.jdbc_table, condition) for condition in splits.conditions]
            statements = tuple(jdbc.statement(query.select) for query in queries)
            try:
                frame = jdbc.frame(statements, plan.columns, read.snapshot)
                return self._execution.jdbc_frame(frame, statements, f"{partitioning}; over Spark's JDBC source")
            except RemoteFailedError as problem:
                # Drivers log in differently. Adding a driver's jar must not fail a job that worked without it.
                if plan.spec.transport is Transport.JDBC:
                    raise
                transport = TransportChoice(reason=str(problem))
        queries = [
            plan.query if condition is None else plan.query_over(plan.table, condition)
            for condition in splits.conditions
        ]
        partitioning = f"{partitioning}; as Arrow: {transport.reason}" if transport.reason else partitioning
        statements = tuple(query.sql for query in queries)
        return self._execution.frame(
            statements, plan.schema, partitioning, has_few_rows=splits.has_few_rows, snapshot=read.snapshot
        )


def _sampled_read(client: Client, read: DatabaseRead) -> tuple[DatabaseRead, bool]:
    """Plan a read again by a sample, and return whether the sample estimates that few rows pass.

    MySQL does not estimate conditions without an index itself.
    """
    plan, condition = read.scan, read.scan.predicate.where
    if not plan.table.dialect.is_mysql or plan.table.subquery is not None or condition is None:
        return read, False
    sample = sample_selectivity(client, plan.table, condition)
    if sample is None:
        return read, False
    if is_key_lookup_faster(sample.fraction, plan.columns, sample.key, condition):
        read = replace(read, scan=replace(plan, lookup_key=sample.key))
    return read, sample.rows <= _MAX_SAMPLED_ROWS


def allows_local_fetch(spec: RemoteSourceSpec) -> bool:
    """Return whether the driver may fetch few rows: no option sets the transport or the partitions."""
    return spec.transport is not Transport.JDBC and spec.partition_column is None and spec.num_partitions is None
