"""Comparison of strings by their bytes, as Spark compares them, whatever collation a remote column has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.databases import sql_literals as literals
from pushdown_spark.databases.column_operands import UNICODE_CHARSETS, UNKNOWN_CHARSET, ColumnOperand, remote_type
from pushdown_spark.databases.remote_table import Dialect, RemoteColumn
from pushdown_spark.databases.sql_builder import all_of, binary, call, cast, in_list, is_null, negated, quoted
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import Op, StringTest

Build = Callable[[], exp.Expr]
"""A function that builds an expression. Each use needs a tree of its own, because sqlglot's nodes have one parent."""
ESCAPE = "!"
"""The escape character of LIKE patterns. No database gives it a meaning of its own, unlike the backslash."""
OPERATORS: dict[Op, type[exp.Binary]] = {Op.EQ: exp.EQ, Op.LT: exp.LT, Op.LE: exp.LTE, Op.GT: exp.GT, Op.GE: exp.GTE}
_BINARY_COLLATIONS = frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin"})
"""MySQL's collations that compare bytes without padding."""
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
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
    - `literal` writes the constants that `equal` and `ordered` are compared with.
    - `indexed` is the bare column, for hints: it is equal to every constant that is equal by bytes and that its
      character set can encode (`can_encode`).
    - `stops_at_nul` is the condition of strings on which functions stop at a NUL character.
    - `only_true_reason` is as in `ColumnTest`, and `like_only_true_reason` is the same for LIKE.
    - `is_padded` is set for PostgreSQL's char(n).
    """

    dialect: Dialect
    characters: Build
    equal: Build
    ordered: Build | None
    literal: Callable[[str], exp.Expr]
    indexed: Build | None = None
    can_encode: Callable[[str], bool] = lambda text: True
    stops_at_nul: Build | None = None
    only_true_reason: str = ""
    like_only_true_reason: str = ""
    is_padded: bool = False

    def compare(self, op: Op, text: str) -> ColumnTest:
        """Return `string op text`."""
        literals.check_text(text)
        subject = self.equal if op is Op.EQ else self._require_ordered()
        tree = binary(OPERATORS[op], subject(), self.literal(text))
        if op is not Op.EQ or self.indexed is None or not self.can_encode(text):
            return ColumnTest(tree, None, self.only_true_reason)
        hint = binary(exp.EQ, self.indexed(), literals.text(text, self.dialect))
        return ColumnTest(tree, hint, self.only_true_reason)

    def one_of(self, strings: Sequence[str], *, has_null: bool) -> ColumnTest:
        """Return `string IN (strings)`. With `has_null`, the list also has a NULL."""
        for text in strings:
            literals.check_text(text)
        nulls: list[exp.Expr] = [exp.Null()] if has_null else []
        tree = in_list(self.equal(), [*map(self.literal, strings), *nulls], self.dialect)
        if self.indexed is None or not strings or not all(map(self.can_encode, strings)):
            return ColumnTest(tree, None, self.only_true_reason)
        hint = in_list(self.indexed(), [literals.text(text, self.dialect) for text in strings], self.dialect)
        return ColumnTest(tree, hint, self.only_true_reason)

    def _require_ordered(self) -> Build:
        if self.ordered is None:
            raise UnsupportedError("the database does not order these strings by their UTF-8 bytes")
        return self.ordered

    def pair(self, op: Op, other: StringComparison) -> ColumnTest:
        """Return `string op string`."""
        if op is not Op.EQ:
            return ColumnTest(binary(OPERATORS[op], self._require_ordered()(), other._require_ordered()()))
        # PostgreSQL cannot compare columns of two collations, unless one is given explicitly.
        left = in_c(self.equal()) if self.dialect is Dialect.POSTGRES else self.equal()
        return ColumnTest(binary(exp.EQ, left, other.equal()), None, self.only_true_reason or other.only_true_reason)

    def holds(self, how: StringTest, text: str) -> ColumnTest:
        """Return whether the string starts with, ends with or contains a text."""
        literals.check_text(text)
        if self.dialect is Dialect.SQLITE:
            return ColumnTest(self._sqlite_holds(how, text), None, self.like_only_true_reason)
        wildcards = {StringTest.PREFIX: ("", "%"), StringTest.SUFFIX: ("%", ""), StringTest.CONTAINS: ("%", "%")}[how]
        pattern = escaped(text).join(wildcards)
        has_hint = how is StringTest.PREFIX and self.indexed is not None and self.can_encode(text)
        hint = self._like(self.indexed(), pattern) if has_hint and self.indexed is not None else None
        return ColumnTest(self._like(self.characters(), pattern), hint, self.like_only_true_reason)

    def like(self, pattern: str) -> ColumnTest:
        """Return `string LIKE pattern ESCAPE '!'`. Not for SQLite, whose LIKE ignores case."""
        literals.check_text(pattern)
        return ColumnTest(self._like(self.characters(), pattern), None, self.like_only_true_reason)

    def _like(self, subject: exp.Expr, pattern: str) -> exp.Expr:
        # In MySQL, comparisons use bytes, but LIKE needs strings.
        literal = literals.text(pattern, self.dialect) if self.dialect.is_mysql else self.literal(pattern)
        like = exp.Like(this=subject, expression=literal)
        return exp.Escape(this=like, expression=exp.Literal.string(ESCAPE))

    def _sqlite_holds(self, how: StringTest, text: str) -> exp.Expr:
        """Return the condition in SQLite. It uses comparisons and bytes, because string functions stop at a NUL."""
        if how is StringTest.CONTAINS:
            return binary(exp.GT, call("INSTR", self.equal(), literals.text(text, self.dialect)), literals.number(0))
        ordered = self._require_ordered()
        if how is StringTest.PREFIX and (end := _prefix_end(text)) is not None:
            bounds = ((exp.GTE, text), (exp.LT, end))
            return all_of([binary(op, ordered(), self.literal(bound)) for op, bound in bounds])
        encoded = text.encode()
        start = literals.number(-len(encoded) if how is StringTest.SUFFIX else 1)
        content = cast(self.characters(), "BLOB", self.dialect)
        substring = call("SUBSTR", content, start, literals.number(len(encoded)))
        return binary(exp.EQ, substring, literals.binary(encoded, self.dialect))

    def glob(self, pieces: Sequence[str], wildcards: Sequence[str]) -> ColumnTest:
        """Return `string GLOB pattern` in SQLite. The wildcards (`*`, `?`) stand between the literal pieces."""
        parts = [_glob_escaped(piece) for piece in pieces]
        pattern = parts[0] + "".join(wildcard + part for wildcard, part in zip(wildcards, parts[1:], strict=True))
        literals.check_text(pattern)
        if len(pattern.encode()) > _MAX_GLOB_BYTES:
            raise UnsupportedError("the pattern is longer than SQLite accepts")
        tree = exp.Glob(this=self.equal(), expression=literals.text(pattern, Dialect.SQLITE))
        return ColumnTest(tree, None, self.like_only_true_reason)


def escaped(text: str) -> str:
    """Return a LIKE pattern that matches a text literally."""
    return "".join(ESCAPE + character if character in ("%", "_", ESCAPE) else character for character in text)


def _glob_escaped(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


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


def _postgresql_column(column: RemoteColumn, operand: ColumnOperand) -> StringComparison:
    comparison = postgresql_comparison(
        operand.value,
        deterministic=column.deterministic,
        is_c=column.collation in ("C", "POSIX"),
        is_utf8=column.is_utf8,
    )
    is_padded = remote_type(column).base == "character"
    indexed = (lambda: operand.bare) if is_padded and column.deterministic else None
    return replace(comparison, indexed=indexed, is_padded=is_padded)


def postgresql_comparison(
    value: Build, *, deterministic: bool = True, is_c: bool = False, is_utf8: bool = True
) -> StringComparison:
    """Return how PostgreSQL compares a string.

    Equality compares bytes, unless the collation is not deterministic. Only the collation "C" orders by bytes.
    """

    equal = value if deterministic else lambda: in_c(value())
    ordered = value if is_c and deterministic else lambda: in_c(value())

    def literal(text: str) -> exp.Expr:
        if not is_utf8:
            check_ascii(text)
        return literals.text(text, Dialect.POSTGRES)

    return StringComparison(Dialect.POSTGRES, equal, equal, ordered if is_utf8 else None, literal)


def check_ascii(text: str) -> None:
    """Raise UnsupportedError for characters that the encoding may lack. The server would reject the query."""
    if not text.isascii():
        raise UnsupportedError("the encoding of the database may lack characters of the string")


def in_c(tree: exp.Expr) -> exp.Expr:
    """Return a string of PostgreSQL in the collation "C", which compares bytes."""
    return tree if isinstance(tree, exp.Collate) else exp.Collate(this=_collate_operand(tree), expression=quoted("C"))


def _collate_operand(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree) if isinstance(tree, exp.Binary | exp.Case) else tree


def _mysql_column(column: RemoteColumn, operand: ColumnOperand) -> StringComparison:
    if column.collation in _BINARY_COLLATIONS and remote_type(column).base != "enum":
        return StringComparison(Dialect.MYSQL, operand.value, operand.value, operand.value, _mysql_literal)
    charset = (column.charset or "utf8mb4").lower()
    comparison = mysql_comparison(
        operand.value, is_unicode=charset in UNICODE_CHARSETS, is_utf8mb4=charset == "utf8mb4"
    )
    collation = column.collation or "its collation"
    reason = f"{collation} may treat different strings of {column.name} as equal, so the negation is not sent"
    return replace(
        comparison,
        ordered=None,
        indexed=None if charset == UNKNOWN_CHARSET else lambda: operand.bare,
        can_encode=lambda text: _mysql_can_encode(charset, text),
        only_true_reason=reason,
        like_only_true_reason="" if collation.endswith("_bin") else reason,
    )


def _mysql_can_encode(charset: str, text: str) -> bool:
    """Return whether a character set has all characters of a text. MySQL rejects a comparison with others.

    All character sets have ASCII.
    """
    if charset == "utf8mb4":
        return True
    if charset in ("utf8", "utf8mb3"):
        return all(ord(character) <= 0xFFFF for character in text)
    return text.isascii()


def _mysql_literal(text: str) -> exp.Expr:
    return literals.text(text, Dialect.MYSQL)


def mysql_comparison(value: Build, *, is_unicode: bool = True, is_utf8mb4: bool = True) -> StringComparison:
    """Return how MySQL compares a string: by its UTF-8 bytes, because string comparisons ignore trailing spaces."""

    def converted() -> exp.Expr:
        charset = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.Var(this="utf8mb4"))
        return exp.Cast(this=value(), to=charset)

    def utf8_bytes() -> exp.Expr:
        return cast(value() if is_unicode else converted(), "BINARY", Dialect.MYSQL)

    def characters() -> exp.Expr:
        text = _collate_operand(value()) if is_utf8mb4 else converted()
        return exp.Collate(this=text, expression=exp.Var(this="utf8mb4_bin"))

    return StringComparison(
        Dialect.MYSQL, characters, utf8_bytes, utf8_bytes, lambda text: literals.binary(text.encode(), Dialect.MYSQL)
    )


def sqlite_comparison(value: Build, *, is_utf8: bool = True, column: RemoteColumn | None = None) -> StringComparison:
    """Return how SQLite compares a string: by its bytes, unless the column has another collation."""
    compares_bytes = column is not None and column.uniform and (column.collation or "BINARY").upper() == "BINARY"

    def collated() -> exp.Expr:
        if compares_bytes:
            return value()
        return exp.Collate(this=_collate_operand(value()), expression=exp.Var(this="BINARY"))

    def stops_at_nul() -> exp.Expr:
        content = cast(value(), "BLOB", Dialect.SQLITE)
        return binary(exp.GT, call("INSTR", content, exp.HexString(this="00")), literals.number(0))

    return StringComparison(
        Dialect.SQLITE,
        value,
        collated,
        collated if is_utf8 else None,
        lambda text: literals.text(text, Dialect.SQLITE),
        stops_at_nul=stops_at_nul,
        like_only_true_reason="SQLite's LIKE ignores case; the rewritten predicate is sound only where it is true",
    )


def never_true(value: exp.Expr) -> exp.Expr:
    """Return a condition that is false, and NULL if the value is NULL."""
    return exp.Case(ifs=[exp.If(this=negated(is_null(value)), true=exp.Boolean(this=False))])
