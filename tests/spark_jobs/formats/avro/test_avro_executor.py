"""Python and machine code execute bytecode alike, and find the same damage."""

from __future__ import annotations

import io
import json

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_samples import SINGLE, Namer, encode, named_types
from hypothesis import given, settings
from hypothesis import strategies as st

from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.formats.avro import executor
from pushdown_spark.formats.avro.avro_schema import parse_schema
from pushdown_spark.formats.avro.bytecode import Bytecode, compile_bytecode
from pushdown_spark.formats.avro.executor import DamagedRecordError, Executor, RecordRuns
from pushdown_spark.formats.avro.resolution import NameMatcher

TEXT = {"type": "record", "name": "T", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
LONG = "x" * 9_000
"""A string whose length takes three bytes."""


def program_of(schema: object, fields: list[pa.Field], *, reads_to_end: bool = True) -> Bytecode:
    return compile_bytecode(
        parse_schema(json.dumps(schema)), fields, NameMatcher(EXACT_NAMES), reads_to_end=reads_to_end
    )


def execute(program: Bytecode, data: bytes, runs: RecordRuns, *, is_compiled: bool) -> tuple[list[list[int]], ...]:
    """Return the values and the validity flags of the slots, and the offsets of the records."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "is_compiled", lambda: is_compiled)
        slots = Executor(program).run(data, runs)
    return (
        [values.tolist() for values in slots.values[: len(program.is_item_slot)]],
        [valid.tolist() for valid in slots.valid[: len(program.is_item_slot)]],
        [slots.starts.tolist(), [slots.end]],
    )


@st.composite
def flat_tables(draw: st.DrawFn) -> tuple[dict[str, object], list[pa.Field], list[dict[str, object]]]:
    """Return a schema without lists, maps and records, some of its columns, and records."""
    kinds = draw(st.lists(st.sampled_from([*SINGLE, *named_types(Namer())]), min_size=1, max_size=6))
    # Named types may occur once in a schema.
    kinds = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place] or kind in SINGLE]
    unions = draw(st.lists(st.sampled_from([None, 0, 1]), min_size=len(kinds), max_size=len(kinds)))
    types = [_type(kind.avro, null) for kind, null in zip(kinds, unions, strict=True)]
    schema = {
        "type": "record",
        "name": "Flat",
        "fields": [{"name": f"f{place}", "type": avro} for place, avro in enumerate(types)],
    }
    records = [
        {
            f"f{place}": None if null is not None and draw(st.booleans()) else draw(kind.values)
            for place, (kind, null) in enumerate(zip(kinds, unions, strict=True))
        }
        for _ in range(draw(st.integers(0, 4)))
    ]
    fields = [pa.field(f"f{place}", kind.arrow) for place, kind in enumerate(kinds)]
    return schema, draw(st.lists(st.sampled_from(fields), unique_by=lambda field: field.name)), records


def _type(avro: object, null: int | None) -> object:
    if null is None:
        return avro
    return ["null", avro] if null == 0 else [avro, "null"]


@settings(max_examples=40, deadline=None)
@given(table=flat_tables(), reads_to_end=st.booleans())
def test_machine_code_fills_the_slots_as_python_does(
    table: tuple[dict[str, object], list[pa.Field], list[dict[str, object]]], reads_to_end: bool
) -> None:
    schema, fields, records = table
    pieces = [encode(schema, [record]) for record in records]
    data = b"".join(pieces)
    program = program_of(schema, fields, reads_to_end=reads_to_end)
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    runs = (
        RecordRuns.of_blocks([(0, len(data), len(records))])
        if reads_to_end
        else RecordRuns.of_records(ends[:-1], ends[1:])
    )
    by_python, by_machine_code = (
        execute(program, data, runs, is_compiled=is_compiled) for is_compiled in (False, True)
    )
    assert by_python == by_machine_code


@pytest.mark.parametrize("is_compiled", [False, True])
def test_long_strings_are_skipped(is_compiled: bool) -> None:
    records = [{"n": 1, "s": LONG}, {"n": 2, "s": ""}, {"n": 3, "s": LONG[:64]}]
    data = encode(TEXT, records)
    program = program_of(TEXT, [pa.field("n", pa.int64()), pa.field("s", pa.string())])
    (numbers, strings), _, _ = execute(
        program, data, RecordRuns.of_blocks([(0, len(data), 3)]), is_compiled=is_compiled
    )
    assert numbers == [1, 2, 3]
    assert [place & 0xFFFF_FFFF for place in strings] == [9_000, 0, 64]
    assert [data[place >> 32 :][: place & 0xFFFF_FFFF] for place in strings] == [LONG.encode(), b"", LONG[:64].encode()]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (["int", "string", "null"], "text"),
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_lists_maps_and_unions_are_skipped(kind: object, value: object, is_compiled: bool) -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": kind}]}
    program = program_of(schema, [pa.field("n", pa.int64())])
    data = encode(schema, [{"n": 7, "k": value}])
    values, _, _ = execute(program, data, RecordRuns.of_blocks([(0, len(data), 1)]), is_compiled=is_compiled)
    assert values == [[7]]


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b"\x02\x0aabc", 1),
        (b"\x02\x03abc", 1),
        (b"\xff" * 10 + b"\x01", 1),
        (b"\x02\x02ab", 1),
        (b"\x02\x02a", 2),
        (b"\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", 1),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x02\x02a", 1),
        (b"\x02\x82\x80\x80\x80\x80\x80\x80\x80\x80\x02a", 1),
    ],
    ids=[
        "past the end",
        "negative length",
        "long number",
        "left over",
        "too few",
        "huge length",
        "number of 65 bits",
        "length of 65 bits",
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True])
def test_damaged_records_raise(data: bytes, records: int, is_compiled: bool) -> None:
    program = program_of(TEXT, [pa.field("s", pa.string())])
    with pytest.raises(DamagedRecordError):
        execute(program, data, RecordRuns.of_blocks([(0, len(data), records)]), is_compiled=is_compiled)


def test_fastavro_accepts_longer_numbers_than_java() -> None:
    """Hence it is not used for a few records. Avro's Java library fails after ten bytes of a number."""
    data = b"\x82" + b"\x80" * 11 + b"\x00" + b"\x02a"
    assert fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(TEXT), None) == {"n": 1, "s": "a"}
    with pytest.raises(DamagedRecordError, match="a number is longer than its type allows"):
        execute(
            program_of(TEXT, [pa.field("n", pa.int64())]),
            data,
            RecordRuns.of_blocks([(0, len(data), 1)]),
            is_compiled=False,
        )


