"""Records of random types are decoded correctly by every executor."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from avro_samples import CODECS, Namer, block, encode, header, read, records, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Column, Comparison, Op
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.avro.metrics import AvroOutcome

ID = Column(("id",), LogicalType.INTEGER, pa.int64())
ROWS = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "text", "type": "string"},
        {"name": "id", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
SCHEMA = pa.schema([("text", pa.string()), ("id", pa.int64()), ("tags", pa.list_(pa.field("element", pa.string())))])


def row(number: int) -> dict[str, object]:
    return {"text": f"row {number}", "id": None if number % 7 == 3 else number, "tags": ["x"] * (number % 4)}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_type_is_decoded_to_arrow(data: st.DataObject, tmp_path: Path, interpreter: str) -> None:
    sample = data.draw(records(Namer()))
    values = data.draw(st.lists(sample.values, max_size=6))
    cut = data.draw(st.integers(0, len(values)))
    path = write(tmp_path / "any.avro", sample.avro, [values[:cut], values[cut:]], "null")
    fields = data.draw(st.permutations(list(sample.arrow)))
    fields = fields[: data.draw(st.integers(1, len(fields)))]
    actual, count = read(path, pa.schema(fields))
    expected = [sample.arrives(value) for value in values]
    for field in fields:
        assert actual[field.name].combine_chunks().equals(pa.array([e[field.name] for e in expected], field.type))
    assert (count.records, count.rows_returned) == (len(values), len(values))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_filtered_rows_are_the_rows_that_pass(data: st.DataObject, tmp_path: Path, interpreter: str) -> None:
    inner = data.draw(records(Namer(), 2))
    position = data.draw(st.integers(0, len(inner.avro["fields"])))
    schema = {**inner.avro, "fields": list(inner.avro["fields"])}
    schema["fields"].insert(position, {"name": "id", "type": ["long", "null"]})
    values = data.draw(st.lists(inner.values, min_size=1, max_size=8))
    ids = data.draw(st.lists(st.none() | st.integers(-3, 300), min_size=len(values), max_size=len(values)))
    rows = [{**value, "id": number} for value, number in zip(values, ids, strict=True)]
    path = write(tmp_path / "some.avro", schema, [rows[:3], rows[3:]], "null")
    arrow = pa.schema([("id", pa.int64()), *inner.arrow])
    op, bound = data.draw(st.sampled_from([Op.EQ, Op.LT, Op.GE])), data.draw(st.integers(-3, 300))
    actual, _ = read(path, arrow, ArrowFilter(Comparison(ID, op, bound)))
    whole, _ = read(path, arrow)
    passes = [n is not None and {Op.EQ: n == bound, Op.LT: n < bound, Op.GE: n >= bound}[op] for n in ids]
    assert actual.equals(whole.filter(pa.array(passes)))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_and_searched(codec: str, tmp_path: Path, interpreter: str) -> None:
    rows = [row(number) for number in range(3000)]
    blocks = [rows[start : start + 200] for start in range(0, 3000, 200)]
    path = write(tmp_path / "coded.avro", ROWS, blocks, codec)
    actual, count = read(path, SCHEMA)
    assert actual.to_pylist() == rows
    assert count.blocks == {AvroOutcome.TOTAL: 15, AvroOutcome.SELECTED: 15}
    assert count.bytes_read == path.stat().st_size
    actual, count = read(path, SCHEMA, ArrowFilter(Comparison(ID, Op.EQ, 1234)))
    assert actual.to_pylist() == [rows[1234]]
    assert count.blocks[AvroOutcome.SKIPPED] >= 12
    assert count.blocks[AvroOutcome.SKIPPED] + count.blocks[AvroOutcome.FILTERED] == 15
    assert (count.records, count.rows_returned) == (3000, 1)
    assert count.bytes_searched == sum(len(encode(ROWS, each)) for each in blocks)


def test_rows_are_counted_without_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.avro", ROWS, [[row(n) for n in range(10)], [row(n) for n in range(5)]])
    actual, _ = read(path, pa.schema([]))
    assert actual.num_rows == 15


def test_missing_columns_are_null(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.avro", ROWS, [[row(1), row(2)]])
    actual, _ = read(path, pa.schema([("missing", pa.int32()), ("TEXT", pa.string())]))
    assert actual.to_pylist() == [{"missing": None, "TEXT": "row 1"}, {"missing": None, "TEXT": "row 2"}]


def test_a_block_of_very_many_records_is_decoded_in_pieces(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "One", "fields": [{"name": "id", "type": "long"}]}
    path = tmp_path / "many.avro"
    path.write_bytes(header(schema) + block("null", 5_000_000, b"\x0a\x0c" * 2_500_000))
    actual, count = read(path, pa.schema([("id", pa.int64())]), ArrowFilter(Comparison(ID, Op.GE, 6)))
    assert actual.num_rows == 2_500_000
    assert max(map(len, actual["id"].chunks)) <= 2 << 20
    assert count.rows_decoded == 5_000_000
