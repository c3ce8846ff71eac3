"""Every line of a file is complete and in exactly one split, for any sizes of splits and windows."""

from __future__ import annotations

import bz2
import gzip
import random
from pathlib import Path

import pyarrow as pa
import pytest

from pushdown_spark.errors import ChangedFilesError, MissingPathError, UnsafeInputError
from pushdown_spark.formats.text import line_reader
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.sources.stores.listing import Compression, Split


def _windows(split: Split, *, returns: bool = True) -> bytes:
    return b"".join(bytes(window.view) for window in LineReader(split, ends_at_returns=returns).windows())


def _splits(path: Path, size: int) -> list[Split]:
    end = path.stat().st_size
    return [Split(str(path), start, min(start + size, end), Compression.NONE) for start in range(0, end, size)]


def _file(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("last", [b"", b"no terminator"])
def test_splits_of_every_size_return_each_line_once(tmp_path: Path, ending: bytes, last: bytes) -> None:
    lines = [b"", b"a", b"bc" * 20, b"", b"d", "é".encode() * 9, b"x" * 50]
    content = b"".join(line + ending for line in lines) + last
    path = _file(tmp_path / "data", content)
    whole = content + (b"\n" if last else b"")
    for size in range(1, len(content) + 2):
        assert b"".join(map(_windows, _splits(path, size))) == whole, size


def test_lines_with_mixed_terminators_are_complete_for_any_split(tmp_path: Path) -> None:
    rng = random.Random(7)
    for _ in range(30):
        pieces = (rng.choice((b"\n", b"\r", b"\r\n", b"ab", b"c", b"defg")) for _ in range(30))
        content = b"".join(pieces) + b"end\n"
        path = _file(tmp_path / "data", content)
        for size in (1, 2, 3, 7, 20):
            actual = b"".join(map(_windows, _splits(path, size)))
            assert actual.replace(b"\r", b"\n").split() == content.replace(b"\r", b"\n").split(), (content, size)


def test_a_carriage_return_is_content_if_only_newlines_end_lines(tmp_path: Path) -> None:
    path = _file(tmp_path / "data", b"a\rb\nc\rd\n")
    for size in range(1, 10):
        parts = [_windows(split, returns=False) for split in _splits(path, size)]
        assert b"".join(parts) == b"a\rb\nc\rd\n"
        assert all(part.endswith(b"\n") for part in parts if part)


@pytest.mark.parametrize("window", [1, 2, 7, 64])
def test_lines_longer_than_a_window_stay_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    monkeypatch.setattr(line_reader, "WINDOW", window)
    content = b"".join(b"x" * size + b"\n" for size in (0, 1, 5, 300, 2, 70_000, 3))
    path = _file(tmp_path / "data", content)
    for size in (1000, len(content)):
        actual = [bytes(w.view) for split in _splits(path, size) for w in LineReader(split).windows()]
        assert b"".join(actual) == content
        assert all(part.endswith(b"\n") for part in actual)


def test_memory_is_bounded_by_the_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "WINDOW", 1024)
    path = _file(tmp_path / "data", b"0123456789\n" * 10_000)
    sizes = {len(w.data) for w in LineReader(_splits(path, 1 << 20)[0]).windows()}
    assert max(sizes) <= 1024 + (64 << 10)


def test_a_file_without_line_ends_uses_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_reader, "WINDOW", 64)
    monkeypatch.setattr(line_reader, "MAX_LINE", 1024)
    path = _file(tmp_path / "data", b"x" * 5000)
    with pytest.raises(UnsafeInputError, match="longer than"):
        _windows(_splits(path, 10_000)[0])


