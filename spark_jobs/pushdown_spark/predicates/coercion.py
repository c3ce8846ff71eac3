"""Compares a column with constants of other types as Spark does, as tests that cast nothing.

Where Spark's ANSI mode and its older rules give different types, only constants are taken on which both agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from pushdown_spark.predicates.bounds import NOTHING, Grid, Interval, exact, is_single, rounded, single_precision
from pushdown_spark.predicates.constants import INTEGER_DIGITS, Constant, Type, UnsupportedError
from pushdown_spark.predicates.like import anything
from pushdown_spark.predicates.vector import FLOATING, And, Column, Compare, Kind, Node, Not, OneOf, Op, Or, Value
from pushdown_spark.predicates.vector import Constant as Decided

_MAX_PRECISION = 38
_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d{0,18}")
_PLAIN_NUMBER = re.compile(r"-?\d{1,30}(\.\d{1,30})?")
_NUMBERS = frozenset({Type.INTEGER, Type.DECIMAL, Type.FLOAT, Type.DOUBLE})
_SAME: dict[Kind, frozenset[Type]] = {
    Kind.BOOLEAN: frozenset({Type.BOOLEAN}),
    Kind.STRING: frozenset({Type.STRING}),
    Kind.BINARY: frozenset({Type.BINARY}),
    Kind.DATE: frozenset({Type.DATE, Type.TIMESTAMP}),
    Kind.TIMESTAMP: frozenset({Type.TIMESTAMP}),
    Kind.TIMESTAMP_NTZ: frozenset({Type.TIMESTAMP_NTZ}),
}
"""Types of constants that a column's kind compares with, numbers apart."""
_GRIDS = {
    Kind.BOOLEAN: Grid(0, 1),
    Kind.DATE: Grid(-(2**31), 2**31 - 1),
    Kind.TIMESTAMP: Grid(-(2**63), 2**63 - 1),
    Kind.TIMESTAMP_NTZ: Grid(-(2**63), 2**63 - 1),
}


def compare(column: Column, op: Op, constant: Constant) -> Node:
    """`column op constant` for a constant that is not null.

    Raises UnsupportedError where the type that Spark compares in is not certain or not one of the column's precision.
    """
    _check_types(column, [constant])
    if column.kind in FLOATING:
        return _float_compare(column, op, _as_float(column, [constant])[0])
    if column.kind in (Kind.STRING, Kind.BINARY):
        return Compare(column, op, _present(constant.value))
    if decided := _decided_without_column(column, op, constant):
        return decided
    grid = _grid(column)
    if column.kind in (Kind.INTEGER, Kind.DECIMAL) and _in_doubles(column, [constant]):
        return _within(column, grid, rounded(grid, op, _double(constant)))
    return _within(column, grid, exact(grid, op, _exact_value(column, [constant], listed=False)[0]))


def one_of(column: Column, constants: Sequence[Constant], has_null: bool) -> Node:
    """`column IN (constants)`, none of them null; `has_null` tells that the list holds a null as well."""
    _check_types(column, constants)
    if column.kind is Kind.INTEGER and len({constant.type is Type.STRING for constant in constants}) > 1:
        raise UnsupportedError("strings among numbers may turn the column into strings")
    if column.kind in FLOATING:
        return _float_list(column, _as_float(column, constants, listed=True), has_null)
    if column.kind in (Kind.STRING, Kind.BINARY):
        return _listed(column, [_present(constant.value) for constant in constants], has_null)
    if any(constant.type is Type.TIMESTAMP for constant in constants) and column.kind is Kind.DATE:
        raise UnsupportedError("a list of timestamps turns dates into timestamps")
    grid = _grid(column)
    if column.kind is Kind.INTEGER and all(constant.type is Type.INTEGER for constant in constants):
        # Lists of thousands are mostly these.
        numbers = [constant.value for constant in constants if isinstance(constant.value, int)]
        return _listed(column, [number for number in numbers if grid.low <= number <= grid.high], has_null)
    if column.kind in (Kind.INTEGER, Kind.DECIMAL) and _in_doubles(column, constants):
        intervals = [rounded(grid, Op.EQ, _double(constant)) for constant in constants]
    else:
        intervals = [exact(grid, Op.EQ, value) for value in _exact_value(column, constants, listed=True)]
    return _any_interval(column, grid, intervals, has_null)


