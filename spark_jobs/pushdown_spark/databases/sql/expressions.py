"""Remote expressions for Spark's expressions: comparisons, operators, conditional expressions and casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases.sql import functions
from pushdown_spark.databases.sql.arithmetic import (
    ArithmeticWriter,
    IntegerRange,
    TypedExpression,
    are_comparable,
    integer_literal,
    type_range,
    wider_type,
)
from pushdown_spark.databases.sql.builder import (
    all_of,
    any_of,
    binary,
    call,
    cast,
    in_integers,
    in_values,
    is_null,
    is_true,
    negate,
)
from pushdown_spark.databases.sql.column_conditions import ColumnConditions, Polarity
from pushdown_spark.databases.sql.column_operands import remote_type
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable
from pushdown_spark.databases.sql.string_comparison import StringComparison, string_comparison
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.conjuncts import column_path, short_sql
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS, LogicalType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)
_AMBIGUOUS_OPERATORS = (*_BITWISE, exp.DPipe)
"""Operators that have one precedence in sqlglot and several in Spark."""
_ARITHMETIC_OPERATORS = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv)
"""Operators that bind tighter in both, except in operands of `||`, which has the precedence of `+` in Spark."""
_INTEGER_CASTS = {"TINYINT": t.ByteType(), "SMALLINT": t.ShortType(), "INT": t.IntegerType(), "BIGINT": t.LongType()}
_BIGINT_DIGITS = 19
"""The number of digits of the largest bigint."""


class ExpressionWriter:
    """A writer of expressions over a table's columns, and of conditions other than AND, OR and NOT at the top.

    `rechecks` has the conditions of rows on which Spark evaluates the predicate again.
    """

    def __init__(self, table: RemoteTable, scope: Scope) -> None:
        self.dialect = table.dialect
        self._conditions = ColumnConditions(table)
        self.recheck, self.rechecks = self._conditions.recheck, self._conditions.rechecks
        self._scope = scope
        self._math = ArithmeticWriter(self._conditions)

    def _condition(self, node: exp.Expr) -> exp.Expr:
        """Return a boolean expression with its exact value, including NULL."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return negate(self._condition(node.this))
        if isinstance(node, exp.And | exp.Or):
            join = all_of if isinstance(node, exp.And) else any_of
            return join([self._condition(part) for part in node.flatten()])
        return self.leaf(node, Polarity.VALUE)

    def leaf(self, node: exp.Expr, polarity: Polarity) -> exp.Expr:
        """Return a leaf: as a test of a column if possible, otherwise as a comparison of expressions."""
        if self.dialect is Dialect.SQLITE and isinstance(node, exp.Like) and "\\" in node.expression.name:
            raise UnsupportedError("SQLite's LIKE has no default escape character, so Spark evaluates it")
        bound = bind(node, self._scope)
        if bound.artifact is not None and bound.is_exact:
            return self._conditions.write(bound.artifact, polarity)
        rechecks = list(self._conditions.rechecks)
        try:
            tree = self._test(node)
        except UnsupportedError as problem:
            self._conditions.rechecks[:] = rechecks
            raise UnsupportedError(_reason(node, bound, problem)) from problem
        return negate(tree) if polarity is Polarity.FALSE_ROWS else tree

    def _test(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, _COMPARISONS):
            return self._compare(node)
        match node:
            case exp.Is():
                return self._is_test(node)
            case exp.Between():
                return self._between(node)
            case exp.In() if node.expressions and not node.args.get("query"):
                return self._membership(node)
            case exp.Case() | exp.If() | exp.Coalesce() if (value := self.value(node)).type == t.BooleanType():
                return value.tree
        raise _no_equivalent(node)

    def _is_test(self, node: exp.Is) -> exp.Expr:
        """Return IS NULL, IS TRUE or IS FALSE of an expression."""
        subject, expected = node.this, node.expression
        if isinstance(subject, exp.Predicate | exp.Not | exp.Connector):
            raise UnsupportedError("IS follows a comparison without parentheses, which Spark may parse differently")
        if isinstance(expected, exp.Null):
            return is_null(self.value(subject).tree)
        if not isinstance(expected, exp.Boolean):
            raise _no_equivalent(node)
        value = self._condition(subject)
        return is_true(value if expected.this else negate(value))

    def _between(self, node: exp.Between) -> exp.Expr:
        low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
        high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
        return all_of([self._compare(low), self._compare(high)])

    def _membership(self, node: exp.In) -> exp.Expr:
        """Return `expression IN (items)`. Raises UnsupportedError for items of several types."""
        items = [item for item in node.expressions if not isinstance(item.unnest(), exp.Null)]
        has_null = len(items) < len(node.expressions)
        if not items:
            raise _no_equivalent(node)
        subject = self.value(node.this)
        if subject.is_integer and (numbers := _bigints(items)) is not None:
            return in_integers(subject.tree, numbers, has_null=has_null)
        values = [self.value(item) for item in items]
        if any(value.type != subject.type and not (value.is_integer and subject.is_integer) for value in values):
            raise UnsupportedError("items of other types are compared after a cast")
        trees = [value.comparison.equal if value.comparison is not None else value.tree for value in (subject, *values)]
        # `in_values` consumes the items, and conditions of rows to recheck may share them.
        items = [tree.copy() for tree in trees[1:]] + ([exp.Null()] if has_null else [])
        return in_values(trees[0], items, self.dialect)

    def value(self, node: exp.Expr) -> TypedExpression:
        """Return the remote expression of a node. Raises UnsupportedError if there is none with Spark's value."""
        node = node.unnest()
        if column_path(node) is not None:
            return self._column(node)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Boolean | exp.Predicate | exp.Not | exp.Connector):
            return TypedExpression(self._condition(node), t.BooleanType())
        expression = self._operator(node) or self._conditional(node) or functions.function_call(node, self)
        if expression is None:
            raise _no_equivalent(node)
        return expression

    def _column(self, node: exp.Expr) -> TypedExpression:
        column = self._conditions.column(column_path(node) or (), name_rule=self._scope.name_rule)
        operand = self._conditions.column_operand(column)
        if operand.kind is LogicalType.INTEGER:
            value = TypedExpression(operand.value, column.spark_type, type_range(column.spark_type))
            return value if remote_type(column).base == "bigint" else self._math.widen(value)
        if operand.kind is LogicalType.STRING:
            return TypedExpression(operand.value, column.spark_type, comparison=self._conditions.comparison(operand))
        if operand.kind in (LogicalType.FLOAT, LogicalType.DOUBLE, LogicalType.BINARY, LogicalType.TIMESTAMP):
            raise UnsupportedError(f"expressions with {column.name} ({column.spark_type.simpleString()}) are not sent")
        if operand.kind is LogicalType.DECIMAL and self.dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite computes decimals as doubles")
        if operand.kind is LogicalType.DECIMAL and remote_type(column).base == "bigint":
            # Unsigned arithmetic raises for negative results.
            return TypedExpression(cast(operand.value, "DECIMAL(20,0)", self.dialect), column.spark_type)
        return TypedExpression(operand.value, column.spark_type)

    def _literal(self, node: exp.Literal) -> TypedExpression:
        if node.is_string:
            return self._text_literal(node.name)
        if not node.name.isdigit() or int(node.name) > 2**63 - 1:
            return self._decimal_literal(node)
        return integer_literal(int(node.name))

    def _decimal_literal(self, node: exp.Literal) -> TypedExpression:
        digits = node.name.partition(".")
        is_plain = digits[1] and (digits[0] + digits[2]).isdigit()
        if not is_plain or self.dialect is Dialect.SQLITE:
            raise _no_equivalent(node)
        scale = len(digits[2])
        integer_digits = len(digits[0].lstrip("0"))
        if integer_digits + scale > MAX_DECIMAL_DIGITS:
            raise _no_equivalent(node)
        spark_type = t.DecimalType(max(integer_digits + scale, 1), scale)
        return TypedExpression(exp.Literal.number(node.name), spark_type, is_literal=True)

    def _text_literal(self, text: str) -> TypedExpression:
        literal = self._comparison(exp.Null()).text(text)
        # PostgreSQL would guess the type of a bare literal from its context.
        is_postgresql = self.dialect is Dialect.POSTGRES
        comparison = self._comparison(cast(literal, "TEXT", self.dialect) if is_postgresql else literal)
        return TypedExpression(comparison.characters, t.StringType(), comparison=comparison, is_literal=True)

    def string(self, tree: exp.Expr) -> TypedExpression:
        """Return a string expression."""
        return TypedExpression(tree, t.StringType(), comparison=self._comparison(tree))

    def _comparison(self, tree: exp.Expr) -> StringComparison:
        return string_comparison(tree, self.dialect, is_utf8=self._conditions.table.is_utf8)

    def _operator(self, node: exp.Expr) -> TypedExpression | None:
        if isinstance(node, exp.Binary) and type(node) in (*_ARITHMETIC_OPERATORS, *_AMBIGUOUS_OPERATORS):
            return self._binary(node)
        if isinstance(node, exp.Neg | exp.Negative):
            is_literal = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
            return self._math.negative(self.value(node.this), is_literal=is_literal)
        if isinstance(node, exp.Abs):
            return self._math.absolute(self._integer(node.this))
        return None

    def _binary(self, node: exp.Binary) -> TypedExpression:
        _check_precedence(node)
        if isinstance(node, exp.DPipe):
            return self._concatenate([node.left, node.right])
        left, right = self.value(node.left), self.value(node.right)
        if type(node) in _ARITHMETIC and not (left.is_integer and right.is_integer):
            return self._math.decimals(type(node), left, right)
        if not (left.is_integer and right.is_integer):
            raise _no_equivalent(node)
        if type(node) in _ARITHMETIC:
            return self._math.integers(type(node), left, right)
        if type(node) in _BITWISE:
            return self._math.bits(type(node), left, right)
        if isinstance(node, exp.Mod):
            return self._math.remainder(left, right)
        return self._math.quotient(left, right)

    def _integer(self, node: exp.Expr) -> TypedExpression:
        value = self.value(node)
        if not value.is_integer:
            raise _no_equivalent(node)
        return value

    def _conditional(self, node: exp.Expr) -> TypedExpression | None:
        match node:
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._branches([(node.this, node.args["true"])], node.args.get("false"))
            case exp.Coalesce():
                values = [self.value(part) for part in (node.this, *node.expressions)]
                return self._merge(values, lambda trees: call("COALESCE", *trees))
            case exp.Nullif():
                same = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
                return self._branches([(same, exp.Null())], node.this)
            case exp.TryCast() | exp.Cast():
                return self._cast(node)
            case exp.Concat():
                if not node.args.get("safe"):
                    raise UnsupportedError("Spark may join adjacent string literals in another way")
                return self._concatenate(node.expressions)
        return None

    def _case(self, node: exp.Case) -> TypedExpression:
        subject = node.this
        pairs = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        if subject is not None:
            pairs = [(exp.EQ(this=subject.copy(), expression=test.copy()), result) for test, result in pairs]
        return self._branches(pairs, node.args.get("default"))

    def _branches(self, pairs: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None) -> TypedExpression:
        """Return a CASE expression. NULL results take the type of the others."""
        tests = [self._condition(test) for test, _ in pairs]
        results = [result for _, result in pairs] + [default if default is not None else exp.Null()]
        values_or_none = [None if isinstance(result, exp.Null) else self.value(result) for result in results]
        values = [value for value in values_or_none if value is not None]
        if not values:
            raise UnsupportedError("every branch of the CASE is NULL")

        def write(trees: list[exp.Expr]) -> exp.Expr:
            pending = iter(trees)
            outputs = [exp.Null() if value is None else next(pending) for value in values_or_none]
            branches = [exp.If(this=test, true=output) for test, output in zip(tests, outputs, strict=False)]
            return exp.Case(ifs=branches, default=outputs[-1])

        return self._merge(values, write)

    def _merge(self, values: Sequence[TypedExpression], write: Callable[[list[exp.Expr]], exp.Expr]) -> TypedExpression:
        """Return an expression whose value is one of `values`. They need one type; integers may have several widths."""
        first = values[0]
        if all(value.type == t.StringType() for value in values):
            return self.string(write([_characters(value) for value in values]))
        tree = write([value.tree for value in values])
        if all(value.is_integer for value in values):
            limits = [end for value in values for end in (value.range.low, value.range.high)]
            return TypedExpression(tree, wider_type(*values), IntegerRange.around(limits))
        if any(value.type != first.type for value in values) or isinstance(first.type, t.DecimalType):
            raise UnsupportedError("the results have several types")
        return TypedExpression(tree, first.type)

    def _cast(self, node: exp.Cast) -> TypedExpression:
        """Return a cast without loss, or a cast of integers whose rows that do not fit are rechecked."""
        if (constant := functions.date_constant(node, self.dialect)) is not None:
            return constant
        source = self.value(node.this)
        to = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
        if node.args.get("safe") or node.args.get("format"):
            raise _no_equivalent(node)
        if source.is_integer and to in _INTEGER_CASTS:
            return self._math.recheck_overflow(source.tree, _INTEGER_CASTS[to], source.range)
        if source.is_integer and to in ("TEXT", "VARCHAR") and not node.to.expressions:
            name = {Dialect.POSTGRES: "TEXT", Dialect.SQLITE: "TEXT"}.get(self.dialect, "CHAR")
            return self.string(cast(source.tree, name, self.dialect))
        if to == "DATE":
            return functions.date_of(source, self.dialect)
        raise UnsupportedError(f"the cast to {node.to.sql(dialect='spark')} is not sent")

    def _concatenate(self, parts: Sequence[exp.Expr]) -> TypedExpression:
        values = [self.value(part) for part in parts]
        if any(value.comparison is None for value in values):
            raise UnsupportedError("CONCAT would cast its arguments to strings")
        trees = [_characters(value) for value in values]
        is_mysql = self.dialect.is_mysql
        return self.string(call("CONCAT", *trees) if is_mysql else reduce(partial(binary, exp.DPipe), trees))

    def _compare(self, node: exp.Binary) -> exp.Expr:
        """Return a comparison of two expressions of one type, with its exact value."""
        for side in (node.left, node.right):
            if isinstance(side, exp.Predicate | exp.Not | exp.Connector):
                raise UnsupportedError("Spark may parse chained comparisons in another way")
        left, right = self.value(node.left), self.value(node.right)
        if _may_fold(node.left, left, right) or _may_fold(node.right, right, left):
            raise UnsupportedError("Spark folds the comparison to a constant, also for NULL")
        if not are_comparable(left, right):
            names = (left.type.simpleString(), right.type.simpleString())
            raise UnsupportedError(f"{' and '.join(names)} are compared after a cast")
        operator = exp.NullSafeEQ if isinstance(node, exp.NullSafeNEQ) else type(node)
        if left.comparison is not None and right.comparison is not None:
            sides = _text_sides(operator, left.comparison, right.comparison)
        else:
            sides = (left.tree, right.tree)
        tree = binary(operator, *sides)
        return negate(tree) if isinstance(node, exp.NullSafeNEQ) else tree


