"""Comparison of strings by their bytes, as Spark compares them, whatever collation a remote column has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from sqlglot import exp

from pushdown_spark.databases.sql.builder import (
    all_of,
    binary,
    bytes_literal,
    call,
    cast,
    check_text,
    collate,
    in_values,
    is_null,
    negate,
    number,
    text_literal,
)
from pushdown_spark.databases.sql.column_operands import UNKNOWN_CHARSET, ColumnOperand, remote_type
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Op, StringTest, Wildcard

_ESCAPE = "!"
"""The escape character of LIKE patterns. It has no special meaning in any database, unlike the backslash."""
OPERATORS: dict[Op, type[exp.Binary]] = {Op.EQ: exp.EQ, Op.LT: exp.LT, Op.LE: exp.LTE, Op.GT: exp.GT, Op.GE: exp.GTE}
_BINARY_COLLATIONS = {Dialect.MYSQL: "utf8mb4_0900_bin", Dialect.MARIADB: "utf8mb4_nopad_bin"}
"""The collations that compare bytes without padding. In MariaDB, `utf8mb4_0900_bin` is an alias of `utf8mb4_bin`."""
_LAST_CODE_POINT, _LAST_OF_ASCII = 0x10FFFF, 0x7F
_UNICODE_CHARSETS = {"utf8mb4": _LAST_CODE_POINT, "utf8mb3": 0xFFFF, "utf8": 0xFFFF}
"""MySQL's character sets that are UTF-8, with their last code point. All character sets have ASCII."""
_SURROGATES = range(0xD800, 0xE000)
_GLOB_WILDCARDS = {Wildcard.ANY: "*", Wildcard.ONE: "?"}
_MAX_GLOB_BYTES = 50_000
"""SQLite's default limit for patterns of LIKE and GLOB."""


@dataclass(frozen=True)
class ColumnTest:
    """A condition with Spark's value. `index_hint` is implied by it, and an index can serve it.

    `only_true_reason` says why the condition may only select rows where it is true. It is empty if the negation is
    sound too.
    """

    tree: exp.Expr
    index_hint: exp.Expr | None = None
    only_true_reason: str = ""


@dataclass(frozen=True)
class StringComparison:
    """A string as its database compares it. Each database has a subclass.

    - `characters` compares single characters exactly, for LIKE and functions.
    - `equal` is equal to another string if their bytes are.
    - `sort_key` is ordered by bytes, or None if the database cannot do that.
    - `index_column` is the bare column, for hints: it is equal to every constant that is equal by bytes.
    - `last_code_point` is the last character that the character set is known to have. The database rejects a comparison
      with others.
    - `only_true_reason` is as in `ColumnTest`.
    """

    dialect: ClassVar[Dialect]
    characters: exp.Expr
    equal: exp.Expr
    sort_key: exp.Expr | None
    index_column: exp.Expr | None = None
    last_code_point: int = _LAST_CODE_POINT
    only_true_reason: str = ""

    @property
    def like_only_true_reason(self) -> str:
        """Why LIKE is sound only where it is true, or an empty string if it is also sound where it is false."""
        return self.only_true_reason

    @property
    def stops_at_nul(self) -> exp.Expr | None:
        """The condition of strings on which functions stop at a NUL character, or None if they never do."""
        return None

    @property
    def in_order(self) -> exp.Expr:
        """The expression that is ordered by bytes. Raises UnsupportedError if there is none."""
        if self.sort_key is None:
            raise UnsupportedError("the database does not order these strings by their UTF-8 bytes")
        return self.sort_key

    def text(self, text: str) -> exp.Expr:
        """Return a string constant. Raises UnsupportedError if it cannot be sent."""
        return text_literal(text, self.dialect)

    def literal(self, text: str) -> exp.Expr:
        """Return a constant to compare `equal` and `sort_key` with. Raises UnsupportedError if it cannot be sent."""
        return self.text(text)

    def _can_encode(self, text: str) -> bool:
        return all(ord(character) <= self.last_code_point for character in text)

    def compare(self, op: Op, text: str) -> ColumnTest:
        """Return `string op text`."""
        if op is not Op.EQ:
            return ColumnTest(binary(OPERATORS[op], self.in_order, self.literal(text)), None, self.only_true_reason)
        tree, hint = binary(exp.EQ, self.equal, self.literal(text)), None
        if self.index_column is not None and self._can_encode(text):
            hint = binary(exp.EQ, self.index_column, self.text(text))
        return ColumnTest(tree, hint, self.only_true_reason)

    def one_of(self, strings: Sequence[str], *, has_null: bool) -> ColumnTest:
        """Return `string IN (strings)`. With `has_null`, the list also has a NULL."""
        nulls: list[exp.Expr] = [exp.Null()] if has_null else []
        tree, hint = in_values(self.equal, [*map(self.literal, strings), *nulls], self.dialect), None
        if self.index_column is not None and strings and all(map(self._can_encode, strings)):
            hint = in_values(self.index_column, list(map(self.text, strings)), self.dialect)
        return ColumnTest(tree, hint, self.only_true_reason)

    def pair(self, op: Op, other: StringComparison) -> ColumnTest:
        """Return `string op string`."""
        if op is not Op.EQ:
            return ColumnTest(binary(OPERATORS[op], self.in_order, other.in_order))
        reason = self.only_true_reason or other.only_true_reason
        return ColumnTest(binary(exp.EQ, self.equal, other.equal), None, reason)

    def match(self, how: StringTest, text: str) -> ColumnTest:
        """Return whether the string starts with, ends with or contains a text."""
        check_text(text)
        wildcards = {StringTest.PREFIX: ("", "%"), StringTest.SUFFIX: ("%", ""), StringTest.CONTAINS: ("%", "%")}[how]
        pattern = _escape(text).join(wildcards)
        has_hint = how is StringTest.PREFIX and self._can_encode(text)
        hint = self._like(self.index_column, pattern) if has_hint and self.index_column is not None else None
        return ColumnTest(self._like(self.characters, pattern), hint, self.like_only_true_reason)

    def like(self, parts: Sequence[str | Wildcard]) -> ColumnTest:
        """Return whether the string matches a LIKE pattern."""
        pattern = "".join(part.value if isinstance(part, Wildcard) else _escape(part) for part in parts)
        return ColumnTest(self._like(self.characters, pattern), None, self.like_only_true_reason)

    def _like(self, subject: exp.Expr, pattern: str) -> exp.Expr:
        return exp.Escape(
            this=exp.Like(this=subject, expression=self.text(pattern)), expression=exp.Literal.string(_ESCAPE)
        )


