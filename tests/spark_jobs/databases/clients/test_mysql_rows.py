"""Decoding of MySQL's row packets, for any read sizes and any content."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv as csv
import pymysql
import pytest

from pushdown_spark.databases.clients.mysql import RowTooLongError, row_lines

END = b"\x07\x00\x00\x05\xfe\x00\x00\x02\x00\x00\x00"
LARGEST = 0xFFFFFF
SIZES = (0, 1, 5, 30, 200, 246, 247, 248, 249, 250, 251, 300, 3000, 65_530, 65_540, 100_000)
LOOKING_LIKE_PACKETS = (0, 0, 1, 2, 10, 34, 44, 251, 252, 253, 254, 255)

Row = tuple[int | None, bytes | None]


class Cut(io.BytesIO):
    """A stream that returns a few bytes at a time, as a socket does."""

    def __init__(self, data: bytes, sizes: Sequence[int]) -> None:
        super().__init__(data)
        self._sizes = sizes
        self._turn = 0

    def read1(self, size: int | None = -1, /) -> bytes:
        """Return the next few bytes."""
        self._turn += 1
        return super().read1(min(size or 0, self._sizes[self._turn % len(self._sizes)]))


def packets(text: bytes, number: int) -> bytes:
    """Return a row of one string as packets, numbered from `number` on."""
    size = len(text)
    if size < 251:
        length = bytes([size])
    else:
        kind, width = (252, 2) if size < 1 << 16 else (253, 3) if size < 1 << 24 else (254, 8)
        length = bytes([kind]) + size.to_bytes(width, "little")
    payload, made = length + text, b""
    while True:
        part, payload = payload[:LARGEST], payload[LARGEST:]
        made += len(part).to_bytes(3, "little") + bytes([number % 256]) + part
        number += 1
        if len(part) < LARGEST:
            return made


def sent(rows: Sequence[Row], first: int) -> bytes:
    """Return a server's response with an integer and some bytes in each row."""
    made = []
    for place, (number, data) in enumerate(rows):
        literal = b"" if data is None else b'"' + data.replace(b'"', b'""') + b'"'
        made.append(packets((b"" if number is None else str(number).encode()) + b"," + literal, first + place))
    return b"".join(made) + END


def parse_rows(stream: io.BytesIO) -> list[Row]:
    """Return the rows as pyarrow reads the decoded lines."""
    parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
    convert = csv.ConvertOptions(
        column_types={"n": pa.int64(), "data": pa.binary()},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    rows: list[Row] = []
    for lines in row_lines(stream):
        read = csv.ReadOptions(column_names=["n", "data"], use_threads=False, block_size=len(lines))
        table = csv.read_csv(pa.BufferReader(lines), read, parse, convert)
        rows += zip(table["n"].to_pylist(), table["data"].to_pylist(), strict=True)
    return rows


def some_bytes(chance: random.Random) -> bytes | None:
    if chance.random() < 0.1:
        return None
    size = chance.choice(SIZES if chance.random() < 0.1 else SIZES[:8])
    alphabet = LOOKING_LIKE_PACKETS if chance.random() < 0.3 else b'abc ",\n'
    return bytes(chance.choices(alphabet, k=size))


@pytest.mark.parametrize("seed", range(60))
def test_decoded_rows_equal_the_sent_rows(seed: int) -> None:
    chance = random.Random(seed)
    numbers = (None, 0, -5, 123_456_789)
    rows = [(chance.choice(numbers), some_bytes(chance)) for _ in range(chance.choice((0, 1, 3, 60, 700)))]
    cuts = [chance.choice((1, 7, 100, 4096, 70_000, 1 << 20)) for _ in range(50)]
    assert parse_rows(Cut(sent(rows, chance.randrange(256)), cuts)) == rows


def test_rows_larger_than_a_packet_are_decoded_between_small_rows() -> None:
    rows: list[Row] = [(1, b"a"), (2, b"x" * LARGEST), (3, b"b"), (4, b"y" * (2 * LARGEST - 20)), (5, None)]
    assert parse_rows(Cut(sent(rows, 0), [1 << 20])) == rows


@pytest.mark.parametrize("size", [LARGEST - 5, LARGEST - 4, LARGEST, LARGEST + 1])
def test_rows_at_the_limit_of_one_packet_are_complete(size: int) -> None:
    """A row of one packet's size has a short length prefix, although its packet is followed by another."""
    rows: list[Row] = [(12345, b"x" * (size - len('12345,""'))), (2, b"b")]
    assert parse_rows(Cut(sent(rows, 0), [1 << 20])) == rows


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        (b"", pymysql.err.OperationalError),
        (b"\x40\x00\x00\x02\x09too short", pymysql.err.OperationalError),
        (b"\x01\x00\x00\x02\xfb", RowTooLongError),
        (b"\x09\x00\x00\x02\xff\x25\x05#70100", pymysql.err.Error),
        (b"\x0a\x00\x00\x02\xfe123456789", pymysql.err.InternalError),
    ],
)
def test_an_invalid_end_of_rows_raises(ending: bytes, error: type[Exception]) -> None:
    rows = sent([(1, b"a"), (2, b"b")], 0).removesuffix(END)
    with pytest.raises(error):
        list(row_lines(Cut(rows + ending, [1 << 20])))
