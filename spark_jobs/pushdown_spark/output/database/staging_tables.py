"""The tables that hold the rows of one attempt until its commit, in the schema of the target.

Their names have the run, the time and the attempt:

    airflow_pushdown_RUN_TIME_ATTEMPT_NUMBER      rows that tasks load
    airflow_pushdown_RUN_TIME_ATTEMPT_NUMBER_p    the partitions whose rows are complete

In MySQL, MariaDB and SQLite, each attempt of a task loads its own part, a table like the empty table of rows. So
the commit need not wait for the locks of an attempt that still loads. In SQLite, a part is a file next to the database:

    airflow_pushdown_RUN_TIME_ATTEMPT_NUMBER_TASK

`copy_parts` copies the parts to the table of rows if a check reads one table, or if that table becomes the target.

A retry deletes the tables of earlier attempts of its run. Any run deletes tables that are older than `MAX_AGE_SECONDS`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

from pyspark.sql import types as t

from pushdown_spark.databases.clients.sqlite_catalog import UNKNOWN_COLLATION
from pushdown_spark.databases.sql.identifiers import with_suffix
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable
from pushdown_spark.databases.write.write_connection import LOCK_SECONDS, WriteConnection
from pushdown_spark.errors import BadSpecError, PushdownError, RemoteFailedError, RemoteRefusedError
from pushdown_spark.output.database.target_table import OWN_PREFIX, TargetTable

MAX_AGE_SECONDS = 2 * 86_400
_USE_SECONDS = 5
"""How long the deletion of a table waits for tasks that use it."""
_KEY_SETTINGS = """
SHOW VARIABLES WHERE value = 'ON' AND
variable_name IN ('sql_require_primary_key', 'innodb_force_primary_key', 'sql_generate_invisible_primary_key')
"""
"""Settings of MySQL and MariaDB that reject tables without a primary key. With the last one, MySQL adds a key."""
_KEY = "airflow_pushdown_row bigint unsigned NOT NULL AUTO_INCREMENT PRIMARY KEY"
"""A column that no row gives."""
_NAME = re.compile(
    rf"{OWN_PREFIX}(?P<run>[0-9a-f]{{12}})_(?P<time>[0-9a-f]{{8}})_[0-9a-f]{{8}}_\d+(?:_p|_[0-9a-f]{{8}})?"
)


@dataclass(frozen=True)
class StagingTables:
    """The tables of one attempt. `is_split` is whether the rows stay in the parts that tasks have loaded."""

    target: TargetTable
    name: str
    marker: str
    is_split: bool

    @classmethod
    def of(cls, target: TargetTable, run: str, attempt: str, number: int, *, reads_one: bool) -> StagingTables:
        """Return the tables for call number `number` of `stage`. `reads_one` is whether a step needs one table."""
        name = f"{OWN_PREFIX}{run[:12]}_{int(time.time()):08x}_{attempt[:8]}_{number}"
        return cls(target, name, marker_of(attempt), is_split=target.has_parts and not reads_one)

    @property
    def rows(self) -> str:
        """The quoted name of the table of rows."""
        return self.target.sibling(self.name)

    @property
    def source_name(self) -> str:
        """The name of the table of rows for a database source."""
        return self.target.source_name(self.name)

    @property
    def partitions(self) -> str:
        """The quoted name of the table of partitions."""
        return with_suffix(self.rows, "_p")

    @property
    def record(self) -> str:
        """The statement that records a partition, its number of rows and its table, unless it is recorded."""
        return self.target.statements.record.format(table=self.partitions)

    def create_like(self, connection: WriteConnection, table: RemoteTable) -> None:
        """Create the tables with the columns of an existing target, without its constraints."""
        if self.target.dialect is not Dialect.POSTGRES:
            # MySQL before 8.0.21 refuses CREATE TABLE ... SELECT if it replicates by global transaction identifiers.
            key = [_KEY] if self._needs_key(connection) else []
            self._create(connection, [*key, *(_copied_column(self.target, column) for column in table.columns)])
            return
        names = ", ".join(self.target.quote(column.name) for column in table.columns)
        query = f"SELECT {names} FROM {self.target.sql} LIMIT 0"  # noqa: S608
        connection.rows(f"{self._create_table} {self.rows} AS {query}")
        self._create_partitions(connection)

    def create_new(self, connection: WriteConnection, schema: t.StructType) -> None:
        """Create the tables for a missing target, with columns for Spark's types.

        Raises BadSpecError for a type without an equivalent, and if the server accepts no table without a primary key.
        """
        target, statements = self.target, self.target.statements
        if self._needs_key(connection):
            raise BadSpecError(
                f"output_table: the server accepts no table without a primary key; create {target.display_name} with "
                "one before the run"
            )
        collation = connection.rows(statements.text_collation)[0][0] if statements.text_collation else ""
        columns = [
            f"{target.quote(field.name)} {statements.declared_type(field).format(collation=collation)}"
            for field in schema.fields
        ]
        # This table becomes the target, so that it must survive a crash of the database.
        self._create(connection, columns)

    def drop(self, connection: WriteConnection) -> None:
        """Delete the tables. A table that a task still uses stays, until a later run deletes it."""
        # Without the table of rows, no task can create one like it.
        _drop_unused(connection, self.target, [self.name, f"{self.name}_p"])
        names = [name for name in _names(connection, self.target) if name.startswith(self.name)]
        _drop_unused(connection, self.target, names)

    def suffixes(self, connection: WriteConnection) -> dict[int, str]:
        """Return the ends of the names of the recorded attempts by partition."""
        rows = connection.rows(f"SELECT partition_id, suffix FROM {self.partitions}")  # noqa: S608
        return {int(str(partition)): str(suffix) for partition, suffix in rows}

    def copy_parts(self, connection: WriteConnection, columns: Sequence[str]) -> None:
        """Copy the columns of all parts to the table of rows."""
        parts = self._parts(connection)
        with connection.transaction(self.name):
            for part in parts:
                connection.change(f"INSERT INTO {self.rows}{self.copied_columns(part, columns)}")

    def copied_columns(self, table: str, columns: Sequence[str]) -> str:
        """Return the end of a statement that copies columns of a staging table with all of its rows."""
        if self.target.dialect is Dialect.SQLITE:
            # SQLite copies records as they are if no columns are named. The staged ones have the order of the table.
            return f" SELECT * FROM {table}"  # noqa: S608
        names = ", ".join(map(self.target.quote, columns))
        return f" ({names}) SELECT {names} FROM {table}"  # noqa: S608

    def row_tables(self, connection: WriteConnection) -> list[str]:
        """Return the quoted names of the tables that have the rows.

        The first call for a connection has to be outside of a transaction.
        """
        return self._parts(connection) if self.is_split else [self.rows]

    def _parts(self, connection: WriteConnection) -> list[str]:
        return [
            connection.attach(with_suffix(self.rows, suffix)) for _, suffix in sorted(self.suffixes(connection).items())
        ]

    def loaded_rows(self, connection: WriteConnection, partitions: int) -> int:
        """Return the number of rows. Raises RemoteFailedError unless this number of partitions was loaded.

        It also raises if the tables have other rows than the tasks loaded. A crash of the database empties unlogged
        tables.
        """
        statement = f"SELECT count(*), coalesce(sum(row_count), 0) FROM {self.partitions}"  # noqa: S608
        ((partition_count, row_count),) = connection.rows(statement)
        count = sum(count_rows(connection, f"SELECT count(*) FROM {table}") for table in self.row_tables(connection))  # noqa: S608
        if count != int(str(row_count)):
            raise RemoteFailedError(
                f"{self.rows} has {count} rows, but the tasks loaded {row_count}; run the task again"
            )
        if int(str(partition_count)) != partitions:
            raise RemoteFailedError(f"{partition_count} of {partitions} partitions were loaded; run the task again")
        return count

    def _create(self, connection: WriteConnection, columns: Sequence[str]) -> None:
        connection.rows(f"CREATE TABLE {self.rows} ({', '.join(columns)}){self._options}")
        self._create_partitions(connection)

    def _create_partitions(self, connection: WriteConnection) -> None:
        columns = "partition_id int NOT NULL PRIMARY KEY, row_count bigint NOT NULL, suffix varchar(9) NOT NULL"
        options = " ENGINE=InnoDB" if self.target.dialect.is_mysql else ""
        connection.rows(f"{self._create_table} {self.partitions} ({columns}){options}")

    def _needs_key(self, connection: WriteConnection) -> bool:
        """Return whether the server rejects tables without a primary key."""
        settings = {str(name) for name, _ in connection.rows(_KEY_SETTINGS)} if self.target.dialect.is_mysql else set()
        return bool(settings) and "sql_generate_invisible_primary_key" not in settings

    @property
    def _create_table(self) -> str:
        return "CREATE UNLOGGED TABLE" if self.target.dialect is Dialect.POSTGRES else "CREATE TABLE"

    @property
    def _options(self) -> str:
        """The options of a table in MySQL. The comment shows which attempt has created the target by a rename."""
        if not self.target.dialect.is_mysql:
            return ""
        return f" ENGINE=InnoDB COMMENT '{self.marker}'"


def count_rows(connection: WriteConnection, statement: str) -> int:
    """Return the result of a query that counts."""
    ((count,),) = connection.rows(statement)
    return int(str(count))


def marker_of(attempt: str) -> str:
    """Return the comment of the tables of an attempt."""
    return f"created by airflow_pushdown, attempt {attempt}"


def drop_leftovers(connection: WriteConnection, target: TargetTable, run: str) -> None:
    """Delete the tables of earlier attempts of a run, and old tables of all runs.

    A table that a task still uses stays. Its attempt can no longer commit. Raises RemoteRefusedError if the user may
    not delete tables.
    """
    if target.dialect.is_mysql:
        _check_drop(connection, target, f"{OWN_PREFIX}{run[:12]}")
    _drop_unused(connection, target, list(_leftovers(connection, target, run)))


def _check_drop(connection: WriteConnection, target: TargetTable, missing: str) -> None:
    """Raise RemoteRefusedError if the user may not delete tables. MySQL checks that for a missing table, too."""
    try:
        connection.drop(target.sibling(missing))
    except RemoteRefusedError as problem:
        raise RemoteRefusedError(
            f"{problem}. Grant the user DROP on all tables of {target.schema}, where the rows are staged"
        ) from None


def drop_tables_of(connection: WriteConnection, target: TargetTable, run: str) -> None:
    """Delete all tables of a run. Raises RemoteFailedError if one of them is in use."""
    for name in _names(connection, target):
        match = _NAME.fullmatch(name)
        if match and match["run"] == run[:12]:
            connection.drop(target.sibling(name))


def _drop_unused(connection: WriteConnection, target: TargetTable, names: Sequence[str]) -> None:
    """Delete tables. One that a transaction uses for longer than some seconds stays.

    SQLite has one lock for all tables. Raises LostConnectionError if another program keeps it.
    """
    has_one_lock = target.dialect is Dialect.SQLITE and bool(names)
    _limit_waits(connection, target, _USE_SECONDS)
    with connection.transaction(target.lock) if has_one_lock else nullcontext():
        for name in names:
            with suppress(PushdownError):
                connection.drop(target.sibling(name))
    _limit_waits(connection, target, LOCK_SECONDS)


def _limit_waits(connection: WriteConnection, target: TargetTable, seconds: int) -> None:
    """Limit how long a statement waits for other transactions on a table. SQLite has one lock for all tables."""
    if target.dialect is Dialect.POSTGRES:
        connection.rows(f"SET lock_timeout = '{seconds}s'")
    elif target.dialect.is_mysql:
        connection.rows(f"SET SESSION lock_wait_timeout = {seconds}")


def _leftovers(connection: WriteConnection, target: TargetTable, run: str) -> Iterator[str]:
    oldest = time.time() - MAX_AGE_SECONDS
    for name in _names(connection, target):
        match = _NAME.fullmatch(name)
        if match and (match["run"] == run[:12] or int(match["time"], 16) < oldest):
            yield name


def _names(connection: WriteConnection, target: TargetTable) -> list[str]:
    tables = connection.rows(target.statements.tables_with_prefix, target.schema, OWN_PREFIX)
    return [*(str(name) for (name,) in tables), *connection.parts(OWN_PREFIX)]


def _copied_column(target: TargetTable, column: RemoteColumn) -> str:
    """Return a column with the type of another one, in MySQL, MariaDB and SQLite."""
    # In older servers, a timestamp without NULL gets the current time.
    null = " NULL" if target.dialect.is_mysql else ""
    is_known = column.collation not in (None, UNKNOWN_COLLATION)
    charset = f" CHARACTER SET {column.charset}" if is_known and target.dialect.is_mysql else ""
    collation = f"{charset} COLLATE {target.quote(str(column.collation))}" if is_known else ""
    return f"{target.quote(column.name)} {column.remote_type}{collation}{null}"
