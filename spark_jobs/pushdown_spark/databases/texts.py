"""Compares strings by their bytes, as Spark does, whatever collation a remote column has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from pushdown_spark.databases import literals
from pushdown_spark.databases.model import Dialect, RemoteColumn
from pushdown_spark.databases.operands import UNICODE_CHARSETS, UNKNOWN_CHARSET, Operand, remote_type
from pushdown_spark.databases.render import all_of, binary, call, cast, is_null, negated, one_of, quoted
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.vector import Op, TextTest

Make = Callable[[], exp.Expr]
ESCAPE = "!"
"""Escapes wildcards in the LIKE that is sent: no database treats it specially, unlike the backslash."""
OPERATORS: dict[Op, type[exp.Binary]] = {Op.EQ: exp.EQ, Op.LT: exp.LT, Op.LE: exp.LTE, Op.GT: exp.GT, Op.GE: exp.GTE}
_NO_PAD_BINARY = frozenset({"utf8mb4_0900_bin", "utf8mb4_nopad_bin"})
_LAST_CHARACTER = 0x10FFFF
_ALL_OF: dict[str, Callable[[str], bool]] = {
    "utf8mb4": lambda text: True,
    **dict.fromkeys(("utf8", "utf8mb3"), lambda text: all(ord(character) <= 0xFFFF for character in text)),
}
"""Whether MySQL has a text in a character set; in all of them it has ASCII. Comparing with what it lacks fails."""
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True)
class Test:
    """A condition that is what Spark's is. `hint` is implied by it and may be served by an index.

    `only_true` says why it is sent for the rows where it is true alone; empty where its opposite may be sent as well.
    """

    tree: exp.Expr
    hint: exp.Expr | None = None
    only_true: str = ""


@dataclass(frozen=True)
class TextForm:
    """A string in the forms in which the remote compares it.

    `characters` compares single characters exactly (LIKE, functions), `equal` is equal by bytes, `ordered` orders by
    bytes; None where it cannot. `literal` writes what the latter two are compared with. `indexed` is the bare column:
    what equals a string by bytes equals it there too, as far as `has_characters` of the string. `stops_at_nul` is a
    condition for functions that end at a NUL. `only_true` is as in `Test`, `like_only_true` the same for LIKE.
    `is_padded` marks PostgreSQL's char(n).
    """

    dialect: Dialect
    characters: Make
    equal: Make
    ordered: Make | None
    literal: Callable[[str], exp.Expr]
    indexed: Make | None = None
    has_characters: Callable[[str], bool] = lambda text: True
    stops_at_nul: Make | None = None
    only_true: str = ""
    like_only_true: str = ""
    is_padded: bool = False

    def compare(self, op: Op, text: str) -> Test:
        """`string op text`."""
        literals.check_text(text)
        made = self.equal if op is Op.EQ else self._ordered()
        tree = binary(OPERATORS[op], made(), self.literal(text))
        if op is not Op.EQ or self.indexed is None or not self.has_characters(text):
            return Test(tree, None, self.only_true)
        return Test(tree, binary(exp.EQ, self.indexed(), literals.text(text, self.dialect)), self.only_true)

    def one_of(self, texts: Sequence[str], *, has_null: bool) -> Test:
        """`string IN (texts)`, and a NULL in the list where there is one."""
        for text in texts:
            literals.check_text(text)
        nulls: list[exp.Expr] = [exp.Null()] if has_null else []
        tree = one_of(self.equal(), [*map(self.literal, texts), *nulls], self.dialect)
        if self.indexed is None or not texts or not all(map(self.has_characters, texts)):
            return Test(tree, None, self.only_true)
        hint = one_of(self.indexed(), [literals.text(text, self.dialect) for text in texts], self.dialect)
        return Test(tree, hint, self.only_true)

    def _ordered(self) -> Make:
        if self.ordered is None:
            raise UnsupportedError("the database does not order these strings by their bytes in UTF-8")
        return self.ordered

    def pair(self, op: Op, other: TextForm) -> Test:
        """`string op string`."""
        if op is not Op.EQ:
            return Test(binary(OPERATORS[op], self._ordered()(), other._ordered()()))
        # Columns of two collations of PostgreSQL have none to be compared in, unless one is named.
        left = in_c(self.equal()) if self.dialect is Dialect.POSTGRES else self.equal()
        return Test(binary(exp.EQ, left, other.equal()), None, self.only_true or other.only_true)

    def holds(self, how: TextTest, text: str) -> Test:
        """Whether the string starts with, ends with or contains a text."""
        literals.check_text(text)
        if self.dialect is Dialect.SQLITE:
            return Test(self._sqlite_holds(how, text), None, self.like_only_true)
        shape = {TextTest.PREFIX: ("", "%"), TextTest.SUFFIX: ("%", ""), TextTest.CONTAINS: ("%", "%")}[how]
        pattern = escaped(text).join(shape)
        has_hint = how is TextTest.PREFIX and self.indexed is not None and self.has_characters(text)
        hint = self._like(self.indexed(), pattern) if has_hint and self.indexed is not None else None
        return Test(self._like(self.characters(), pattern), hint, self.like_only_true)

    def like(self, pattern: str) -> Test:
        """`string LIKE pattern`, of which the escape is `ESCAPE`; not for SQLite, whose LIKE ignores case."""
        literals.check_text(pattern)
        return Test(self._like(self.characters(), pattern), None, self.like_only_true)

    def _like(self, subject: exp.Expr, pattern: str) -> exp.Expr:
        like = exp.Like(this=subject, expression=self._pattern(pattern))
        return exp.Escape(this=like, expression=exp.Literal.string(ESCAPE))

    def _pattern(self, pattern: str) -> exp.Expr:
        # MySQL compares by bytes elsewhere, but LIKE takes texts.
        return literals.text(pattern, self.dialect) if self.dialect.is_mysql else self.literal(pattern)

    def _sqlite_holds(self, how: TextTest, text: str) -> exp.Expr:
        """SQLite's text functions end at a NUL, so comparisons and bytes are asked instead."""
        if how is TextTest.CONTAINS:
            return binary(exp.GT, call("INSTR", self.equal(), literals.text(text, self.dialect)), literals.number(0))
        ordered = self._ordered()
        if how is TextTest.PREFIX and (end := _behind(text)) is not None:
            bounds = ((exp.GTE, text), (exp.LT, end))
            return all_of([binary(op, ordered(), self.literal(bound)) for op, bound in bounds])
        encoded = text.encode()
        start = literals.number(-len(encoded) if how is TextTest.SUFFIX else 1)
        content = cast(self.characters(), "BLOB", self.dialect)
        piece = call("SUBSTR", content, start, literals.number(len(encoded)))
        return binary(exp.EQ, piece, literals.binary(encoded, self.dialect))


