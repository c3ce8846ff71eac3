"""Relations of databases: tables and queries whose columns are known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property
from hashlib import sha256

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.contract import ConjunctReport, SourceReport
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, address_of, connect, describe_table
from pushdown_spark.databases.database_scan import DatabaseScan, DatabaseScanPlan, allows_local_fetch
from pushdown_spark.databases.full_pushdown import FullPushdownScan, push_query
from pushdown_spark.databases.read.database_statistics import table_statistics
from pushdown_spark.databases.read.jdbc import TransportChoice, choose_transport
from pushdown_spark.databases.read.transport import QueryExecution
from pushdown_spark.databases.sql.predicate_pushdown import PushedPredicate, SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_table import RemoteTable
from pushdown_spark.errors import RemoteFailedError, RemoteRefusedError
from pushdown_spark.expressions.predicate import EVERY_ROW, UNPARSED, Predicate, sql_function
from pushdown_spark.expressions.session_settings import has_plain_meaning
from pushdown_spark.projection.paths import quote_name, sql_type
from pushdown_spark.relations.base_relation import RelationWithoutFiles
from pushdown_spark.runtime.jvm_gateway import elements
from pushdown_spark.runtime.spark_internals import analyzed_plan
from pushdown_spark.scan.base_scan import ProjectedScan, Scan
from pushdown_spark.sources.declaration import DatabaseSource
from pushdown_spark.sources.request import ScanRequest, unsupported_conjunct
from pushdown_spark.sources.table_statistics import TableStatistics


class DatabaseRelation(RelationWithoutFiles):
    """A table or query of a database. `open` makes one: it asks the database for the columns."""

    def __init__(
        self,
        spark: SparkSession,
        source: DatabaseSource,
        address: DatabaseAddress,
        table: RemoteTable,
        transport: TransportChoice,
    ) -> None:
        super().__init__(spark, source.as_source)
        self._source = source
        self._address = address
        self._table = table
        self._transport = transport
        self._last_pushdown: tuple[Predicate, PushedPredicate] | None = None
        """The predicate of the last query, which `scan` and `full_pushdown` push."""
        qualified_name = table.subquery or ".".join(filter(None, (table.catalog, table.schema, table.name)))
        self.analysis_scan = AnalysisScan(spark, f"{address.display_name}: {qualified_name}", table.spark_schema)
        """A scan with the columns of the table, for Spark to analyze queries over."""

    @classmethod
    def open(cls, spark: SparkSession, source: DatabaseSource) -> DatabaseRelation:
        """Ask the database for the columns. Raises RemoteRefusedError and RemoteFailedError."""
        address = address_of(source.connection)
        with closing(connect(address, ConnectionSettings.of(source.spec, has_few_rows=True))) as client:
            table = describe_table(client, source.connection.kind, source.spec)
            transport = choose_transport(spark, client, address, source.spec, table)
        return cls(spark, source, address, table, transport)

    @property
    def spark_frame(self) -> DataFrame:
        """A DataFrame with the columns of the table. Reading a row of it is an error."""
        return self.analysis_scan.frame()

    @property
    def schema(self) -> StructType:
        """The columns with their Spark types."""
        return self._table.spark_schema

    @property
    def kind(self) -> str:
        """The kind of the source with its article, for error messages."""
        return "a table of a database"

    def origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""
        return f"in the {'query' if self._source.spec.table is None else 'table'} of {self._source.name!r}"

    def columns_of_text(self, sql: str) -> set[str]:
        """Return the columns that Spark's analyzer finds in a predicate."""
        try:
            condition = analyzed_plan(self.spark_frame.where(sql)).condition()
        except PySparkException:
            # The query itself raises the error.
            return super().columns_of_text(sql)
        return {str(column.name()) for column in elements(condition.references().toSeq())}

    def statistics(self, predicate: Predicate | None, columns: Sequence[str]) -> TableStatistics | None:
        """Return the database's estimates for a predicate and some columns, or None if it has none. Reads no row."""
        predicate_pushdown = self._push_predicate(self.request(self.projection(list(columns)), predicate))
        try:
            with closing(connect(self._address, ConnectionSettings.of(self._source.spec, has_few_rows=True))) as client:
                estimates = table_statistics(
                    client, self._table, columns or self.schema.fieldNames()[:1], predicate_pushdown
                )
        except (RemoteFailedError, RemoteRefusedError):
            # Estimates are optional: a catalog that the user may not read must not fail the query.
            return None
        may_fetch_local = allows_local_fetch(self._source.spec)
        return estimates if estimates is None or may_fetch_local else replace(estimates, is_fetched=False)

    def scan(self, request: ScanRequest) -> DatabaseScan:
        """Return the scan with every conjunct pushed down that the database evaluates as Spark does."""
        predicate = self._push_predicate(request)
        # Without columns, the batches of a statement would have no rows.
        columns = request.columns or tuple(self.schema.fieldNames()[:1])
        is_exact = request.predicate is None or (bool(predicate.conjuncts) and predicate.is_exact)
        plan = DatabaseScanPlan(
            table=self._table,
            columns=columns,
            predicate=predicate,
            conjuncts=predicate.reports or _unsupported_conjuncts(request),
            is_exact=is_exact,
            spec=self._source.spec,
            address=self._address,
            notes=request.notes,
            transport=self._transport,
        )
        return DatabaseScan(self._spark, plan)

    def full_pushdown(self, query: exp.Select, request: ScanRequest, columns: Sequence[str]) -> ProjectedScan | None:
        """Return the scan of a whole query: the first rows of an order, counts, extremes and groups.

        None if the database cannot run the query as Spark does; the predicate must be exact.
        """
        spec, has_where = self._source.spec, query.args.get("where") is not None
        if not spec.filter_pushdown or (has_where and request.predicate is None):
            return None
        predicate = self._push_predicate(request)
        if has_where and not predicate.conjuncts:
            return None
        remote_query = push_query(query, self._table, predicate, name_rule=self._name_rule)
        if remote_query is None:
            return None
        reason = "the database runs the whole query as Spark would"
        plan = SourceReport(reader="remote", reason=reason, conjuncts=predicate.reports, notes=request.notes)
        execution = QueryExecution(self._spark, self._address, spec, self._table)
        return ProjectedScan(FullPushdownScan(remote_query, execution, plan), remote_query.row_converter(columns))

    def _push_predicate(self, request: ScanRequest) -> PushedPredicate:
        """Return the conjuncts that the database evaluates as Spark does."""
        predicate = request.predicate
        if predicate is None or not self._source.spec.filter_pushdown or predicate.needs_every_row:
            return PushedPredicate(self._table.dialect, ())
        if self._last_pushdown is None or self._last_pushdown[0] is not predicate:
            is_trusted = has_plain_meaning(self._spark, predicate.sql)
            rules = SparkRules(name_rule=self._name_rule, is_trusted=is_trusted, fold=request.fold)
            # A function whose body is SQL may call one that must see every row.
            has_sql_function = sql_function(self._spark, predicate.sql, predicate.tree) is not None
            self._last_pushdown = (
                predicate,
                push_predicate(() if has_sql_function else predicate.conjuncts, self._table, rules),
            )
        return self._last_pushdown[1]


