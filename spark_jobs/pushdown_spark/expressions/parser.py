"""Parses Spark SQL predicates into syntax trees.

SQL that sqlglot and Spark may read differently has no tree: Spark then evaluates the whole predicate. Long lists of
integers are taken out of the text before it is parsed, because parsers are slow with thousands of literals.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import isfunction
from itertools import count, pairwise
from typing import TypeVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.parsers.spark import SparkParser

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.conjuncts import nodes_of

_DIFFERENT_TEXT = re.compile(r"\$\{|--[^\n]*(?:\r|\\\n)|(?is:\bBETWEEN\b.*\bA?SYMMETRIC\b)")
_BEFORE_OPERANDS = re.compile(
    r"ALL|AND|ANY|AS|BETWEEN|BY|CASE|CROSS|DISTINCT|DIV|ELSE|ESCAPE|EXCEPT|EXISTS|FILTER|FROM|FULL|GROUP|HAVING|"
    r"ILIKE|IN|INNER|INTERSECT|INTERVAL|IS|JOIN|LATERAL|LEFT|LIKE|LIMIT|MINUS|NATURAL|NOT|OFFSET|ON|OR|ORDER|OVER|"
    r"PARTITION|QUALIFY|RANGE|REGEXP|RIGHT|RLIKE|ROWS|SELECT|SOME|THEN|UNION|USING|VALUES|WHEN|WHERE|WITH",
    re.IGNORECASE,
)
"""Words that an operand can follow. All other words, such as names, end an operand."""
_LONG_LIST = re.compile(r"\bIN\s*\(\s*(\d{1,18}(?:\s*,\s*\d{1,18}){99,})\s*\)", re.IGNORECASE)
"""A hundred or more numbers that are all integers of 32 or 64 bits to Spark."""
_MAX_INT = 2**31 - 1
_QUOTE_OR_COMMENT = re.compile(r"""['"`]|--|/\*|\$\{""")
"""Literals, quoted names, comments and variables, inside which a regular expression could find words."""
_FIRST_PLACEHOLDER = 10**17
ARGUMENTS = "arguments"
"""The key of the arguments as written in the `meta` dictionary of a node."""
Tree = TypeVar("Tree", bound=exp.Expr)


def _keep_arguments(name: str) -> Callable[..., exp.Expr]:
    """Return sqlglot's reader of a function, extended to keep the arguments. sqlglot normalizes units and patterns."""
    read_function = SparkParser.FUNCTIONS[name]

    def read_and_keep(arguments: list[exp.Expr], **options: Dialect) -> exp.Expr:
        copies = [argument.copy() for argument in arguments]
        node: exp.Expr = read_function(arguments, **options)
        node.meta[ARGUMENTS] = copies
        return node

    return read_and_keep


class PredicateParser(SparkParser):
    """sqlglot's parser of Spark SQL, extended to keep the arguments that `argument_as_written` returns."""

    FUNCTIONS = {  # noqa: RUF012
        **SparkParser.FUNCTIONS,
        **{name: _keep_arguments(name) for name in ("DATE_FORMAT", "DATE_TRUNC", "TRUNC")},
    }


class _PredicateSpark(Spark):
    Parser = PredicateParser


IS_COMPILED = not isfunction(SparkParser.parse)
"""Whether sqlglot is its compiled build (sqlglotc), whose parsers cannot be extended."""
_DIALECT = Spark if IS_COMPILED else _PredicateSpark


def argument_as_written(node: exp.Expr, position: int) -> str:
    """Return the string literal that is an argument of DATE_FORMAT, DATE_TRUNC or TRUNC.

    >>> argument_as_written(parse_predicate("DATE_TRUNC('mon', at) > '2026-01-01'").this, 0)
    'mon'

    Raises UnsupportedError for another argument.
    """
    arguments = node.meta.get(ARGUMENTS, ())
    if (
        position >= len(arguments)
        or not isinstance(arguments[position], exp.Literal)
        or not arguments[position].is_string
    ):
        raise UnsupportedError("a unit or a pattern that is not a literal is not pushed down")
    return str(arguments[position].name)


def parse_predicate(text: str) -> exp.Expr | None:
    """Return the syntax tree of a predicate. Returns None where sqlglot cannot parse it, or reads it unlike Spark.

    sqlglot cannot parse dozens of nested parentheses. None says nothing about the text's validity: Spark's own parser
    decides about that, and Spark evaluates the predicate alone.
    """
    lists = LongLists(text)
    try:
        if not has_same_tokens(text):
            return None
        tree = sqlglot.parse_one(lists.text, dialect=_DIALECT, into=exp.Condition)
        if not lists.restore(tree):
            tree = sqlglot.parse_one(text, dialect=_DIALECT, into=exp.Condition)
        return group_intervals(tree)
    except (SqlglotError, RecursionError):
        return None


def group_intervals(tree: Tree) -> Tree:
    """Put parentheses around intervals of several units, in place.

    sqlglot reads `x - INTERVAL 1 YEAR 2 MONTHS` as a difference whose right side is a sum. It would write two steps,
    `x - INTERVAL 1 YEAR + INTERVAL 2 MONTHS`. No other sum without parentheses is the right side of a sum, or an
    operand of an operator that binds more tightly.
    """
    for node in nodes_of(tree, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg):
        right = node.args.get("expression")
        for operand in [right] if isinstance(node, exp.Add | exp.Sub) else [node.this, right]:
            if isinstance(operand, exp.Add | exp.Sub):
                operand.replace(exp.Paren(this=operand.copy()))
    return tree


def has_same_tokens(text: str) -> bool:
    """Return whether Spark and sqlglot split SQL into the same tokens. May raise SqlglotError for invalid SQL.

    Spark differs from sqlglot in five ways. It reads SYMMETRIC and ASYMMETRIC after BETWEEN as names. It replaces
    `${...}` by settings. It ends a `--` comment at a carriage return, but not after a backslash. It reads two quotes
    inside a literal as one quote, where sqlglot reads two literals. It casts a string after a plus sign to a number,
    where sqlglot drops a plus sign before an operand.
    """
    if _DIFFERENT_TEXT.search(text):
        return False
    if not any(sign in text for sign in ("'", '"', "+")):
        return True
    tokens = [None, *sqlglot.tokenize(shorten_lists(text), dialect="spark")]
    return not any(_differs(before, token) for before, token in pairwise(tokens) if token is not None)


def _differs(before: Token | None, token: Token) -> bool:
    """Return whether Spark gives a token another meaning than sqlglot does, after the token before it."""
    if token.token_type is TokenType.STRING:
        return before is not None and before.token_type is TokenType.STRING
    return token.token_type is TokenType.PLUS and not (before is not None and _ends_operand(before))


def _ends_operand(token: Token) -> bool:
    """Return whether an operand can end with a token, so that a sign after it is a binary operator."""
    is_name = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING, TokenType.NUMBER)
    is_word = token.text[:1].isalpha() or token.text.startswith("_")
    return is_name or token.text in (")", "]") or (is_word and not _BEFORE_OPERANDS.fullmatch(token.text))