@dataclass(frozen=True)
class PostgresqlString(StringComparison):
    """A string of PostgreSQL. `is_padded` is set for char(n)."""

    dialect: ClassVar[Dialect] = Dialect.POSTGRES
    is_padded: bool = False

    def text(self, text: str) -> exp.Expr:
        """Return a string constant. Raises UnsupportedError if it cannot be sent."""
        if not self._can_encode(text):
            raise UnsupportedError("the encoding of the database may lack characters of the string")
        return super().text(text)

    def pair(self, op: Op, other: StringComparison) -> ColumnTest:
        """Return `string op string`. Columns of two collations need one that is given explicitly."""
        if op is not Op.EQ:
            return super().pair(op, other)
        return ColumnTest(binary(exp.EQ, collate_c(self.equal), other.equal))


@dataclass(frozen=True)
class MysqlString(StringComparison):
    """A string of MySQL or MariaDB.

    `as_bytes` is set if `equal` and `sort_key` are compared with bytes. `has_exact_like` is set if LIKE distinguishes
    all characters, even if comparisons do not.
    """

    dialect: ClassVar[Dialect] = Dialect.MYSQL
    as_bytes: bool = False
    has_exact_like: bool = False

    @property
    def like_only_true_reason(self) -> str:
        """As for other comparisons, unless LIKE compares exactly."""
        return "" if self.has_exact_like else self.only_true_reason

    def literal(self, text: str) -> exp.Expr:
        """Return a constant to compare `equal` and `sort_key` with. Raises UnsupportedError if it cannot be sent."""
        check_text(text)
        return bytes_literal(text.encode(), self.dialect) if self.as_bytes else self.text(text)


@dataclass(frozen=True)
class SqliteString(StringComparison):
    """A string of SQLite, whose LIKE ignores case, and whose functions stop at a NUL character."""

    dialect: ClassVar[Dialect] = Dialect.SQLITE

    @property
    def like_only_true_reason(self) -> str:
        """SQLite's LIKE differs from its other comparisons."""
        return "SQLite's LIKE ignores case; the rewritten predicate is sound only where it is true"

    @property
    def stops_at_nul(self) -> exp.Expr:
        """The condition of strings on which functions stop at a NUL character."""
        return binary(exp.GT, call("INSTR", self._content, exp.HexString(this="00")), number(0))

    @property
    def _content(self) -> exp.Expr:
        return cast(self.characters, "BLOB", self.dialect)

    def match(self, how: StringTest, text: str) -> ColumnTest:
        """Return whether the string starts with, ends with or contains a text, by comparisons and bytes."""
        check_text(text)
        return ColumnTest(self._match(how, text), None, self.like_only_true_reason)

    def _match(self, how: StringTest, text: str) -> exp.Expr:
        if how is StringTest.CONTAINS:
            return binary(exp.GT, call("INSTR", self.equal, self.text(text)), number(0))
        sort_key = self.in_order
        if how is StringTest.PREFIX and (end := _prefix_end(text)) is not None:
            return all_of([binary(exp.GTE, sort_key, self.text(text)), binary(exp.LT, sort_key, self.text(end))])
        data = text.encode()
        start = number(-len(data) if how is StringTest.SUFFIX else 1)
        substring = call("SUBSTR", self._content, start, number(len(data)))
        return binary(exp.EQ, substring, bytes_literal(data, self.dialect))

    def like(self, parts: Sequence[str | Wildcard]) -> ColumnTest:
        """Return whether the string matches a LIKE pattern, with GLOB."""
        pattern = "".join(_GLOB_WILDCARDS[part] if isinstance(part, Wildcard) else _escape_glob(part) for part in parts)
        if len(pattern.encode(errors="replace")) > _MAX_GLOB_BYTES:
            raise UnsupportedError("the pattern is longer than SQLite accepts")
        return ColumnTest(exp.Glob(this=self.equal, expression=self.text(pattern)), None, self.like_only_true_reason)


