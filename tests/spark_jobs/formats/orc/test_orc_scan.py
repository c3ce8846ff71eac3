"""Files, stripes and row groups are pruned, searched and selected, and all counts are correct."""

from __future__ import annotations

import io
import math
from collections import Counter
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyorc
import pytest
from orc_samples import Sample, write_sample
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema
from rle_samples import short_repeat

from pushdown_spark.errors import PushdownError, SchemaConflictError, UnreadableFileError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import BooleanConstant
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.formats.orc import lazy_reader
from pushdown_spark.formats.orc.file_reader import OrcQuery
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome, ReadPurpose
from pushdown_spark.formats.orc.stripe import StreamKind
from pushdown_spark.formats.scan_task import sum_metrics

ROWS = 10_000
STRIDE = 1000
TABLE = pa.table(
    {
        "n": pa.array(range(ROWS), pa.int64()),
        "odd": pa.array([row * 2_654_435_761 % 1_000_003 * 2 + 1 for row in range(ROWS)], pa.int64()),
        "s": pa.array([f"text {row * 31 % 977}" for row in range(ROWS)]),
        "st": pa.array([{"x": row // 1000, "y": None} if row % 10 else None for row in range(ROWS)]),
    },
    schema=pa.schema(
        [
            ("n", pa.int64()),
            ("odd", pa.int64()),
            ("s", pa.string()),
            ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
        ]
    ),
)
SAMPLE = write_sample(TABLE, row_index_stride=STRIDE, compression="zlib")


def compile_filter(where: str, schema: pa.Schema) -> ArrowFilter:
    tree = parse_predicate(where)
    assert tree is not None
    fields = from_arrow_schema(schema)
    assert isinstance(fields, t.StructType)
    outcome = bind(tree, Scope(fields, has_plain_strings=True))
    assert outcome.artifact is not None, outcome.reason
    return ArrowFilter(outcome.artifact)


def query(
    where: str | None, schema: pa.Schema = TABLE.schema, *, partial: int | None = None, min_seek: int = 0
) -> OrcQuery:
    row_filter = None if where is None else compile_filter(where, schema)
    return OrcQuery(
        schema=schema,
        positions=tuple(range(len(schema))),
        filter=row_filter,
        partial_reads=partial,
        min_seek=min_seek,
        name_rule=ANY_CASE,
    )


def scan_rows(sample: Sample, orc_query: OrcQuery) -> tuple[pa.Table, OrcMetrics]:
    """Return the rows of all stripes and the metrics."""
    count = OrcMetrics()
    file = sample.file(orc_query, count)
    batches = list(file.batches(file.stripes(0, len(sample.content))))
    file.close()
    return pa.Table.from_batches(batches, orc_query.schema), count


@pytest.mark.parametrize("partial", [None, 0, 1, 2, 100])
@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        ("n = 4321", lambda row: row == 4321),
        ("n IN (5, 2500, 9999)", lambda row: row in (5, 2500, 9999)),
        ("n < 10 OR n >= 9990", lambda row: row < 10 or row >= 9990),
        ("st.x = 3", lambda row: row // 1000 == 3 and row % 10),
        ("st IS NULL AND n < 3000", lambda row: row % 10 == 0 and row < 3000),
        ("n >= 0", lambda row: True),
        ("n < 0", lambda row: False),
        ("s LIKE '%7' AND n > 5000", lambda row: f"text {row * 31 % 977}".endswith("7") and row > 5000),
    ],
)
def test_a_filtered_scan_returns_the_rows_that_pass(where: str, keeps: object, partial: int | None) -> None:
    assert callable(keeps)
    actual, count = scan_rows(SAMPLE, query(where, partial=partial))
    expected = TABLE.filter(pa.array([bool(keeps(row)) for row in range(ROWS)]))
    assert actual.equals(expected)
    assert count.rows_returned == len(expected)


def _batches(sample: Sample, orc_query: OrcQuery) -> list[pa.RecordBatch]:
    return list(sample.file(orc_query).batches(range(len(sample.tail.stripes))))


@pytest.mark.parametrize("values", [pa.string(), pa.binary(), pa.list_(pa.int64())])
def test_long_values_are_decoded_a_few_row_groups_at_a_time(
    values: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = [7] * 12 if pa.types.is_list(values) else b"x" * 100 if pa.types.is_binary(values) else "x" * 100
    table = pa.table({"v": pa.array([long] * ROWS, values)})
    sample = write_sample(table, row_index_stride=STRIDE, dictionary_key_size_threshold=0.0)
    orc_query = query(None, table.schema)
    monkeypatch.setattr(lazy_reader, "_BATCH_BYTES", 250 * STRIDE)
    actual = _batches(sample, orc_query)
    assert [batch.num_rows for batch in actual] == [2 * STRIDE] * 5
    assert pa.Table.from_batches(actual).equals(table)


@pytest.mark.parametrize("partial", [None, 0, 1, 2])
def test_many_matching_rows_are_completed_in_parts(partial: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    orc_query = query("s NOT LIKE '%3' AND odd > 0 AND (n < 2100 OR n >= 3900)", partial=partial)
    whole, figures = scan_rows(SAMPLE, orc_query)
    monkeypatch.setattr(lazy_reader, "_BATCH_BYTES", 16 * STRIDE)
    monkeypatch.setattr(lazy_reader, "_MATCHING_BYTES", 20_000)
    actual, count = scan_rows(SAMPLE, orc_query)
    assert actual.equals(whole)
    assert actual.num_rows == sum(1 for row in range(ROWS) if row * 31 % 977 % 10 != 3 and not 2100 <= row < 3900)
    assert (count.stripes, count.groups) == (figures.stripes, figures.groups)
    assert count.rows_returned == figures.rows_returned


def test_impossible_lengths_are_rejected() -> None:
    """Arrow's decoder would allocate the claimed size, and end the process without enough memory."""
    table = pa.table({"l": pa.array([[1] * (row % 7) for row in range(40)], pa.list_(pa.int64()))})
    sample = write_sample(table)
    (place,) = (place for place in sample.stripe().data_streams(1) if place.kind == StreamKind.LENGTH)
    lengths = short_repeat(1 << 40, 10) * 2
    assert len(lengths) <= place.length, "the test's own lengths do not fit"
    lengths = lengths.ljust(place.length, b"\0")
    content = sample.content[: place.offset] + lengths + sample.content[place.offset + place.length :]
    with pytest.raises(UnsafeInputError, match=r"f\.orc, stripe 0.*lengths of 10 values"):
        scan_rows(Sample(content), query(None, table.schema))


def test_a_file_is_pruned_by_its_statistics() -> None:
    actual, count = scan_rows(SAMPLE, query("n > 20000"))
    assert actual.num_rows == 0
    assert count.stripes == {OrcOutcome.TOTAL: 1, OrcOutcome.BY_STATISTICS: 1}
    assert count.groups == {OrcOutcome.TOTAL: 10, OrcOutcome.BY_STATISTICS: 10}
    assert set(count.bytes) == {ReadPurpose.METADATA}
    assert count.rows_decoded == 0


def test_stripes_are_pruned_by_their_statistics() -> None:
    many = write_sample(TABLE, row_index_stride=500, stripe_size=16_384, batch_size=500)
    stripes = len(many.tail.stripes)
    assert stripes > 3
    actual, count = scan_rows(many, query("n = 9999"))
    assert actual["n"].to_pylist() == [9999]
    assert count.stripes[OrcOutcome.TOTAL] == stripes
    assert count.stripes[OrcOutcome.BY_STATISTICS] == stripes - 1
    assert count.groups[OrcOutcome.TOTAL] == sum(-(-stripe.number_of_rows // 500) for stripe in many.tail.stripes)


def test_row_groups_are_pruned_by_their_statistics() -> None:
    plain = write_sample(TABLE, row_index_stride=STRIDE)
    actual, count = scan_rows(plain, query("n BETWEEN 2999 AND 3000 AND s <> ''"))
    assert actual["n"].to_pylist() == [2999, 3000]
    assert +count.groups == {
        OrcOutcome.TOTAL: 10,
        OrcOutcome.BY_STATISTICS: 8,
        OrcOutcome.FILTERED: 2,
        OrcOutcome.SELECTED: 2,
    }
    assert count.rows_decoded == 2 * STRIDE
    assert count.bytes[ReadPurpose.SELECT] < len(plain.content) / 5


def test_row_groups_are_pruned_by_bloom_filters() -> None:
    odd = TABLE["odd"].to_pylist()
    actual, count = scan_rows(write_with_bloom_filters(), query(f"odd IN ({odd[7777]}, 8, 10)"))
    assert actual["n"].to_pylist() == [7777]
    assert count.groups[OrcOutcome.BY_BLOOM_FILTER] >= 7
    assert count.groups[OrcOutcome.BY_BLOOM_FILTER] + count.groups[OrcOutcome.FILTERED] == 10
    nothing, count = scan_rows(write_with_bloom_filters(), query("odd = 500000"))
    assert nothing.num_rows == 0
    assert count.groups[OrcOutcome.BY_BLOOM_FILTER] >= 8


def write_with_bloom_filters() -> Sample:
    """Return the table written by pyorc, which uses the C++ library."""
    out = io.BytesIO()
    schema = "struct<n:bigint,odd:bigint,s:string,st:struct<x:bigint,y:string>>"
    with pyorc.Writer(out, schema, row_index_stride=STRIDE, bloom_filter_columns=["odd"]) as writer:
        for row in TABLE.to_pylist():
            members = row["st"]
            writer.write((row["n"], row["odd"], row["s"], members and (members["x"], members["y"])))
    return Sample(out.getvalue())


def test_filter_columns_are_never_read_twice() -> None:
    plain = write_sample(TABLE, row_index_stride=STRIDE)
    _, whole = scan_rows(plain, query(None))
    _, lazy = scan_rows(plain, query("odd > 5 OR n >= 0"))
    assert lazy.bytes[ReadPurpose.FILTER] + lazy.bytes[ReadPurpose.SELECT] <= whole.bytes[ReadPurpose.SELECT]
    assert lazy.groups[OrcOutcome.SELECTED] == whole.groups[OrcOutcome.SELECTED] == 10


def test_the_search_reads_only_the_members_that_the_filter_needs() -> None:
    structs = [{"x": row * 7919 % 10_007, "y": f"{row * 2_654_435_761 % 1_000_003}"} for row in range(ROWS)]
    table = pa.table({"st": pa.array(structs)})
    sample = write_sample(table, row_index_stride=STRIDE)
    actual, count = scan_rows(sample, query("st.x = 7919", table.schema))
    _, whole = scan_rows(sample, query(None, table.schema))
    assert actual.equals(table.slice(1, 1))
    assert count.bytes[ReadPurpose.FILTER] < whole.bytes[ReadPurpose.SELECT] / 2
    assert count.groups[OrcOutcome.SELECTED] == 1


def test_partial_reads_and_seeks_reduce_reads() -> None:
    where = "s IN ('text 5', 'text 450')"
    rows = pa.concat_tables([TABLE] * 6)
    sample = write_sample(
        rows.set_column(2, "s", pa.array([f"text {row // 100}" for row in range(6 * ROWS)])), row_index_stride=STRIDE
    )
    alone, once = (scan_rows(sample, query(where, partial=partial))[1] for partial in (4, 0))
    assert alone.bytes[ReadPurpose.SELECT] < once.bytes[ReadPurpose.SELECT]
    wide = scan_rows(sample, query(where, partial=4, min_seek=1 << 20))[1]
    assert wide.reads < alone.reads


def test_without_a_filter_everything_is_read_once() -> None:
    actual, count = scan_rows(SAMPLE, query(None))
    assert actual.equals(TABLE)
    assert count.rows_decoded == count.rows_returned == ROWS
    assert count.groups == {OrcOutcome.TOTAL: 10, OrcOutcome.SELECTED: 10}


@pytest.mark.parametrize(("value", "rows"), [(True, ROWS), (False, 0), (None, 0)])
@pytest.mark.parametrize("names", [[], ["s", "n"]])
def test_filters_apply_if_no_columns_are_requested(value: bool | None, rows: int, names: list[str]) -> None:
    schema = pa.schema([TABLE.schema.field(name) for name in names])
    orc_query = OrcQuery(
        schema=schema,
        positions=tuple(range(len(names))),
        filter=ArrowFilter(BooleanConstant(value)),
        partial_reads=None,
        min_seek=0,
        name_rule=ANY_CASE,
    )
    file = SAMPLE.file(orc_query)
    assert sum(batch.num_rows for batch in file.batches([0])) == rows


def test_missing_columns_are_null() -> None:
    schema = pa.schema([("n", pa.int64()), ("new", pa.list_(pa.string())), ("m", pa.int32())])
    actual, _ = scan_rows(SAMPLE, query("m IS NULL AND n < 2", schema))
    assert actual.to_pylist() == [{"n": 0, "new": None, "m": None}, {"n": 1, "new": None, "m": None}]
    nothing, count = scan_rows(SAMPLE, query("m = 5", schema))
    assert nothing.num_rows == 0
    assert count.stripes[OrcOutcome.BY_STATISTICS] == 1


def test_a_scan_of_only_missing_columns_returns_nulls() -> None:
    schema = pa.schema([("p", pa.int64()), ("q", pa.string())])
    assert scan_rows(SAMPLE, query("p IS NULL", schema))[0].num_rows == ROWS


def test_values_after_nan_are_found() -> None:
    """Bounds of numbers after a NaN may be too narrow in row groups and in merged statistics."""
    values = [1.0, 2.0, math.nan, 100.0, 3.0, math.nan]
    sample = write_sample(pa.table({"x": values}), row_index_stride=2)
    schema = pa.schema([("x", pa.float64())])
    for value in (1.0, 2.0, 100.0, 3.0):
        assert scan_rows(sample, query(f"x = {value}D", schema))[0]["x"].to_pylist() == [value]
    assert scan_rows(sample, query("x < 0D", schema))[0].num_rows == 0


def test_a_wrong_stride_uses_spark() -> None:
    sample = write_sample(TABLE, row_index_stride=1002)
    file = sample.file(query("n = 5500"))
    file.tail.footer.row_index_stride = 1001
    with pytest.raises(UnsafeInputError, match=r"f\.orc, stripe 0: column \d has row groups of another size"):
        list(file.batches([0]))


def test_files_without_rows_return_no_rows() -> None:
    actual, count = scan_rows(write_sample(TABLE.slice(0, 0)), query("n = 1"))
    assert actual.num_rows == 0
    assert count.stripes == Counter()
    one, _ = scan_rows(write_sample(TABLE.slice(7, 1)), query("n = 7"))
    assert one["n"].to_pylist() == [7]


def test_stripes_belong_to_the_range_they_begin_in() -> None:
    many = write_sample(TABLE, row_index_stride=500, stripe_size=16_384, batch_size=500)
    file = many.file(query(None))
    offsets = [stripe.offset for stripe in many.tail.stripes]
    middle = offsets[2]
    assert file.stripes(0, middle) == [0, 1]
    assert file.stripes(middle, len(many.content)) == list(range(2, len(offsets)))
    assert file.stripes(middle, middle) == []


@pytest.mark.parametrize(
    ("moments", "error"),
    [
        ([-9_300_000_000_000_000], UnsafeInputError),
        ([9_300_000_000_000_000], UnsafeInputError),
        ([-9_200_000_000_000_000, 9_200_000_000_000_000], None),
    ],
)
def test_times_beyond_arrow_use_spark(moments: list[int], error: type[PushdownError] | None) -> None:
    schema = pa.schema([("t", pa.timestamp("us", "UTC"))])
    sample = write_sample(pa.table({"t": pa.array(moments, pa.timestamp("us", "UTC"))}))
    if error is None:
        assert scan_rows(sample, query(None, schema))[0]["t"].cast(pa.int64()).to_pylist() == moments
    else:
        with pytest.raises(error, match="1677"):
            scan_rows(sample, query(None, schema))


def test_times_of_another_time_zone_use_spark() -> None:
    out = io.BytesIO()
    with pyorc.Writer(out, "struct<t:timestamp,n:int>", timezone=ZoneInfo("America/New_York")) as writer:
        writer.write((datetime(2020, 1, 1, tzinfo=UTC), 1))
    sample = Sample(out.getvalue())
    with pytest.raises(UnsafeInputError, match="America/New_York"):
        scan_rows(sample, query(None, pa.schema([("t", pa.timestamp("us", "UTC"))])))
    assert scan_rows(sample, query(None, pa.schema([("n", pa.int32())])))[0]["n"].to_pylist() == [1]


def test_errors_name_the_file_and_the_stripe() -> None:
    with pytest.raises(UnreadableFileError, match=r"cannot read f\.orc: .*; replace the file"):
        Sample(SAMPLE.content[:-5]).file(query(None))
    stripe = SAMPLE.tail.stripes[0]
    begin = stripe.offset + stripe.index_length
    damaged_sample = Sample(
        SAMPLE.content[:begin] + bytes(stripe.data_length) + SAMPLE.content[begin + stripe.data_length :]
    )
    with pytest.raises(UnreadableFileError, match=r"cannot read f\.orc, stripe 0 at byte 3: .*; replace the file"):
        scan_rows(damaged_sample, query(None))
    with pytest.raises(UnsafeInputError, match=r"f\.orc: column s is stored as string"):
        SAMPLE.file(query(None, pa.schema([("s", pa.int64())])))
    twice = write_sample(pa.table({"a": [1], "A": [2]}))
    with pytest.raises(SchemaConflictError, match=r"f\.orc: column 'a' fits 2"):
        twice.file(query(None, pa.schema([("a", pa.int64())])))


def test_metrics_of_tasks_are_summed() -> None:
    counts = [scan_rows(SAMPLE, query(where))[1] for where in ("n = 1", "n > 20000")]
    both = sum_metrics(counts)
    assert both.stripes[OrcOutcome.TOTAL] == 2
    assert both.bytes_read == counts[0].bytes_read + counts[1].bytes_read
    assert both.reads == counts[0].reads + counts[1].reads
