"""What is known of a remote table: its columns as the database declares them and as Spark gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.name_keys import by_name_key


class Dialect(StrEnum):
    """Databases by the SQL they speak."""

    POSTGRES = "postgres"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"

    @property
    def is_mysql(self) -> bool:
        """MySQL or MariaDB: they agree on all SQL that is written here."""
        return self in (Dialect.MYSQL, Dialect.MARIADB)


@dataclass(frozen=True)
class RemoteColumn:
    """A column of a remote table.

    `remote_type` is lower case, as the catalogue shows it ("numeric(10,2)", "int(10) unsigned"); `spark_type` is what
    the transport delivers. `charset` is MySQL's, PostgreSQL's database encoding, or SQLite's `PRAGMA encoding`, and
    `collation` is the column's, None for the default. `deterministic` is PostgreSQL's property of a collation, under
    which texts are equal only if their bytes are. `uniform` tells that SQLite holds no values of other storage classes
    in it: the table is STRICT, or the column is the row id. `special_dates_are_null` tells that zero dates of MySQL and
    infinite dates of PostgreSQL arrive as NULL; else they raise. `rendering` stands in its place in the SELECT list.
    """

    name: str
    remote_type: str
    spark_type: t.DataType
    nullable: bool = True
    charset: str | None = None
    collation: str | None = None
    deterministic: bool = True
    uniform: bool = True
    is_enum: bool = False
    special_dates_are_null: bool = False
    rendering: exp.Expr | None = None

    @property
    def is_utf8(self) -> bool:
        """Whether the strings of PostgreSQL or SQLite lie in UTF-8, so that their bytes are Spark's."""
        return (self.charset or "UTF8").upper() in ("UTF8", "UTF-8")


@dataclass(frozen=True)
class RemoteTable:
    """A table, or with `subquery` (SQL of the remote, the user's own) what stands for one.

    `name`, `schema` and `catalog` are names as they are, not quoted.
    """

    dialect: Dialect
    name: str
    columns: tuple[RemoteColumn, ...]
    schema: str | None = None
    catalog: str | None = None
    subquery: str | None = None

    def column(self, name: str, case_sensitive: bool = False) -> RemoteColumn | None:
        """The column of that name; None where there is none, or several that differ in case."""
        found = self._exact.get(name, ()) if case_sensitive else self._alike.get(name.lower(), ())
        return found[0] if len(found) == 1 else None

    @cached_property
    def _exact(self) -> Mapping[str, Sequence[RemoteColumn]]:
        return by_name_key(self.columns, lambda column: column.name, case_sensitive=True)

    @cached_property
    def _alike(self) -> Mapping[str, Sequence[RemoteColumn]]:
        return by_name_key(self.columns, lambda column: column.name, case_sensitive=False)

    @property
    def is_utf8(self) -> bool:
        """Whether all columns of strings are."""
        return all(column.is_utf8 for column in self.columns)

    @property
    def spark_schema(self) -> t.StructType:
        """The columns as Spark gets them."""
        return t.StructType([t.StructField(column.name, column.spark_type) for column in self.columns])