def test_a_byte_order_mark_at_the_start_is_dropped(tmp_path: Path) -> None:
    path = _file(tmp_path / "data", b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n")
    assert _windows(_splits(path, 100)[0]) == b"a\n\xef\xbb\xbfb\n"


def _zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


PACKERS = {Compression.GZIP: gzip.compress, Compression.BZIP2: bz2.compress, Compression.ZSTD: _zstd}


@pytest.mark.parametrize("compression", PACKERS)
def test_compressed_files_are_read_whole(tmp_path: Path, compression: Compression) -> None:
    content = b"".join(b"line %d\n" % n for n in range(200_000))
    compressed_bytes = PACKERS[compression](content)
    path = _file(tmp_path / f"data{compression}", compressed_bytes)
    reader = LineReader(Split(str(path), 0, len(compressed_bytes), compression))
    assert b"".join(bytes(w.view) for w in reader.windows()) == content
    assert (reader.bytes_read, reader.bytes_searched) == (len(compressed_bytes), len(content))


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.BZIP2])
def test_all_adjacent_compressed_members_are_read(tmp_path: Path, compression: Compression) -> None:
    compressed_bytes = PACKERS[compression](b"a\n") + PACKERS[compression](b"b\n")
    path = _file(tmp_path / f"data{compression}", compressed_bytes)
    assert _windows(Split(str(path), 0, len(compressed_bytes), compression)) == b"a\nb\n"


@pytest.mark.parametrize("compression", PACKERS)
def test_truncated_and_damaged_files_use_spark(tmp_path: Path, compression: Compression) -> None:
    rng = random.Random(3)
    content = b"".join(b"%d\n" % rng.getrandbits(64) for _ in range(50_000))
    compressed_bytes = PACKERS[compression](content)
    for name, damaged_content in (
        ("cut", compressed_bytes[: len(compressed_bytes) // 2]),
        ("junk", b"this is not a compressed file"),
    ):
        path = _file(tmp_path / f"{name}{compression}", damaged_content)
        with pytest.raises(UnsafeInputError, match=f"{name}.*near byte"):
            _windows(Split(str(path), 0, len(damaged_content), compression))


@pytest.mark.parametrize("after", [b"\0", b"\0" * 512, b"text"])
@pytest.mark.parametrize("compression", PACKERS)
def test_bytes_after_a_compressed_member_use_spark(tmp_path: Path, compression: Compression, after: bytes) -> None:
    member = PACKERS[compression](b"a\n")
    for compressed_bytes in (member + after, member + after + member):
        path = _file(tmp_path / f"data{compression}", compressed_bytes)
        with pytest.raises(UnsafeInputError, match="near byte"):
            _windows(Split(str(path), 0, len(compressed_bytes), compression))


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.BZIP2])
def test_a_damaged_checksum_uses_spark(tmp_path: Path, compression: Compression) -> None:
    compressed_bytes = bytearray(PACKERS[compression](b"a\n"))
    compressed_bytes[-6 if compression is Compression.GZIP else 12] ^= 1
    path = _file(tmp_path / f"data{compression}", bytes(compressed_bytes))
    with pytest.raises(UnsafeInputError, match="near byte"):
        _windows(Split(str(path), 0, len(compressed_bytes), compression))


def test_a_vanished_file_raises(tmp_path: Path) -> None:
    with pytest.raises(MissingPathError, match="gone"):
        _windows(Split(str(tmp_path / "gone"), 0, 5, Compression.NONE))


@pytest.mark.parametrize("start", [0, 6])
@pytest.mark.parametrize("content", [b"", b"line\nno terminator", b"line\nline\n"])
def test_a_file_that_ends_before_its_split_raises(tmp_path: Path, content: bytes, start: int) -> None:
    path = _file(tmp_path / "data", content)
    with pytest.raises(ChangedFilesError, match="data was longer"):
        _windows(Split(str(path), start, 20, Compression.NONE))


def test_byte_counts_of_splits_sum_to_the_file_size(tmp_path: Path) -> None:
    path = _file(tmp_path / "data", b"".join(b"line %d\n" % n for n in range(1000)))
    bytes_searched = 0
    for split in _splits(path, 777):
        reader = LineReader(split)
        for _ in reader.windows():
            pass
        bytes_searched += reader.bytes_searched
    assert bytes_searched == path.stat().st_size
