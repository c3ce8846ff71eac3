"""Binds syntax trees to a schema: columns are resolved, and constants get their column's type, as in Spark.

A part that is not supported is left out where the result then keeps more rows and never fewer: from an AND, or from an
OR under NOT. The outcome is inexact in that case, and unsupported if nothing remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions import coercion, elements
from pushdown_spark.expressions.bound import (
    FLIPPED,
    TRUE,
    And,
    BooleanConstant,
    Column,
    ColumnComparison,
    Comparison,
    IsNull,
    IsTrue,
    IsUnknown,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
    StringTest,
    conjunction,
    disjunction,
    negation,
    true_unless_null,
)
from pushdown_spark.expressions.column_functions import operand_of
from pushdown_spark.expressions.conjuncts import column_path, has_subquery, short_sql
from pushdown_spark.expressions.constant_folding import prefetch
from pushdown_spark.expressions.like import like_test
from pushdown_spark.expressions.literals import Literal, LiteralReader
from pushdown_spark.expressions.operand import Operand
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.types import FLOATING, LogicalType

_OPERATORS: dict[type[exp.Expr], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.EQ,
    exp.NullSafeEQ: Op.EQ,
    exp.NullSafeNEQ: Op.EQ,
    exp.LT: Op.LT,
    exp.LTE: Op.LE,
    exp.GT: Op.GT,
    exp.GTE: Op.GE,
}
_STRING_TESTS: dict[type[exp.Expr], StringTest] = {
    exp.StartsWith: StringTest.PREFIX,
    exp.EndsWith: StringTest.SUFFIX,
    exp.Contains: StringTest.CONTAINS,
}
_BETWEEN = ((Op.GE, "low"), (Op.LE, "high"))
_ARGUMENTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
"""The arguments of sqlglot's nodes that the binder reads. Any other argument could change the meaning."""


def bind(conjunct: exp.Expr, scope: Scope) -> Pushdown[Node]:
    """Bind a predicate. Its bound tree never drops a row that Spark keeps; exact trees keep no other rows.

    Constants that need Spark (such as times: Spark knows the session's time zone) are evaluated here, in one query.
    """
    if has_subquery(conjunct):
        return Pushdown.unsupported(conjunct, "it has a subquery")
    fold = scope.fold
    constants: dict[str, None] = {}
    outcome = _bind(conjunct, replace(scope, fold=lambda sql: constants.setdefault(sql)))
    if not constants:
        return outcome
    return _bind(conjunct, scope if fold is None else replace(scope, fold=prefetch(fold, list(constants))))


def _bind(conjunct: exp.Expr, scope: Scope) -> Pushdown[Node]:
    binder = _Binder(scope)
    root = binder.condition(conjunct, True)
    if not binder.reasons:
        return Pushdown.exact(conjunct, root)
    reason = "; ".join(dict.fromkeys(binder.reasons))
    return Pushdown.unsupported(conjunct, reason) if root == TRUE else Pushdown.inexact(conjunct, root, reason)


