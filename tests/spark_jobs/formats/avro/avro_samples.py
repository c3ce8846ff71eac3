"""Avro container files, written block by block, and random typed values with their Arrow equivalents."""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from pathlib import Path

import cramjam
import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.byte_patterns.avro_encoding import zigzag
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import DecoderCache, open_avro
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.sources.stores.storage import LOCAL

SYNC = bytes(range(100, 116))
CODECS = ("null", "deflate", "snappy", "zstandard", "bzip2", "xz")


def pack(codec: str, data: bytes) -> bytes:
    """Return encoded records as a block stores them."""
    if codec == "deflate":
        packer = zlib.compressobj(wbits=-15)
        return packer.compress(data) + packer.flush()
    if codec == "snappy":
        return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
    if codec == "zstandard":
        return bytes(cramjam.zstd.compress(data))
    return {"null": bytes, "bzip2": bz2.compress, "xz": lzma.compress}[codec](data)


def encode(schema: object, records: Sequence[object]) -> bytes:
    """Return the concatenated encodings of records."""
    avro_schema = fastavro.parse_schema(schema)
    out = io.BytesIO()
    for record in records:
        fastavro.schemaless_writer(out, avro_schema, record)
    return out.getvalue()


def text(value: bytes) -> bytes:
    return zigzag(len(value)) + value


def header(schema: object, codec: str = "null", **metadata: bytes) -> bytes:
    entries = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode(), **metadata}
    pairs = b"".join(text(key.encode()) + text(value) for key, value in entries.items())
    return b"Obj\x01" + zigzag(len(entries)) + pairs + b"\x00" + SYNC


def block(codec: str, count: int, data: bytes) -> bytes:
    packed_data = pack(codec, data)
    return zigzag(count) + zigzag(len(packed_data)) + packed_data + SYNC


def write(path: Path, schema: object, blocks: Sequence[Sequence[object]], codec: str = "null") -> Path:
    """Write a file with these records in each block."""
    body = b"".join(block(codec, len(records), encode(schema, records)) for records in blocks)
    path.write_bytes(header(schema, codec) + body)
    return path


def read(
    path: Path,
    schema: pa.Schema,
    only: ArrowFilter | None = None,
    start: int = 0,
    end: int = 1 << 40,
    are_strings_valid: bool = True,
    **settings: object,
) -> tuple[pa.Table, AvroMetrics]:
    """Return the rows of a scan of a file range, and its counts."""
    count = AvroMetrics()
    settings = {"has_corrected_calendar": True, **settings}
    with open_avro(str(path), LOCAL, DecoderCache(AvroQuery(schema, only, **settings)), count) as file:  # type: ignore[arg-type]
        batches = list(file.batches(start, end))
    for batch in batches:
        batch.validate(full=are_strings_valid)
    return pa.Table.from_batches(batches, schema), count


@dataclass(frozen=True)
class Sample:
    """An Avro type, its Arrow type in Spark, values to encode, and the Arrow value of each."""

    avro: object
    arrow: pa.DataType
    values: st.SearchStrategy[object]
    arrives: Callable[[object], object] = lambda value: value
    branch: str = ""


class Namer:
    """A source of unique names for the named_types types of a schema."""

    def __init__(self) -> None:
        self._count = 0

    def next(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"


INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.one_of(st.integers(-100, 100), st.integers(-(2**63), 2**63 - 1))
MILLIS = st.integers(-(2**53), 2**53)
STRINGS = st.text(st.characters(codec="utf-8"), max_size=8)
FLOATS = st.floats(width=32, allow_nan=False)


def _logical(kind: str, logical: str) -> dict[str, str]:
    return {"type": kind, "logicalType": logical}


UTC = pa.timestamp("us", "UTC")
SINGLE = (
    Sample("boolean", pa.bool_(), st.booleans()),
    Sample("int", pa.int32(), INTS),
    Sample("long", pa.int64(), LONGS),
    Sample("float", pa.float32(), FLOATS),
    Sample("double", pa.float64(), st.floats(allow_nan=False)),
    Sample("bytes", pa.binary(), st.binary(max_size=8)),
    Sample("string", pa.string(), STRINGS),
    Sample(_logical("int", "date"), pa.date32(), INTS),
    Sample(_logical("int", "time-millis"), pa.int32(), INTS),
    Sample(_logical("long", "time-micros"), pa.int64(), LONGS),
    Sample(_logical("long", "timestamp-micros"), UTC, LONGS),
    Sample(_logical("long", "timestamp-millis"), UTC, MILLIS, lambda value: value * 1000),  # type: ignore[operator]
    Sample(_logical("long", "local-timestamp-micros"), pa.timestamp("us"), LONGS),
    Sample(_logical("long", "local-timestamp-millis"), pa.timestamp("us"), MILLIS, lambda v: v * 1000),  # type: ignore[operator]
    Sample(_logical("string", "uuid"), pa.string(), STRINGS),
)


def _decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    exact = Context(prec=80)
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-scale, exact))


