"""Comparisons of columns with constants of other types, rewritten as tests without casts.

Where Spark's ANSI mode and its older rules compare in different types, only constants with the same result in both
are supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.bound import (
    And,
    BooleanConstant,
    Column,
    Comparison,
    InList,
    Node,
    Not,
    Op,
    Or,
    disjunction,
    true_unless_null,
)
from pushdown_spark.expressions.fixed_point import (
    EMPTY_INTERVAL,
    FixedPointDomain,
    Interval,
    exact_interval,
    is_single,
    rounded_interval,
    single_precision,
)
from pushdown_spark.expressions.literals import INTEGER_DIGITS, Literal
from pushdown_spark.expressions.types import FLOATING, MAX_DECIMAL_DIGITS, NUMERIC, LogicalType, Value

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")
_PLAIN_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
_COMPARABLE: dict[LogicalType, frozenset[LogicalType]] = {
    LogicalType.BOOLEAN: frozenset({LogicalType.BOOLEAN}),
    LogicalType.STRING: frozenset({LogicalType.STRING}),
    LogicalType.BINARY: frozenset({LogicalType.BINARY}),
    LogicalType.DATE: frozenset({LogicalType.DATE, LogicalType.TIMESTAMP}),
    LogicalType.TIMESTAMP: frozenset({LogicalType.TIMESTAMP}),
    LogicalType.TIMESTAMP_NTZ: frozenset({LogicalType.TIMESTAMP_NTZ}),
}
"""Types of constants that a column of a type other than numbers is compared with."""
_DOMAINS = {
    LogicalType.BOOLEAN: FixedPointDomain(0, 1),
    LogicalType.DATE: FixedPointDomain(-(2**31), 2**31 - 1),
    LogicalType.TIMESTAMP: FixedPointDomain(-(2**63), 2**63 - 1),
    LogicalType.TIMESTAMP_NTZ: FixedPointDomain(-(2**63), 2**63 - 1),
}


def compare(column: Column, op: Op, constant: Literal) -> Node:
    """Return a test for `column op constant`, for a constant that is not null.

    Raises UnsupportedError where the type that Spark compares in is uncertain, or would round the column.
    """
    _check_types(column, [constant])
    if column.type in FLOATING:
        return _float_compare(column, op, _as_float(column, [constant])[0])
    if column.type in (LogicalType.STRING, LogicalType.BINARY):
        return Comparison(column, op, _not_null(constant.value))
    if result := _constant_result(column, op, constant):
        return result
    [interval] = _intervals(column, op, [constant], in_list=False)
    return _interval_test(column, interval)


def in_list(column: Column, constants: Sequence[Literal], *, has_null: bool) -> Node:
    """Return a test for `column IN (constants)`, none of them null. `has_null` says that the list has a null too.

    Raises UnsupportedError as `compare` does.
    """
    _check_types(column, constants)
    _check_list_types(column, constants)
    if column.type in FLOATING:
        return _float_list(column, _as_float(column, constants), has_null)
    if column.type in (LogicalType.STRING, LogicalType.BINARY):
        return _values_in(column, [_not_null(constant.value) for constant in constants], has_null)
    if column.type is LogicalType.INTEGER and all(constant.type is LogicalType.INTEGER for constant in constants):
        # Most long lists are lists of integers.
        domain = _domain(column)
        numbers = [constant.value for constant in constants if isinstance(constant.value, int)]
        return _values_in(column, [number for number in numbers if domain.low <= number <= domain.high], has_null)
    return _any_interval(column, _intervals(column, Op.EQ, constants, in_list=True), has_null)


def _check_types(column: Column, constants: Iterable[Literal]) -> None:
    if column.type is LogicalType.OTHER:
        raise UnsupportedError(f"{'.'.join(column.path)} is nested, has a collation or is a char(n)")
    types = NUMERIC | {LogicalType.STRING} if column.type in NUMERIC else _COMPARABLE[column.type]
    for constant in constants:
        if constant.type not in types:
            name = ".".join(column.path)
            raise UnsupportedError(f"{name} ({column.type}) would be cast for a constant of type {constant.type}")


def _check_list_types(column: Column, constants: Sequence[Literal]) -> None:
    """Raise UnsupportedError if Spark may cast the column to a common type of the list."""
    types = {constant.type for constant in constants}
    if column.type in FLOATING and LogicalType.STRING in types:
        raise UnsupportedError("the list has numbers and strings, so Spark may cast the column to strings")
    if column.type is LogicalType.INTEGER and LogicalType.STRING in types and len(types) > 1:
        raise UnsupportedError("the list has numbers and strings, so Spark may cast the column to strings")
    if column.type is LogicalType.DATE and LogicalType.TIMESTAMP in types:
        raise UnsupportedError("the list has timestamps, so Spark casts the column to timestamps")


def _not_null(value: Value | None) -> Value:
    assert value is not None
    return value


def _domain(column: Column) -> FixedPointDomain:
    if column.type is LogicalType.INTEGER:
        bits = column.storage.bit_width
        return FixedPointDomain(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if column.type is LogicalType.DECIMAL:
        largest = 10**column.storage.precision - 1
        return FixedPointDomain(-largest, largest, column.storage.scale)
    return _DOMAINS[column.type]


def _constant_result(column: Column, op: Op, constant: Literal) -> Node | None:
    """Return the result where Spark decides by the literal alone: `integer < 99999999999999999999` is true for null."""
    value = constant.value
    if column.type is not LogicalType.INTEGER or constant.type is not LogicalType.DECIMAL or op is Op.EQ:
        return None
    assert isinstance(value, Decimal)
    is_above, is_below = value > 2**63 - 1, value < -(2**63)
    if not is_above and not is_below:
        return None
    if not constant.is_literal:
        raise UnsupportedError("Spark may not evaluate a comparison with a decimal beyond bigint")
    return BooleanConstant(is_above is (op in (Op.LT, Op.LE)))


def _intervals(column: Column, op: Op, constants: Sequence[Literal], *, in_list: bool) -> list[Interval]:
    """Return the values that satisfy `column op constant`, for each constant."""
    domain = _domain(column)
    if column.type in (LogicalType.INTEGER, LogicalType.DECIMAL) and _in_doubles(column, constants):
        return [rounded_interval(domain, op, _double(constant)) for constant in constants]
    return [exact_interval(domain, op, value) for value in _exact_values(column, constants, in_list)]


def _in_doubles(column: Column, constants: Sequence[Literal]) -> bool:
    """Return whether Spark compares an integer or decimal column with these constants as doubles."""
    types = {constant.type for constant in constants}
    if (
        LogicalType.FLOAT in types
        and column.type is LogicalType.INTEGER
        and (column.storage.bit_width > 16 or len(constants) > 1)
    ):
        raise UnsupportedError("Spark compares integers with floats as floats or as doubles")
    if LogicalType.STRING in types and column.type is LogicalType.DECIMAL:
        raise UnsupportedError("Spark compares decimals with strings as doubles, as decimals or as strings")
    return bool(types & {LogicalType.FLOAT, LogicalType.DOUBLE})


def _double(constant: Literal) -> float:
    if constant.type is LogicalType.STRING:
        return _parsed_number(constant)
    assert isinstance(constant.value, int | float | Decimal)
    return float(constant.value)


def _parsed_number(constant: Literal) -> float:
    if not _PLAIN_NUMBER.fullmatch(str(constant.value)):
        raise UnsupportedError(f"the string {str(constant.value)[:40]!r} is not a plain number")
    return float(str(constant.value))


def _exact_values(column: Column, constants: Sequence[Literal], in_list: bool) -> list[int | Decimal]:
    """Return the constants' values. Raises UnsupportedError where the comparison rounds them or the column."""
    if any(constant.type is LogicalType.STRING for constant in constants):
        return _canonical_integers(column, constants)
    if column.type in (LogicalType.INTEGER, LogicalType.DECIMAL):
        _check_precision(column, constants, in_list)
    values = [constant.value for constant in constants]
    return [value if isinstance(value, Decimal) else int(value) for value in values if isinstance(value, int | Decimal)]


