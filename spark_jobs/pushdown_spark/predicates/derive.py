"""Derive facts about columns from a predicate: sound or nothing.

Whatever is not understood yields no fact, and a predicate that may accept nulls yields no fact either, because a row
with a null column need not contain any particular bytes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.predicates.facts import (
    AllOf,
    AnyOf,
    Between,
    Contains,
    Fact,
    Family,
    OneOf,
    Present,
    Scalar,
    Target,
)
from pushdown_spark.predicates.parse import column_path, has_subquery

MAX_VALUES = 20_000
"""IN lists longer than this yield no fact: their pattern would cost more to compile than it saves."""

_FAMILIES: dict[type[t.DataType], Family] = {
    t.ByteType: Family.INTEGER,
    t.ShortType: Family.INTEGER,
    t.IntegerType: Family.INTEGER,
    t.LongType: Family.INTEGER,
    t.FloatType: Family.FLOAT,
    t.DoubleType: Family.DOUBLE,
    t.DecimalType: Family.DECIMAL,
    t.BooleanType: Family.BOOLEAN,
    t.DateType: Family.DATE,
    t.TimestampType: Family.TIMESTAMP,
    t.TimestampNTZType: Family.TIMESTAMP,
}
_NUMERIC = frozenset({Family.INTEGER, Family.FLOAT, Family.DOUBLE, Family.DECIMAL})
_EXACT = frozenset({Family.INTEGER, Family.DECIMAL})
_FLOAT_EXACT = 2**24
"""Below this, different integers are different single-precision numbers."""
_BIGINT = "9223372036854775808"
"""The smallest number that is no 64-bit integer."""
_CALENDAR = frozenset({Family.DATE, Family.TIMESTAMP})
_DATE_TEXT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP_TEXT = re.compile(r"(\d{4}-\d{2}-\d{2})([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2})?)?")
_TIMESTAMPS = frozenset(
    {
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
        exp.DataType.Type.TIMESTAMPNTZ,
    }
)
_FLIPPED: dict[type[exp.Binary], type[exp.Binary]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
_ARITHMETIC: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_INTEGER_DIGITS = 10
"""Of numbers that may have 32 bits."""
_DEEPEST_SUM = 20
_FOLDABLE = (
    exp.Literal,
    exp.Neg,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Paren,
    exp.Cast,
    exp.DataType,
    exp.DataTypeParam,
    exp.Interval,
    exp.Var,
    exp.IntervalSpan,
    exp.DateAdd,
    exp.DateSub,
    exp.AddMonths,
    exp.Boolean,
)

Fold = Callable[[str], object]
"""Evaluates a constant Spark SQL expression; returns None where it cannot."""


@dataclass(frozen=True)
class Scope:
    """What names and literals mean: the source's schema and the session settings that bear on comparison.

    `default_fields` are top-level columns with a default for missing values; no bytes prove anything about them.
    `plain_strings` is False where string comparison is not by bytes (collations) or literals could not be read exactly.
    """

    schema: t.StructType
    case_sensitive: bool = False
    plain_strings: bool = True
    fold: Fold | None = None


def derive(predicate: exp.Expr, scope: Scope) -> AllOf:
    """Return facts that hold wherever the predicate is true; no parts where nothing can be said."""
    return AllOf(() if has_subquery(predicate) else _merged(_facts(predicate, False, scope)))


def _facts(node: exp.Expr, negated: bool, scope: Scope) -> list[Fact | AnyOf]:
    """Facts implied by `node` (or by NOT `node`) being true; an empty list says nothing."""
    node = node.unnest()
    if isinstance(node, exp.Not):
        return _facts(node.this, not negated, scope)
    if isinstance(node, exp.And | exp.Or):
        sides = [_facts(side, negated, scope) for side in node.flatten()]
        both = isinstance(node, exp.And) is not negated
        return [fact for side in sides for fact in side] if both else _either(sides)
    if not _plain(node) or _decided_without_column(node, scope):
        return []
    negated = negated is not bool(node.args.get("negate"))
    return _negated_leaf(node, scope) if negated else _leaf(node, scope)


def _plain(node: exp.Expr) -> bool:
    """Whether a leaf carries nothing but the parts that are looked at here (modifiers of sqlglot's would be missed)."""
    known = {"this", "expression", "expressions", "low", "high", "negate", "table", "db", "catalog"}
    return all(key in known for key, value in node.args.items() if value)


def _decided_without_column(node: exp.Expr, scope: Scope) -> bool:
    """Whether Spark may put true or false in place of a comparison, also for nulls.

    It does so for integers against decimal literals beyond bigint. The AST has those as strings that are cast.
    """
    if not any(_beyond_bigint(literal.name) for literal in node.find_all(exp.Literal)):
        return False
    targets = (_target(column, scope) for column in node.find_all(exp.Column))
    return any(target is None or target.family is Family.INTEGER for target in targets)


def _beyond_bigint(text: str) -> bool:
    digits = text.strip().lstrip("+-0").partition(".")[0]
    return len(digits) > len(_BIGINT) or (len(digits) == len(_BIGINT) and digits >= _BIGINT) or "e" in digits.lower()


def _either(sides: list[list[Fact | AnyOf]]) -> list[Fact | AnyOf]:
    """One disjunction over all sides, or nothing if any side says nothing."""
    if not all(sides):
        return []
    branches: list[AllOf] = []
    for side in sides:
        if len(side) == 1 and isinstance(side[0], AnyOf):
            branches.extend(side[0].branches)
        else:
            branches.append(AllOf(_merged(side)))
    return [AnyOf(tuple(branches))]


def _leaf(node: exp.Expr, scope: Scope) -> list[Fact | AnyOf]:
    if isinstance(node, exp.EQ | exp.NullSafeEQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
        return _comparison(node, scope)
    if isinstance(node, exp.In):
        return _membership(node, scope)
    if isinstance(node, exp.Between):
        return _between(node, scope)
    if isinstance(node, exp.NEQ):
        return _present(node.left, scope) if _constant(node.right, scope) is not None else []
    if isinstance(node, exp.Like | exp.Escape | exp.StartsWith | exp.EndsWith | exp.Contains):
        return _text(node, scope)
    if isinstance(node, exp.Column | exp.Dot):
        target = _target(node, scope)
        return [OneOf(target, (True,))] if target and target.family is Family.BOOLEAN else []
    return []


def _negated_leaf(node: exp.Expr, scope: Scope) -> list[Fact | AnyOf]:
    """NOT of a comparison is true only where its column is not null, and for `<` and its kin somewhere definite."""
    flipped: dict[type[exp.Expr], type[exp.Binary]] = {
        exp.LT: exp.GTE,
        exp.LTE: exp.GT,
        exp.GT: exp.LTE,
        exp.GTE: exp.LT,
        exp.NEQ: exp.EQ,
    }
    if type(node) in flipped and isinstance(node, exp.Binary):
        return _leaf(flipped[type(node)](this=node.left.copy(), expression=node.right.copy()), scope)
    if isinstance(node, exp.EQ) and not _operand(node.right):
        return []
    if isinstance(node, exp.EQ | exp.In | exp.Between | exp.Like):
        return _present(node.this, scope)
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return _present(node.this, scope)
    if isinstance(node, exp.Column | exp.Dot):
        target = _target(node, scope)
        return [OneOf(target, (False,))] if target and target.family is Family.BOOLEAN else []
    return []


def _operand(node: exp.Expr) -> bool:
    """Whether both parsers agree that this is one side of a comparison: Spark binds `a = b IS NULL` the other way."""
    return isinstance(node.unnest(), exp.Column | exp.Dot | exp.Literal | exp.Neg | exp.Boolean | exp.Cast)


def _present(column: exp.Expr, scope: Scope) -> list[Fact | AnyOf]:
    target = _target(column, scope)
    return [Present(target)] if target else []


def _comparison(node: exp.Binary, scope: Scope) -> list[Fact | AnyOf]:
    column, other = node.left, node.right
    kind: type[exp.Binary] = type(node)
    target = _target(column, scope)
    if target is None:
        column, other, kind = other, column, _FLIPPED.get(kind, kind)
        target = _target(column, scope)
    if target is None:
        return []
    value = _value(other, target, scope)
    if value is None:
        return []
    if kind in (exp.EQ, exp.NullSafeEQ):
        return [OneOf(target, (value,))]
    if target.family in (Family.STRING, Family.BOOLEAN):
        return [Present(target)]
    if kind in (exp.LT, exp.LTE):
        return [Between(target, None, _inside(value, -1, target) if kind is exp.LT else value)]
    return [Between(target, _inside(value, 1, target) if kind is exp.GT else value, None)]


def _inside(bound: Scalar, step: int, target: Target) -> Scalar:
    """The nearest value strictly inside an open bound where the type is discrete, else the bound itself."""
    if target.family is Family.DATE and isinstance(bound, date) and date.min < bound < date.max:
        return bound + timedelta(days=step)
    if target.family is Family.INTEGER and isinstance(bound, Decimal) and bound == bound.to_integral_value():
        return bound + step
    return bound


def _membership(node: exp.In, scope: Scope) -> list[Fact | AnyOf]:
    target = _target(node.this, scope)
    items = node.args.get("expressions") or []
    if target is None or not items or len(items) > MAX_VALUES:
        return []
    values: list[Scalar] = []
    for item in items:
        if isinstance(item, exp.Null):
            continue
        value = _value(item, target, scope)
        if value is None:
            return []
        values.append(value)
    if _mixed_kinds(items) or _common_type_rounds(items, values, target, scope):
        return []
    return [OneOf(target, tuple(dict.fromkeys(values)))] if values else []


def _mixed_kinds(items: Iterable[exp.Expr]) -> bool:
    """Strings beside numbers make Spark compare in a common type that is not the column's."""
    kinds = {item.is_string for item in items if isinstance(item, exp.Literal)}
    return len(kinds) > 1


def _common_type_rounds(items: Iterable[exp.Expr], values: Iterable[Scalar], target: Target, scope: Scope) -> bool:
    """Whether the type that a list and its column are compared in may be coarser than the column's."""
    if target.family not in _EXACT:
        return False
    largest = max((abs(v) for v in values if isinstance(v, Decimal)), default=Decimal(0))
    if target.family is Family.DECIMAL and largest >= Decimal(10) ** (target.precision - target.scale):
        return True
    return largest >= _FLOAT_EXACT and any(isinstance(_constant(item, scope), float) for item in items)


def _between(node: exp.Between, scope: Scope) -> list[Fact | AnyOf]:
    low, high = node.args["low"], node.args["high"]
    lower = _comparison(exp.GTE(this=node.this.copy(), expression=low.copy()), scope)
    upper = _comparison(exp.LTE(this=node.this.copy(), expression=high.copy()), scope)
    return list(_merged([*lower, *upper]))


def _text(node: exp.Expr, scope: Scope) -> list[Fact | AnyOf]:
    if isinstance(node, exp.Escape) or not isinstance(node.expression, exp.Literal):
        return []
    target = _target(node.this, scope)
    literal = node.expression
    if target is None or target.family is not Family.STRING or not literal.is_string:
        return []
    if not scope.plain_strings or not _encodable(literal.name):
        return []
    if isinstance(node, exp.Like):
        return [_like(target, literal.name)]
    if not literal.name:
        return [Present(target)]
    return [Contains(target, (literal.name,), isinstance(node, exp.StartsWith))]


def _like(target: Target, pattern: str) -> Fact:
    """Facts of LIKE without escapes (the caller refuses texts with a backslash, LIKE's default escape)."""
    if "%" not in pattern and "_" not in pattern:
        return OneOf(target, (pattern,))
    runs = tuple(run for run in re.split("[%_]+", pattern) if run)
    if not runs:
        return Present(target)
    return Contains(target, runs, prefix=pattern[0] not in "%_")


def _target(node: exp.Expr, scope: Scope) -> Target | None:
    path = column_path(node.unnest())
    if path is None:
        return None
    return _resolve(path, scope)


def _resolve(path: tuple[str, ...], scope: Scope) -> Target | None:
    names: list[str] = []
    here: t.DataType = scope.schema
    for part in path:
        if not isinstance(here, t.StructType):
            return None
        fields = [f for f in here.fields if _same(f.name, part, scope.case_sensitive)]
        if len(fields) != 1 or any("DEFAULT" in key for key in fields[0].metadata):
            return None
        names.append(fields[0].name)
        here = fields[0].dataType
    precision, scale = (here.precision, here.scale) if isinstance(here, t.DecimalType) else (0, 0)
    return Target(tuple(names), _family(here), precision, scale, isinstance(here, t.ByteType))


def _same(name: str, asked: str, case_sensitive: bool) -> bool:
    return name == asked if case_sensitive else name.lower() == asked.lower()


def _family(data_type: t.DataType) -> Family:
    if type(data_type) is t.StringType:
        return Family.STRING if data_type == t.StringType() else Family.OTHER
    return _FAMILIES.get(type(data_type), Family.OTHER)


def _value(node: exp.Expr, target: Target, scope: Scope) -> Scalar | None:
    """The literal as a value of the column's family, or None where Spark might compare in another type."""
    raw = _constant(node, scope)
    if raw is None:
        return None
    if target.family in _NUMERIC:
        return None if _may_round(node, raw, target) else _number(raw, target.family)
    if target.family in _CALENDAR:
        return _calendar(raw, target.family)
    if target.family is Family.STRING:
        return raw if isinstance(raw, str) and scope.plain_strings and _encodable(raw) else None
    if target.family is Family.BOOLEAN:
        return raw if isinstance(raw, bool) else None
    return None


def _may_round(node: exp.Expr, raw: Scalar | float, target: Target) -> bool:
    """Whether the column may lose digits in the comparison: a computed decimal can have room for many before the point.

    Spark compares decimals in a type of 38 digits at most and rather rounds than gives up a digit before the point, so
    that 4.6 equals CAST(5 AS DECIMAL(38, 0)). Decimals that are written out have room for what is written.
    """
    node = node.unnest()
    written = isinstance(node, exp.Literal) or (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal))
    return target.family is Family.DECIMAL and isinstance(raw, Decimal) and not written


def _encodable(text: str) -> bool:
    """Whether the text has a UTF-8 form (lone surrogates have none)."""
    return not any(0xD800 <= ord(c) <= 0xDFFF for c in text)


def _number(raw: Scalar | float, family: Family) -> Decimal | None:
    if isinstance(raw, bool) or not isinstance(raw, int | Decimal | float):
        return None
    value = Decimal(raw)
    if not value.is_finite():
        return None
    # Compared with a floating-point literal, integers and decimals are rounded first.
    rounded = isinstance(raw, float) and family in _EXACT and abs(value) >= _FLOAT_EXACT
    return None if rounded else value


def _calendar(raw: Scalar | float, family: Family) -> date | None:
    if isinstance(raw, datetime):
        return None if family is Family.DATE else raw.date()
    if isinstance(raw, date):
        return raw
    if not isinstance(raw, str):
        return None
    found = _DATE_TEXT.fullmatch(raw) if family is Family.DATE else _TIMESTAMP_TEXT.fullmatch(raw)
    if not found:
        return None
    try:
        return date.fromisoformat(raw[:10])
    except ValueError:
        return None


def whole_number(node: exp.Expr, depth: int = _DEEPEST_SUM) -> int | None:
    """The value of sums and products of whole numbers that fit into 32 bits at every step, as in Spark; else None.

    Those that nest more deeply than `depth` are left to Spark too.

    >>> import sqlglot
    >>> whole_number(sqlglot.parse_one("60 * (24 - 1)"))
    1380
    >>> whole_number(sqlglot.parse_one("100000 * 100000"))
    """
    if not depth:
        return None
    node = node.unnest()
    value: int | None = None
    if isinstance(node, exp.Literal) and not node.is_string and len(node.name) <= _INTEGER_DIGITS and node.is_int:
        value = int(node.name)
    elif isinstance(node, exp.Neg):
        inner = whole_number(node.this, depth - 1)
        value = None if inner is None else -inner
    elif how := _ARITHMETIC.get(type(node)):
        left, right = (whole_number(side, depth - 1) for side in (node.this, node.expression))
        value = None if left is None or right is None else how(left, right)
    return value if value is not None and -(2**31) <= value < 2**31 else None


def _constant(node: exp.Expr, scope: Scope) -> Scalar | float | None:
    """The value of a constant expression: literals directly, anything foldable through Spark itself."""
    node = node.unnest()
    if isinstance(node, exp.Literal):
        return node.name if node.is_string else _literal_number(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        value = _literal_number(node.this.name)
        return None if value is None else -value
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        if node.to.this is exp.DataType.Type.DATE and (day := _calendar(node.this.name, Family.DATE)):
            return day
        if node.to.this in _TIMESTAMPS and (day := _calendar(node.this.name, Family.TIMESTAMP)):
            return datetime.combine(day, time.min)
    if (number := whole_number(node)) is not None:
        return Decimal(number)
    return _folded(node, scope)


def _literal_number(text: str) -> Decimal | float | None:
    """A number as Spark reads it: with an exponent it is a double."""
    try:
        return float(text) if "e" in text.lower() else Decimal(text)
    except (InvalidOperation, ValueError):
        return None


def _folded(node: exp.Expr, scope: Scope) -> Scalar | float | None:
    if scope.fold is None or not all(isinstance(part, _FOLDABLE) for part in node.walk()):
        return None
    value = scope.fold(node.sql(dialect="spark"))
    return value if isinstance(value, bool | int | float | Decimal | date) else None


def _merged(facts: Iterable[Fact | AnyOf]) -> tuple[Fact | AnyOf, ...]:
    """Intersect the intervals of one column: two half-open ranges become one range that a pattern can use."""
    ranges: dict[Target, Between] = {}
    others: list[Fact | AnyOf] = []
    for fact in facts:
        if isinstance(fact, Between):
            known = ranges.get(fact.target)
            ranges[fact.target] = fact if known is None else _intersection(known, fact)
        else:
            others.append(fact)
    return (*others, *ranges.values())


def _intersection(one: Between, two: Between) -> Between:
    lows = [x for x in (one.low, two.low) if x is not None]
    highs = [x for x in (one.high, two.high) if x is not None]
    return Between(
        one.target,
        max(lows) if lows else None,
        min(highs) if highs else None,
    )