NUMBER_FIELDS = {"n": pa.int64(), "i": pa.int32(), "t": pa.bool_()}


def run_number(kind: str, data: bytes, field: str) -> list[object]:
    """Return the values of a field of one record: the number `n` or `i`, or the boolean `t` after it."""
    number = "i" if kind == "int" else "n"
    fields = [{"name": number, "type": kind}, {"name": "t", "type": "boolean"}]
    name = number if field == "number" else "t"
    program = program_of({"type": "record", "name": "N", "fields": fields}, [pa.field(name, NUMBER_FIELDS[name])])
    runs = RecordRuns.of_blocks([(0, len(data) + 1, 1)])
    values: list[object] = Executor(program).run(data + b"\x01", runs).values[0].tolist()
    return values


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
    ],
)
@pytest.mark.parametrize("is_compiled", [True, False])
def test_numbers_with_all_bits_of_their_type_are_read(
    monkeypatch: pytest.MonkeyPatch, kind: str, data: bytes, value: int, is_compiled: bool
) -> None:
    monkeypatch.setattr(executor, "is_compiled", lambda: is_compiled)
    assert run_number(kind, data, "number") == [value]
    assert run_number(kind, data, "field after it") == [1]


@pytest.mark.parametrize(
    ("kind", "data"),
    [("int", b"\xff\xff\xff\xff\x10"), ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02")],
)
@pytest.mark.parametrize("field", ["number", "field after it"])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_numbers_with_too_many_bits_are_damaged(
    monkeypatch: pytest.MonkeyPatch, kind: str, data: bytes, field: str, is_compiled: bool
) -> None:
    """Spark drops the extra bits and returns another value."""
    monkeypatch.setattr(executor, "is_compiled", lambda: is_compiled)
    with pytest.raises(DamagedRecordError, match="a number is longer than its type allows"):
        run_number(kind, data, field)