class _Binder:
    """Binds one conjunct. `reasons` explain why parts are left out."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._literals = LiteralReader(scope)
        self.reasons: list[str] = []

    def condition(self, node: exp.Expr, default: bool | None) -> Node:
        """Bind a boolean expression. `default` replaces an unsupported part; None where a part must not be replaced."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return negation(self.condition(node.this, None if default is None else not default))
        if isinstance(node, exp.And | exp.Or):
            parts = [self.condition(part, default) for part in node.flatten()]
            return conjunction(parts) if isinstance(node, exp.And) else disjunction(parts)
        try:
            return self._leaf(node)
        except UnsupportedError as problem:
            if default is None:
                raise
            self.reasons.append(str(problem))
            is_range = isinstance(node, exp.Between) and not node.args.get("negate") and not _has_unread_arguments(node)
            return self._supported_ends(node) if is_range and default else BooleanConstant(default)

    def _leaf(self, node: exp.Expr) -> Node:
        if _has_unread_arguments(node):
            raise _unknown(node)
        leaf = self._positive_leaf(node)
        return negation(leaf) if node.args.get("negate") else leaf

    def _positive_leaf(self, node: exp.Expr) -> Node:
        """Bind a leaf without looking at `negate`."""
        if type(node) in _OPERATORS and isinstance(node, exp.Binary):
            return self._comparison(node)
        match node:
            case exp.Boolean() | exp.Null():
                return BooleanConstant(bool(node.this) if isinstance(node, exp.Boolean) else None)
            case exp.Column() | exp.Dot() | exp.Coalesce() | exp.Bracket():
                return self._boolean(node)
            case exp.ArrayContains() | exp.Exists() if self._scope.is_for_text:
                return self._any_element(node)
            case exp.In():
                return self._in_list(node)
            case exp.Between():
                return self._between(node)
            case exp.Is():
                return self._is(node)
            case exp.IsNan():
                return IsTrue(Comparison(self._column_of(node.this, FLOATING), Op.EQ, math.nan))
            case exp.Anonymous():
                return self._null_function(node)
        return self._string_test(node)

    def _any_element(self, node: exp.ArrayContains | exp.Exists) -> Node:
        if isinstance(node, exp.ArrayContains):
            return elements.contains(node, self._scope)
        return IsTrue(self.condition(elements.condition_of_elements(node, self._scope.name_rule), True))

    def _boolean(self, node: exp.Expr) -> Node:
        operand = self._operand(node)
        _check_type(operand.column, frozenset({LogicalType.BOOLEAN}))
        return operand.resolve(Comparison(operand.column, Op.EQ, True))

    def _null_function(self, node: exp.Anonymous) -> Node:
        name = node.name.lower()
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            raise _unknown(node)
        test = IsNull(self._column(node.expressions[0]))
        return test if name == "isnull" else Not(test)

    def _is(self, node: exp.Is) -> Node:
        subject, right = node.this.unnest(), node.expression
        if isinstance(right, exp.Null) and column_path(subject) is not None:
            return IsNull(self._column(subject))
        if isinstance(right, exp.Null) and elements.is_element(subject):
            return IsNull(self._operand(subject).column)
        if type(subject) in _OPERATORS:
            # sqlglot parses `a = b IS NULL` as `(a = b) IS NULL`, Spark as `a = (b IS NULL)`.
            raise UnsupportedError("Spark may apply IS only to the right side of the comparison")
        part = self.condition(subject, None)
        if isinstance(right, exp.Null):
            return IsUnknown(part)
        if isinstance(right, exp.Boolean):
            return IsTrue(part if right.this else negation(part))
        raise _unknown(node)

    def _comparison(self, node: exp.Binary) -> Node:
        op = _OPERATORS[type(node)]
        left, right = node.left.unnest(), node.right.unnest()
        if column_path(left) is None and (column_path(right) is not None or left.find(exp.Column) is None):
            left, right, op = right, left, FLIPPED[op]
        is_null_safe = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
        if column_path(right) is not None:
            test = _compare_columns(op, self._column(left), self._column(right), is_null_safe)
        elif is_null_safe and isinstance(right, exp.Null):
            test = IsNull(self._column(left))
        else:
            operand = self._operand(left)
            test = operand.resolve(self._compare_constant(operand.column, op, right))
            test = IsTrue(test) if is_null_safe else test
        return negation(test) if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else test

    def _compare_constant(self, column: Column, op: Op, other: exp.Expr) -> Node:
        constant = self._literals.read([other], column.type, in_list=False)[0]
        if constant.type is LogicalType.NULL:
            return BooleanConstant(None)
        return coercion.compare(column, op, constant)

    def _between(self, node: exp.Between) -> Node:
        operand = self._operand(node.this)
        tests = [self._compare_constant(operand.column, op, node.args[side]) for op, side in _BETWEEN]
        return operand.resolve(conjunction(tests))

    def _supported_ends(self, node: exp.Expr) -> Node:
        """Bind the ends of a BETWEEN that are supported. Returns TRUE if neither is."""
        parts = []
        for op, side in _BETWEEN:
            try:
                operand = self._operand(node.this)
                parts.append(operand.resolve(self._compare_constant(operand.column, op, node.args[side])))
            except UnsupportedError:
                continue
        return conjunction(parts)

    def _in_list(self, node: exp.In) -> Node:
        operand = self._operand(node.this)
        column = operand.column
        items: Sequence[exp.Expr] = node.args.get("expressions") or ()
        if not items:
            raise _unknown(node)
        constants = self._literals.read(items, column.type, in_list=True)
        values: list[Literal] = [constant for constant in constants if constant.type is not LogicalType.NULL]
        if not values:
            return BooleanConstant(None)
        return operand.resolve(coercion.in_list(column, values, has_null=len(values) < len(constants)))

    def _string_test(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like):
            test = self._like(node.this, _escape_character(node.expression))
            return negation(test) if node.this.args.get("negate") else test
        if isinstance(node, exp.Like | exp.ILike):
            return self._like(node, "\\")
        if type(node) not in _STRING_TESTS:
            raise _unknown(node)
        operand, text = self._string_operands(node)
        match = StringMatch(operand.column, _STRING_TESTS[type(node)], text)
        return operand.resolve(match if text else true_unless_null(operand.column))

    def _like(self, node: exp.Like | exp.ILike, escape: str) -> Node:
        operand, pattern = self._string_operands(node)
        return operand.resolve(like_test(operand.column, pattern, escape))

    def _string_operands(self, node: exp.Expr) -> tuple[Operand, str]:
        operand = self._operand(exp.Lower(this=node.this.copy()) if isinstance(node, exp.ILike) else node.this)
        _check_type(operand.column, frozenset({LogicalType.STRING}))
        pattern = node.expression.unnest()
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise _unknown(node)
        constant = self._literals.read([pattern], LogicalType.STRING, in_list=False)[0]
        return operand, str(constant.value)

    def _operand(self, node: exp.Expr) -> Operand:
        node = node.unnest()
        if self._scope.is_for_text and elements.is_element(node):
            return elements.element_operand(node, self._scope)
        return operand_of(node, self._scope)

    def _column_of(self, node: exp.Expr, types: frozenset[LogicalType]) -> Column:
        column = self._column(node)
        _check_type(column, types)
        return column

    def _column(self, node: exp.Expr) -> Column:
        path = column_path(node.unnest())
        if path is None:
            raise _unknown(node)
        return self._scope.column(path)