def named_types(namer: Namer) -> list[Sample]:
    """Return samples of types that need names, and of decimals."""
    symbols = ["RED", "GREEN", "BLUE", "BLACK"]
    small, large, fixed = (15, 2), (38, 10), (20, 4)

    def decimal(digits: tuple[int, int], **more: object) -> dict[str, object]:
        return {"type": "bytes", "logicalType": "decimal", "precision": digits[0], "scale": digits[1], **more}

    fixed_schema = {"type": "fixed", "size": 10, "name": namer.next("Money")}
    return [
        Sample(
            {"type": "enum", "name": namer.next("Color"), "symbols": symbols}, pa.string(), st.sampled_from(symbols)
        ),
        Sample(
            {"type": "fixed", "name": namer.next("Fixed"), "size": 3}, pa.binary(), st.binary(min_size=3, max_size=3)
        ),
        Sample(decimal(small), pa.decimal128(*small), _decimals(*small)),
        Sample(decimal(large), pa.decimal128(*large), _decimals(*large)),
        Sample(decimal(fixed, **fixed_schema), pa.decimal128(*fixed), _decimals(*fixed)),
        Sample(
            {"type": "fixed", "name": namer.next("Span"), "size": 12, "logicalType": "duration"},
            pa.binary(),
            st.binary(min_size=12, max_size=12),
        ),
    ]


@st.composite
def samples(draw: st.DrawFn, namer: Namer, depth: int = 3, in_union: bool = False) -> Sample:
    """Return a sample of a random type."""
    shapes = ["single", "single", "named"]
    if depth:
        shapes += ["array", "record"] + ([] if in_union else ["nullable", "nullable", "union", "numbers"])
    shape = draw(st.sampled_from(shapes))
    if shape == "single":
        return draw(st.sampled_from(SINGLE))
    if shape == "named":
        return draw(st.sampled_from(named_types(namer)))
    if shape == "record":
        return draw(records(namer, depth - 1))
    if shape == "numbers":
        return draw(
            st.sampled_from(
                [
                    _numbers("int", "long", pa.int64(), INTS, LONGS),
                    _numbers("float", "double", pa.float64(), FLOATS, FLOATS),
                ]
            )
        )
    if shape == "union":
        return draw(_unions(namer, depth - 1))
    inner = draw(samples(namer, depth - 1, in_union=shape == "nullable"))
    if shape == "nullable":
        branches = [inner.avro, "null"] if draw(st.booleans()) else ["null", inner.avro]
        return Sample(
            branches, inner.arrow, st.none() | inner.values, lambda v: None if v is None else inner.arrives(v)
        )
    return Sample(
        {"type": "array", "items": inner.avro},
        pa.list_(pa.field("element", inner.arrow)),
        st.lists(inner.values, max_size=3),
        lambda value: [inner.arrives(each) for each in value],  # type: ignore[attr-defined]
    )


def _numbers(one: str, two: str, arrow: pa.DataType, ones: st.SearchStrategy, twos: st.SearchStrategy) -> Sample:
    values = st.tuples(st.just(one), ones) | st.tuples(st.just(two), twos)
    return Sample([one, two], arrow, values, lambda pair: pair[1])  # type: ignore[index]


@st.composite
def _unions(draw: st.DrawFn, namer: Namer, depth: int) -> Sample:
    """Return a union of several types, with or without null. Each value names its branch."""
    members = [SINGLE[6], SINGLE[2], SINGLE[0], draw(records(namer, depth))]
    names = ["string", "long", "boolean", members[3].avro["name"]]  # type: ignore[index]
    order = draw(st.permutations(range(4)))
    branches: list[object] = [members[place].avro for place in order]
    arrow = pa.struct([(f"member{number}", members[place].arrow) for number, place in enumerate(order)])
    values: st.SearchStrategy[object] = st.one_of(
        *(st.tuples(st.just(names[place]), members[place].values) for place in order)
    )
    if draw(st.booleans()):
        branches.insert(draw(st.integers(0, 4)), "null")
        values = st.none() | values

    def arrives(pair: tuple[str, object] | None) -> object:
        if pair is None:
            return None
        place = names.index(pair[0])
        empty = {f"member{number}": None for number in range(4)}
        return {**empty, f"member{order.index(place)}": members[place].arrives(pair[1])}

    return Sample(branches, arrow, values, arrives)  # type: ignore[arg-type]


@st.composite
def records(draw: st.DrawFn, namer: Namer, depth: int = 3) -> Sample:
    """Return a random record type."""
    fields = {f"f{number}": draw(samples(namer, depth)) for number in range(draw(st.integers(1, 3)))}
    avro = {
        "type": "record",
        "name": namer.next("Record"),
        "fields": [{"name": name, "type": sample.avro} for name, sample in fields.items()],
    }
    return Sample(
        avro,
        pa.struct([(name, sample.arrow) for name, sample in fields.items()]),
        st.fixed_dictionaries({name: sample.values for name, sample in fields.items()}),
        lambda value: {name: sample.arrives(value[name]) for name, sample in fields.items()},  # type: ignore[index]
    )
