"""Byte ranges that tile a file tile its blocks, and errors name the damaged file, block and offset."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from avro_samples import CODECS, SYNC, block, encode, header, read, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pushdown_spark.errors import MissingPathError, PushdownError, UnreadableFileError
from pushdown_spark.expressions.byte_patterns.avro_encoding import zigzag
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.sources.stores.storage import LOCAL

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": ["string", "null"]}],
}
HEAD = b"Obj\x01"
ARROW = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int) -> list[dict[str, object]]:
    return [{"id": n, "text": None if n % 5 == 0 else "text " * (n % 7)} for n in range(start, start + count)]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    sizes=st.lists(st.integers(0, 40), max_size=6),
    codec=st.sampled_from(CODECS),
    data=st.data(),
)
def test_ranges_that_tile_a_file_tile_its_records(
    sizes: list[int], codec: str, data: st.DataObject, tmp_path: Path
) -> None:
    blocks, start = [], 0
    for size in sizes:
        blocks.append(rows(start, size))
        start += size
    path = write(tmp_path / "tiled.avro", SCHEMA, blocks, codec)
    end = path.stat().st_size
    cuts = sorted({0, end, *data.draw(st.lists(st.integers(0, end), max_size=5))})
    actual = [each for a, b in pairwise(cuts) for each in read(path, ARROW, start=a, end=b)[0].to_pylist()]
    assert actual == rows(0, start)


def test_a_byte_range_has_the_blocks_after_its_markers(tmp_path: Path) -> None:
    """As in Avro's DataFileReader, sync(start) finds a marker at or after start, and pastSync(end) is 16 bytes late."""
    path = write(tmp_path / "two.avro", SCHEMA, [rows(0, 3), rows(3, 4)])
    content = path.read_bytes()
    first = content.index(SYNC)
    second = content.index(SYNC, first + 1)
    for start, end, ids in [
        (0, first, []),
        (0, first + 1, [0, 1, 2]),
        (first, second, [0, 1, 2]),
        (first + 1, second, []),
        (first + 1, second + 1, [3, 4, 5, 6]),
        (second, 10**9, [3, 4, 5, 6]),
        (second + 1, 10**9, []),
    ]:
        assert read(path, ARROW, start=start, end=end)[0]["id"].to_pylist() == ids


def test_the_header_has_schema_codec_and_metadata(tmp_path: Path) -> None:
    path = tmp_path / "head.avro"
    path.write_bytes(header(SCHEMA, "snappy", **{"org.apache.spark.version": b"4.3.0"}))
    head = read_header(str(path), LOCAL)
    assert (head.codec, head.sync, head.length) == ("snappy", SYNC, path.stat().st_size)
    assert head.metadata == {"org.apache.spark.version": b"4.3.0"}
    assert '"Row"' in head.schema


def test_other_files_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "none.avro"
    for content, problem in [
        (b"", "header at byte 0"),
        (b"PAR1 and so on", "does not begin"),
        (header(SCHEMA)[:-3], "the file ends"),
        (header(SCHEMA, "lzo"), "codec 'lzo'"),
        # Avro's Java library fails at a number of more than ten bytes, even if its value is small.
        (HEAD + b"\x84" + b"\x80" * 9 + b"\x00" + header(SCHEMA)[len(HEAD) + 1 :], "longer than 64 bits"),
    ]:
        path.write_bytes(content)
        with pytest.raises(UnreadableFileError, match=problem) as error:
            read(path, ARROW)
        assert str(path) in str(error.value)
    with pytest.raises(MissingPathError, match=r"gone\.avro"):
        read(tmp_path / "gone.avro", ARROW)


@pytest.mark.parametrize("codec", CODECS)
def test_damage_names_file_block_and_offset(codec: str, tmp_path: Path) -> None:
    path = tmp_path / "damaged.avro"
    head, one = header(SCHEMA, codec), block(codec, 30, encode(SCHEMA, rows(0, 30)))
    data = encode(SCHEMA, rows(30, 30))
    second = len(head) + len(one)
    damaged_files = {
        "another marker": block(codec, 30, data)[:-1] + b"!",
        "cut short": block(codec, 30, data)[:-20],
        "fewer records than it says": block(codec, 31, data),
        "more records than it says": block(codec, 29, data),
        "a negative length": zigzag(30) + zigzag(-4) + SYNC,
        "not packed": zigzag(30) + zigzag(8) + b"\xff" * 8 + SYNC,
        "far too many records": block(codec, 10**12, data),
    }
    for what, content in damaged_files.items():
        path.write_bytes(head + one + content)
        with pytest.raises(UnreadableFileError, match=rf"block 1 at byte {second}: ") as error:
            read(path, ARROW)
        assert str(path) in str(error.value), what
        assert "\n" not in str(error.value)


def test_an_impossible_snappy_size_is_rejected_before_allocation(tmp_path: Path) -> None:
    """The size is the first integer of a block. Snappy expands three bytes to at most 64 bytes."""
    path = tmp_path / "vast.avro"
    packed_data = b"\xff\xff\xff\xff\x0f" + bytes(60)
    path.write_bytes(header(SCHEMA, "snappy") + zigzag(1) + zigzag(len(packed_data)) + packed_data + SYNC)
    with pytest.raises(UnreadableFileError, match=rf"block 0 .* 61 bytes unpack to {2**32 - 1}"):
        read(path, ARROW)


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bytes_never_crash(codec: str, tmp_path: Path, interpreter: str) -> None:
    """A flipped byte of a value has no effect, because values have no checksum. Others raise an error with the file."""
    path = write(tmp_path / "flipped.avro", SCHEMA, [rows(0, 20), rows(20, 20)], codec)
    content = path.read_bytes()
    dice = random.Random(codec)
    error_count = 0
    for _ in range(150):
        place = dice.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << dice.randrange(8))]) + content[place + 1 :])
        try:
            read(path, ARROW, are_strings_valid=False)
        except PushdownError as problem:
            error_count += str(path) in str(problem)
    assert error_count > 50


@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_truncated_files_are_rejected_unless_they_end_with_a_block(codec: str, tmp_path: Path) -> None:
    path = write(tmp_path / "cut.avro", SCHEMA, [rows(0, 6), rows(6, 6)], codec)
    content = path.read_bytes()
    whole = {content.index(SYNC) + 16, content.index(SYNC, content.index(SYNC) + 1) + 16, len(content)}
    for length in range(len(content)):
        path.write_bytes(content[:length])
        if length in whole:
            assert read(path, ARROW)[0].num_rows in (0, 6)
        else:
            with pytest.raises(UnreadableFileError, match=r"cut\.avro"):
                read(path, ARROW)
