"""Comparison of strings by their bytes, as Spark compares them, whatever collation a remote column has."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.databases import sql_literals as literals
from pushdown_spark.databases.column_operands import UNICODE_CHARSETS, UNKNOWN_CHARSET, ColumnOperand, remote_type
from pushdown_spark.databases.remote_table import Dialect, RemoteColumn
from pushdown_spark.databases.sql_builder import all_of, binary, call, cast, collated, in_list, is_null, negated
from pushdown_spark.expressions.bound import Op, StringTest, Wildcard
from pushdown_spark.expressions.pushdown import UnsupportedError

_ESCAPE = "!"
"""The escape character of LIKE patterns. No database gives it a meaning of its own, unlike the backslash."""
OPERATORS: dict[Op, type[exp.Binary]] = {Op.EQ: exp.EQ, Op.LT: exp.LT, Op.LE: exp.LTE, Op.GT: exp.GT, Op.GE: exp.GTE}
_BINARY_COLLATIONS = frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin"})
"""MySQL's collations that compare bytes without padding."""
_LAST_CODE_POINT, _LAST_OF_UTF8MB3, _LAST_OF_ASCII = 0x10FFFF, 0xFFFF, 0x7F
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
    """The expressions with which a database compares a string.

    - `characters` compares single characters exactly, for LIKE and functions.
    - `equal` is equal to another string if their bytes are.
    - `ordered` is ordered by bytes. None if the database cannot do that.
    - `as_bytes` is set if `equal` and `ordered` are compared with bytes.
    - `indexed` is the bare column, for hints: it is equal to every constant that is equal by bytes.
    - `last_code_point` is the last character that the character set is known to have. The database rejects a comparison
      with others.
    - `stops_at_nul` is the condition of strings on which functions stop at a NUL character.
    - `only_true_reason` is as in `ColumnTest`, and `like_only_true_reason` is the same for LIKE.
    - `is_padded` is set for PostgreSQL's char(n).
    """

    dialect: Dialect
    characters: exp.Expr
    equal: exp.Expr
    ordered: exp.Expr | None
    as_bytes: bool = False
    indexed: exp.Expr | None = None
    last_code_point: int = _LAST_CODE_POINT
    stops_at_nul: exp.Expr | None = None
    only_true_reason: str = ""
    like_only_true_reason: str = ""
    is_padded: bool = False

    def literal(self, text: str) -> exp.Expr:
        """Return a constant to compare `equal` and `ordered` with. Raises UnsupportedError if it cannot be sent."""
        literals.check_text(text)
        return literals.binary(text.encode(), self.dialect) if self.as_bytes else self.text(text)

    def text(self, text: str) -> exp.Expr:
        """Return a string constant. Raises UnsupportedError if it cannot be sent."""
        if self.dialect is Dialect.POSTGRES and not self._can_encode(text):
            raise UnsupportedError("the encoding of the database may lack characters of the string")
        return literals.text(text, self.dialect)

    def _can_encode(self, text: str) -> bool:
        return all(ord(character) <= self.last_code_point for character in text)

    def compare(self, op: Op, text: str) -> ColumnTest:
        """Return `string op text`."""
        if op is not Op.EQ:
            return ColumnTest(binary(OPERATORS[op], self.in_order, self.literal(text)), None, self.only_true_reason)
        tree, hint = binary(exp.EQ, self.equal, self.literal(text)), None
        if self.indexed is not None and self._can_encode(text):
            hint = binary(exp.EQ, self.indexed, self.text(text))
        return ColumnTest(tree, hint, self.only_true_reason)

    def one_of(self, strings: Sequence[str], *, has_null: bool) -> ColumnTest:
        """Return `string IN (strings)`. With `has_null`, the list also has a NULL."""
        nulls: list[exp.Expr] = [exp.Null()] if has_null else []
        tree, hint = in_list(self.equal, [*map(self.literal, strings), *nulls], self.dialect), None
        if self.indexed is not None and strings and all(map(self._can_encode, strings)):
            hint = in_list(self.indexed, list(map(self.text, strings)), self.dialect)
        return ColumnTest(tree, hint, self.only_true_reason)

    @property
    def in_order(self) -> exp.Expr:
        """The expression that is ordered by bytes. Raises UnsupportedError if there is none."""
        if self.ordered is None:
            raise UnsupportedError("the database does not order these strings by their UTF-8 bytes")
        return self.ordered

    def pair(self, op: Op, other: StringComparison) -> ColumnTest:
        """Return `string op string`."""
        if op is not Op.EQ:
            return ColumnTest(binary(OPERATORS[op], self.in_order, other.in_order))
        # PostgreSQL cannot compare columns of two collations, unless one is given explicitly.
        left = in_c(self.equal) if self.dialect is Dialect.POSTGRES else self.equal
        return ColumnTest(binary(exp.EQ, left, other.equal), None, self.only_true_reason or other.only_true_reason)

    def holds(self, how: StringTest, text: str) -> ColumnTest:
        """Return whether the string starts with, ends with or contains a text."""
        literals.check_text(text)
        if self.dialect is Dialect.SQLITE:
            return ColumnTest(self._sqlite_holds(how, text), None, self.like_only_true_reason)
        wildcards = {StringTest.PREFIX: ("", "%"), StringTest.SUFFIX: ("%", ""), StringTest.CONTAINS: ("%", "%")}[how]
        pattern = _escaped(text).join(wildcards)
        has_hint = how is StringTest.PREFIX and self._can_encode(text)
        hint = self._like(self.indexed, pattern) if has_hint and self.indexed is not None else None
        return ColumnTest(self._like(self.characters, pattern), hint, self.like_only_true_reason)

    def like(self, parts: Sequence[str | Wildcard]) -> ColumnTest:
        """Return whether the string matches a LIKE pattern: with GLOB in SQLite, whose LIKE ignores case."""
        if self.dialect is not Dialect.SQLITE:
            pattern = "".join(part.value if isinstance(part, Wildcard) else _escaped(part) for part in parts)
            return ColumnTest(self._like(self.characters, pattern), None, self.like_only_true_reason)
        pattern = "".join(
            _GLOB_WILDCARDS[part] if isinstance(part, Wildcard) else _glob_escaped(part) for part in parts
        )
        if len(pattern.encode(errors="replace")) > _MAX_GLOB_BYTES:
            raise UnsupportedError("the pattern is longer than SQLite accepts")
        return ColumnTest(exp.Glob(this=self.equal, expression=self.text(pattern)), None, self.like_only_true_reason)

    def _like(self, subject: exp.Expr, pattern: str) -> exp.Expr:
        return exp.Escape(
            this=exp.Like(this=subject, expression=self.text(pattern)), expression=exp.Literal.string(_ESCAPE)
        )

    def _sqlite_holds(self, how: StringTest, text: str) -> exp.Expr:
        """Return the condition in SQLite. It uses comparisons and bytes, because string functions stop at a NUL."""
        if how is StringTest.CONTAINS:
            return binary(exp.GT, call("INSTR", self.equal, self.text(text)), literals.number(0))
        ordered = self.in_order
        if how is StringTest.PREFIX and (end := _prefix_end(text)) is not None:
            return all_of([binary(exp.GTE, ordered, self.text(text)), binary(exp.LT, ordered, self.text(end))])
        encoded = text.encode()
        start = literals.number(-len(encoded) if how is StringTest.SUFFIX else 1)
        content = cast(self.characters, "BLOB", self.dialect)
        substring = call("SUBSTR", content, start, literals.number(len(encoded)))
        return binary(exp.EQ, substring, literals.binary(encoded, self.dialect))


