"""The scan of a remote table."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, RemoteSourceSpec, SourceReport, Transport
from pushdown_spark.databases.client import Client, ConnectionSettings, DatabaseAddress, SupportsSnapshots, connect
from pushdown_spark.databases.database_statistics import MAX_FEW_ROWS, expects_few_rows
from pushdown_spark.databases.jdbc import ARROW, TransportChoice
from pushdown_spark.databases.mysql_selectivity import is_key_lookup_faster, key_lookup_query, sample_selectivity
from pushdown_spark.databases.partition_splits import (
    PartitionSplits,
    indivisible_scan,
    plan_splits,
)
from pushdown_spark.databases.predicate_pushdown import PushedPredicate
from pushdown_spark.databases.remote_query import RemoteQuery, row_query
from pushdown_spark.databases.remote_table import Dialect, RemoteTable
from pushdown_spark.databases.transport import QueryExecution
from pushdown_spark.errors import BadSpecError, LostConnectionError, RemoteFailedError, UnsupportedError
from pushdown_spark.scan.base import IncrementalScan, OnePiece, Scan

_MAX_SAMPLED_ROWS = 20_000
"""The driver fetches the rows if a sample estimates at most this number, its error included."""


@dataclass(frozen=True)
class RemoteScanPlan:
    """A planned scan: the columns of a table, and the predicate that its database evaluates."""

    table: RemoteTable
    columns: tuple[str, ...]
    predicate: PushedPredicate
    conjuncts: tuple[ConjunctReport, ...]
    is_exact: bool
    spec: RemoteSourceSpec
    address: DatabaseAddress
    notes: tuple[str, ...] = ()
    transport: TransportChoice = ARROW

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


class RemoteScan(Scan):
    """A scan whose rows arrive as Arrow through Python workers, or over Spark's JDBC source."""

    def __init__(self, spark: SparkSession, plan: RemoteScanPlan) -> None:
        self._spark = spark
        self._plan = plan
        self._execution = QueryExecution(spark, plan.address, plan.spec, plan.table)
        self._snapshot: str | None = None
        """The name of a snapshot that all partitions read."""
        self._release: weakref.finalize[[], RemoteScan] | None = None
        """Closes the connection that exports the snapshot."""
        self._splits: PartitionSplits | None = None
        """Splits that `fetch_local` planned, for the next call of `frame`."""
        self._queries: dict[int | None, RemoteQuery] = {}
        """Queries of the whole table by their limit, because writing thousands of constants takes time."""
        self._lookup_key: tuple[str, ...] = ()
        """Columns of the primary key, if the rows are to be looked up by it."""

    @property
    def is_exact(self) -> bool:
        """Whether the database evaluates the whole predicate as Spark would."""
        return self._plan.is_exact

    def frame(self) -> DataFrame:
        """Return the rows."""
        splits = self._take_splits()
        return self._read(None, splits.conditions, splits.reason, few=splits.few, is_small=splits.small)

    def counts_result_rows(self, *, has_predicate: bool) -> bool:
        """Return whether the rows that the scan counts are the rows of the result."""
        return not has_predicate or self.is_exact

    def incremental(self, limit: int) -> IncrementalScan | None:
        """Return the rows of a statement with a LIMIT, or None if Spark has to drop rows."""
        frame = self.limited_frame(limit)
        return None if frame is None else OnePiece(frame)

    def limited_frame(self, limit: int) -> DataFrame | None:
        """Return at most `limit` rows, or None if Spark has to drop rows.

        The statement has the LIMIT. Spark's LIMIT would end the Python worker early, which takes seconds.
        """
        if not self.is_exact or not self._query(limit).is_limited:
            return None
        few = limit <= MAX_FEW_ROWS
        return self._read(limit, (None,), "a limited result is one partition", few=few, is_small=few)

    def fetch_local(self, limit: int | None) -> DataFrame | None:
        """Fetch the rows in the driver if the database expects few. None if not, or if options set the transport."""
        plan, query = self._plan, self._query(limit)
        if not allows_local_fetch(plan.spec):
            return None
        if limit is not None and (limit > MAX_FEW_ROWS or not self.is_exact or not query.is_limited):
            return None
        # While SQLite's library searches for rows, signals do not reach the driver. A LIMIT alone does not make a
        # filtered scan fast, so SQLite's query plan decides.
        is_server = plan.table.dialect is not Dialect.SQLITE
        is_small = limit is not None and (is_server or not plan.predicate.conjuncts)
        with suppress(LostConnectionError), closing(self._connect()) as client:
            if is_small or self._expects_few_rows(client, query.sql):
                return self._execution.fetch_local(client, self._query(limit).sql, self._schema)
        return None

    def _expects_few_rows(self, client: Client, statement: str) -> bool:
        """Return whether the database expects few rows. Splits that are planned on the way serve `frame`."""
        plan = self._plan
        if plan.table.dialect is Dialect.POSTGRES and indivisible_scan(plan.table, plan.spec) is None:
            splits = self._plan_splits(client)
            self._splits = None if splits.few else splits
            return splits.few
        return expects_few_rows(client, plan.table, statement) or self._sample_is_small(client)

    def _connect(self) -> Client:
        return connect(self._plan.address, ConnectionSettings.of(self._plan.spec, few=True))

    @property
    def _schema(self) -> t.StructType:
        """The columns of the scan, in the order of the table."""
        selected = set(self._plan.columns)
        return t.StructType([field for field in self._plan.table.spark_schema.fields if field.name in selected])

    def _sample_is_small(self, client: Client) -> bool:
        """Return whether a sample estimates that few rows pass.

        MySQL does not estimate conditions without an index itself.
        """
        plan, condition = self._plan, self._plan.predicate.where
        if not plan.table.dialect.is_mysql or plan.table.subquery is not None or condition is None:
            return False
        sample = sample_selectivity(client, plan.table, condition)
        if sample is None:
            return False
        if is_key_lookup_faster(sample.share, plan.columns, sample.key, condition):
            self._lookup_key = sample.key
            self._queries.pop(None, None)
        return sample.rows <= _MAX_SAMPLED_ROWS

    def close(self) -> None:
        """Release the shared snapshot and the planned splits."""
        if self._release is not None:
            self._release()
        self._splits = self._snapshot = self._release = None

    def report(self) -> SourceReport:
        """Return the plan, with metrics after a run."""
        plan = self._plan
        reason = "the table is in a database, which evaluates conjuncts with identical semantics"
        planned = SourceReport(
            reader="remote", reason=reason, conjuncts=plan.conjuncts, columns=plan.columns, notes=plan.notes
        )
        return self._execution.report(planned, self._query().sql)

    def _query(self, limit: int | None = None) -> RemoteQuery:
        """Return the query of the whole table."""
        if limit not in self._queries:
            self._queries[limit] = self._write_query(self._plan.table, limit)
        return self._queries[limit]

    def _write_query(self, table: RemoteTable, limit: int | None, bounds: exp.Expr | None = None) -> RemoteQuery:
        plan = self._plan
        query = row_query(table, plan.columns, plan.predicate, limit=limit, bounds=bounds)
        if self._lookup_key and limit is None and bounds is None:
            return key_lookup_query(query, table, self._lookup_key)
        return query

    def _take_splits(self) -> PartitionSplits:
        """Return the splits that `fetch_local` planned, or plan them."""
        plan = self._plan
        splits, self._splits = self._splits, None
        splits = splits or indivisible_scan(plan.table, plan.spec)
        if splits is not None:
            return splits
        with closing(self._connect()) as client:
            return self._plan_splits(client)

    def _plan_splits(self, client: Client) -> PartitionSplits:
        """Plan the splits. Several consistent partitions read a snapshot, whose connection stays open until `close`."""
        plan = self._plan
        self.close()
        parallelism = self._spark.sparkContext.defaultParallelism
        splits = plan_splits(client, plan.table, plan.spec, self._query().sql, parallelism)
        if splits.has_several and plan.spec.consistent:
            exporter = self._connect()
            self._release = weakref.finalize(self, exporter.close)
            # Splits of other databases have several partitions only with `consistent=False`.
            assert isinstance(exporter, SupportsSnapshots)
            self._snapshot = exporter.export_snapshot()
        return splits

    def _read(
        self,
        limit: int | None,
        conditions: Sequence[exp.Expr | None],
        partitioning: str,
        *,
        few: bool,
        is_small: bool,
    ) -> DataFrame:
        """Return the rows of the partitions with these conditions. All partitions read one snapshot if there is one."""
        snapshot = None if limit is not None else self._snapshot
        transport = self._plan.transport_for(is_small=is_small)
        if (jdbc := transport.jdbc) is not None:
            queries = [self._write_query(jdbc.jdbc_table, limit, condition) for condition in conditions]
            statements = tuple(jdbc.statement(query.select) for query in queries)
            try:
                frame = jdbc.frame(statements, self._plan.columns, snapshot)
                return self._execution.jdbc_frame(frame, statements, f"{partitioning}; over Spark's JDBC source")
            except RemoteFailedError as problem:
                # Drivers log in differently. Adding a driver's jar must not fail a job that worked without it.
                if self._plan.spec.transport is Transport.JDBC:
                    raise
                transport = TransportChoice(reason=str(problem))
        queries = [
            self._query(limit) if condition is None else self._write_query(self._plan.table, limit, condition)
            for condition in conditions
        ]
        partitioning = f"{partitioning}; as Arrow: {transport.reason}" if transport.reason else partitioning
        statements = tuple(query.sql for query in queries)
        return self._execution.frame(statements, self._schema, partitioning, few=few, snapshot=snapshot)


def allows_local_fetch(spec: RemoteSourceSpec) -> bool:
    """Return whether the driver may fetch few rows: no option sets the transport or the partitions."""
    return spec.transport is not Transport.JDBC and spec.partition_column is None and spec.num_partitions is None
