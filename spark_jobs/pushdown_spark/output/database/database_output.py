"""The writer of tables in databases: tasks load the rows into a staging table, and one transaction moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql import types as t

from pushdown_spark.contract import OutputMode, OutputSummary, RemoteConnection, RemoteSourceSpec, TableOutputSpec
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.sql.builder import to_sql
from pushdown_spark.databases.sql.predicate_pushdown import SparkRules, push_predicate
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable
from pushdown_spark.databases.write.partition_writer import LOADED
from pushdown_spark.errors import BadPredicateError
from pushdown_spark.expressions.constant_folding import cached_fold
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.expressions.session_settings import has_plain_meaning, session_name_rule
from pushdown_spark.output.base_output import Output, column_types
from pushdown_spark.output.checks import RowObserver, check_columns_exist, evaluate_checks, raise_failures
from pushdown_spark.output.database.table_attempt import TableAttempt
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.session import PushdownSession

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_STAGED = "staged"
_MAX_FILES = 8
"""SQLite attaches at most ten files, unless it was compiled with another limit."""


class DatabaseOutput(Output):
    """One attempt of one run to change a table of a database."""

    def __init__(
        self, spark: SparkSession, output: TableOutputSpec, connection: RemoteConnection, attempt: TableAttempt
    ) -> None:
        super().__init__()
        self._spark = spark
        self._output = output
        self._connection = connection
        self._attempt = attempt
        self._existing: RemoteTable | None = None
        self._frame: DataFrame | None = None
        self._observer: RowObserver | None = None
        self._condition = ""
        self._partitions = 0

    @property
    def name(self) -> str:
        """The table, as the user gave it."""
        return self._output.table

    @property
    def staging_location(self) -> str:
        """The name of the staging table."""
        staging = self._attempt.staging
        return "no table" if staging is None else staging.rows

    def prepare(self) -> bool:
        """Claim the run in the ledger of the database, and delete the staging tables of earlier attempts."""
        if not self._attempt.prepare():
            if self._attempt.earlier_commit is not None:
                self.committed_rows, self.summary = self._attempt.earlier_commit
            return False
        try:
            self._existing = self._attempt.existing_table()
            if self._existing is not None:
                self._condition = self._replaced_rows(self._existing)
        except BaseException:
            self._attempt.abort()
            raise
        return True

    def stage(self, frame: DataFrame) -> None:
        """Load all rows of a DataFrame into a new staging table."""
        self._frame = frame
        if self._output.checks:
            check_columns_exist(frame, self._output.checks)
            self._observer = RowObserver.of(frame, self._output.checks)
            frame = self._observer.frame
        writer = self._attempt.stage(frame.schema, self._existing, name_rule=session_name_rule(self._spark))
        table = self._attempt.table
        if not self._condition:
            self._condition = self._replaced_rows(table)
        types = {column.name: column.spark_type for column in table.columns}
        # mapInArrow resolves columns by name, and fails for names with backticks.
        columns = [
            _value(field, types[column.name]).alias(f"c{number}")
            for number, (field, column) in enumerate(zip(frame.schema.fields, writer.columns, strict=True))
        ]
        rows = frame.select(*columns)
        if self._attempt.target.dialect is Dialect.SQLITE:
            rows = rows.coalesce(_MAX_FILES)
        results = rows.mapInArrow(writer, LOADED).collect()
        suffixes = {row["partition"]: row["suffix"] for row in results}
        self._partitions = len(suffixes)
        self._attempt.check_accepted(suffixes)
        self._attempt.copy_parts()

    def check(self) -> None:
        """Check the rows: `checks`, then that they satisfy `replace_where` and have a unique merge key."""
        staging = self._attempt.staging
        if self._observer is not None and staging is not None:
            session = PushdownSession(self._spark)
            session.add(_STAGED, RemoteSourceSpec(table=staging.source_name), self._connection)
            rows = session.scan(_STAGED).df
            self.checks = evaluate_checks(self._output.checks, self._observer, rows)
            raise_failures(self.checks)
        self._attempt.check(self._condition)

    def commit(self) -> None:
        """Move the staged rows to the table and record the run, in one transaction."""
        columns = {} if self._frame is None else column_types(self._frame.schema)
        self.summary = self._attempt.commit(self._partitions, OutputSummary(mode=self._output.mode, columns=columns))

    def abort(self) -> None:
        """Delete the staging tables of this attempt."""
        self._attempt.abort()

    def _replaced_rows(self, table: RemoteTable) -> str:
        """Return `replace_where` in the SQL of the database, or an empty string for other modes.

        Raises BadPredicateError if the database cannot select exactly the rows that Spark would.
        """
        where = self._output.replace_where
        if self._output.mode is not OutputMode.OVERWRITE_PARTITIONS or where is None:
            return ""
        predicate = Predicate.parse(where)
        rules = SparkRules(
            name_rule=session_name_rule(self._spark),
            is_trusted=has_plain_meaning(self._spark, where),
            fold=cached_fold(self._spark),
        )
        pushdown = push_predicate(predicate.conjuncts, table, rules)
        if not predicate.conjuncts or predicate.needs_every_row or not pushdown.is_exact or pushdown.where is None:
            reasons = "; ".join(part.reason for part in pushdown.conjuncts if part.reason) or "Spark alone can read it"
            raise BadPredicateError(
                f"replace_where: {table.dialect} cannot select exactly the rows of {where!r}: {reasons}. Use "
                "comparisons of columns with constants"
            )
        return to_sql(pushdown.where, table.dialect)


def open_database_output(
    spark: SparkSession, output: TableOutputSpec, connection: RemoteConnection, run_key: str, generation: str = ""
) -> DatabaseOutput:
    """Return a new attempt of the run with this key to change a table."""
    attempt = TableAttempt(address_of(connection), output, run_key, generation)
    return DatabaseOutput(spark, output, connection, attempt)


def _value(field: t.StructField, target: t.DataType) -> Column:
    """Return a column of the rows. NULLs without a type, and timestamps in a column without a zone, are cast."""
    column = f.col(quote_name(field.name))
    is_local = isinstance(field.dataType, t.TimestampType) and isinstance(target, t.TimestampNTZType)
    return column.cast(target) if is_local or isinstance(field.dataType, t.NullType) else column
