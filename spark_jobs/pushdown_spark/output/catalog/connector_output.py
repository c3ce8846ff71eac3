"""The writer of tables of connectors, Iceberg and Delta: rows are staged in Spark's storage, and one commit adds them.

Iceberg and Delta commit a write as one new version of the table. The version names the run, so that a retry finds
whether an earlier attempt has committed. There can be only one version of a run.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import functions as f

from pushdown_spark.contract import CatalogOutputSpec, ErrorCode, OutputMode, OutputSummary
from pushdown_spark.errors import BadPredicateError, BadSpecError, CheckFailedError, PushdownError, UnknownColumnError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.session_settings import session_name_rule, temporary_settings
from pushdown_spark.output.base_output import Output, column_types
from pushdown_spark.output.catalog.connector_tables import Commit, ConnectorTable
from pushdown_spark.output.checks import RowObserver, check_columns_exist, evaluate_checks, raise_failures
from pushdown_spark.output.stored_rows import check_stored_types, stored_rows, with_stored_partitions
from pushdown_spark.output.target_checks import check_column_names, check_existing_table, check_partition_by
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.runtime.error_classification import typed_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
    from pyspark.sql.types import StructType

_STAGED = "airflow_pushdown_staged"


class ConnectorOutput(Output):
    """One attempt of one run to write a table of a connector."""

    def __init__(self, spark: SparkSession, output: CatalogOutputSpec, table: ConnectorTable) -> None:
        super().__init__()
        self._spark = spark
        self._output = output
        self._table = table
        self._exists = False
        self._rows: DataFrame | None = None
        self._types: dict[str, str] = {}
        self._count = 0

    @property
    def name(self) -> str:
        """The table, as the user gave it."""
        return self._output.catalog_table

    @property
    def staging_location(self) -> str:
        """Spark's disks, whose files end with the application."""
        return "the local disks of Spark"

    def prepare(self) -> bool:
        """Look for a commit of an earlier attempt. Return False if there is one, or in mode `ignore` for a table."""
        self._exists = self._table.exists()
        if self._exists:
            if self._is_kept():
                return False
            check_existing_table(self._output.mode, self.name)
            self._check_table()
            self._table.fence()
        return True

    def stage(self, frame: DataFrame) -> None:
        """Compute all rows, and keep them on the local disks of the executors."""
        schema = frame.schema
        if self._exists:
            schema = self._table.schema()
            check_column_names(frame.schema, schema, name_rule=session_name_rule(self._spark))
            check_stored_types(self._spark, frame.schema, schema)
            # Checks must see stored values. For example, two timestamps of a day are one value of a date column.
            frame = stored_rows(self._spark, frame, self._table.sql)
        if self._table.has_partition_directories:
            frame = with_stored_partitions(
                frame, self._table.partition_by() if self._exists else self._output.partition_by
            )
        self._types = _types_by_name(schema)
        check_columns_exist(frame, self._output.checks)
        columns = [name.lower() for name in frame.columns]
        for parameter, names in {
            "merge_keys": self._output.merge_keys,
            "partition_by": self._output.partition_by,
        }.items():
            if unknown := [name for name in names if name.lower() not in columns]:
                raise UnknownColumnError(
                    f"{parameter}: the rows have no column {unknown[0]!r}; they have {', '.join(frame.columns)}"
                )
        self._rows = frame.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)

    def check(self) -> None:
        """Evaluate the checks on the staged rows, that they satisfy `replace_where` and have a unique merge key."""
        checks, keys = self._output.checks, self._output.merge_keys
        if keys:
            not_null = tuple(dict.fromkeys((*checks.not_null, *keys)))
            unique = tuple(dict.fromkeys((*checks.unique, keys)))
            checks = checks.model_copy(update={"not_null": not_null, "unique": unique})
        observer = RowObserver.of(self._staged_rows, checks)
        observer.frame.write.format("noop").mode("overwrite").save()
        self._count = observer.counts()[0]
        self.checks = evaluate_checks(checks, observer, self._staged_rows)
        raise_failures(self.checks)
        if self._output.replace_where is not None:
            self._check_rows_match(self._output.replace_where)

    def commit(self) -> None:
        """Add one version to the table, unless an earlier attempt of the run has done so."""
        exists = self._table.exists()
        if exists:
            if self._is_kept():
                return
            check_existing_table(self._output.mode, self.name)
        self._check_same_columns(exists)
        if exists:
            # Another program may have created the table since `prepare`, without partitions to replace.
            self._check_table()
        try:
            with temporary_settings(self._spark, self._table.settings(self._count)):
                commit = self._write(exists)
        except (PySparkException, Py4JJavaError) as problem:
            error = self._table.error(problem)
            # A catalog that has failed may fail again. Then the first failure is the one to report.
            with suppress(PySparkException, Py4JJavaError):
                if self._is_written_by_others(exists):
                    return
            raise error from problem
        self._report(commit)

    def _is_written_by_others(self, had_table: bool) -> bool:
        """Return whether a later attempt has committed, or mode `ignore` keeps the table of another program.

        Raises a typed error if another program has created the table in the meantime.
        """
        if not self._table.exists():
            return False
        if had_table:
            return self._is_committed()
        if self._is_kept():
            return True
        check_existing_table(self._output.mode, self.name)
        raise self._change_error()

    def abort(self) -> None:
        """Release the staged rows. Spark deletes them."""
        self._rows = None

    @property
    def _staged_rows(self) -> DataFrame:
        assert self._rows is not None
        return self._rows

    def _is_kept(self) -> bool:
        """Return whether an earlier attempt has committed, or mode `ignore` keeps the table."""
        return self._is_committed() or self._output.mode is OutputMode.IGNORE

    def _is_committed(self) -> bool:
        commit = self._table.find_commit()
        if commit is not None:
            self._report(commit)
        return commit is not None

    def _report(self, commit: Commit | None) -> None:
        if commit is None and self._count == 0 and self._output.mode is OutputMode.OVERWRITE_PARTITIONS:
            # A run without rows replaces no partition, and Iceberg makes no version for it.
            commit = Commit(version=None, rows=0, files=0, bytes=0, is_own=True)
        if commit is None:
            raise PushdownError(
                f"output_table: {self.name} has no version of this run after its commit; run the task again",
                code=ErrorCode.SPARK,
            )
        if not commit.is_own:
            self.committed_rows = commit.rows
        self.summary = self._summarize(commit)

    def _check_table(self) -> None:
        """Raise typed errors for parameters that do not fit the table."""
        partition_by = self._table.partition_by()
        check_partition_by(self._output.partition_by, partition_by, self.name, name_rule=ANY_CASE)
        if self._output.options:
            raise BadSpecError(
                f"output_options: {self.name} exists; they are properties of a new table, leave them out"
            )
        where = self._output.replace_where
        if self._output.mode is OutputMode.OVERWRITE_PARTITIONS and where is None and not partition_by:
            raise BadSpecError(
                f"output_mode: overwrite_partitions needs partitions or replace_where, and {self.name} has no "
                "partitions; use overwrite"
            )
        if where is not None:
            _check_predicate(self._spark.table(self._table.sql), where)

    def _check_same_columns(self, exists: bool) -> None:
        """Raise a retryable error if the table is gone, or does not have the columns of the staged rows."""
        is_same = _types_by_name(self._table.schema()) == self._types if exists else not self._exists
        if not is_same:
            raise self._change_error()

    def _change_error(self) -> PushdownError:
        return PushdownError(
            f"output_table: another program has created, changed or dropped {self.name} while its rows were computed; "
            "run the task again",
            code=ErrorCode.SPARK,
        )

    def _check_rows_match(self, where: str) -> None:
        is_replaced = f.coalesce(f.expr(where), f.lit(False))
        _check_predicate(self._staged_rows, where)
        if others := self._staged_rows.where(~is_replaced).count():
            raise CheckFailedError(
                f"replace_where: {where!r} is not true for {others:,} of the rows. Nothing was committed and the "
                "output is unchanged"
            )

    def _write(self, exists: bool) -> Commit | None:
        """Change or create the table. Return the version of the run, or None if there is none."""
        if exists:
            return self._table.change(self._change, reads_table=self._output.mode is OutputMode.MERGE)
        self._create()
        commit = self._table.find_commit()
        return None if commit is None else replace(commit, is_own=True)

    def _change(self, table: str) -> None:
        where = self._output.replace_where
        match self._output.mode:
            case OutputMode.MERGE:
                self._merge(table)
            case OutputMode.APPEND:
                self._writer_to(table).append()
            case OutputMode.OVERWRITE:
                self._writer_to(table).overwrite(f.lit(True))
            case _ if where is None:
                self._writer_to(table).overwritePartitions()
            case _:
                self._writer_to(table).overwrite(f.expr(where))

    def _writer_to(self, table: str) -> DataFrameWriterV2:
        return self._staged_rows.writeTo(table).options(**self._table.write_options(self._count))

    def _create(self) -> None:
        writer = self._writer_to(self._table.sql).using(self._table.provider)
        for key, value in self._output.options.items():
            writer = writer.tableProperty(key, value)
        if self._output.partition_by:
            first, *others = (f.col(quote_name(name)) for name in self._output.partition_by)
            writer = writer.partitionedBy(first, *others)
        writer.create()

    def _merge(self, table: str) -> None:
        keys = " AND ".join(f"t.{quote_name(key)} = s.{quote_name(key)}" for key in self._output.merge_keys)
        self._staged_rows.createOrReplaceTempView(_STAGED)
        try:
            self._spark.sql(
                f"MERGE INTO {table} AS t USING {_STAGED} AS s ON {keys} "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        finally:
            self._spark.catalog.dropTempView(_STAGED)

    def _summarize(self, commit: Commit) -> OutputSummary:
        return OutputSummary(
            mode=self._output.mode,
            columns=column_types(self._table.schema()),
            files=commit.files,
            bytes=commit.bytes,
            table=self._table.name,
            location=self._table.location(),
            is_from_earlier_try=not commit.is_own,
        )


def _types_by_name(schema: StructType) -> dict[str, str]:
    """Return the types of all columns, by their names in lower case."""
    return {name.lower(): kind for name, kind in column_types(schema).items()}


def _check_predicate(frame: DataFrame, where: str) -> None:
    """Raise BadPredicateError or UnknownColumnError if a predicate is wrong."""
    try:
        frame.where(where).schema  # noqa: B018 - analyzes the predicate
    except (AnalysisException, ParseException) as problem:
        error = typed_error(problem, about="replace_where")
        if isinstance(error, UnknownColumnError):
            raise error from problem
        raise BadPredicateError(str(error)) from problem
