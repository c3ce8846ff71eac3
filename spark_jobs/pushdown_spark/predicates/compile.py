"""Compiles a predicate into a tree that evaluates Arrow batches, with Spark's types and null rules.

A part that cannot be compiled is left out where that keeps more rows and never fewer: from an AND, or from an OR under
a NOT. What remains is then inexact; where nothing remains, the reason is all there is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type
from sqlglot import exp

from pushdown_spark.char_types import is_char
from pushdown_spark.predicates import coercion
from pushdown_spark.predicates.constants import Constant as Literal
from pushdown_spark.predicates.constants import ConstantReader, Type, UnsupportedError
from pushdown_spark.predicates.derive import Scope
from pushdown_spark.predicates.like import anything, like
from pushdown_spark.predicates.parse import column_path, has_subquery
from pushdown_spark.predicates.vector import (
    FLOATING,
    And,
    Column,
    Compare,
    Constant,
    IsNull,
    IsTrue,
    IsUnknown,
    Kind,
    Node,
    Not,
    OneOf,
    Op,
    Or,
    Pair,
    Pattern,
    Text,
    TextTest,
    VectorFilter,
)

_KINDS: dict[type[t.DataType], Kind] = {
    t.BooleanType: Kind.BOOLEAN,
    t.ByteType: Kind.INTEGER,
    t.ShortType: Kind.INTEGER,
    t.IntegerType: Kind.INTEGER,
    t.LongType: Kind.INTEGER,
    t.FloatType: Kind.FLOAT,
    t.DoubleType: Kind.DOUBLE,
    t.DecimalType: Kind.DECIMAL,
    t.VarcharType: Kind.STRING,
    t.BinaryType: Kind.BINARY,
    t.DateType: Kind.DATE,
    t.TimestampType: Kind.TIMESTAMP,
    t.TimestampNTZType: Kind.TIMESTAMP_NTZ,
}
_STORAGE = {Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64(), Kind.TIMESTAMP_NTZ: pa.int64()}
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
_FLIPPED = {Op.EQ: Op.EQ, Op.LT: Op.GT, Op.LE: Op.GE, Op.GT: Op.LT, Op.GE: Op.LE}
_TEXT_TESTS: dict[type[exp.Expr], TextTest] = {
    exp.StartsWith: TextTest.PREFIX,
    exp.EndsWith: TextTest.SUFFIX,
    exp.Contains: TextTest.CONTAINS,
}
_PARTS = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}


def compile_filter(conjunct: exp.Expr, scope: Scope) -> VectorFilter | str:
    """Compile a predicate over the scope's schema, or say in words why it cannot be.

    Constants are evaluated here, those that take Spark through `scope.fold` (times need it: Spark knows the session's
    time zone). The filter never drops a row that Spark keeps; `VectorFilter.is_exact` tells whether it keeps no other.
    """
    if has_subquery(conjunct):
        return "it has a subquery"
    asked: dict[str, None] = {}
    compiled = _compiled(conjunct, replace(scope, fold=lambda sql: asked.setdefault(sql)))
    return _compiled(conjunct, _prefetched(scope, list(asked))) if asked else compiled


def _compiled(conjunct: exp.Expr, scope: Scope) -> VectorFilter | str:
    compiler = _Compiler(scope)
    root = compiler.condition(conjunct, True)
    reasons = tuple(dict.fromkeys(compiler.left_out))
    return "; ".join(reasons) if reasons and root == Constant(True) else VectorFilter(root, reasons)


def _prefetched(scope: Scope, asked: Sequence[str]) -> Scope:
    """The scope with what a predicate asks Spark for already answered, by one query instead of one each."""
    ask = scope.fold
    answers = ask(f"struct({', '.join(asked)})") if ask is not None and len(asked) > 1 else None
    if ask is None or not isinstance(answers, tuple):
        return scope
    known = dict(zip(asked, answers, strict=True))
    return replace(scope, fold=lambda sql: known[sql] if sql in known else ask(sql))


def all_of(filters: Sequence[VectorFilter]) -> VectorFilter:
    """One filter that keeps what all of them keep, without compiling anything again."""
    reasons = dict.fromkeys(reason for each in filters for reason in each.left_out)
    return VectorFilter(_junction([each.root for each in filters], True), tuple(reasons))


class _Compiler:
    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._constants = ConstantReader(scope)
        self.left_out: list[str] = []

    def condition(self, node: exp.Expr, keeps: bool | None) -> Node:
        """A boolean expression. `keeps` is the answer that stands for a part left out; None where none may be."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return _negation(self.condition(node.this, None if keeps is None else not keeps))
        if isinstance(node, exp.And | exp.Or):
            parts = [self.condition(part, keeps) for part in node.flatten()]
            return _junction(parts, isinstance(node, exp.And))
        try:
            return self._leaf(node)
        except UnsupportedError as problem:
            if keeps is None:
                raise
            self.left_out.append(str(problem))
            return Constant(keeps)

    def _leaf(self, node: exp.Expr) -> Node:
        if any(value for key, value in node.args.items() if key not in _PARTS):
            raise _beyond(node)
        leaf = self._known_leaf(node)
        return _negation(leaf) if node.args.get("negate") else leaf

    def _known_leaf(self, node: exp.Expr) -> Node:
        if type(node) in _OPERATORS and isinstance(node, exp.Binary):
            return self._comparison(node)
        match node:
            case exp.Boolean() | exp.Null():
                return Constant(bool(node.this) if isinstance(node, exp.Boolean) else None)
            case exp.Column() | exp.Dot():
                return Compare(self._column_of(node, frozenset({Kind.BOOLEAN})), Op.EQ, True)
            case exp.In():
                return self._membership(node)
            case exp.Between():
                return self._between(node)
            case exp.Is():
                return self._is(node)
            case exp.IsNan():
                return IsTrue(Compare(self._column_of(node.this, FLOATING), Op.EQ, math.nan))
            case exp.Anonymous():
                return self._null_function(node)
        return self._text(node)

    def _null_function(self, node: exp.Anonymous) -> Node:
        name = node.name.lower()
        if name not in ("isnull", "isnotnull") or len(node.expressions) != 1:
            raise _beyond(node)
        test = IsNull(self._column(node.expressions[0]))
        return test if name == "isnull" else Not(test)

    def _is(self, node: exp.Is) -> Node:
        subject, expected = node.this.unnest(), node.expression
        if isinstance(expected, exp.Null) and column_path(subject) is not None:
            return IsNull(self._column(subject))
        if type(subject) in _OPERATORS:
            # The parser reads `a = b IS NULL` as `(a = b) IS NULL`, Spark as `a = (b IS NULL)`.
            raise UnsupportedError("IS after a comparison binds otherwise in Spark")
        part = self.condition(subject, None)
        if isinstance(expected, exp.Null):
            return IsUnknown(part)
        if isinstance(expected, exp.Boolean):
            return IsTrue(part if expected.this else _negation(part))
        raise _beyond(node)

    def _comparison(self, node: exp.Binary) -> Node:
        op = _OPERATORS[type(node)]
        left, right = node.left.unnest(), node.right.unnest()
        if column_path(left) is None:
            left, right, op = right, left, _FLIPPED[op]
        column = self._column(left)
        null_safe = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
        if column_path(right) is not None:
            test = _pair(op, column, self._column(right), null_safe)
        elif null_safe and isinstance(right, exp.Null):
            test = IsNull(column)
        else:
            test = self._against(column, op, right)
            test = IsTrue(test) if null_safe else test
        return _negation(test) if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else test

    def _against(self, column: Column, op: Op, other: exp.Expr) -> Node:
        constant = self._constants.read([other], column.kind, listed=False)[0]
        if constant.type is Type.NULL:
            return Constant(None)
        return coercion.compare(column, op, constant)

    def _between(self, node: exp.Between) -> Node:
        column = self._column(node.this.unnest())
        ends = ((Op.GE, "low"), (Op.LE, "high"))
        return _junction([self._against(column, op, node.args[side]) for op, side in ends], True)

    def _membership(self, node: exp.In) -> Node:
        column = self._column(node.this.unnest())
        items: Sequence[exp.Expr] = node.args.get("expressions") or ()
        if not items:
            raise _beyond(node)
        constants = self._constants.read(items, column.kind, listed=True)
        values: list[Literal] = [constant for constant in constants if constant.type is not Type.NULL]
        return coercion.one_of(column, values, len(values) < len(constants)) if values else Constant(None)

    def _text(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Escape) and isinstance(node.this, exp.Like):
            test = self._like(node.this, _one_character(node.expression))
            return _negation(test) if node.this.args.get("negate") else test
        if isinstance(node, exp.Like):
            return self._like(node, "\\")
        if type(node) not in _TEXT_TESTS:
            raise _beyond(node)
        column, text = self._string_operands(node)
        return Text(column, _TEXT_TESTS[type(node)], text) if text else anything(column)

    def _like(self, node: exp.Like, escape: str) -> Node:
        column, pattern = self._string_operands(node)
        return like(column, pattern, escape)

    def _string_operands(self, node: exp.Expr) -> tuple[Column, str]:
        column = self._column_of(node.this, frozenset({Kind.STRING}))
        pattern = node.expression.unnest()
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise _beyond(node)
        constant = self._constants.read([pattern], Kind.STRING, listed=False)[0]
        return column, str(constant.value)

    def _column_of(self, node: exp.Expr, kinds: frozenset[Kind]) -> Column:
        column = self._column(node)
        if column.kind not in kinds:
            raise UnsupportedError(f"{'.'.join(column.path)} is not of type {' or '.join(sorted(kinds))}")
        return column

    def _column(self, node: exp.Expr) -> Column:
        path = column_path(node.unnest())
        if path is None:
            raise _beyond(node)
        fields = _resolve(path, self._scope)
        data_type = fields[-1].dataType
        kind = Kind.OTHER if any(is_char(field) for field in fields) else _kind(data_type)
        storage = _STORAGE.get(kind) or (pa.null() if kind is Kind.OTHER else to_arrow_type(data_type))
        return Column(tuple(field.name for field in fields), kind, storage)


