"""What of the Spark session, and of a predicate's text, bears on the meaning of its tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from sqlglot import Dialect, TokenType
from sqlglot.errors import SqlglotError

from spark_jobs.predicates.long_lists import shortened

_BEFORE_OPERANDS = frozenset(
    {TokenType.L_PAREN, TokenType.COMMA, TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT}
    | {TokenType.GTE, TokenType.NULLSAFE_EQ, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.LIKE}
    | {TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.BETWEEN, TokenType.THEN}
    | {TokenType.WHEN, TokenType.ELSE, TokenType.CASE}
)


@dataclass(frozen=True)
class SparkRules:
    """Settings of the session that decide what a predicate means.

    `trusted` tells that the tree says what Spark reads in the text (`reads_alike`). `fold` gives Spark's value of a
    constant expression, None where there is none; without it conjuncts whose constants take Spark are unsupported.
    """

    case_sensitive: bool = False
    trusted: bool = True
    fold: Callable[[str], object] | None = None


def reads_alike(text: str, *, escaped_literals: bool = False, double_quoted_names: bool = False) -> bool:
    """Whether sqlglot reads a predicate's text as Spark does, as far as the tree alone cannot tell.

    `escaped_literals` is Spark's `spark.sql.parser.escapedStringLiterals`, `double_quoted_names` its
    `spark.sql.ansi.doubleQuotedIdentifiers`: with these, backslashes and double quotes have other meanings. A plus sign
    before an operand is dropped by sqlglot, where Spark makes a number of a string.
    """
    if (escaped_literals and "\\" in text) or (double_quoted_names and '"' in text):
        return False
    if "+" not in text:
        return True
    try:
        tokens = Dialect.get_or_raise("spark").tokenize(shortened(text))
    except SqlglotError:
        return False
    kinds = [TokenType.COMMA, *(token.token_type for token in tokens)]
    return not any(kind is TokenType.PLUS and before in _BEFORE_OPERANDS for before, kind in pairwise(kinds))
