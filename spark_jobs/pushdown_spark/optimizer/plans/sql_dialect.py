"""A lossless dialect of SQL: it writes every expression so that Spark parses it as before.

It is a variant of sqlglot's Spark dialect. sqlglot normalizes some expressions: it reads `DATE '2024-01-31'` as a cast
and `DATE_SUB` as an addition. Spark plans the normalized form differently. The parser therefore marks these nodes, and
the generator writes the original form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import ARGUMENTS, IS_COMPILED, PredicateParser, group_intervals
from pushdown_spark.expressions.predicate import Predicate

# Keys of the marks in the `meta` dictionary of a node.
_TYPED_LITERAL = "typed_literal"
_IS_NOT = "is_not"
_FUNCTION_NAME = "function_name"
_EXPLICIT_CAST = "explicit_cast"

_NUMBER_SUFFIXES = {exp.DType.TINYINT: "Y", exp.DType.SMALLINT: "S", exp.DType.BIGINT: "L", exp.DType.DOUBLE: "D"}
"""Suffixes of typed numbers. sqlglot reads `1L` as a cast of 1."""
_TYPED_LITERALS = (
    exp.DType.DATE,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPNTZ,
)

_Arguments = Callable[[exp.Expr], Sequence[exp.Expr]]
_RENAMED_FUNCTIONS: dict[str, tuple[type[exp.Expr], _Arguments]] = {
    "DATE_TRUNC": (exp.TimestampTrunc, lambda node: (truncation_unit(node), node.this)),
    "DATE_SUB": (exp.TsOrDsAdd, lambda node: (node.this, node.expression.this)),
    "INSTR": (exp.StrPosition, lambda node: (node.this, node.args["substr"])),
    "LOG2": (exp.Log, lambda node: (node.expression,)),
    "LOG10": (exp.Log, lambda node: (node.expression,)),
}
"""Functions that sqlglot reads as other functions: the resulting node type, and how to get the arguments back."""


def _mark_typed_literal(_parser: object, literal: exp.Expr, data_type: exp.DataType) -> exp.Expr:
    # Spark folds `DATE '2024-01-31'` while parsing, but not `CAST('2024-01-31' AS DATE)`.
    cast = exp.Cast(this=literal, to=data_type)
    cast.meta[_TYPED_LITERAL] = True
    return cast


def _mark_function(name: str, node_type: type[exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return sqlglot's reader of a function, extended to mark the node with the function's original name."""
    read = PredicateParser.FUNCTIONS[name]

    def read_and_mark(arguments: list[exp.Expr]) -> exp.Expr:
        node: exp.Expr = read(arguments)
        if type(node) is node_type:
            node.meta[_FUNCTION_NAME] = name
        return node

    return read_and_mark


class LosslessSpark(Spark):
    """Spark's dialect that preserves typed literals, `IS NOT NULL` and function names."""

    class Parser(PredicateParser):
        """Marks nodes that sqlglot normalizes, and reads a comma in FROM as an inner join without a condition."""

        JOINS_HAVE_EQUAL_PRECEDENCE = False
        TYPE_LITERAL_PARSERS = {  # noqa: RUF012
            **SparkParser.TYPE_LITERAL_PARSERS,
            **dict.fromkeys(_TYPED_LITERALS, _mark_typed_literal),
        }
        FUNCTIONS = {  # noqa: RUF012
            **PredicateParser.FUNCTIONS,
            **{name: _mark_function(name, node_type) for name, (node_type, _) in _RENAMED_FUNCTIONS.items()},
        }

        def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
            cast: exp.Expr = super()._parse_cast(strict, safe)
            cast.meta[_EXPLICIT_CAST] = True
            return cast

        def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
            node = super()._parse_is(this)
            if isinstance(node, exp.Not):
                node.meta[_IS_NOT] = True
            return node

    class Generator(SparkGenerator):
        """Writes marked nodes in their original form."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Return a typed literal, a number with a type suffix, or a cast."""
            if is_typed_literal(expression):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            is_explicit = expression.meta.get(_EXPLICIT_CAST)
            if expression.this.is_number and not is_explicit and expression.to.this in _NUMBER_SUFFIXES:
                return f"{self.sql(expression, 'this')}{_NUMBER_SUFFIXES[expression.to.this]}"
            return str(super().cast_sql(expression, safe_prefix))

        def not_sql(self, expression: exp.Not) -> str:
            """Return `x IS NOT NULL`, or any other negation."""
            inner = expression.this
            if expression.meta.get(_IS_NOT) and isinstance(inner, exp.Is):
                return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
            return str(super().not_sql(expression))

        def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
            """Return any expression as SQL. Marked functions keep their original name."""
            node = expression.args.get(key) if isinstance(expression, exp.Expr) and key else expression
            name = node.meta.get(_FUNCTION_NAME) if isinstance(node, exp.Expr) else None
            if isinstance(node, exp.Expr) and isinstance(name, str):
                return str(self.func(name, *_RENAMED_FUNCTIONS[name][1](node)))
            return str(super().sql(expression, key, comment))


def parse_sql(sql: str) -> exp.Expr:
    """Parse SQL into a tree that `to_sql` writes in a form that Spark parses as before.

    >>> to_sql(parse_sql("SELECT DATE_SUB(d, 1) FROM t WHERE d > DATE '2024-01-31' AND x IS NOT NULL"))
    "SELECT DATE_SUB(d, 1) FROM t WHERE d > DATE '2024-01-31' AND x IS NOT NULL"

    Raises sqlglot's ParseError for text that it cannot parse. Raises BadSpecError if sqlglot is its compiled build,
    whose classes cannot be extended.
    """
    if IS_COMPILED:
        raise BadSpecError(
            "query: the driver uses the compiled build of sqlglot, whose dialects cannot be extended; "
            "uninstall the package sqlglotc there (`pip install sqlglot[c]` installs it)"
        )
    return group_intervals(sqlglot.parse_one(sql, dialect=LosslessSpark))


def to_sql(tree: exp.Expr) -> str:
    """Return a tree as Spark SQL."""
    return str(tree.sql(dialect=LosslessSpark))


def predicate_of(conditions: Sequence[exp.Expr]) -> Predicate | None:
    """Return the conjunction of conditions, or None without any.

    >>> predicate_of([exp.condition("a = 1 OR b = 2"), exp.condition("c = 3")]).sql
    '(a = 1 OR b = 2) AND (c = 3)'
    """
    sql = " AND ".join(f"({to_sql(condition)})" for condition in conditions)
    return Predicate(sql, exp.and_(*conditions)) if conditions else None


def truncation_unit(node: exp.Expr) -> exp.Expr:
    """Return the unit argument of DATE_TRUNC as it was written. sqlglot turns it into upper case."""
    unit = node.meta[ARGUMENTS][0] if ARGUMENTS in node.meta else node.args.get("unit")
    assert isinstance(unit, exp.Expr)
    return unit


def is_typed_literal(node: exp.Expr) -> bool:
    """Return whether a node is a literal such as `DATE '2024-01-31'`."""
    return isinstance(node, exp.Cast) and bool(node.meta.get(_TYPED_LITERAL))