def _beyond(node: exp.Expr) -> UnsupportedError:
    text = node.sql(dialect="spark")
    return UnsupportedError(f"{text if len(text) <= 60 else text[:57] + '...'} is beyond the evaluator")


def _resolve(path: tuple[str, ...], scope: Scope) -> list[t.StructField]:
    """The fields from the top to the one meant."""
    found: list[t.StructField] = []
    here: t.DataType = scope.schema
    for part in path:
        members = here.fields if isinstance(here, t.StructType) else []
        same = [field for field in members if _same(field.name, part, scope.case_sensitive)]
        if len(same) != 1:
            raise UnsupportedError(f"{'.'.join(path)} is not one member of structs")
        if any("DEFAULT" in key for key in same[0].metadata):
            raise UnsupportedError(f"{'.'.join(path)} has a default for missing values")
        found.append(same[0])
        here = same[0].dataType
    return found


def _same(name: str, asked: str, case_sensitive: bool) -> bool:
    return name == asked if case_sensitive else name.lower() == asked.lower()


def _kind(data_type: t.DataType) -> Kind:
    if type(data_type) is t.StringType:
        return Kind.STRING if data_type == t.StringType() else Kind.OTHER
    return _KINDS.get(type(data_type), Kind.OTHER)


def _one_character(node: exp.Expr) -> str:
    if not isinstance(node, exp.Literal) or not node.is_string or len(node.name) != 1:
        raise UnsupportedError("ESCAPE takes one character")
    return node.name