def _has_unread_arguments(node: exp.Expr) -> bool:
    """Return whether a node has arguments that the binder does not read. `symmetric` is False for ASYMMETRIC."""
    if node.args.get("symmetric") is not None:
        return True
    return any(value for key, value in node.args.items() if key not in _ARGUMENTS)


def _unknown(node: exp.Expr) -> UnsupportedError:
    return UnsupportedError(f"{short_sql(node)} cannot be pushed down")


def _check_type(column: Column, types: frozenset[LogicalType]) -> None:
    if column.type not in types:
        raise UnsupportedError(f"{'.'.join(column.path)} is not of type {' or '.join(sorted(types))}")


def _escape_character(node: exp.Expr) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string or len(node.name) != 1:
        raise UnsupportedError("ESCAPE takes one character")
    return node.name


def _compare_columns(op: Op, left: Column, right: Column, is_null_safe: bool) -> Node:
    """Compare two columns of the same type, so that Spark casts neither."""
    are_integers = left.type is LogicalType.INTEGER and right.type is LogicalType.INTEGER
    if (
        left.type is LogicalType.OTHER
        or left.type is not right.type
        or (left.storage != right.storage and not are_integers)
    ):
        raise UnsupportedError(f"{'.'.join(left.path)} and {'.'.join(right.path)} are of different or nested types")
    if op in (Op.GT, Op.GE):
        left, right, op = right, left, FLIPPED[op]
    comparison = ColumnComparison(op, left, right)
    if not is_null_safe:
        return comparison
    return Or((And((IsNull(left), IsNull(right))), IsTrue(comparison)))