def _escaped(text: str) -> str:
    """Return a LIKE pattern that matches a text literally."""
    return re.sub(f"[%_{_ESCAPE}]", rf"{_ESCAPE}\g<0>", text)


def _glob_escaped(text: str) -> str:
    return re.sub(r"[*?[]", r"[\g<0>]", text)


def _prefix_end(prefix: str) -> str | None:
    """Return the smallest string that is greater than all strings with a prefix."""
    next_code_point = ord(prefix[-1]) + 1
    if next_code_point in _SURROGATES:
        next_code_point = _SURROGATES.stop
    return None if next_code_point > _LAST_CODE_POINT else prefix[:-1] + chr(next_code_point)


def column_comparison(operand: ColumnOperand, dialect: Dialect) -> StringComparison:
    """Return how a string column is compared."""
    column = operand.column
    if dialect is Dialect.POSTGRES:
        return _postgresql_column(column, operand)
    if dialect is Dialect.SQLITE:
        return sqlite_comparison(operand.value, is_utf8=column.is_utf8, column=column)
    return _mysql_column(column, operand)


def string_comparison(value: exp.Expr, dialect: Dialect, *, is_utf8: bool) -> StringComparison:
    """Return how a constant or the result of a function is compared. `is_utf8` is not used for MySQL."""
    if dialect is Dialect.POSTGRES:
        return postgresql_comparison(value, deterministic=False, is_utf8=is_utf8)
    return sqlite_comparison(value, is_utf8=is_utf8) if dialect is Dialect.SQLITE else mysql_comparison(value)


