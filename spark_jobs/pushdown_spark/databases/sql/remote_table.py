"""Remote tables: the columns as the database declares them and as Spark receives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import ANY_CASE, EXACT_NAMES, NameRule

_NAME_PART = re.compile(r'(?:"((?:[^"]|"")+)"|([^".]+))(?:\.|$)')


class Dialect(StrEnum):
    """SQL dialects of databases."""

    POSTGRES = "postgres"
    MYSQL = "mysql"
    MARIADB = "mariadb"
    SQLITE = "sqlite"

    @property
    def is_mysql(self) -> bool:
        """Whether the database is MySQL or MariaDB. Both accept all the SQL that is written for them here."""
        return self in (Dialect.MYSQL, Dialect.MARIADB)


def quote_identifier(name: str) -> exp.Identifier:
    """Return a quoted identifier. The name may have any characters."""
    return exp.to_identifier(name, quoted=True)


def column_reference(name: str) -> exp.Column:
    """Return a reference to a column by its exact name."""
    return exp.Column(this=quote_identifier(name))


@dataclass(frozen=True, kw_only=True)
class RemoteColumn:
    """A column of a remote table."""

    name: str
    remote_type: str
    """In lower case as the catalog shows it (`numeric(10,2)`, `int(10) unsigned`), except for labels."""
    spark_type: t.DataType
    """The type that the transport delivers."""
    charset: str | None = None
    """The column's in MySQL, the database's encoding in PostgreSQL, and `PRAGMA encoding` in SQLite."""
    collation: str | None = None
    """None for the default collation."""
    has_deterministic_collation: bool = True
    """A property of PostgreSQL's collations: strings are equal only if their bytes are."""
    has_one_storage_class: bool = True
    """Whether SQLite stores one storage class only: in the row id, and in STRICT tables except for type ANY."""
    is_enum: bool = False
    special_dates_are_null: bool = False
    """Whether zero dates (MySQL) and infinite dates (PostgreSQL) arrive as NULL, or else raise."""
    is_required: bool = False
    """Whether the database of a target refuses NULL, or replaces it with another value."""
    rendering: exp.Expr | None = None
    """Replaces the column in the SELECT list."""

    @property
    def reference(self) -> exp.Column:
        """A new reference to the column, by its exact name."""
        return column_reference(self.name)

    @property
    def is_utf8(self) -> bool:
        """Whether PostgreSQL or SQLite stores the strings in UTF-8, as Spark does."""
        return (self.charset or "UTF8").upper() in ("UTF8", "UTF-8")


@dataclass(frozen=True)
class RemoteTable:
    """A table, or a user's query (`subquery`, in the dialect of the database).

    `name`, `schema` and `catalog` are not quoted. The database computes the `generated_columns` of a target. They are
    not part of `columns`.
    """

    dialect: Dialect
    name: str
    columns: tuple[RemoteColumn, ...]
    schema: str | None = None
    catalog: str | None = None
    subquery: str | None = None
    generated_columns: frozenset[str] = frozenset()

    def column(self, name: str, name_rule: NameRule = ANY_CASE) -> RemoteColumn | None:
        """Return the column of that name, or None if there is none, or if several names differ in case only."""
        index = self._by_exact_name if name_rule.case_sensitive else self._by_lower_name
        columns = index.get(name_rule.key(name), ())
        return columns[0] if len(columns) == 1 else None

    def free_name(self, name: str) -> str:
        """Return a name that no column has, with underscores appended where needed."""
        while name.lower() in self._by_lower_name:
            name += "_"
        return name

    @cached_property
    def _by_exact_name(self) -> Mapping[str, Sequence[RemoteColumn]]:
        return EXACT_NAMES.group(self.columns, lambda column: column.name)

    @cached_property
    def _by_lower_name(self) -> Mapping[str, Sequence[RemoteColumn]]:
        return ANY_CASE.group(self.columns, lambda column: column.name)

    @property
    def is_utf8(self) -> bool:
        """Whether all columns store strings in UTF-8."""
        return all(column.is_utf8 for column in self.columns)

    @property
    def spark_schema(self) -> t.StructType:
        """The columns with their Spark types."""
        return t.StructType([t.StructField(column.name, column.spark_type) for column in self.columns])


def parse_table_name(text: str) -> tuple[str, ...]:
    """Return the parts of a table name, the table last. Dots separate parts, and double quotes may enclose a part.

    A name without a dot that does not start with a quote is one part. Raises BadSpecError for an invalid name.

    >>> parse_table_name('shop."order.items"')
    ('shop', 'order.items')
    """
    if "." not in text and not text.startswith('"'):
        parts = [text]
    else:
        parts, position = [], 0
        while position < len(text):
            match = _NAME_PART.match(text, position)
            if match is None:
                raise BadSpecError(
                    f"table: {text!r} is not a valid name at character {position + 1}; quote parts that have dots or "
                    "quotes"
                )
            parts.append(match.group(2) or match.group(1).replace('""', '"'))
            position = match.end()
        if text.endswith("."):
            raise BadSpecError(f"table: {text!r} ends with a dot; add the name of the table")
    if not all(part.strip() for part in parts) or len(parts) > 3:
        raise BadSpecError(f"table: {text!r} is not a valid name; give table, schema.table or catalog.schema.table")
    return tuple(parts)
