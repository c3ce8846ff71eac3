"""Spark's dialect with what sqlglot would write otherwise than it read: Spark takes each for another expression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isfunction

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import with_intervals_grouped

_TYPED = "typed_literal"
_NEGATED = "is_not"
_SPELT = "spelt"
UNIT = "unit"
_CAST = "cast"
_SUFFIXES = {exp.DType.TINYINT: "Y", exp.DType.SMALLINT: "S", exp.DType.BIGINT: "L", exp.DType.DOUBLE: "D"}
"""What numbers of some types end in; `1L` is read as a cast of 1."""
_KINDS = (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPLTZ, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ)

_Arguments = Callable[[exp.Expr], Sequence[exp.Expr]]
_SPELLINGS: dict[str, tuple[type[exp.Expr], _Arguments]] = {
    "DATE_TRUNC": (exp.TimestampTrunc, lambda node: (node.meta[UNIT], node.this)),
    "DATE_SUB": (exp.TsOrDsAdd, lambda node: (node.this, node.expression.this)),
    "INSTR": (exp.StrPosition, lambda node: (node.this, node.args["substr"])),
    "LOG2": (exp.Log, lambda node: (node.expression,)),
    "LOG10": (exp.Log, lambda node: (node.expression,)),
}
"""Functions that are read as others: what they become, and how to find their arguments in that."""


def _typed_literal(_parser: object, literal: exp.Expr, kind: exp.DataType) -> exp.Expr:
    """`DATE '2024-01-31'`, marked so that it is not written as a cast: Spark takes the one for a constant."""
    cast = exp.Cast(this=literal, to=kind)
    cast.meta[_TYPED] = True
    return cast


def _spelt(name: str, kind: type[exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """What reads a function, and marks it with the name that it had."""
    read = SparkParser.FUNCTIONS[name]

    def marked(arguments: list[exp.Expr]) -> exp.Expr:
        node: exp.Expr = read(arguments)
        if type(node) is kind:
            node.meta[_SPELT] = name
            if kind is exp.TimestampTrunc:
                # Read in capital letters, whatever it was.
                node.meta[UNIT] = arguments[0]
        return node

    return marked


class KeptSpark(Spark):
    """Spark's dialect with typed literals, `IS NOT NULL` and the names of functions kept as such."""

    class Parser(SparkParser):
        """Marks what would be lost, and takes a comma for what it is: an inner join that nothing conditions."""

        JOINS_HAVE_EQUAL_PRECEDENCE = False
        TYPE_LITERAL_PARSERS = {**SparkParser.TYPE_LITERAL_PARSERS, **dict.fromkeys(_KINDS, _typed_literal)}  # noqa: RUF012
        FUNCTIONS = {  # noqa: RUF012
            **SparkParser.FUNCTIONS,
            **{name: _spelt(name, kind) for name, (kind, _) in _SPELLINGS.items()},
        }

        def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
            found: exp.Expr = super()._parse_cast(strict, safe)
            found.meta[_CAST] = True
            return found

        def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
            found = super()._parse_is(this)
            if isinstance(found, exp.Not):
                found.meta[_NEGATED] = True
            return found

    class Generator(SparkGenerator):
        """Writes what is marked as it was."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """A typed literal, a number with what tells its type, or a cast."""
            if is_typed_literal(expression):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            if expression.this.is_number and not expression.meta.get(_CAST) and expression.to.this in _SUFFIXES:
                return f"{self.sql(expression, 'this')}{_SUFFIXES[expression.to.this]}"
            return str(super().cast_sql(expression, safe_prefix))

        def not_sql(self, expression: exp.Not) -> str:
            """`x IS NOT NULL`, or any other negation."""
            inner = expression.this
            if expression.meta.get(_NEGATED) and isinstance(inner, exp.Is):
                return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
            return str(super().not_sql(expression))

        def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
            """Any expression; a function by the name that it had."""
            node = expression.args.get(key) if isinstance(expression, exp.Expr) and key else expression
            name = node.meta.get(_SPELT) if isinstance(node, exp.Expr) else None
            if isinstance(node, exp.Expr) and isinstance(name, str):
                return str(self.func(name, *_SPELLINGS[name][1](node)))
            return str(super().sql(expression, key, comment))


def unit_of(node: exp.TimestampTrunc) -> exp.Expr:
    """What a time is cut to, as it was written."""
    found = node.meta.get(UNIT, node.args.get("unit"))
    assert isinstance(found, exp.Expr)
    return found


def read(sql: str) -> exp.Expr:
    """The tree of a text in Spark's dialect, whose `sql(dialect=KeptSpark)` Spark takes for the same.

    Raises sqlglot's ParseError where the text cannot be read, and BadSpecError where sqlglot's classes are compiled:
    those cannot be extended.
    """
    if not isfunction(SparkParser._parse_is):
        raise BadSpecError(
            "query: the driver's sqlglot is its compiled build, whose dialects cannot be extended; "
            "uninstall the package sqlglotc there (what `pip install sqlglot[c]` adds)"
        )
    return with_intervals_grouped(sqlglot.parse_one(sql, dialect=KeptSpark))


def is_typed_literal(node: exp.Expr) -> bool:
    """Whether a node is a literal such as `DATE '2024-01-31'`."""
    return isinstance(node, exp.Cast) and bool(node.meta.get(_TYPED))