def _postgresql_column(column: RemoteColumn, operand: ColumnOperand) -> StringComparison:
    is_c, is_padded = column.collation in ("C", "POSIX"), remote_type(column).base == "character"
    comparison = postgresql_comparison(
        operand.value, deterministic=column.deterministic, is_c=is_c, is_utf8=column.is_utf8
    )
    return replace(
        comparison, indexed=column.reference if is_padded and column.deterministic else None, is_padded=is_padded
    )


def postgresql_comparison(
    value: exp.Expr, *, deterministic: bool = True, is_c: bool = False, is_utf8: bool = True
) -> StringComparison:
    """Return how PostgreSQL compares a string.

    Equality compares bytes, unless the collation is not deterministic. Only the collation "C" orders by bytes.
    """
    equal = value if deterministic else in_c(value)
    ordered = value if is_c and deterministic else in_c(value)
    last = _LAST_CODE_POINT if is_utf8 else _LAST_OF_ASCII
    return StringComparison(Dialect.POSTGRES, equal, equal, ordered if is_utf8 else None, last_code_point=last)


def in_c(tree: exp.Expr) -> exp.Expr:
    """Return a string of PostgreSQL in the collation "C", which compares bytes."""
    return tree if isinstance(tree, exp.Collate) else collated(tree, '"C"')


def _mysql_column(column: RemoteColumn, operand: ColumnOperand) -> StringComparison:
    if column.collation in _BINARY_COLLATIONS and remote_type(column).base != "enum":
        return StringComparison(Dialect.MYSQL, operand.value, operand.value, operand.value)
    charset = (column.charset or "utf8mb4").lower()
    comparison = mysql_comparison(
        operand.value, is_unicode=charset in UNICODE_CHARSETS, is_utf8mb4=charset == "utf8mb4"
    )
    collation = column.collation or "its collation"
    reason = f"{collation} may treat different strings of {column.name} as equal, so the negation is not sent"
    others = _LAST_OF_UTF8MB3 if charset in UNICODE_CHARSETS else _LAST_OF_ASCII
    return replace(
        comparison,
        ordered=None,
        indexed=None if charset == UNKNOWN_CHARSET else column.reference,
        # All character sets have ASCII.
        last_code_point=_LAST_CODE_POINT if charset == "utf8mb4" else others,
        only_true_reason=reason,
        like_only_true_reason="" if collation.endswith("_bin") else reason,
    )


def mysql_comparison(value: exp.Expr, *, is_unicode: bool = True, is_utf8mb4: bool = True) -> StringComparison:
    """Return how MySQL compares a string: by its UTF-8 bytes, because string comparisons ignore trailing spaces."""
    charset = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.Var(this="utf8mb4"))
    converted = exp.Cast(this=value, to=charset)
    utf8_bytes = cast(value if is_unicode else converted, "BINARY", Dialect.MYSQL)
    characters = collated(value if is_utf8mb4 else converted, "utf8mb4_bin")
    return StringComparison(Dialect.MYSQL, characters, utf8_bytes, utf8_bytes, as_bytes=True)


def sqlite_comparison(value: exp.Expr, *, is_utf8: bool = True, column: RemoteColumn | None = None) -> StringComparison:
    """Return how SQLite compares a string: by its bytes, unless the column has another collation."""
    compares_bytes = column is not None and column.uniform and (column.collation or "BINARY").upper() == "BINARY"
    equal = value if compares_bytes else collated(value, "BINARY")
    content = cast(value, "BLOB", Dialect.SQLITE)
    return StringComparison(
        Dialect.SQLITE,
        value,
        equal,
        equal if is_utf8 else None,
        stops_at_nul=binary(exp.GT, call("INSTR", content, exp.HexString(this="00")), literals.number(0)),
        like_only_true_reason="SQLite's LIKE ignores case; the rewritten predicate is sound only where it is true",
    )


def never_true(value: exp.Expr) -> exp.Expr:
    """Return a condition that is false, and NULL if the value is NULL."""
    return exp.Case(ifs=[exp.If(this=negated(is_null(value)), true=exp.Boolean(this=False))])
