"""Byte patterns of Avro blocks are sound: if a record passes a filter, its encoding matches all patterns."""

from __future__ import annotations

import io
import json
import re
from decimal import Context, Decimal
from typing import NamedTuple

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import (
    And,
    BooleanConstant,
    Column,
    Comparison,
    InList,
    IsNull,
    Node,
    Not,
    Op,
    Or,
    StringMatch,
    StringTest,
)
from pushdown_spark.expressions.byte_patterns.avro import BlockPattern, block_patterns
from pushdown_spark.expressions.byte_patterns.avro_encoding import interval, zigzag
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.types import GREGORIAN_DAY, GREGORIAN_MICROS, LogicalType
from pushdown_spark.formats.avro.avro_schema import parse_schema
from pushdown_spark.formats.avro.block_search import BlockSearch
from pushdown_spark.formats.avro.column_encodings import locate
from pushdown_spark.formats.avro.resolution import NameMatcher

LONGS = st.one_of(st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1))
WORDS = st.sampled_from(["", "a", "ab", "abc", "needle in a haystack", "x" * 70, "é", "\n"])
COLORS = ["RED", "GREEN", "BLUE"]


class Typed(NamedTuple):
    """A column: Avro type, kind, Arrow type of comparisons, and its values in Avro and in filters."""

    avro: object
    kind: LogicalType
    storage: pa.DataType
    values: st.SearchStrategy[object]
    factor: int = 1


def _decimal(**more: object) -> dict[str, object]:
    return {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2, **more}


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """Return decimals with a maximum number of digits, which the default context would round."""
    exact = Context(prec=80)
    limit = 10**digits - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-scale, exact))


