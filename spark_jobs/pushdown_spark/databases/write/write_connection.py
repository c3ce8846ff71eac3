"""Connections that write to databases: their interface, and the choice of a client by the kind of database.

Workers import this module, so it imports little.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from pushdown_spark.databases.sql.identifiers import with_suffix
from pushdown_spark.errors import PushdownError

if TYPE_CHECKING:
    import pyarrow as pa

    from pushdown_spark.databases.client import DatabaseAddress, Row
    from pushdown_spark.databases.column_values import TargetColumn

LOCK_SECONDS = 600
"""How long a transaction waits for another one on the same table."""


class DatabaseCursor(Protocol):
    """The part of a driver's cursor (PEP 249) that is used here."""

    @property
    def description(self) -> object:
        """The columns of the result, or None if the statement is not a query."""

    @property
    def rowcount(self) -> int:
        """The number of rows that the statement changed."""

    def fetchall(self) -> Iterable[Row]:
        """Return the rows of the result."""

    def close(self) -> object:
        """Release the result."""


class WriteConnection(ABC):
    """An open connection that writes. A statement outside a transaction is committed at once.

    Parameters of statements are `%s`. In a statement without values, a percent sign means itself. The methods raise
    RemoteRefusedError or RemoteFailedError: one line, without secrets.
    """

    def rows(self, sql: str, *values: object) -> list[Row]:
        """Run a statement and return its rows, or none if it is not a query."""
        with closing(self._execute(sql, values)) as cursor:
            return list(cursor.fetchall()) if cursor.description else []

    def change(self, sql: str, *values: object) -> int:
        """Run a statement and return the number of rows that it changed."""
        with closing(self._execute(sql, values)) as cursor:
            return cursor.rowcount

    @abstractmethod
    def _execute(self, sql: str, values: Sequence[object]) -> DatabaseCursor:
        """Run a statement. Raises typed errors."""

    @abstractmethod
    def locate(self, schema: str | None, table: str) -> tuple[str, str, str]:
        """Return the value of the `Dialect`, the schema and the name of a table, whether or not it exists.

        The value is a string, because workers import this module, and importing `Dialect` would import sqlglot. Raises
        BadSpecError if the schema is missing or impossible.
        """

    @abstractmethod
    def server_id(self) -> str:
        """Return a string that all connections to the same database share, and no other connection."""

    def create_part(self, table: str, suffix: str) -> None:
        """Create an empty table like another one, for the rows of one attempt of a task. `table` is quoted."""
        self.rows(f"CREATE TABLE {with_suffix(table, suffix)} LIKE {table}")

    def attach(self, part: str) -> str:
        """Make the rows of a part readable, outside of a transaction. Return its name in statements."""
        return part

    def parts(self, prefix: str) -> list[str]:
        """Return the names of parts that start with a prefix and are not tables of the database."""
        return []

    def drop(self, table: str) -> None:
        """Delete a table or a part, if it exists."""
        self.rows(f"DROP TABLE IF EXISTS {table}")

    def end_writers(self, table: str) -> None:  # noqa: B027 - only PostgreSQL has several writers of one table
        """End the connections that still add rows to a table, of tasks whose rows do not count."""

    def load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Add the rows of a batch to a table. `table` is quoted.

        Raises UnwritableValueError if the database would change a value.
        """
        for column, values in zip(columns, batch.columns, strict=True):
            column.check(values)
        if batch.num_rows:
            self._load(table, columns, batch)

    @abstractmethod
    def _load(self, table: str, columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, at least one, in the fastest way."""

    @abstractmethod
    def begin(self, lock: str = "") -> None:
        """Begin a transaction that writes. With `lock`, wait for other transactions with the same lock to end.

        SQLite has one lock for all transactions.
        """

    def commit(self) -> None:
        """Commit the transaction and release its lock."""
        self.rows("COMMIT")

    def rollback(self) -> None:
        """Undo the transaction and release its lock."""
        self.rows("ROLLBACK")

    @abstractmethod
    def close(self) -> None:
        """Close the connection, which undoes an open transaction. Never raises."""

    @contextmanager
    def transaction(self, lock: str = "") -> Iterator[None]:
        """Run the block in a transaction, and undo it if the block fails."""
        self.begin(lock)
        try:
            yield
        except BaseException:
            with suppress(PushdownError):
                self.rollback()
            raise
        self.commit()


def connect_to_write(address: DatabaseAddress) -> WriteConnection:
    """Open a connection. Raises RemoteRefusedError and LostConnectionError."""
    if address.kind == "sqlite":
        from pushdown_spark.databases.write.sqlite_writer import SqliteWriter

        return SqliteWriter.open(address)
    if address.kind == "postgresql":
        from pushdown_spark.databases.write.postgresql_writer import PostgresqlWriter

        return PostgresqlWriter.open(address)
    from pushdown_spark.databases.write.mysql_writer import MysqlWriter

    return MysqlWriter.open(address)
