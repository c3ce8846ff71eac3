"""A row group slice has the same values as the stripe, for every writer and type."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pyorc
import pytest
from orc_samples import CODECS, Sample, SparkFile, cut, select, write_sample
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pushdown_spark.formats.orc.file_tail import OrcTypeKind
from pushdown_spark.formats.orc.row_group_slice import stream_slices
from pushdown_spark.formats.orc.stripe import RowGroupRange, StreamKind

ROWS = 1200


def columns(rng: random.Random, nulls: float) -> pa.Table:
    """Return columns of every type with runs, deltas and noise."""

    def some(value: object) -> object:
        return None if rng.random() < nulls else value

    def number(row: int) -> int:
        kinds = (row, 7, rng.randint(0, 100), rng.randint(-(2**63), 2**63 - 1), -3 * row)
        return kinds[row // 250 % len(kinds)]

    def text(row: int) -> str:
        return "ab"[: row % 3] if row % 7 else "x" * rng.randint(0, 60)

    moment = datetime(2000, 1, 1, tzinfo=UTC)
    samples = {
        "bool": ([some(rng.random() < 0.5) for _ in range(ROWS)], pa.bool_()),
        "tiny": ([some(rng.choice((1, 1, rng.randint(-128, 127)))) for _ in range(ROWS)], pa.int8()),
        "short": ([some(row % 1000) for row in range(ROWS)], pa.int16()),
        "int": ([some(rng.choice((5, row, -row * row))) for row in range(ROWS)], pa.int32()),
        "long": ([some(number(row)) for row in range(ROWS)], pa.int64()),
        "float": ([some(row / 4) for row in range(ROWS)], pa.float32()),
        "double": ([some(rng.random()) for _ in range(ROWS)], pa.float64()),
        "few": ([some(rng.choice(("a", "bb", "ccc"))) for _ in range(ROWS)], pa.string()),
        "text": ([some(text(row)) for row in range(ROWS)], pa.string()),
        "binary": ([some(rng.randbytes(rng.randint(0, 9))) for _ in range(ROWS)], pa.binary()),
        "date": ([some(date(2000, 1, 1) + timedelta(days=row // 3)) for row in range(ROWS)], pa.date32()),
        "time": (
            [some(moment + timedelta(microseconds=rng.randint(0, 10**15))) for _ in range(ROWS)],
            pa.timestamp("us", "UTC"),
        ),
        "narrow": ([some(Decimal(rng.randint(-(10**9), 10**9)).scaleb(-2)) for _ in range(ROWS)], pa.decimal128(12, 2)),
        "wide": ([some(Decimal(rng.randint(-(10**28), 10**28)).scaleb(-2)) for _ in range(ROWS)], pa.decimal128(32, 2)),
        "struct": (
            [some({"x": some(row), "y": some(text(row))}) for row in range(ROWS)],
            pa.struct([("x", pa.int32()), ("y", pa.string())]),
        ),
        "list": (
            [some([some(number(row)) for _ in range(rng.randint(0, 5))]) for row in range(ROWS)],
            pa.list_(pa.int64()),
        ),
        "map": (
            [some([(key, some(row)) for key in "abc"[: rng.randint(0, 3)]]) for row in range(ROWS)],
            pa.map_(pa.string(), pa.int32()),
        ),
        "deep": (
            [some([some({"u": some([some(text(row))])}) for _ in range(rng.randint(0, 3))]) for row in range(ROWS)],
            pa.list_(pa.struct([("u", pa.list_(pa.string()))])),
        ),
    }
    return pa.table({name: pa.array(values, kind) for name, (values, kind) in samples.items()})


def runs(rng: random.Random, groups: int) -> Iterator[RowGroupRange]:
    """Return ranges of row groups: the first, the last, all, and random ones."""
    yield from (RowGroupRange(0, 0), RowGroupRange(groups - 1, groups - 1), RowGroupRange(0, groups - 1))
    for _ in range(12):
        first = rng.randrange(groups)
        yield RowGroupRange(first, rng.randrange(first, groups))


def check(sample: Sample, table: pa.Table, rng: random.Random) -> None:
    """Check random ranges of row groups in all stripes."""
    row_count = 0
    for number in range(len(sample.tail.stripes)):
        stripe = sample.stripe(number)
        for groups in runs(rng, stripe.group_count):
            actual = pa.Table.from_batches([cut(sample, groups, stripe=number)])
            first, last = stripe.rows_before(groups.first), stripe.rows_before(groups.last + 1)
            expected = table.slice(row_count + first, last - first)
            for name in table.schema.names:
                assert actual[name].to_pylist() == expected[name].to_pylist(), (number, groups, name)
        row_count += stripe.row_count
    assert row_count == table.num_rows


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("nulls", [0.0, 0.2])
def test_slices_of_files_by_pyarrow_have_the_rows_of_their_row_groups(codec: str, nulls: float) -> None:
    rng = random.Random(f"{codec}{nulls}")
    table = columns(rng, nulls)
    sample = write_sample(
        table,
        compression=codec,
        row_index_stride=rng.choice((13, 100, 333)),
        batch_size=100,
        dictionary_key_size_threshold=0.5,
    )
    check(sample, table.set_column(11, "time", table["time"].cast(sample.table["time"].type)), rng)


@pytest.mark.parametrize("block", [1024, 4096, 65536])
@pytest.mark.parametrize("codec", [0, 1, 2, 4, 5])
def test_slices_are_complete_if_runs_span_several_chunks(block: int, codec: int) -> None:
    rng = random.Random(block + codec)
    numbers = [rng.randint(-(2**63), 2**63 - 1) if row % 700 < 500 else 5 for row in range(6000)]
    strings = ["x" * rng.randint(0, 30) for _ in range(6000)]
    out = io.BytesIO()
    options = {"compression_block_size": block, "memory_block_size": block, "row_index_stride": 37}
    compression = pyorc.CompressionKind(codec)
    with pyorc.Writer(out, "struct<n:bigint,b:boolean,s:string>", compression=compression, **options) as writer:
        for number, text in zip(numbers, strings, strict=True):
            writer.write((number, number % 3 == 0, text))
    check(Sample(out.getvalue()), pa.table({"n": numbers, "b": [n % 3 == 0 for n in numbers], "s": strings}), rng)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none"},
        {"compression": "zlib", "orc_compress_size": 1024},
        {"compression": "zstd", "orc_stripe_row_count": 2100},
        {"compression": "lz4", "orc_compress_size": 4096},
        {"compression": "snappy", "orc_dictionary_key_threshold": 0, "orc_encoding_strategy": "COMPRESSION"},
    ],
    ids=str,
)
def test_slices_of_files_by_spark_have_the_rows_of_their_row_groups(
    spark: SparkSession, by_spark: SparkFile, options: dict[str, object]
) -> None:
    rng = random.Random(4)
    table = pa.concat_tables([columns(rng, 0.2) for _ in range(5)])
    sample = by_spark(spark.createDataFrame(table), orc_row_index_stride=1000, **options)
    zone = table.schema.get_field_index("time")
    check(sample, table.set_column(zone, "time", table["time"].cast(sample.table["time"].type)), rng)


def test_without_a_row_index_a_stripe_is_one_group(spark: SparkSession, by_spark: SparkFile) -> None:
    frame = spark.range(3000).withColumn("s", f.expr("array(cast(id as string))"))
    sample = by_spark(frame, orc_row_index_stride=0, orc_create_index="false")
    stripe = sample.stripe()
    assert (stripe.group_count, stripe.has_index, stripe.rows_before(1)) == (1, False, 3000)
    assert cut(sample, RowGroupRange(0, 0)).num_rows == 3000


def test_only_the_bytes_of_the_row_groups_are_read() -> None:
    table = pa.table({"a": [row * 7919 % 10_007 for row in range(20_000)], "s": [f"{row:08}" for row in range(20_000)]})
    sample = write_sample(table, row_index_stride=1000)
    stripe = sample.stripe()
    data = [place for place in stripe.data_streams(2) if place.kind == StreamKind.DATA]
    (whole,) = data
    (begin, end) = next(
        (stream_slice.begin, stream_slice.end)
        for stream_slice in stream_slices(stripe, [2], RowGroupRange(5, 5))
        if stream_slice.location.kind == StreamKind.DATA
    )
    assert (begin, end) == (whole.offset + 5 * 8000, whole.offset + 6 * 8000)


def test_selected_columns_are_renumbered() -> None:
    table = columns(random.Random(1), 0.0)
    tail = write_sample(table).tail
    deep = tail.top_level["deep"]
    selection = select(tail, [deep, tail.top_level["int"]])
    assert selection.columns == (0, tail.top_level["int"], *tail.descendants(deep))
    assert [OrcTypeKind(node.kind).name for node in selection.types] == [
        "STRUCT",
        "INT",
        "LIST",
        "STRUCT",
        "LIST",
        "STRING",
    ]
    assert list(selection.types[0].subtypes) == [1, 2]
    assert [name.decode() for name in selection.types[0].field_names] == ["int", "deep"]


def test_an_index_outside_of_its_stream_is_rejected() -> None:
    sample = write_sample(pa.table({"a": list(range(1000))}), row_index_stride=100)
    stripe = sample.stripe()
    index = stripe.row_index(1)
    assert index is not None
    index.entry[3].positions[0] = 1 << 40  # type: ignore[index]
    with pytest.raises(ValueError, match="outside"):
        stream_slices(stripe, [1], RowGroupRange(3, 4))
    del index.entry[3].positions[:]  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="too few positions"):
        stream_slices(stripe, [1], RowGroupRange(3, 4))