MONEY = _decimals(9, 2)
TYPES = {
    "long": Typed("long", LogicalType.INTEGER, pa.int64(), LONGS),
    "int": Typed("int", LogicalType.INTEGER, pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "date": Typed({"type": "int", "logicalType": "date"}, LogicalType.DATE, pa.int32(), st.integers(-9999, 20000)),
    "micros": Typed({"type": "long", "logicalType": "timestamp-micros"}, LogicalType.TIMESTAMP, pa.int64(), LONGS),
    "millis": Typed(
        {"type": "long", "logicalType": "timestamp-millis"},
        LogicalType.TIMESTAMP,
        pa.int64(),
        st.integers(-(10**12), 10**12),
        1000,
    ),
    "float": Typed("float", LogicalType.FLOAT, pa.float32(), st.floats(width=32, allow_nan=False)),
    "double": Typed(
        "double", LogicalType.DOUBLE, pa.float64(), st.floats(allow_nan=False) | st.sampled_from([0.0, -0.0])
    ),
    "string": Typed("string", LogicalType.STRING, pa.string(), WORDS),
    "bytes": Typed("bytes", LogicalType.BINARY, pa.binary(), st.binary(max_size=6)),
    "fixed": Typed(
        {"type": "fixed", "name": "F", "size": 4}, LogicalType.BINARY, pa.binary(), st.binary(min_size=4, max_size=4)
    ),
    "enum": Typed(
        {"type": "enum", "name": "E", "symbols": COLORS}, LogicalType.STRING, pa.string(), st.sampled_from(COLORS)
    ),
    "decimal": Typed(_decimal(), LogicalType.DECIMAL, pa.decimal128(9, 2), MONEY),
    "long decimal": Typed(
        _decimal(precision=38, scale=10), LogicalType.DECIMAL, pa.decimal128(38, 10), _decimals(38, 10)
    ),
    "long money": Typed(
        _decimal(type="fixed", name="L", size=16, precision=38, scale=10),
        LogicalType.DECIMAL,
        pa.decimal128(38, 10),
        _decimals(38, 10),
    ),
    "money": Typed(_decimal(type="fixed", name="M", size=7), LogicalType.DECIMAL, pa.decimal128(9, 2), MONEY),
}
FILLERS = st.sampled_from(["string", "long", "double", "boolean", {"type": "array", "items": "int"}, "null"])
FILLER_VALUES = {"string": "filler", "long": 77, "double": 1.5, "boolean": True, "null": None}


class Row(NamedTuple):
    """A schema with the column between two others, in a nested record or not, and rows of it."""

    schema: dict[str, object]
    path: tuple[str, ...]
    typed: Typed
    values: list[object]
    records: list[dict[str, object]]


@st.composite
def tables(draw: st.DrawFn) -> Row:
    typed = TYPES[draw(st.sampled_from(sorted(TYPES)))]
    nullable = draw(st.sampled_from([None, 0, 1]))
    avro: object = typed.avro
    if nullable is not None:
        avro = [avro, "null"] if nullable else ["null", avro]
    before, after = draw(FILLERS), draw(FILLERS)
    fields = [{"name": "p", "type": before}, {"name": "v", "type": avro}, {"name": "q", "type": after}]
    fields = fields[draw(st.integers(0, 1)) : draw(st.integers(2, 3))]
    inner: dict[str, object] = {"type": "record", "name": "R", "fields": fields}
    values = draw(st.lists(typed.values if nullable is None else st.none() | typed.values, min_size=1, max_size=4))
    fillers = {"p": _filler(before), "q": _filler(after)}
    names = {field["name"] for field in fields}
    records = [{k: v for k, v in {**fillers, "v": value}.items() if k in names} for value in values]
    if draw(st.booleans()):
        outer = {"type": "record", "name": "O", "fields": [{"name": "s", "type": ["null", inner]}]}
        return Row(outer, ("s", "v"), typed, values, [{"s": record} for record in records])
    return Row(inner, ("v",), typed, values, records)


def _filler(avro: object) -> object:
    return FILLER_VALUES[avro] if isinstance(avro, str) else [1, 2]


@st.composite
def filters(draw: st.DrawFn, row: Row, depth: int = 2) -> Node:
    column = Column(row.path, row.typed.kind, row.typed.storage)
    own_values = [value for value in row.values if value is not None]
    values = st.one_of(row.typed.values, st.sampled_from(own_values)) if own_values else row.typed.values
    values = values.map(lambda value: value * row.typed.factor if row.typed.factor > 1 else value)
    shapes = ["equal", "list", "bound", "null"] + (["text"] if row.typed.kind is LogicalType.STRING else [])
    shape = draw(st.sampled_from(shapes + (["and", "or", "not"] if depth else [])))
    if shape in ("and", "or"):
        parts = tuple(draw(st.lists(filters(row, depth - 1), min_size=2, max_size=3)))
        return And(parts) if shape == "and" else Or(parts)
    if shape == "not":
        return Not(draw(filters(row, depth - 1)))
    if shape == "null":
        return IsNull(column)
    if shape == "text":
        text = draw(WORDS)[draw(st.integers(0, 2)) :]
        return StringMatch(column, draw(st.sampled_from(list(StringTest))), text)
    if shape == "list":
        return InList(column, tuple(sorted(set(draw(st.lists(values, max_size=4))))), draw(st.booleans()))  # type: ignore[type-var]
    op = Op.EQ if shape == "equal" else draw(st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE]))
    return Comparison(column, op, draw(values))  # type: ignore[arg-type]


def _batch(row: Row) -> pa.RecordBatch:
    """Return the rows as the filter compares them: times as integers."""
    factor = row.typed.factor
    values = [value * factor if value is not None and factor > 1 else value for value in row.values]
    array: pa.Array = pa.array(values, row.typed.storage)
    for name in reversed(row.path[1:]):
        array = pa.StructArray.from_arrays([array], [name])
    return pa.RecordBatch.from_arrays([array], [row.path[0]])


def _encode(schema: object, records: list[dict[str, object]]) -> bytes:
    out = io.BytesIO()
    avro_schema = fastavro.parse_schema(schema)
    for record in records:
        fastavro.schemaless_writer(out, avro_schema, record)
    return out.getvalue()


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_block_with_a_passing_record_matches_every_pattern(data: st.DataObject) -> None:
    row = data.draw(tables())
    root = data.draw(filters(row))
    patterns = block_patterns(
        root, locate(parse_schema(json.dumps(row.schema)), NameMatcher(ANY_CASE)), includes_shifted_dates=True
    )
    if ArrowFilter(root).keep(_batch(row)).true_count:
        block = _encode(row.schema, row.records)
        for pattern in patterns:
            assert BlockSearch([pattern]).may_match(block), (pattern, block)


@settings(max_examples=300, deadline=None)
@given(low=LONGS, high=LONGS, others=st.lists(LONGS))
def test_interval_matches_exactly_its_numbers(low: int, high: int, others: list[int]) -> None:
    low, high = min(low, high), max(low, high)
    whole = re.compile("|".join(interval(low, high)).encode(), re.DOTALL)
    for value in {low, high, low - 1, high + 1, *others}:
        assert bool(whole.fullmatch(zigzag(value))) is (low <= value <= high)