def _reason(node: exp.Expr, bound: Pushdown[Node], problem: UnsupportedError) -> str:
    """Return why the leaf is unsupported. The binder's reason is better if it compares a column."""
    subject = node.this.this if isinstance(node, exp.Escape) else node.this
    compares_column = isinstance(subject, exp.Expr) and column_path(subject) is not None
    return bound.reason if compares_column and bound.artifact is None and bound.reason else str(problem)


def _bigints(items: Sequence[exp.Expr]) -> list[int] | None:
    """Return the items if all are non-negative integer literals that fit 64 bits, otherwise None."""
    if not all(type(item) is exp.Literal and not item.is_string and item.name.isdigit() for item in items):
        return None
    numbers = [int(item.name) for item in items]
    return numbers if max(numbers) < 2**63 else None


def _characters(value: TypedExpression) -> exp.Expr:
    return value.comparison.characters if value.comparison is not None else value.tree


def _text_sides(
    operator: type[exp.Binary], left: StringComparison, right: StringComparison
) -> tuple[exp.Expr, exp.Expr]:
    if operator in (exp.EQ, exp.NEQ, exp.NullSafeEQ):
        return left.equal, right.equal
    return left.in_order, right.in_order


def _may_fold(node: exp.Expr, value: TypedExpression, other: TypedExpression) -> bool:
    """Return whether a decimal literal that may exceed all bigints is compared with an integer. Spark may fold that."""
    node = node.unnest()
    is_literal = isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)
    if not is_literal or not other.is_integer or not isinstance(value.type, t.DecimalType):
        return False
    return value.type.precision - value.type.scale >= _BIGINT_DIGITS


def _check_precedence(node: exp.Binary) -> None:
    """Raise UnsupportedError for operators that sqlglot may group differently from Spark."""
    inner = [side for side in (node.left, node.right) if isinstance(side, exp.Binary) and not isinstance(side, exp.Dot)]
    arithmetic = () if isinstance(node, exp.DPipe) else _ARITHMETIC_OPERATORS
    is_ambiguous = isinstance(node, _AMBIGUOUS_OPERATORS) and any(
        type(side) not in (type(node), *arithmetic) for side in inner
    )
    if is_ambiguous or any(isinstance(side, exp.Predicate | exp.Connector) for side in inner):
        raise UnsupportedError("the operators need parentheses, because Spark may group them differently")


def _no_equivalent(node: exp.Expr) -> UnsupportedError:
    """Return the error for an expression without a known equivalent."""
    return UnsupportedError(f"{short_sql(node)} has no known equivalent in the database")