def escaped(text: str) -> str:
    """A text in a LIKE pattern that stands for itself."""
    return "".join(ESCAPE + character if character in ("%", "_", ESCAPE) else character for character in text)


def _behind(text: str) -> str | None:
    """The least text behind all those that start with this one."""
    last = ord(text[-1]) + 1
    if last in _SURROGATES:
        last = _SURROGATES.stop
    return None if last > _LAST_CHARACTER else text[:-1] + chr(last)


def column_text(operand: Operand, dialect: Dialect) -> TextForm:
    """A string column in the forms in which it is compared."""
    column = operand.column
    if dialect is Dialect.POSTGRES:
        return _postgres(column, operand)
    if dialect is Dialect.SQLITE:
        return sqlite_text(operand.value, is_utf8=column.is_utf8, column=column)
    return _mysql(column, operand)


def _postgres(column: RemoteColumn, operand: Operand) -> TextForm:
    form = postgres_text(
        operand.value,
        deterministic=column.deterministic,
        is_c=column.collation in ("C", "POSIX"),
        is_utf8=column.is_utf8,
    )
    is_padded = remote_type(column).base == "character"
    return TextForm(
        form.dialect,
        form.characters,
        form.equal,
        form.ordered,
        form.literal,
        (lambda: operand.bare) if is_padded and column.deterministic else None,
        is_padded=is_padded,
    )


def postgres_text(value: Make, *, deterministic: bool = True, is_c: bool = False, is_utf8: bool = True) -> TextForm:
    """A string of PostgreSQL: equal by bytes unless its collation says otherwise, ordered by bytes in "C"."""

    equal = value if deterministic else lambda: in_c(value())
    ordered = value if is_c and deterministic else lambda: in_c(value())

    def literal(text: str) -> exp.Expr:
        if not is_utf8:
            check_ascii(text)
        return literals.text(text, Dialect.POSTGRES)

    return TextForm(Dialect.POSTGRES, equal, equal, ordered if is_utf8 else None, literal)