ID = Column(("v",), LogicalType.INTEGER, pa.int64())
SCHEMA = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "v", "type": ["long", "null"]}, {"name": "q", "type": ["string", "null"]}],
}


@pytest.mark.parametrize(
    "root",
    [
        Comparison(ID, Op.EQ, 123456),
        InList(ID, (123456, 999999)),
        And((Comparison(ID, Op.GE, 100_000), Comparison(ID, Op.LT, 100_100))),
        And((Comparison(ID, Op.EQ, 123456), IsNull(ID))),
        Not(Or((Not(Comparison(ID, Op.EQ, 123456)), IsNull(ID)))),
    ],
)
def test_patterns_exclude_blocks_of_other_values(root: Node) -> None:
    strangers = [{"v": number, "q": "some text"} for number in range(300)]
    assert not BlockSearch(_patterns(root)).may_match(_encode(SCHEMA, strangers))


@pytest.mark.parametrize(
    "root",
    [
        Or((Comparison(ID, Op.EQ, 123456), IsNull(ID))),
        Not(Comparison(ID, Op.EQ, 123456)),
        BooleanConstant(True),
    ],
)
def test_filters_that_cannot_skip_blocks_have_no_pattern(root: Node) -> None:
    assert not _patterns(root)


def _patterns(root: Node) -> tuple[BlockPattern, ...]:
    encoding_of = locate(parse_schema(json.dumps(SCHEMA)), NameMatcher(ANY_CASE))
    return block_patterns(root, encoding_of, includes_shifted_dates=True)


def test_decimals_may_have_redundant_bytes() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "v", "type": _decimal()}]}
    root = Comparison(Column(("v",), LogicalType.DECIMAL, pa.decimal128(9, 2)), Op.EQ, Decimal("-1234.56"))
    (pattern,) = block_patterns(
        root, locate(parse_schema(json.dumps(schema)), NameMatcher(ANY_CASE)), includes_shifted_dates=True
    )
    for length in range(3, 17):
        block = zigzag(length) + (-123456).to_bytes(length, "big", signed=True)
        assert BlockSearch([pattern]).may_match(block)


DAY = Column(("d",), LogicalType.DATE, pa.date32())
TIME = Column(("t",), LogicalType.TIMESTAMP, pa.timestamp("us", "UTC"))
LOCAL_TIME = Column(("l",), LogicalType.TIMESTAMP_NTZ, pa.timestamp("us"))
CALENDAR = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "d", "type": {"type": "int", "logicalType": "date"}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "l", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ],
}


@pytest.mark.parametrize(
    ("root", "certain"),
    [
        (Comparison(DAY, Op.EQ, GREGORIAN_DAY), True),
        (Comparison(DAY, Op.EQ, GREGORIAN_DAY - 1), False),
        (InList(DAY, (10_000, GREGORIAN_DAY - 1)), False),
        (And((Comparison(DAY, Op.GE, GREGORIAN_DAY), Comparison(DAY, Op.LT, GREGORIAN_DAY + 9))), True),
        (And((Comparison(DAY, Op.GE, GREGORIAN_DAY - 1), Comparison(DAY, Op.LT, GREGORIAN_DAY + 9))), False),
        (Comparison(TIME, Op.EQ, 10**15), True),
        # The local mean time of a zone may move a time before 1900 past this limit.
        (Comparison(TIME, Op.EQ, GREGORIAN_MICROS), False),
        (Comparison(LOCAL_TIME, Op.EQ, GREGORIAN_MICROS - 1), True),
    ],
)
def test_days_that_spark_may_move_to_another_calendar_have_no_pattern(root: Node, certain: bool) -> None:
    encoding_of = locate(parse_schema(json.dumps(CALENDAR)), NameMatcher(ANY_CASE))
    assert bool(block_patterns(root, encoding_of, includes_shifted_dates=False)) is certain
    assert block_patterns(root, encoding_of, includes_shifted_dates=True)


def test_false_filter_skips_every_block() -> None:
    patterns = block_patterns(
        InList(ID, ()), locate(parse_schema(json.dumps(SCHEMA)), NameMatcher(ANY_CASE)), includes_shifted_dates=True
    )
    assert not BlockSearch(patterns).may_match(b"anything")
