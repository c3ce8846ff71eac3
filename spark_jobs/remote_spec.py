"""What the contract says of remote tables: how a table is read, and how its database is reached."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from spark_jobs.message import Message

REMOTE: Final = "remote"
"""The `format` of a source that is no file."""


class DatabaseKind(StrEnum):
    """Databases that can be read; MySQL stands for MariaDB as well."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQLITE = "sqlite"


class WideNumbers(StrEnum):
    """What becomes of numbers with more digits than Spark's decimals have."""

    ERROR = "error"
    TEXT = "text"


class Transport(StrEnum):
    """What carries the rows: Spark's JDBC source, Arrow in Python workers, or the faster of them that is possible."""

    AUTO = "auto"
    ARROW = "arrow"
    JDBC = "jdbc"


class TlsMode(StrEnum):
    """How much of TLS is asked for; names and meanings are libpq's."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class Tls(Message):
    """TLS of a connection; files are paths on every machine that reads the table."""

    mode: TlsMode = TlsMode.PREFER
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class RemoteConnection(Message):
    """How to reach a database. It is no part of a spec: it travels in the file of secrets.

    `database` is the path of the file for SQLite. `options` are session settings for libpq (`-c name=value`).
    `connect_timeout` is in seconds.
    """

    kind: DatabaseKind
    database: str
    host: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: str | None = None
    password: Annotated[str | None, Field(repr=False)] = None
    tls: Tls = Tls()
    options: str | None = None
    connect_timeout: Annotated[int, Field(ge=1)] = 15

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.kind is not DatabaseKind.SQLITE and not self.host:
            raise ValueError("host: a database server needs one")
        return self


class RemoteSourceSpec(Message):
    """One named source: a table, or a query in the database's own SQL, and how it is read.

    `table` may be qualified; parts are separated by dots unless they are in double quotes. `partition_column` cuts the
    scan into `num_partitions` ranges of a number or a date, between the bounds if given, else by the column's own
    statistics; without it PostgreSQL's tables are cut by pages. `num_partitions` None leaves it to the planner's
    estimate. `consistent` makes all partitions see one state, which takes one partition where the database has no
    snapshots to share. `transport` JDBC needs the driver's jar on Spark's class path. `fetch_size` is in rows;
    `statement_timeout` in seconds. With `zero_dates_as_null`, dates that MySQL has and nobody else are NULL, else they
    are an error.
    """

    format: Literal["remote"] = REMOTE
    table: str | None = None
    query: str | None = None
    filter_pushdown: bool = True
    partition_column: str | None = None
    num_partitions: Annotated[int, Field(ge=1, le=1000)] | None = None
    lower_bound: str | None = None
    upper_bound: str | None = None
    consistent: bool = True
    transport: Transport = Transport.AUTO
    fetch_size: Annotated[int, Field(ge=1)] = 10_000
    statement_timeout: Annotated[float, Field(gt=0)] | None = None
    wide_numbers: WideNumbers = WideNumbers.ERROR
    zero_dates_as_null: bool = False

    @field_validator("lower_bound", "upper_bound", mode="before")
    @classmethod
    def _as_text(cls, bound: object) -> object:
        """Bounds may be given as numbers."""
        return str(bound) if isinstance(bound, int) and not isinstance(bound, bool) else bound

    @field_validator("query")
    @classmethod
    def _without_end(cls, query: str | None) -> str | None:
        """A semicolon behind it has no place where the query is part of another."""
        return None if query is None else query.strip().rstrip("; \n")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.table is None) == (self.query is None):
            raise ValueError("table: give either a `table` or a `query` in the database's SQL")
        if (self.lower_bound is None) != (self.upper_bound is None):
            raise ValueError("lower_bound: give both `lower_bound` and `upper_bound`, or none")
        if self.lower_bound is not None and self.partition_column is None:
            raise ValueError("partition_column: bounds need the column that they bound")
        return self