def check_ascii(text: str) -> None:
    """Raises UnsupportedError for characters that a database's encoding may lack: it would refuse the query."""
    if not text.isascii():
        raise UnsupportedError("the database's encoding may have no such characters")


def in_c(tree: exp.Expr) -> exp.Expr:
    """A string of PostgreSQL in the collation that compares bytes."""
    return tree if isinstance(tree, exp.Collate) else exp.Collate(this=_operand(tree), expression=quoted("C"))


def _operand(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=tree) if isinstance(tree, exp.Binary | exp.Case) else tree


def _mysql(column: RemoteColumn, operand: Operand) -> TextForm:
    if column.collation in _NO_PAD_BINARY and remote_type(column).base != "enum":
        text = _mysql_literal
        return TextForm(Dialect.MYSQL, operand.value, operand.value, operand.value, text)
    charset = (column.charset or "utf8mb4").lower()
    form = mysql_text(operand.value, is_unicode=charset in UNICODE_CHARSETS, is_utf8mb4=charset == "utf8mb4")
    collation = column.collation or "its collation"
    is_binary = collation.endswith("_bin")
    why = f"{collation} takes different strings of {column.name} for equal: only where they are equal is it asked"
    return TextForm(
        form.dialect,
        form.characters,
        form.equal,
        None,
        form.literal,
        None if charset == UNKNOWN_CHARSET else lambda: operand.bare,
        has_characters=_ALL_OF.get(charset, str.isascii),
        only_true=why,
        like_only_true="" if is_binary else why,
    )


def _mysql_literal(text: str) -> exp.Expr:
    return literals.text(text, Dialect.MYSQL)


def mysql_text(value: Make, *, is_unicode: bool = True, is_utf8mb4: bool = True) -> TextForm:
    """A string of MySQL as its bytes in UTF-8, because comparisons of texts ignore trailing spaces at least."""

    def converted() -> exp.Expr:
        charset = exp.DataType(this=exp.DataType.Type.CHARACTER_SET, kind=exp.Var(this="utf8mb4"))
        return exp.Cast(this=value(), to=charset)

    def in_bytes() -> exp.Expr:
        return cast(value() if is_unicode else converted(), "BINARY", Dialect.MYSQL)

    def characters() -> exp.Expr:
        text = _operand(value()) if is_utf8mb4 else converted()
        return exp.Collate(this=text, expression=exp.Var(this="utf8mb4_bin"))

    return TextForm(
        Dialect.MYSQL, characters, in_bytes, in_bytes, lambda text: literals.binary(text.encode(), Dialect.MYSQL)
    )


def sqlite_text(value: Make, *, is_utf8: bool = True, column: RemoteColumn | None = None) -> TextForm:
    """A string of SQLite, compared by bytes unless a column says otherwise."""
    by_bytes = column is not None and column.uniform and (column.collation or "BINARY").upper() == "BINARY"

    def collated() -> exp.Expr:
        return value() if by_bytes else exp.Collate(this=_operand(value()), expression=exp.Var(this="BINARY"))

    def stops_at_nul() -> exp.Expr:
        content = cast(value(), "BLOB", Dialect.SQLITE)
        return binary(exp.GT, call("INSTR", content, exp.HexString(this="00")), literals.number(0))

    return TextForm(
        Dialect.SQLITE,
        value,
        collated,
        collated if is_utf8 else None,
        lambda text: literals.text(text, Dialect.SQLITE),
        stops_at_nul=stops_at_nul,
        like_only_true="SQLite has no LIKE that minds the case, and what is asked instead is asked where it is true",
    )


def glob(form: TextForm, pieces: Sequence[str], wild: Sequence[str]) -> Test:
    """`string GLOB pattern`: `pieces` are literal texts, `wild` the wildcards (`*`, `?`) between them."""
    parts = [_globbed(piece) for piece in pieces]
    pattern = parts[0] + "".join(sign + part for sign, part in zip(wild, parts[1:], strict=True))
    literals.check_text(pattern)
    tree = exp.Glob(this=form.equal(), expression=literals.text(pattern, Dialect.SQLITE))
    return Test(tree, None, form.like_only_true)


def _globbed(text: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in text)


def nothing(value: exp.Expr) -> exp.Expr:
    """False, and null where the value is null."""
    return exp.Case(ifs=[exp.If(this=negated(is_null(value)), true=exp.Boolean(this=False))])