def _escape(text: str) -> str:
    """Return a LIKE pattern that matches a text literally."""
    return re.sub(f"[%_{_ESCAPE}]", rf"{_ESCAPE}\g<0>", text)


def _escape_glob(text: str) -> str:
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def _prefix_end(prefix: str) -> str | None:
    """Return the smallest string that is greater than all strings with a prefix."""
    next_code_point = ord(prefix[-1]) + 1
    if next_code_point in _SURROGATES:
        next_code_point = _SURROGATES.stop
    return None if next_code_point > _LAST_CODE_POINT else prefix[:-1] + chr(next_code_point)


def column_comparison(operand: ColumnOperand, dialect: Dialect) -> StringComparison:
    """Return how a string column is compared."""
    return string_comparison(operand.value, dialect, is_utf8=operand.column.is_utf8, column=operand.column)


def string_comparison(
    value: exp.Expr, dialect: Dialect, *, is_utf8: bool, column: RemoteColumn | None = None
) -> StringComparison:
    """Return how a string is compared: the value of a column, or without one a constant or the result of a function."""
    if dialect is Dialect.POSTGRES:
        return _postgresql_string(value, is_utf8, column)
    if dialect is Dialect.SQLITE:
        return _sqlite_string(value, is_utf8, column)
    return _mysql_string(value, column, dialect)


def _postgresql_string(value: exp.Expr, is_utf8: bool, column: RemoteColumn | None) -> PostgresqlString:
    """Compare bytes. Equality does so unless the collation is not deterministic, the order only in collation "C"."""
    is_deterministic = column is not None and column.has_deterministic_collation
    is_c = column is not None and column.collation in ("C", "POSIX")
    is_padded = column is not None and remote_type(column).base == "character"
    equal = value if is_deterministic else collate_c(value)
    sort_key = equal if is_c else collate_c(value)
    return PostgresqlString(
        equal,
        equal,
        sort_key if is_utf8 else None,
        index_column=column.reference if column is not None and is_padded and is_deterministic else None,
        last_code_point=_LAST_CODE_POINT if is_utf8 else _LAST_OF_ASCII,
        is_padded=is_padded,
    )


def collate_c(tree: exp.Expr) -> exp.Expr:
    """Return a string of PostgreSQL in the collation "C", which compares bytes."""
    return tree if isinstance(tree, exp.Collate) else collate(tree, '"C"')


def _mysql_string(value: exp.Expr, column: RemoteColumn | None, dialect: Dialect) -> MysqlString:
    """Compare UTF-8 bytes, because string comparisons of most collations ignore trailing spaces."""
    is_enum = column is not None and remote_type(column).base == "enum"
    if column is not None and column.collation == _BINARY_COLLATIONS[dialect] and not is_enum:
        return MysqlString(value, value, value)
    charset = "utf8mb4" if column is None else (column.charset or "utf8mb4").lower()
    utf8mb4 = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.Var(this="utf8mb4"))
    utf8_value = exp.Cast(this=value, to=utf8mb4)
    utf8_bytes = cast(value if charset in _UNICODE_CHARSETS else utf8_value, "BINARY", Dialect.MYSQL)
    characters = collate(value if charset == "utf8mb4" else utf8_value, "utf8mb4_bin")
    if column is None:
        return MysqlString(characters, utf8_bytes, utf8_bytes, as_bytes=True)
    collation = column.collation or "its collation"
    reason = f"{collation} may treat different strings of {column.name} as equal, so the negation is not sent"
    return MysqlString(
        characters,
        utf8_bytes,
        None,
        index_column=None if charset == UNKNOWN_CHARSET else column.reference,
        last_code_point=_UNICODE_CHARSETS.get(charset, _LAST_OF_ASCII),
        only_true_reason=reason,
        as_bytes=True,
        has_exact_like=collation.endswith("_bin"),
    )


def _sqlite_string(value: exp.Expr, is_utf8: bool, column: RemoteColumn | None) -> SqliteString:
    """Compare bytes, in the collation BINARY unless the column has it."""
    compares_bytes = (
        column is not None and column.has_one_storage_class and (column.collation or "BINARY").upper() == "BINARY"
    )
    equal = value if compares_bytes else collate(value, "BINARY")
    return SqliteString(value, equal, equal if is_utf8 else None)


def never_true(value: exp.Expr) -> exp.Expr:
    """Return a condition that is false, and NULL if the value is NULL."""
    return exp.Case(ifs=[exp.If(this=negate(is_null(value)), true=exp.Boolean(this=False))])