def _canonical_integers(column: Column, constants: Sequence[Literal]) -> list[int | Decimal]:
    """Return strings as integers where casting the strings, or casting the column to strings, gives the same result."""
    domain = _domain(column)
    strings = [str(constant.value) for constant in constants]
    numbers = [int(text) for text in strings if _CANONICAL_INTEGER.fullmatch(text)]
    if len(numbers) < len(constants) or not all(domain.low <= number <= domain.high for number in numbers):
        raise UnsupportedError("a string is not an integer in the column's range, so Spark may cast the column")
    return list(numbers)


def _check_precision(column: Column, constants: Sequence[Literal], in_list: bool) -> None:
    """Raise UnsupportedError if the common decimal type of column and constants needs more than 38 digits."""
    if column.type is LogicalType.INTEGER:
        integer_digits, scale = INTEGER_DIGITS[column.storage.bit_width], 0
        if all(constant.type is LogicalType.INTEGER for constant in constants):
            return
    else:
        integer_digits, scale = column.storage.precision - column.storage.scale, column.storage.scale
    for constant in constants:
        narrow = constant.type is LogicalType.INTEGER and constant.is_literal and not in_list
        digits = len(str(abs(int(str(constant.value))))) if narrow else constant.integer_digits
        integer_digits, scale = max(integer_digits, digits), max(scale, constant.scale)
    if integer_digits + scale > MAX_DECIMAL_DIGITS:
        raise UnsupportedError(
            f"column and constant have no common decimal type of at most {MAX_DECIMAL_DIGITS} digits"
        )