def _negation(part: Node) -> Node:
    if isinstance(part, Constant):
        return Constant(None if part.value is None else not part.value)
    return part.part if isinstance(part, Not) else Not(part)


def _junction(parts: Sequence[Node], is_and: bool) -> Node:
    """Parts that decide nothing go, a part that decides alone is all; cheap parts come first."""
    if Constant(not is_and) in parts:
        return Constant(not is_and)
    rest = sorted((part for part in parts if part != Constant(is_and)), key=_cost)
    if len(rest) < 2:
        return rest[0] if rest else Constant(is_and)
    return And(tuple(rest)) if is_and else Or(tuple(rest))


def _cost(node: Node) -> float:
    """About nanoseconds a row."""
    match node:
        case And(parts=parts) | Or(parts=parts):
            return sum(map(_cost, parts))
        case Not(part=part) | IsTrue(part=part) | IsUnknown(part=part):
            return _cost(part)
        case Compare(column=column) | OneOf(column=column):
            is_wide = column.kind in (Kind.STRING, Kind.BINARY, Kind.DECIMAL)
            return (20.0 if is_wide else 5.0) if isinstance(node, OneOf) else (6.0 if is_wide else 1.0)
        case Pattern():
            return 60.0
        case Text():
            return 8.0
    return 1.0


def _pair(op: Op, left: Column, right: Column, null_safe: bool) -> Node:
    """Two columns; only of one type, so that nothing is cast."""
    integers = left.kind is Kind.INTEGER and right.kind is Kind.INTEGER
    if left.kind is Kind.OTHER or left.kind is not right.kind or (left.storage != right.storage and not integers):
        raise UnsupportedError(f"{'.'.join(left.path)} and {'.'.join(right.path)} are of different or nested types")
    if op in (Op.GT, Op.GE):
        left, right, op = right, left, _FLIPPED[op]
    pair = Pair(op, left, right)
    if not null_safe:
        return pair
    return Or((And((IsNull(left), IsNull(right))), IsTrue(pair)))