class AnalysisScan(Scan):
    """A scan that has the columns of a table and no rows. Reading it is an error, and it needs no connection."""

    def __init__(self, spark: SparkSession, table_name: str, schema: StructType) -> None:
        """`table_name` identifies the table, so that Spark never takes the frames of two tables for the same query."""
        # A digest, because a name may hold any character.
        self._message = f"the analysis placeholder for table {sha256(table_name.encode()).hexdigest()} was read"
        self._spark = spark
        self._schema = schema

    @cached_property
    def _frame(self) -> DataFrame:
        """The DataFrame. It is created on demand, because that takes time."""
        columns = [f"CAST(NULL AS {sql_type(field.dataType)}) AS {quote_name(field.name)}" for field in self._schema]
        return self._spark.sql(f"SELECT {', '.join(columns)} WHERE raise_error('{self._message}') IS NULL")

    def frame(self) -> DataFrame:
        """Return the columns."""
        return self._frame

    def report(self) -> SourceReport:
        """Return a report without a plan."""
        return SourceReport(reader="remote", reason=self._message)


def _unsupported_conjuncts(request: ScanRequest) -> tuple[ConjunctReport, ...]:
    """Return the reports of a predicate without pushdown."""
    predicate = request.predicate
    if predicate is None:
        return ()
    reason = EVERY_ROW if predicate.needs_every_row else "no conjunct is pushed down"
    if predicate.tree is None:
        reason = UNPARSED
    return tuple(unsupported_conjunct(text, reason) for text in predicate.conjunct_texts)
