"""Random columns of all ORC types: nulls, extremes, runs, sorted and clustered values."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
from arrow_schemas import utc_arrow_schema
from pyspark.sql import types as t
from typed_rows import BYTES, FLOATS, LONGS, TIMES, TYPES, decimal
from values import DATES, DECIMALS, INTEGERS, text

BITS = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
OLD_YEAR = 1600
"""Dates before it are of another calendar in files, and neither they nor times before it are read lazily."""
_LAST_YEAR = 2200
_EPOCH = 1970
_LONG_TEXT = 1100
"""Statistics keep no more than 1024 bytes of a text."""


def random_type(rng: random.Random, depth: int = 0) -> t.DataType:
    """Return a random type, sometimes nested."""
    roll = rng.random() if depth < 3 else 1.0
    if roll < 0.10:
        return random_struct(rng, depth + 1)
    if roll < 0.18:
        return t.ArrayType(random_type(rng, depth + 1))
    if roll < 0.24:
        return t.MapType(rng.choice((t.StringType(), t.IntegerType(), t.DateType())), random_type(rng, depth + 1))
    return rng.choice(TYPES)


def random_struct(rng: random.Random, depth: int) -> t.StructType:
    """Return a struct of up to three members."""
    return t.StructType([t.StructField(name, random_type(rng, depth)) for name in "xYz"[: rng.randint(1, 3)]])


@dataclass(frozen=True)
class Times:
    """The range of dates and times: years before `OLD_YEAR`, which only Spark reads, and fractions before 1970."""

    old: bool = False
    early_fractions: bool = True


def table_of(rng: random.Random, schema: t.StructType, rows: int, first_row: int, times: Times) -> pa.Table:
    """Return random rows. The first column numbers them."""
    columns: list[list[object]] = [list(range(first_row, first_row + rows))]
    columns += [_column(rng, field.dataType, rows, times) for field in schema.fields[1:]]
    arrow = utc_arrow_schema(schema)
    return pa.Table.from_arrays(
        [pa.array(values, field.type) for values, field in zip(columns, arrow, strict=True)], schema=arrow
    )


def _column(rng: random.Random, kind: t.DataType, rows: int, times: Times) -> list[object]:
    """Return the values of a column in an order that affects encodings and statistics."""
    nulls = rng.choice((0.0, 0.0, 0.1, 0.5, 0.98))
    values: list[object] = []
    while len(values) < rows:
        values += _stretch(rng, lambda: _value(rng, kind, nulls, times), kind)
    values = values[:rows]
    if rng.random() < 0.3 and not isinstance(kind, t.StructType | t.ArrayType | t.MapType):
        values.sort(key=lambda value: (value is None, value != value, value))
    elif rng.random() < 0.3 and type(kind) in BITS:
        values = list(_steps(rng, kind, rows))
    if rng.random() < 0.2 and rows:
        start = rng.randrange(rows)
        values[start : start + rows // 3] = [None] * len(values[start : start + rows // 3])
    return values


def _stretch(rng: random.Random, value: Callable[[], object], kind: t.DataType) -> Iterator[object]:
    """Return neighboring values: one repeated, a few mixed, or all different."""
    length = rng.choice((1, 5, 60, 300))
    few = [value() for _ in range(rng.choice((1, 1, 3)))]
    if rng.random() < 0.5:
        few = [value() for _ in range(min(length, 40))]
    return (rng.choice(few) for _ in range(length))


def _steps(rng: random.Random, kind: t.DataType, rows: int) -> Iterator[int]:
    """Return integers in steps, which are encoded as deltas."""
    bits = BITS[type(kind)]
    step, jitter, number = rng.choice((0, 1, -1, 3, -40, 1000)), rng.choice((0, 0, 2)), rng.randint(-100, 100)
    for _ in range(rows):
        yield (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
        number += step + rng.randint(0, jitter)


def _value(rng: random.Random, kind: t.DataType, nulls: float, times: Times) -> object:
    if rng.random() < nulls:
        return None
    match kind:
        case t.StructType():
            return {field.name: _value(rng, field.dataType, nulls / 2, times) for field in kind.fields}
        case t.ArrayType():
            return [_value(rng, kind.elementType, nulls / 2, times) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
        case t.MapType():
            keys = {_scalar(rng, kind.keyType, times) for _ in range(rng.choice((0, 1, 1, 2, 5)))}
            return [(key, _value(rng, kind.valueType, nulls / 2, times)) for key in sorted(keys, key=repr)]
    return _scalar(rng, kind, times)


def _scalar(rng: random.Random, kind: t.DataType, times: Times) -> object:
    match kind:
        case t.BooleanType():
            return rng.random() < 0.5
        case t.IntegralType():
            return _integer(rng, BITS[type(kind)])
        case t.FloatType() | t.DoubleType():
            return rng.choice(FLOATS) if rng.random() < 0.5 else float(rng.choice(DECIMALS))
        case t.DecimalType():
            return decimal(rng, kind)
        case t.StringType() | t.VarcharType() | t.CharType():
            return _text(rng, kind)
        case t.BinaryType():
            return rng.choice(BYTES)
    day = _day(rng, times.old)
    if isinstance(kind, t.DateType):
        return day.date()
    moment = day + rng.choice(TIMES if times.early_fractions or day.year >= _EPOCH else TIMES[:2])
    return moment.replace(tzinfo=UTC) if isinstance(kind, t.TimestampType) else moment


def _integer(rng: random.Random, bits: int) -> int:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    if rng.random() < 0.2:
        return rng.randint(low, high)
    return rng.choice([number for number in (*INTEGERS, *LONGS, low, high) if low <= number <= high])


def _text(rng: random.Random, kind: t.DataType) -> str:
    if isinstance(kind, t.VarcharType | t.CharType):
        return text(rng)[: kind.length].rstrip()
    return text(rng) + "~" * _LONG_TEXT + text(rng) if rng.random() < 0.002 else text(rng)


def _day(rng: random.Random, old: bool) -> datetime:
    if rng.random() < 0.3:
        return datetime(1950, 1, 1) + timedelta(days=rng.randint(0, 36_500))
    days = [date.fromisoformat(day) for day in DATES]
    chosen = rng.choice([day for day in days if old or OLD_YEAR < day.year < _LAST_YEAR])
    return datetime(chosen.year, chosen.month, chosen.day)