def _interval_test(column: Column, interval: Interval) -> Node:
    domain = _domain(column)
    low = interval.low if interval.low is not None and interval.low > domain.low else None
    high = interval.high if interval.high is not None and interval.high < domain.high else None
    is_empty = interval.low is not None and interval.high is not None and interval.low > interval.high
    if is_empty or (low is not None and low > domain.high) or (high is not None and high < domain.low):
        return InList(column, ())
    if low is None and high is None:
        return true_unless_null(column)
    if column.type is LogicalType.BOOLEAN:
        return Comparison(column, Op.EQ, low is not None)
    parts = [
        Comparison(column, op, _value_at(column, domain, limit))
        for op, limit in ((Op.GE, low), (Op.LE, high))
        if limit is not None
    ]
    if low is not None and low == high:
        return Comparison(column, Op.EQ, _value_at(column, domain, low))
    return And(tuple(parts)) if len(parts) > 1 else parts[0]


def _value_at(column: Column, domain: FixedPointDomain, multiple: int) -> Value:
    return domain.decimal(multiple) if column.type is LogicalType.DECIMAL else multiple


def _any_interval(column: Column, intervals: Iterable[Interval], has_null: bool) -> Node:
    """Return a test for a column in any interval: one list of single values, and a test for each wider interval."""
    domain = _domain(column)
    singles: list[Value] = []
    wide: list[Node] = []
    for interval in intervals:
        if interval == EMPTY_INTERVAL:
            continue
        if interval.low is None or interval.low != interval.high:
            wide.append(_interval_test(column, interval))
        elif domain.low <= interval.low <= domain.high:
            singles.append(_value_at(column, domain, interval.low))
    if column.type is LogicalType.BOOLEAN:
        tests: list[Node] = [Comparison(column, Op.EQ, bool(value)) for value in sorted(set(singles))]
        wide, singles = tests, []
    if wide and not singles and not has_null:
        return disjunction(wide)
    in_singles = _values_in(column, singles, has_null)
    return Or((in_singles, *wide)) if wide else in_singles


def _values_in(column: Column, values: Iterable[Value], has_null: bool) -> Node:
    distinct = tuple(sorted(set(values)))
    if len(distinct) == 1 and not has_null:
        return Comparison(column, Op.EQ, distinct[0])
    return InList(column, distinct, has_null)


def _as_float(column: Column, constants: Sequence[Literal]) -> list[float]:
    """Return the constants as doubles. A float column needs constants with the same result if compared as floats."""
    types = {constant.type for constant in constants}
    values = [_double(constant) for constant in constants]
    if column.type is LogicalType.FLOAT and not types & {LogicalType.DECIMAL, LogicalType.DOUBLE}:
        inexact = [
            value for value, constant in zip(values, constants, strict=True) if not _is_same_float(value, constant)
        ]
        if inexact:
            raise UnsupportedError(f"{inexact[0]} is not a single-precision number, but Spark may round it to one")
    return values


def _is_same_float(value: float, constant: Literal) -> bool:
    """Return whether a constant, whose double is given, is the same number in single precision."""
    is_exact = not isinstance(constant.value, int) or int(value) == constant.value
    return constant.type is LogicalType.FLOAT or (is_exact and is_single(value))


def _float_compare(column: Column, op: Op, value: float) -> Node:
    """Return a comparison where NaN equals itself and is the largest value."""
    if value != value:
        is_nan = Comparison(column, Op.EQ, value)
        return {
            Op.EQ: is_nan,
            Op.GE: is_nan,
            Op.LT: Not(is_nan),
            Op.LE: true_unless_null(column),
            Op.GT: InList(column, ()),
        }[op]
    if column.type is LogicalType.DOUBLE:
        return Comparison(column, op, value)
    single = single_precision(op, value)
    return InList(column, ()) if single is None else Comparison(column, *single)


def _float_list(column: Column, values: Sequence[float], has_null: bool) -> Node:
    exact_values = [value for value in values if column.type is LogicalType.DOUBLE or is_single(value)]
    numbers = tuple(sorted({value for value in exact_values if value == value}))
    return InList(column, numbers, has_null, has_nan=any(value != value for value in exact_values))
