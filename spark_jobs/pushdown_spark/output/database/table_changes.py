"""The statements that check staged rows and move them to their table, for each mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import types as t

from pushdown_spark.contract import OutputMode
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn
from pushdown_spark.databases.write.write_connection import WriteConnection
from pushdown_spark.errors import CheckFailedError, RemoteFailedError, RemoteRefusedError
from pushdown_spark.output.database.staging_tables import StagingTables, count_rows

_UNCHANGED = "Nothing was committed and the table is unchanged"
_DATE_GLOB = "-".join("[0-9]" * digits for digits in (4, 2, 2))
_TIME_GLOB = f"{_DATE_GLOB} {':'.join(['[0-9][0-9]'] * 3)}.{'[0-9]' * 6}"
_SQLITE_FORMS: Mapping[type[t.DataType], str] = {
    t.BooleanType: "{key} IN (0, 1)",
    t.LongType: "typeof({key}) = 'integer'",
    t.DoubleType: "typeof({key}) = 'real'",
    t.DecimalType: "typeof({key}) = 'integer' OR typeof({key}) = 'real' AND {key} = round({key}, {scale})",
    t.StringType: "typeof({key}) = 'text'",
    t.BinaryType: "typeof({key}) = 'blob'",
    t.DateType: f"{{key}} GLOB '{_DATE_GLOB}'",
    t.TimestampNTZType: f"{{key}} GLOB '{_TIME_GLOB}'",
}
"""Conditions for values in the form in which the writer of SQLite stores each type."""


@dataclass(frozen=True)
class TableChange:
    """The change of a table by the rows of a staging table.

    `condition` is SQL of the database that selects the rows to replace. `key_columns` are those of the merge key.
    """

    staging: StagingTables
    mode: OutputMode
    columns: tuple[str, ...]
    key_columns: tuple[RemoteColumn, ...] = ()
    condition: str = ""

    @property
    def keys(self) -> list[str]:
        """The names of the columns of the merge key."""
        return [column.name for column in self.key_columns]

    def check(self, connection: WriteConnection) -> None:
        """Raise CheckFailedError if staged rows do not satisfy `condition`, or do not have a unique merge key."""
        rows = self.staging.rows
        if self.condition:
            outside = [
                f"SELECT count(*) FROM {table} WHERE ({self.condition}) IS NOT TRUE"  # noqa: S608
                for table in self.staging.row_tables(connection)
            ]
            _check_none(connection, outside, "replace_where: {count} rows to write do not satisfy the predicate")
        if self.keys:
            names = ", ".join(self.keys)
            nulls = " OR ".join(f"{key} IS NULL" for key in self._quote(self.keys))
            with_null = f"SELECT count(*) FROM {rows} WHERE {nulls}"  # noqa: S608
            _check_none(connection, [with_null], f"merge_keys: {{count}} rows to write have NULL in {names}")
            keys = ", ".join(map(self._group_key, self.key_columns))
            groups = f"SELECT 1 FROM {rows} GROUP BY {keys} HAVING count(*) > 1"  # noqa: S608
            duplicates = f"SELECT count(*) FROM ({groups}) AS repeated"  # noqa: S608
            _check_none(connection, [duplicates], f"merge_keys: {{count}} values of {names} are repeated in the rows")

    def apply(self, connection: WriteConnection, row_count: int) -> None:
        """Move the rows, within a transaction. Raises RemoteFailedError if the table would not get all of them."""
        target, insert = self.staging.target.sql, self.staging.target.statements.insert
        if self.mode is OutputMode.MERGE:
            self._merge(connection, row_count)
            return
        if self.mode in (OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS):
            self._lock(connection)
            # After a TRUNCATE, PostgreSQL's readers with an older snapshot find no row: those that read several times,
            # and every COPY that waits for the TRUNCATE. In MySQL and MariaDB, TRUNCATE would commit.
            where = "" if self.mode is OutputMode.OVERWRITE else f" WHERE {self.condition}"
            connection.change(f"DELETE FROM {target}{where}")  # noqa: S608
            # Triggers of MySQL cannot skip a row, and its snapshot still has rows that others have deleted since.
            if not self.staging.target.dialect.is_mysql:
                remainder = f"SELECT count(*) FROM (SELECT 1 FROM {target}{where} LIMIT 1) AS kept"  # noqa: S608
                self._check_change(not count_rows(connection, remainder), "kept rows that were to be replaced")
        insert_count = sum(
            connection.change(f"{insert} INTO {target}{self.staging.copied_columns(table, self.columns)}")
            for table in self.staging.row_tables(connection)
        )
        self._check_all(insert_count, row_count)

    def _check_all(self, insert_count: int, row_count: int) -> None:
        self._check_change(insert_count == row_count, f"got {insert_count} of {row_count} rows")

    def _check_change(self, is_changed: bool, problem: str) -> None:
        if not is_changed:
            raise RemoteFailedError(
                f"{self.staging.target.sql} {problem}, for example because of a trigger or a rule, so the table is "
                "unchanged; remove what skips the rows, or write to another table"
            )

    def _merge(self, connection: WriteConnection, row_count: int) -> None:
        """Update rows with the same key, and add the others. Nothing is deleted, because that could cascade."""
        target, rows, dialect = self.staging.target.sql, self.staging.rows, self.staging.target.statements
        self._lock(connection)
        if self.staging.target.dialect is Dialect.SQLITE:
            self._check_key_forms(connection)
        same_key = " AND ".join(f"target.{key} = staged.{key}" for key in self._quote(self.keys))
        # Keys are set, too: 'a' and 'A' may be one key in the collation of the column.
        columns = self._quote(self.columns)
        if self.staging.target.dialect.is_mysql:
            changes = ", ".join(f"target.{name} = staged.{name}" for name in columns)
            connection.change(f"UPDATE {target} AS target JOIN {rows} AS staged ON {same_key} SET {changes}")  # noqa: S608
        else:
            changes = ", ".join(f"{name} = staged.{name}" for name in columns)
            matches = f"SELECT count(*) FROM {target} AS target JOIN {rows} AS staged ON {same_key}"  # noqa: S608
            match_count = count_rows(connection, matches)
            change_count = connection.change(
                f"{dialect.update} {target} AS target SET {changes} FROM {rows} AS staged WHERE {same_key}"
            )
            self._check_change(change_count == match_count, f"changed {change_count} of {match_count} rows")
        names = ", ".join(columns)
        existing = f"SELECT 1 FROM {target} AS target WHERE {same_key}"  # noqa: S608
        connection.change(
            f"{dialect.insert} INTO {target} ({names}) "  # noqa: S608
            f"SELECT {names} FROM {rows} AS staged WHERE NOT EXISTS ({existing})"
        )
        copies = f"SELECT count(*) FROM {rows} AS staged WHERE EXISTS ({existing})"  # noqa: S608
        self._check_all(count_rows(connection, copies), row_count)

    def _check_key_forms(self, connection: WriteConnection) -> None:
        """Raise RemoteRefusedError if a key of the table has another form than the same key in the rows.

        SQLite's columns hold anything: `2024-01-01 00:00:00` is the time `2024-01-01 00:00:00.000000` for readers, but
        another string.
        """
        for column in self.key_columns:
            if column.has_one_storage_class:
                continue
            key, kind = self.staging.target.quote(column.name), column.spark_type
            scale = kind.scale if isinstance(kind, t.DecimalType) else 0
            form = _SQLITE_FORMS[type(kind)].format(key=key, scale=scale)
            others = f"SELECT {key} FROM {self.staging.target.sql} WHERE {key} IS NOT NULL AND NOT ({form}) LIMIT 1"  # noqa: S608
            for (value,) in connection.rows(others):
                raise RemoteRefusedError(
                    f"merge_keys: column {column.name} of {self.staging.target.display_name} holds {value!r}, which is "
                    f"not the form of {kind.simpleString()} that rows are written in, so that equal keys differ. The "
                    "table is unchanged; convert the values of the table, or merge by other columns"
                )

    def _lock(self, connection: WriteConnection) -> None:
        """Keep other programs from changing the table. MySQL locks the rows that it reads, SQLite the file."""
        if self.staging.target.dialect is Dialect.POSTGRES:
            connection.rows(f"LOCK TABLE {self.staging.target.sql} IN SHARE ROW EXCLUSIVE MODE")

    def _group_key(self, column: RemoteColumn) -> str:
        """Return SQL that has one value for all keys that are equal. MySQL puts -0.0 and 0.0 into two groups."""
        key = self.staging.target.quote(column.name)
        has_two_zeros = isinstance(column.spark_type, t.FloatType | t.DoubleType)
        return f"{key} + 0e0" if has_two_zeros and self.staging.target.dialect.is_mysql else key

    def _quote(self, names: Sequence[str]) -> list[str]:
        return [self.staging.target.quote(name) for name in names]


def _check_none(connection: WriteConnection, statements: Sequence[str], problem: str) -> None:
    count = sum(count_rows(connection, statement) for statement in statements)
    if count:
        raise CheckFailedError(f"{problem.format(count=count)}. {_UNCHANGED}")
