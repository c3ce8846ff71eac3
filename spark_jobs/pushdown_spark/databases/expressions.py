"""Turns expressions that Spark would compute into remote ones: operators, CASE and its relatives, and casts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.databases import functions, literals
from pushdown_spark.databases.conditions import Conditions
from pushdown_spark.databases.model import Dialect, RemoteColumn
from pushdown_spark.databases.operands import remote_type
from pushdown_spark.databases.render import binary, call, cast, negated, one_of, one_of_numbers
from pushdown_spark.databases.texts import TextForm, check_ascii, mysql_text, postgres_text, sqlite_text
from pushdown_spark.databases.values import (
    Arithmetic,
    Range,
    Value,
    bound,
    decimal_type,
    integer,
    type_range,
    wider,
)
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.parse import column_path
from pushdown_spark.predicates.vector import Kind

Condition = Callable[[exp.Expr], exp.Expr]
_COMPUTED: dict[type[exp.Expr], type[exp.Binary]] = {exp.Add: exp.Add, exp.Sub: exp.Sub, exp.Mul: exp.Mul}
_BITWISE: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.BitwiseAnd: exp.BitwiseAnd,
    exp.BitwiseOr: exp.BitwiseOr,
    exp.BitwiseXor: exp.BitwiseXor,
}
_ONE_LEVEL = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.DPipe, exp.BitwiseLeftShift, exp.BitwiseRightShift)
"""What sqlglot gives one precedence, Spark several."""
_TIGHTER = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv)
"""What both bind tighter than those, except for `||`, which Spark reads like a plus."""
_COMPARISONS: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
    exp.LT: exp.LT,
    exp.LTE: exp.LTE,
    exp.GT: exp.GT,
    exp.GTE: exp.GTE,
    exp.NullSafeEQ: exp.NullSafeEQ,
    exp.NullSafeNEQ: exp.NullSafeEQ,
}
_INTEGER_CASTS = {"TINYINT": t.ByteType(), "SMALLINT": t.ShortType(), "INT": t.IntegerType(), "BIGINT": t.LongType()}
_MAX_SHIFT = 31
_BIGINT_DIGITS = 19
"""Digits of the largest bigint."""


class Expressions:
    """Writes expressions over a table's columns; `condition` writes a boolean expression with its three values."""

    def __init__(self, conditions: Conditions, condition: Condition, *, case_sensitive: bool) -> None:
        self._conditions = conditions
        self._dialect = conditions.dialect
        self._condition = condition
        self._case_sensitive = case_sensitive
        self._math = Arithmetic(conditions.dialect, conditions.guards)

    def value(self, node: exp.Expr) -> Value:
        """A typed expression. Raises UnsupportedError for what has no equal there."""
        node = node.unnest()
        if column_path(node) is not None:
            return self._column(node)
        if isinstance(node, exp.Literal):
            return self._literal(node)
        if isinstance(node, exp.Boolean | exp.Predicate | exp.Not | exp.Connector):
            return Value(lambda: self._condition(node), t.BooleanType())
        known = self._operator(node) or self._choice(node) or self._function(node)
        if known is None:
            raise beyond(node)
        return known

    def _column(self, node: exp.Expr) -> Value:
        path = column_path(node) or ()
        column = self._conditions.table.column(path[-1], self._case_sensitive) if len(path) == 1 else None
        if column is None:
            raise UnsupportedError(f"{'.'.join(path)} is no column of the remote table")
        return self._of_column(column)

    def _of_column(self, column: RemoteColumn) -> Value:
        found = self._conditions.operand(column)
        if found.kind is Kind.INTEGER:
            value = Value(found.value, column.spark_type, type_range(column.spark_type))
            return value if remote_type(column).base == "bigint" else self._math.widened(value)
        if found.kind is Kind.STRING:
            return Value(found.value, column.spark_type, text=self._conditions.text(found))
        if found.kind in (Kind.FLOAT, Kind.DOUBLE, Kind.BINARY, Kind.TIMESTAMP):
            raise UnsupportedError(f"nothing is computed from {column.name} ({column.spark_type.simpleString()}) there")
        if found.kind is Kind.DECIMAL and self._dialect is Dialect.SQLITE:
            raise UnsupportedError("SQLite computes decimals as doubles")
        if found.kind is Kind.DECIMAL and remote_type(column).base == "bigint":
            # Unsigned arithmetic raises below zero.
            return Value(lambda: cast(found.value(), "DECIMAL(20,0)", self._dialect), column.spark_type)
        return Value(found.value, column.spark_type)

    def _literal(self, node: exp.Literal) -> Value:
        if node.is_string and self._dialect is Dialect.POSTGRES and not self._conditions.table.is_utf8:
            check_ascii(node.name)
        if node.is_string:
            return self.string(lambda: literals.text(node.name, self._dialect), is_literal=True)
        if not node.name.isdigit() or int(node.name) > 2**63 - 1:
            return self._decimal_literal(node)
        return integer(int(node.name))

    def _decimal_literal(self, node: exp.Literal) -> Value:
        digits = node.name.partition(".")
        is_plain = digits[1] and (digits[0] + digits[2]).isdigit()
        if not is_plain or self._dialect is Dialect.SQLITE:
            raise beyond(node)
        scale = len(digits[2])
        whole = len(digits[0].lstrip("0"))
        if whole + scale > literals.MAX_DIGITS:
            raise beyond(node)
        kind = t.DecimalType(max(whole + scale, 1), scale)
        return Value(lambda: exp.Literal.number(node.name), kind, is_literal=True)

    def string(self, tree: Callable[[], exp.Expr], *, is_literal: bool = False) -> Value:
        """A computed string."""
        if is_literal:
            tree()
        form: TextForm
        if self._dialect is Dialect.POSTGRES:
            text = (lambda: cast(tree(), "TEXT", self._dialect)) if is_literal else tree
            form = postgres_text(text, deterministic=False, is_utf8=self._conditions.table.is_utf8)
        elif self._dialect is Dialect.SQLITE:
            form = sqlite_text(tree, is_utf8=self._conditions.table.is_utf8)
        else:
            form = mysql_text(tree)
        return Value(form.characters if is_literal else tree, t.StringType(), text=form, is_literal=is_literal)

    def _operator(self, node: exp.Expr) -> Value | None:
        if isinstance(node, exp.Binary) and type(node) in (*_COMPUTED, *_BITWISE, exp.Mod, exp.IntDiv, *_ONE_LEVEL):
            return self._binary(node)
        if isinstance(node, exp.Neg | exp.Negative):
            is_literal = isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)
            return self._negative(self.value(node.this), is_literal=is_literal)
        if isinstance(node, exp.BitwiseNot):
            return self._math.inverted(self._integer(node.this))
        if isinstance(node, exp.Abs):
            return self._math.absolute(self._integer(node.this))
        return None

    def _binary(self, node: exp.Binary) -> Value:
        _check_level(node)
        if isinstance(node, exp.DPipe):
            return self._concatenated([node.left, node.right])
        left, right = self.value(node.left), self.value(node.right)
        if type(node) in _COMPUTED and not (left.is_integer and right.is_integer):
            return self._math.decimals(_COMPUTED[type(node)], left, right)
        if not (left.is_integer and right.is_integer):
            raise beyond(node)
        if type(node) in _COMPUTED:
            return self._math.integers(_COMPUTED[type(node)], left, right)
        if type(node) in _BITWISE:
            return self._math.bits(_BITWISE[type(node)], left, right)
        if isinstance(node, exp.Mod):
            return self._math.remainder(left, right)
        return self._math.quotient(left, right) if isinstance(node, exp.IntDiv) else self._shifted(node, left, right)

    def _shifted(self, node: exp.Binary, left: Value, right: Value) -> Value:
        """Left by a few bits is a multiplication; right is arithmetic everywhere but in MySQL."""
        by = bound(right).low
        if not right.is_literal or not 0 <= by < _MAX_SHIFT or left.type not in (t.IntegerType(), t.LongType()):
            raise beyond(node)
        if isinstance(node, exp.BitwiseLeftShift):
            product = self._math.integers(exp.Mul, left, integer(2**by))
            return Value(product.tree, left.type, product.range)
        if self._dialect.is_mysql or not bound(left).within(type_range(left.type)):
            raise UnsupportedError("MySQL shifts zeros in from the left")
        bits = self._math.as_long(left)
        return Value(lambda: binary(exp.BitwiseRightShift, bits(), right.tree()), left.type, type_range(left.type))

    def _negative(self, value: Value, *, is_literal: bool) -> Value:
        """`-value`: a minus before a number is part of the literal to Spark, one before parentheses computes."""
        if value.is_literal and value.is_integer:
            negative = integer(-bound(value).low)
            return negative if is_literal else replace(negative, type=value.type, is_literal=False)
        if value.is_integer:
            # Unlike a 0 that is written out, this one makes no int of a smaller type: -(-128) is no tinyint.
            return self._math.integers(exp.Sub, replace(integer(0), type=value.type), value)
        if isinstance(value.type, t.DecimalType):
            return Value(lambda: exp.Paren(this=exp.Neg(this=exp.Paren(this=value.tree()))), value.type)
        raise UnsupportedError(f"a {value.type.simpleString()} is not negated there")

    def _integer(self, node: exp.Expr) -> Value:
        value = self.value(node)
        if not value.is_integer:
            raise beyond(node)
        return value

    def _choice(self, node: exp.Expr) -> Value | None:
        match node:
            case exp.Case():
                return self._case(node)
            case exp.If():
                return self._chosen([(node.this, node.args["true"])], node.args.get("false"))
            case exp.Coalesce():
                parts = [node.this, *node.expressions]
                return self._merged([self.value(part) for part in parts], lambda trees: call("COALESCE", *trees))
            case exp.Nullif():
                same = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
                return self._chosen([(same, exp.Null())], node.this)
            case exp.TryCast() | exp.Cast():
                return self._cast(node)
        return None

    def _case(self, node: exp.Case) -> Value:
        subject = node.this
        pairs = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
        if subject is not None:
            pairs = [(exp.EQ(this=subject.copy(), expression=test.copy()), result) for test, result in pairs]
        return self._chosen(pairs, node.args.get("default"))

    def _chosen(self, pairs: Sequence[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None) -> Value:
        """CASE: what is NULL or not there takes the type of the others."""
        for test, _ in pairs:
            self._condition(test)
        results = [result for _, result in pairs] + [default if default is not None else exp.Null()]
        typed = [None if isinstance(result, exp.Null) else self.value(result) for result in results]
        if not any(typed):
            raise UnsupportedError("a CASE of nothing but NULL")

        def tree(trees: list[exp.Expr]) -> exp.Expr:
            filled = iter(trees)
            made = [exp.Null() if value is None else next(filled) for value in typed]
            tests = [self._condition(test) for test, _ in pairs]
            branches = [exp.If(this=test, true=one) for test, one in zip(tests, made, strict=False)]
            return exp.Case(ifs=branches, default=made[-1])

        return self._merged([value for value in typed if value is not None], tree)

    def _merged(self, values: Sequence[Value], make: Callable[[list[exp.Expr]], exp.Expr]) -> Value:
        """A choice among values of one type; integers of several widths and decimals of several scales are one type."""

        def tree() -> exp.Expr:
            return make([value.tree() for value in values])

        first = values[0]
        if all(value.is_integer for value in values):
            kind = first.type
            for value in values[1:]:
                kind = wider(Value(first.tree, kind), value)
            limits = [end for value in values for end in (bound(value).low, bound(value).high)]
            return Value(tree, kind, Range.around(limits))
        if all(value.type == t.StringType() for value in values):
            return self.string(lambda: make([_characters(value) for value in values]))
        if any(value.type != first.type for value in values) or isinstance(first.type, t.DecimalType):
            raise UnsupportedError("values of several types in one expression")
        return Value(tree, first.type)

    def _cast(self, node: exp.Cast) -> Value:
        """Casts that lose nothing, and those among integers, of which Spark gets the rows that do not fit."""
        if (constant := functions.date_constant(node, self._dialect)) is not None:
            return constant
        source = self.value(node.this)
        to = node.to.this.name if isinstance(node.to.this, exp.DataType.Type) else ""
        if node.args.get("safe") or node.args.get("format"):
            raise beyond(node)
        if source.is_integer and to in _INTEGER_CASTS:
            return self._math.checked(source.tree, _INTEGER_CASTS[to], bound(source))
        if source.is_integer and to in ("TEXT", "VARCHAR") and not node.to.expressions:
            name = {Dialect.POSTGRES: "TEXT", Dialect.SQLITE: "TEXT"}.get(self._dialect, "CHAR")
            return self.string(lambda: cast(source.tree(), name, self._dialect))
        if to == "DATE":
            return functions.date_of(source, self._dialect)
        raise UnsupportedError(f"the cast to {node.to.sql(dialect='spark')} is left to Spark")

    def _function(self, node: exp.Expr) -> Value | None:
        if isinstance(node, exp.Concat):
            if not node.args.get("safe"):
                raise UnsupportedError("string literals side by side")
            return self._concatenated(node.expressions)
        return functions.text_function(node, self._dialect, self) or functions.date_part(node, self._dialect, self)

    def _concatenated(self, parts: Sequence[exp.Expr]) -> Value:
        values = [self.value(part) for part in parts]
        if any(value.text is None for value in values):
            raise UnsupportedError("other types than strings would be cast to be joined")

        def tree() -> exp.Expr:
            trees = [_characters(value) for value in values]
            if self._dialect.is_mysql:
                return call("CONCAT", *trees)
            joined = trees[0]
            for one in trees[1:]:
                joined = binary(exp.DPipe, joined, one)
            return joined

        return self.string(tree)

    def guard_nul(self, value: Value) -> None:
        """Keeps the strings whose functions would end at a NUL."""
        if value.text is not None and value.text.stops_at_nul is not None and not value.is_literal:
            self._math.guard(value.text.stops_at_nul())

    def compare(self, node: exp.Binary) -> exp.Expr:
        """A comparison of two expressions of one type, as a three-valued condition."""
        for side in (node.left, node.right):
            if isinstance(side, exp.Predicate | exp.Not | exp.Connector):
                raise UnsupportedError("comparisons in a row, which Spark may group otherwise")
        left, right = self.value(node.left), self.value(node.right)
        if _decides_alone(node.left, left, right) or _decides_alone(node.right, right, left):
            raise UnsupportedError("Spark knows the answer without looking at the row, at NULL either")
        if not _comparable(left, right):
            names = (left.type.simpleString(), right.type.simpleString())
            raise UnsupportedError(f"{' and '.join(names)} would be cast to be compared")
        operator = _COMPARISONS[type(node)]
        if left.text is not None and right.text is not None:
            sides = _text_sides(operator, left.text, right.text)
        else:
            sides = (left.tree(), right.tree())
        tree = binary(operator, *sides)
        return negated(tree) if isinstance(node, exp.NullSafeNEQ) else tree

    def among(self, node: exp.Expr, items: Sequence[exp.Expr], *, has_null: bool) -> exp.Expr:
        """`node IN (items)`, none of them NULL; `has_null` tells that the list has one as well."""
        subject = self.value(node)
        if subject.is_integer and (numbers := _bigints(items)) is not None:
            return one_of_numbers(subject.tree(), numbers, has_null=has_null)
        values = [self.value(item) for item in items]
        if any(value.type != subject.type and not (value.is_integer and subject.is_integer) for value in values):
            raise UnsupportedError("items of other types would be cast to be compared")
        made = [value.text.equal() if value.text is not None else value.tree() for value in (subject, *values)]
        return one_of(made[0], [*made[1:], *([exp.Null()] if has_null else [])], self._dialect)


def _bigints(items: Sequence[exp.Expr]) -> list[int] | None:
    """Whole numbers that are written out and fit 64 bits; None where an item is anything else."""
    if not all(type(item) is exp.Literal and not item.is_string and item.name.isdigit() for item in items):
        return None
    numbers = [int(item.name) for item in items]
    return numbers if max(numbers) < 2**63 else None


def _characters(value: Value) -> exp.Expr:
    return value.text.characters() if value.text is not None else value.tree()


def _text_sides(operator: type[exp.Binary], left: TextForm, right: TextForm) -> tuple[exp.Expr, exp.Expr]:
    if operator in (exp.EQ, exp.NEQ, exp.NullSafeEQ):
        return left.equal(), right.equal()
    if left.ordered is None or right.ordered is None:
        raise UnsupportedError("the database's encoding does not order strings as UTF-8 does")
    return left.ordered(), right.ordered()


def _comparable(left: Value, right: Value) -> bool:
    """Whether Spark compares two values without loss: decimals in a type that has room for the digits of both."""
    if left.type == right.type or (left.is_integer and right.is_integer):
        return True
    if not all(value.is_integer or isinstance(value.type, t.DecimalType) for value in (left, right)):
        return False
    one, two = decimal_type(left), decimal_type(right)
    whole = max(one.precision - one.scale, two.precision - two.scale)
    return whole + max(one.scale, two.scale) <= literals.MAX_DIGITS


def _decides_alone(node: exp.Expr, value: Value, other: Value) -> bool:
    """Whether a decimal is written out that may be beyond all bigints, and is compared with an integer."""
    node = node.unnest()
    written = isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)
    if not written or not other.is_integer or not isinstance(value.type, t.DecimalType):
        return False
    return value.type.precision - value.type.scale >= _BIGINT_DIGITS


def _check_level(node: exp.Binary) -> None:
    """Refuses what sqlglot may have grouped otherwise than Spark."""
    inner = [side for side in (node.left, node.right) if isinstance(side, exp.Binary) and not isinstance(side, exp.Dot)]
    tight = () if isinstance(node, exp.DPipe) else _TIGHTER
    mixed = isinstance(node, _ONE_LEVEL) and any(type(side) not in (type(node), *tight) for side in inner)
    if mixed or any(isinstance(side, exp.Predicate | exp.Connector) for side in inner):
        raise UnsupportedError("operators side by side that Spark may group otherwise; parentheses would tell")


def beyond(node: exp.Expr) -> UnsupportedError:
    """The reason for leaving an expression to Spark that nobody knows how to write."""
    text = node.sql(dialect="spark")
    return UnsupportedError(f"{text if len(text) <= 60 else text[:57] + '...'} has no equal there that is known")
