"""Parse a predicate into sqlglot's AST (Spark dialect) and split it into conjuncts."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from pushdown_spark.predicates.long_lists import LongLists, shortened
from pushdown_spark.predicates.nodes import nodes_of

_READ_OTHERWISE = re.compile(r"\$\{|--[^\n]*(?:\r|\\\n)")
_BEFORE_OPERANDS = re.compile(
    r"ALL|AND|ANY|AS|BETWEEN|BY|CASE|CROSS|DISTINCT|DIV|ELSE|ESCAPE|EXCEPT|EXISTS|FILTER|FROM|FULL|GROUP|HAVING|"
    r"ILIKE|IN|INNER|INTERSECT|INTERVAL|IS|JOIN|LATERAL|LEFT|LIKE|LIMIT|MINUS|NATURAL|NOT|OFFSET|ON|OR|ORDER|OVER|"
    r"PARTITION|QUALIFY|RANGE|REGEXP|RIGHT|RLIKE|ROWS|SELECT|SOME|THEN|UNION|USING|VALUES|WHEN|WHERE|WITH",
    re.IGNORECASE,
)
"""Words behind which an operand begins; behind all others, names among them, one has ended."""
Tree = TypeVar("Tree", bound=exp.Expr)
_OF_ITS_FILE = re.compile(r"\b(?:_metadata|input_file_(?:name|block_start|block_length))\b", re.IGNORECASE)

_ROW_FUNCTIONS = (
    *("assert_true", "raise_error", "reflect", "try_reflect", "java_method"),
    *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
    *("monotonically_increasing_id", "spark_partition_id"),
)
"""Functions that do something on a row, and functions whose value depends on the rows before it."""
_ROW_CALL = re.compile(rf"\b(?:{'|'.join(_ROW_FUNCTIONS)})(?:[\s`]|/\*.*?\*/|--[^\n]*)*\(", re.IGNORECASE | re.DOTALL)


def parse_predicate(text: str) -> exp.Expr | None:
    """Return the AST of a Spark SQL predicate, or None where sqlglot cannot read it, or reads it otherwise than Spark.

    It cannot read what nests dozens of parentheses deep.

    None is no verdict on the text: Spark's own parser has the last word, and a predicate that only Spark can read is
    evaluated by Spark alone.
    """
    lists = LongLists(text)
    try:
        if not read_alike(text):
            return None
        tree = sqlglot.parse_one(lists.text, dialect="spark", into=exp.Condition)
        if not lists.put_back(tree):
            tree = sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
        return with_intervals_grouped(tree)
    except (SqlglotError, RecursionError):
        return None


def with_intervals_grouped(tree: Tree) -> Tree:
    """The tree, with parentheses around intervals of several units, in place.

    sqlglot reads `x - INTERVAL 1 YEAR 2 MONTHS` as a difference whose right side is a sum, and writes it as two steps,
    `x - INTERVAL 1 YEAR + INTERVAL 2 MONTHS`. No other sum without parentheses is the right side of a sum, or an
    operand of what binds tighter.
    """
    for node in nodes_of(tree, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg):
        operands = [node.this, node.args.get("expression")]
        for operand in operands[isinstance(node, exp.Add | exp.Sub) :]:
            if isinstance(operand, exp.Add | exp.Sub):
                operand.replace(exp.Paren(this=operand.copy()))
    return tree


def read_alike(text: str) -> bool:
    """Whether Spark takes the text for the same words as sqlglot does.

    Spark puts settings in place of `${...}`, ends a `--` comment at a carriage return, though not behind a backslash,
    takes two quotes inside a literal for one where sqlglot sees two literals, and makes a number of a string behind a
    plus sign, which sqlglot leaves out before an operand. May raise SqlglotError for no SQL.
    """
    if _READ_OTHERWISE.search(text):
        return False
    if not any(sign in text for sign in ("'", '"', "+")):
        return True
    tokens = [None, *sqlglot.tokenize(shortened(text), dialect="spark")]
    return not any(_is_read_otherwise(one, other) for one, other in pairwise(tokens) if other is not None)


def _is_read_otherwise(before: Token | None, token: Token) -> bool:
    """Whether a token means something else to Spark behind the one before it."""
    if token.token_type is TokenType.STRING:
        return before is not None and before.token_type is TokenType.STRING
    return token.token_type is TokenType.PLUS and not (before is not None and _ends_operand(before))


def _ends_operand(token: Token) -> bool:
    """Whether an operand may end with a token, so that a sign behind it is an operator between two."""
    is_name = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
    is_word = token.text[:1].isalpha() or token.text.startswith("_")
    return is_name or token.text in (")", "]") or (is_word and not _BEFORE_OPERANDS.fullmatch(token.text))


def asks_of_its_file(text: str) -> bool:
    """Whether SQL may ask for what only the rows of Spark's own readers know: the file that they come from."""
    return _OF_ITS_FILE.search(text) is not None


def needs_every_row(text: str) -> bool:
    """Whether a predicate may have effects or values that change where other conjuncts drop rows before.

    >>> needs_every_row("assert_true(a > 0) IS NULL AND b = 1"), needs_every_row("uuid = 'x' AND b = 1")
    (True, False)
    """
    # Names are found in lists of thousands of values far sooner than words are.
    lowered = text.lower()
    return any(name in lowered for name in _ROW_FUNCTIONS) and _ROW_CALL.search(text) is not None


def conjuncts(predicate: exp.Expr) -> list[exp.Expr]:
    """Split a predicate at its top-level ANDs, left to right.

    >>> [c.sql() for c in conjuncts(parse_predicate("a = 1 AND (b = 2 AND (c = 3 OR d = 4))"))]
    ['a = 1', 'b = 2', 'c = 3 OR d = 4']
    """
    found: list[exp.Expr] = []
    pending = [predicate.unnest()]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.And):
            pending += [part.right.unnest(), part.left.unnest()]
        else:
            found.append(part)
    return found


def column_path(column: exp.Expr) -> tuple[str, ...] | None:
    """Return the dotted parts of a column reference, or None for anything that is not plain member access.

    >>> column_path(sqlglot.parse_one("a.b.c.d.e", dialect="spark"))
    ('a', 'b', 'c', 'd', 'e')
    """
    if isinstance(column, exp.Dot) and isinstance(column.expression, exp.Identifier):
        head = column_path(column.this)
        return None if head is None else (*head, column.expression.name)
    if isinstance(column, exp.Column) and not isinstance(column.this, exp.Star):
        return tuple(part.name for part in column.parts)
    return None


def without_relation(column: exp.Column) -> exp.Column:
    """A column reference without its first part; a name that alone would be a constant or a function is quoted."""
    rest = [part.copy() for part in column.parts[1:]]
    if isinstance(rest[0], exp.Identifier) and not _is_name(rest[0].name):
        rest[0].set("quoted", True)
    return exp.Column(**dict(zip(("this", "table", "db"), reversed(rest), strict=False)))


@lru_cache(maxsize=1024)
def _is_name(word: str) -> bool:
    """Whether a word that stands alone is a column's name."""
    try:
        found = sqlglot.parse_one(word, dialect="spark")
    except SqlglotError:
        return False
    return isinstance(found, exp.Column) and found.name == word


def has_subquery(predicate: exp.Expr) -> bool:
    """Whether the predicate reads anything besides the source's own row."""
    return any(True for _ in nodes_of(predicate, exp.Select, exp.Subquery, exp.Exists))
