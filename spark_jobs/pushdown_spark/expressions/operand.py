"""Operands of comparisons: columns, and functions of a column that are bound like columns.

The binder binds a comparison as if the function were a column with the function's type. `resolve` of the operand then
replaces the tests of this column with tests of the argument. They have the same value for each row. In a scope
`is_for_text`, they may be true for more rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import (
    BooleanConstant,
    Column,
    Comparison,
    InList,
    Node,
    Op,
    disjunction,
    replace_leaves,
)
from pushdown_spark.expressions.conjuncts import column_path, short_sql
from pushdown_spark.expressions.scope import Scope

_MAX_VALUES = 32
"""Maximum number of values of a list. Each becomes a range or a prefix."""


@dataclass(frozen=True)
class Operand:
    """A column, or a function that is bound like a column. See the module."""

    column: Column
    resolve: Callable[[Node], Node] = lambda test: test


def argument_of(node: exp.Expr, scope: Scope) -> Column:
    """Return the column that is the argument of a function. Raises UnsupportedError for other arguments."""
    path = column_path(node.unnest())
    if path is None:
        raise UnsupportedError(f"{short_sql(node)} is not a column")
    return scope.column(path)


def string_operand(argument: Column, result: Column, equals: Callable[[str], Node]) -> Operand:
    """Return a function whose result is a string. `equals` returns the test of the argument for a result."""

    def test(leaf: Node) -> Node:
        match leaf:
            case Comparison(op=Op.EQ, value=str(text)):
                return equals(text)
            case InList():
                return any_value_test(argument, leaf, lambda value: equals(str(value)))
        raise UnsupportedError("only the equality of the function with constants is pushed down")

    return Operand(result, lambda tree: replace_leaves(tree, test))


def any_value_test(argument: Column, values: InList, test: Callable[[object], Node]) -> Node:
    """Return a test of each value of a list. Like the list, it is null where the column is.

    Raises UnsupportedError if the list is long.
    """
    if len(values.values) > _MAX_VALUES:
        raise UnsupportedError(f"the list has more than {_MAX_VALUES} values")
    tests = [test(value) for value in values.values] or [InList(argument, ())]
    return disjunction([*tests, BooleanConstant(None)] if values.has_null else tests)