def _check_types(column: Column, constants: Iterable[Constant]) -> None:
    if column.kind is Kind.OTHER:
        raise UnsupportedError(f"values of {'.'.join(column.path)} are not compared here: nested, collated or char(n)")
    is_number = column.kind in (Kind.INTEGER, Kind.DECIMAL, *FLOATING)
    allowed = _NUMBERS | {Type.STRING} if is_number else _SAME[column.kind]
    for constant in constants:
        if constant.type not in allowed:
            name = ".".join(column.path)
            raise UnsupportedError(f"{name} ({column.kind}) would be cast to meet a constant of type {constant.type}")


def _present(value: Value | None) -> Value:
    assert value is not None
    return value


def _grid(column: Column) -> Grid:
    if column.kind is Kind.INTEGER:
        bits = column.storage.bit_width
        return Grid(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    if column.kind is Kind.DECIMAL:
        largest = 10**column.storage.precision - 1
        return Grid(-largest, largest, column.storage.scale)
    return _GRIDS[column.kind]


def _decided_without_column(column: Column, op: Op, constant: Constant) -> Node | None:
    """Spark answers `integer < 99999999999999999999` with true even for null: it looks at the literal alone."""
    is_decimal = column.kind is Kind.INTEGER and constant.type is Type.DECIMAL and isinstance(constant.value, Decimal)
    if not is_decimal or op is Op.EQ:
        return None
    assert isinstance(constant.value, Decimal)
    is_above, is_below = constant.value > 2**63 - 1, constant.value < -(2**63)
    if not is_above and not is_below:
        return None
    if not constant.is_literal:
        raise UnsupportedError("Spark may or may not look at the column when a decimal is beyond bigint")
    return Decided(is_above is (op in (Op.LT, Op.LE)))


def _in_doubles(column: Column, constants: Sequence[Constant]) -> bool:
    """Whether an integer or decimal column is compared with these as doubles."""
    types = {constant.type for constant in constants}
    if Type.FLOAT in types and column.kind is Kind.INTEGER and (column.storage.bit_width > 16 or len(constants) > 1):
        raise UnsupportedError("integers are compared with floats as floats or as doubles")
    if Type.STRING in types and column.kind is Kind.DECIMAL:
        raise UnsupportedError("decimals are compared with strings as doubles, as decimals or as strings")
    return bool(types & {Type.FLOAT, Type.DOUBLE})


def _double(constant: Constant) -> float:
    if constant.type is Type.STRING:
        return _number_in(constant)
    assert isinstance(constant.value, int | float | Decimal)
    return float(constant.value)


def _number_in(constant: Constant) -> float:
    if not _PLAIN_NUMBER.fullmatch(str(constant.value)):
        raise UnsupportedError(f"the string {str(constant.value)[:40]!r} is no plain number")
    return float(str(constant.value))


def _exact_value(column: Column, constants: Sequence[Constant], *, listed: bool) -> list[int | Decimal]:
    """The constants where they and the column are compared in a type that rounds neither."""
    if any(constant.type is Type.STRING for constant in constants):
        return _canonical_integers(column, constants)
    if column.kind in (Kind.INTEGER, Kind.DECIMAL):
        _check_precision(column, constants, listed)
    values = [constant.value for constant in constants]
    return [value if isinstance(value, Decimal) else int(value) for value in values if isinstance(value, int | Decimal)]


def _canonical_integers(column: Column, constants: Sequence[Constant]) -> list[int | Decimal]:
    """Strings against integers: cast to bigint or to the column's type, or the column becomes a string."""
    grid = _grid(column)
    texts = [str(constant.value) for constant in constants]
    numbers = [int(text) for text in texts if _CANONICAL_INTEGER.fullmatch(text)]
    if len(numbers) < len(constants) or not all(grid.low <= number <= grid.high for number in numbers):
        raise UnsupportedError("strings that are not numbers of the column's range may turn it into strings")
    return list(numbers)


def _check_precision(column: Column, constants: Sequence[Constant], listed: bool) -> None:
    """Whether the decimal type that holds the column and all constants has at most 38 digits."""
    if column.kind is Kind.INTEGER:
        whole, scale = INTEGER_DIGITS[column.storage.bit_width], 0
        if all(constant.type is Type.INTEGER for constant in constants):
            return
    else:
        whole, scale = column.storage.precision - column.storage.scale, column.storage.scale
    for constant in constants:
        narrow = constant.type is Type.INTEGER and constant.is_literal and not listed
        digits = len(str(abs(int(str(constant.value))))) if narrow else constant.whole
        whole, scale = max(whole, digits), max(scale, constant.scale)
    if whole + scale > _MAX_PRECISION:
        raise UnsupportedError(f"column and constant have no common decimal type of {_MAX_PRECISION} digits")


def _within(column: Column, grid: Grid, interval: Interval) -> Node:
    """The column lies in an interval; null where it is null."""
    low = interval.low if interval.low is not None and interval.low > grid.low else None
    high = interval.high if interval.high is not None and interval.high < grid.high else None
    is_empty = interval.low is not None and interval.high is not None and interval.low > interval.high
    if is_empty or (low is not None and low > grid.high) or (high is not None and high < grid.low):
        return OneOf(column, ())
    if low is None and high is None:
        return anything(column)
    if column.kind is Kind.BOOLEAN:
        return Compare(column, Op.EQ, low is not None)
    parts = [
        Compare(column, op, _at(column, grid, bound))
        for op, bound in ((Op.GE, low), (Op.LE, high))
        if bound is not None
    ]
    if low is not None and low == high:
        return Compare(column, Op.EQ, _at(column, grid, low))
    return And(tuple(parts)) if len(parts) > 1 else parts[0]


def _at(column: Column, grid: Grid, place: int) -> Value:
    return grid.decimal(place) if column.kind is Kind.DECIMAL else place


def _any_interval(column: Column, grid: Grid, intervals: Iterable[Interval], has_null: bool) -> Node:
    """The column lies in one of the intervals: single values in one list, and what is wider beside it."""
    singles: list[Value] = []
    wide: list[Node] = []
    for interval in intervals:
        if interval == NOTHING:
            continue
        if interval.low is None or interval.low != interval.high:
            wide.append(_within(column, grid, interval))
        elif grid.low <= interval.low <= grid.high:
            singles.append(_at(column, grid, interval.low))
    if column.kind is Kind.BOOLEAN:
        tests: list[Node] = [Compare(column, Op.EQ, bool(value)) for value in sorted(set(singles))]
        wide, singles = tests, []
    listed = _listed(column, singles, has_null)
    return Or((listed, *wide)) if wide else listed


def _listed(column: Column, values: Iterable[Value], has_null: bool) -> Node:
    distinct = tuple(sorted(set(values)))
    if len(distinct) == 1 and not has_null:
        return Compare(column, Op.EQ, distinct[0])
    return OneOf(column, distinct, has_null)


def _as_float(column: Column, constants: Sequence[Constant], *, listed: bool = False) -> list[float]:
    """The constants as doubles; for a float column only where it makes no difference whether floats are compared."""
    types = {constant.type for constant in constants}
    if listed and Type.STRING in types:
        raise UnsupportedError("numbers in a list with strings may become strings")
    values = [_double(constant) for constant in constants]
    if column.kind is Kind.FLOAT and not types & {Type.DECIMAL, Type.DOUBLE}:
        inexact = [value for value, constant in zip(values, constants, strict=True) if not _same_float(value, constant)]
        if inexact:
            raise UnsupportedError(f"{inexact[0]} is no single-precision number, and may be compared as one")
    return values


def _same_float(value: float, constant: Constant) -> bool:
    is_whole = not isinstance(constant.value, int) or int(value) == constant.value
    return constant.type is Type.FLOAT or (is_whole and is_single(value))


def _float_compare(column: Column, op: Op, value: float) -> Node:
    """NaN equals itself and is larger than all else."""
    if value != value:
        is_nan = Compare(column, Op.EQ, value)
        return {
            Op.EQ: is_nan,
            Op.GE: is_nan,
            Op.LT: Not(is_nan),
            Op.LE: anything(column),
            Op.GT: OneOf(column, ()),
        }[op]
    if column.kind is Kind.DOUBLE:
        return Compare(column, op, value)
    single = single_precision(op, value)
    return OneOf(column, ()) if single is None else Compare(column, *single)


def _float_list(column: Column, values: Sequence[float], has_null: bool) -> Node:
    kept = [value for value in values if column.kind is Kind.DOUBLE or is_single(value)]
    numbers = tuple(sorted({value for value in kept if value == value}))
    return OneOf(column, numbers, has_null, nan=any(value != value for value in kept))