def shorten_lists(text: str) -> str:
    """Reduce each long list to one number of each type. Spark finds the same types and errors in the result.

    >>> shorten_lists("a IN (" + ", ".join(map(str, range(7, 200))) + ") OR b = 1")
    'a IN (7) OR b = 1'
    """
    if _QUOTE_OR_COMMENT.search(text):
        return text
    return _LONG_LIST.sub(lambda match: f"IN ({', '.join(map(str, _one_of_each_type(match[1])))})", text)


def _one_of_each_type(numbers: str) -> list[int]:
    """Return the first 32-bit and the first 64-bit integer of a list, in their order."""
    first: dict[bool, int] = {}
    for number in map(int, numbers.split(",")):
        first.setdefault(number > _MAX_INT, number)
    return list(first.values())


class LongLists:
    """The long lists of SQL text, and the SQL with a placeholder for each."""

    def __init__(self, text: str) -> None:
        self._lists: dict[str, list[str]] = {}
        placeholders = count(_FIRST_PLACEHOLDER)

        def replace_list(match: re.Match[str]) -> str:
            placeholder = str(next(placeholders))
            self._lists[placeholder] = [number.strip() for number in match[1].split(",")]
            return f"IN ({placeholder})"

        is_plain = _QUOTE_OR_COMMENT.search(text) is None and str(_FIRST_PLACEHOLDER)[:-3] not in text
        self.text = _LONG_LIST.sub(replace_list, text) if is_plain else text

    def restore(self, tree: exp.Expr) -> bool:
        """Replace the placeholders with their lists. Return False if the tree does not have each of them as a list."""
        placeholders = set(self._lists)
        for node in list(nodes_of(tree, exp.In)):
            placeholder = node.expressions[0].name if len(node.expressions) == 1 else ""
            if placeholder in placeholders:
                placeholders.remove(placeholder)
                numbers = self._lists[placeholder]
                node.set("expressions", [exp.Literal(this=number, is_string=False) for number in numbers])
        return not placeholders
