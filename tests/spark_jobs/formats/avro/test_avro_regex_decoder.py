"""The regex decoder agrees with the interpreter on flat records, and does not decode damaged records."""

from __future__ import annotations

import json

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from avro_samples import SINGLE, Namer, encoded, named_types
from hypothesis import given, settings
from hypothesis import strategies as st

from pushdown_spark.formats.avro import executor
from pushdown_spark.formats.avro.bytecode import Bytecode, compile_bytecode
from pushdown_spark.formats.avro.executor import DamagedRecordError, Executor, RecordRuns
from pushdown_spark.formats.avro.regex_decoder import compile_segments, decode_flat
from pushdown_spark.formats.avro.resolution import NameMatcher
from pushdown_spark.formats.avro.schema import parse_schema

TEXT = {"type": "record", "name": "T", "fields": [{"name": "n", "type": "long"}, {"name": "s", "type": "string"}]}
LONG = "x" * 9_000
"""A text whose length takes three bytes."""


def program_of(schema: object, wanted: list[pa.Field], *, whole: bool = True) -> Bytecode:
    return compile_bytecode(parse_schema(json.dumps(schema)), None, wanted, NameMatcher(True), whole=whole)


def by_instructions(program: Bytecode, data: bytes, runs: RecordRuns) -> tuple[list[list[int]], ...]:
    """Return the values that `walk` stores in the slots."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "is_compiled", lambda: False)
        patch.setattr(executor, "compile_segments", lambda _code: None)
        filled = Executor(program).run(data, runs)
    return (
        [values.tolist() for values in filled.values[: len(program.slots)]],
        [valid.tolist() for valid in filled.valid[: len(program.slots)]],
        [filled.starts.tolist(), [filled.end]],
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


@settings(max_examples=300, deadline=None)
@given(table=flat_tables(), whole=st.booleans())
def test_the_regex_decoder_agrees_with_the_interpreter(
    table: tuple[dict[str, object], list[pa.Field], list[dict[str, object]]], whole: bool
) -> None:
    schema, wanted, records = table
    pieces = [encoded(schema, [record]) for record in records]
    data = b"".join(pieces)
    program = program_of(schema, wanted, whole=whole)
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int64)
    runs = RecordRuns.of_blocks([(0, len(data), len(records))]) if whole else RecordRuns.of_records(ends[:-1], ends[1:])
    parts = compile_segments(program.code)
    assert parts is not None
    found = decode_flat(parts, data, runs.numbers.tolist(), len(program.slots))
    assert found is not None
    assert (list(found.values), list(found.valid), [found.starts, [found.end]]) == by_instructions(program, data, runs)


def test_long_strings_are_skipped() -> None:
    records = [{"n": 1, "s": LONG}, {"n": 2, "s": ""}, {"n": 3, "s": LONG[:64]}]
    data = encoded(TEXT, records)
    program = program_of(TEXT, [pa.field("n", pa.int64()), pa.field("s", pa.string())])
    parts = compile_segments(program.code)
    assert parts is not None
    found = decode_flat(parts, data, RecordRuns.of_blocks([(0, len(data), 3)]).numbers.tolist(), len(program.slots))
    assert found is not None
    numbers, texts = found.values
    assert numbers == [1, 2, 3]
    assert [place & 0xFFFF_FFFF for place in texts] == [9_000, 0, 64]
    assert [data[place >> 32 :][: place & 0xFFFF_FFFF] for place in texts] == [LONG.encode(), b"", LONG[:64].encode()]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ({"type": "array", "items": "int"}, [1]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (["int", "string", "null"], "text"),
    ],
)
def test_other_records_use_the_interpreter(kind: object, value: object) -> None:
    schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}, {"name": "k", "type": kind}]}
    fastavro.parse_schema(schema)
    program = program_of(schema, [pa.field("n", pa.int64())])
    assert compile_segments(program.code) is None
    data = encoded(schema, [{"n": 7, "k": value}])
    assert Executor(program).run(data, RecordRuns.of_blocks([(0, len(data), 1)])).values[0].tolist() == [7]


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
def test_damaged_records_use_the_interpreter(data: bytes, records: int) -> None:
    program = program_of(TEXT, [pa.field("s", pa.string())])
    runs = RecordRuns.of_blocks([(0, len(data), records)])
    parts = compile_segments(program.code)
    assert parts is not None
    assert decode_flat(parts, data, runs.numbers.tolist(), len(program.slots)) is None
    with pytest.raises(DamagedRecordError):
        Executor(program).run(data, runs)


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
        ("int", b"\xff\xff\xff\xff\x10", None),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", -(2**63)),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", None),
    ],
)
@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_numbers_with_too_many_bits_are_damaged(
    monkeypatch: pytest.MonkeyPatch, kind: str, data: bytes, value: int | None, is_wanted: bool, is_compiled: bool
) -> None:
    """Spark drops the extra bits and returns another value."""
    schema = {"type": "record", "name": "N", "fields": [{"name": "n", "type": kind}, {"name": "t", "type": "boolean"}]}
    arrow = pa.int32() if kind == "int" else pa.int64()
    program = program_of(schema, [pa.field("n", arrow) if is_wanted else pa.field("t", pa.bool_())])
    monkeypatch.setattr(executor, "is_compiled", lambda: is_compiled)
    runs = RecordRuns.of_blocks([(0, len(data) + 1, 1)])
    if value is None:
        with pytest.raises(DamagedRecordError, match="a number is longer than its type allows"):
            Executor(program).run(data + b"\x01", runs)
    else:
        assert Executor(program).run(data + b"\x01", runs).values[0].tolist() == [value if is_wanted else 1]
