"""A tail takes one read, and invalid files are distinguished from files that only Spark reads."""

from __future__ import annotations

import pyarrow as pa
import pytest
from orc_samples import CODECS, Sample, write_sample
from rle_samples import varint

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import MAX_BLOCK_SIZE
from pushdown_spark.formats.orc.file_tail import OrcTypeKind, read_tail
from pushdown_spark.formats.orc.metadata import footer_bytes
from pushdown_spark.formats.orc.stripe import StreamKind

TABLE = pa.table(
    {
        "a": pa.array([1, 2, 3], pa.int64()),
        "s": pa.array([{"x": 1, "l": ["p"]}, None, {"x": None, "l": []}]),
        "m": pa.array([[("k", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
    }
)
_VERSION_0_11 = b"\x22\x02\x00\x0b"
"""The field of a postscript that has the version 0.11."""


def reads(sample: Sample) -> list[tuple[int, int]]:
    """Return the ranges that are read for the tail."""
    requested: list[tuple[int, int]] = []

    def read(offset: int, length: int) -> bytes:
        requested.append((offset, length))
        return sample.read(offset, length)

    read_tail(read, len(sample.content))
    return requested


@pytest.mark.parametrize("codec", CODECS)
def test_a_tail_has_types_rows_and_statistics(codec: str) -> None:
    sample = write_sample(TABLE, compression=codec)
    tail = sample.tail
    kinds = [OrcTypeKind(node.kind).name for node in tail.types]
    assert kinds == ["STRUCT", "LONG", "STRUCT", "LONG", "LIST", "STRING", "MAP", "STRING", "DOUBLE"]
    assert tail.top_level == {"a": 1, "s": 2, "m": 6}
    assert (list(tail.descendants(2)), list(tail.descendants(1)), list(tail.descendants(0))) == (
        [2, 3, 4, 5],
        [1],
        list(range(9)),
    )
    assert tail.footer.number_of_rows == 3
    assert tail.statistics[1].int_statistics.maximum == 3
    assert tail.stripe_statistics(sample.read).stripe_stats[0].col_stats[1].int_statistics.minimum == 1
    assert len(reads(sample)) == 1


def test_a_footer_longer_than_the_guess_is_read_in_a_second_read() -> None:
    wide = write_sample(pa.table({f"a_column_with_a_long_name_{number}": [number] for number in range(1200)}))
    assert wide.tail.post_script.footer_length > 16 << 10
    assert len(reads(wide)) == 2
    assert len(wide.tail.top_level) == 1200


def test_a_file_without_rows_has_no_stripes() -> None:
    empty = write_sample(TABLE.slice(0, 0))
    assert empty.tail.footer.number_of_rows == 0
    assert list(empty.tail.stripes) == []
    assert len(empty.tail.stripe_statistics(empty.read).stripe_stats) == 0


def test_a_tail_with_many_stripes_has_statistics_of_each() -> None:
    sample = write_sample(pa.table({"a": list(range(20_000))}), stripe_size=4096, batch_size=100)
    stripes = sample.tail.stripes
    assert len(stripes) > 5
    assert sum(stripe.number_of_rows for stripe in stripes) == 20_000
    assert len(sample.tail.stripe_statistics(sample.read).stripe_stats) == len(stripes)


@pytest.mark.parametrize("content", [b"", b"O", b"ORC", b"ORC\x00", b"\x00" * 100, b"PAR1" * 50, bytes(range(256))])
def test_files_of_other_formats_are_rejected(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(it|its|no valid) "):
        Sample(content).tail  # noqa: B018


@pytest.mark.parametrize("codec", ["uncompressed", "zlib"])
def test_truncated_files_are_rejected(codec: str) -> None:
    content = write_sample(TABLE, compression=codec).content
    for length in range(len(content)):
        with pytest.raises((ValueError, UnsafeInputError)):
            Sample(content[:length]).tail  # noqa: B018


def with_script(sample: Sample, number: int, value: bytes) -> Sample:
    """Return the file with a varint field appended to its postscript. The last value of a field applies."""
    script = sample.content[-1 - sample.content[-1] : -1] + bytes([number << 3]) + value
    body = sample.content[: -1 - sample.content[-1]]
    return Sample(body + script + bytes([len(script)]))


@pytest.mark.parametrize("number", [3, 6])
def test_codecs_of_the_java_library_use_spark(number: int) -> None:
    with pytest.raises(UnsafeInputError, match="reader='spark'"):
        with_script(write_sample(TABLE), 2, bytes([number])).tail  # noqa: B018


def test_unknown_codecs_are_rejected() -> None:
    with pytest.raises(ValueError, match="compression"):
        with_script(write_sample(TABLE), 2, b"\x09").tail  # noqa: B018


def test_impossible_block_sizes_are_rejected() -> None:
    sample = write_sample(TABLE, compression="lz4")
    assert with_script(sample, 3, varint(MAX_BLOCK_SIZE)).tail.codec.block_size == MAX_BLOCK_SIZE
    for size in (MAX_BLOCK_SIZE + 1, 1 << 40, (1 << 64) - 1):
        with pytest.raises(ValueError, match="blocks"):
            with_script(sample, 3, varint(size)).tail  # noqa: B018


def test_later_versions_use_spark() -> None:
    with pytest.raises(UnsafeInputError, match="version"):
        with_script(write_sample(TABLE), 4, varint(1) + bytes([4 << 3]) + varint(9999)).tail  # noqa: B018


def test_a_footer_longer_than_the_file_is_rejected() -> None:
    with pytest.raises(ValueError, match="footer claims"):
        with_script(write_sample(TABLE), 1, varint(1 << 50)).tail  # noqa: B018


def with_footer(sample: Sample, addition: bytes = b"", *, children: tuple[int, list[int]] | None = None) -> Sample:
    """Return the uncompressed file with a changed footer: appended bytes, or other children of a column."""
    tail = sample.tail
    script_length = sample.content[-1]
    stripes = [(s.offset, s.data_length + s.index_length, s.footer_length, s.number_of_rows) for s in tail.stripes]
    if children:
        node = tail.types[children[0]]
        del node.subtypes[:]  # type: ignore[misc]
        node.subtypes.extend(children[1])  # type: ignore[attr-defined]
    footer = footer_bytes(tail.footer, list(tail.types), stripes) + addition
    body = sample.content[: tail.metadata_at[0] + tail.metadata_at[1]]
    script = sample.content[-1 - script_length : -1] + b"\x08" + varint(len(footer))
    return Sample(body + footer + script + bytes([len(script)]))


@pytest.mark.parametrize(
    ("column", "children"),
    [(0, [1, 2, 7]), (0, [1, 2]), (0, [2, 1, 6]), (2, [2, 4]), (4, []), (4, [5, 5]), (6, [7]), (1, [2]), (6, [7, 9])],
)
def test_broken_type_trees_are_rejected(column: int, children: list[int]) -> None:
    assert with_footer(write_sample(TABLE)).tail.top_level == {"a": 1, "s": 2, "m": 6}
    with pytest.raises(ValueError, match="type tree"):
        with_footer(write_sample(TABLE), children=(column, children)).tail  # noqa: B018


def test_earlier_versions_use_spark() -> None:
    sample = write_sample(TABLE, file_version="0.11")
    with pytest.raises(UnsafeInputError, match=r"version 0\.11"):
        sample.tail  # noqa: B018
    without_version = Sample(sample.content.replace(_VERSION_0_11, b""))
    length = without_version.content[-1] - len(_VERSION_0_11)
    with pytest.raises(UnsafeInputError, match=r"version 0\.11"):
        Sample(without_version.content[:-1] + bytes([length])).tail  # noqa: B018


def test_integers_in_an_encoding_of_an_earlier_version_are_rejected() -> None:
    sample = Sample(write_sample(TABLE, file_version="0.11").content.replace(_VERSION_0_11, b"\x22\x02\x00\x0c"))
    with pytest.raises(ValueError, match=r"column 1 has integers in an encoding of version 0\.11"):
        sample.stripe()


def test_encrypted_files_use_spark() -> None:
    with pytest.raises(UnsafeInputError, match="encrypted"):
        with_footer(write_sample(TABLE), b"\x52\x00").tail  # noqa: B018


def test_impossible_stripes_are_rejected() -> None:
    for field, message in ((b"\x30\x05", "rows"), (b"\x1a\x06\x08\x03\x18\x80\x80\x40", "beyond")):
        with pytest.raises(ValueError, match=message):
            with_footer(write_sample(TABLE), field).tail  # noqa: B018


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (StreamKind.ROW_INDEX, StreamKind.PRESENT, "data streams among its indexes"),
        (StreamKind.PRESENT, StreamKind.DATA, "two streams of one kind"),
    ],
)
def test_impossible_stripe_directories_are_rejected(before: StreamKind, after: StreamKind, message: str) -> None:
    sample = write_sample(pa.table({"a": pa.array([1, None, 3]), "b": pa.array([4, 5, 6])}))
    info = sample.stripe().info
    start = info.offset + info.index_length + info.data_length
    stop = start + info.footer_length
    column = 1 if before is StreamKind.PRESENT else 2
    footer = sample.content[start:stop].replace(bytes([8, before, 16, column]), bytes([8, after, 16, column]))
    damaged_sample = Sample(sample.content[:start] + footer + sample.content[stop:])
    assert damaged_sample.content != sample.content
    assert sample.stripe().locations
    with pytest.raises(ValueError, match=message):
        damaged_sample.stripe().locations  # noqa: B018
