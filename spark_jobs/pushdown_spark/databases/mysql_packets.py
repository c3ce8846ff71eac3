"""A parser of MySQL result packets with one string column, which handles many rows at a time.

PyMySQL reads each row's packet with several calls, which dominates the time of a scan. This parser works on a whole
buffer with NumPy. A packet has this layout:

    3 bytes: length of the payload | 1 byte: sequence number | payload: length of the string, string

The parser collects every position whose bytes look like the start of a packet with one string. Starting from the first
byte, each packet must end where the next candidate starts. Packets that do not fit this chain, long rows and the end of
the result are parsed one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pymysql

_READ = 1 << 20
_MIN_OUTPUT_BYTES = 1 << 20
"""Bytes of lines to collect before they are parsed. A server that uses TLS sends 16 KB at a time."""
_MAX_PAYLOAD = 0xFFFFFF
"""A payload of this length continues in the next packet."""
_NULL, _TWO_BYTES, _THREE_BYTES, _EIGHT_BYTES, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_END_SIZE = 9
"""A payload that starts like an 8-byte length and is shorter than this ends the result."""
_HEADER, _SHORT_PREFIX, _LONG_PREFIX = 4, 5, 7
"""Bytes before the length of the string, before a string of up to 250 bytes, and before one of up to 65,535 bytes."""
_LINE, _FILLER, _COMMA = ord("\n"), ord("0"), ord(",")

_Offsets = npt.NDArray[np.int64]


class RowTooLongError(Exception):
    """A row, as one string, exceeds the server's maximum packet size."""


def row_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the strings of a result as lines, about a megabyte at a time. The last line has no line break.

    Each line starts with a field to ignore: the packet header, overwritten with filler. Raises the driver's exceptions
    for errors that the server sends, and OperationalError if the stream ends early.
    """
    pending = b""
    output: list[bytes] = []
    size = 0
    ended = False
    while not ended:
        chunk = stream.read1(_READ)  # type: ignore[attr-defined]
        if not chunk:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server while it sent rows")
        data = pending + chunk if pending else chunk
        lines, position = _parse_chain(data)
        strings, position, ended = _parse_one_by_one(data, position)
        pending = data[position:]
        output += filter(None, (lines, b"\n".join(b"," + string for string in strings)))
        size += position
        if output and (ended or size >= _MIN_OUTPUT_BYTES):
            yield b"\n".join(output)
            output, size = [], 0


def _parse_chain(data: bytes) -> tuple[bytes, int]:
    """Return the chain of ordinary rows at the start of the data, as lines, and the position after it."""
    buffer = np.frombuffer(data, np.uint8)
    starts, ends, prefixes = _find_chain(buffer)
    if not len(starts):
        return b"", 0
    lines = buffer[: ends[-1]].copy()
    lines[starts] = _LINE
    for offset in range(1, _SHORT_PREFIX - 1):
        lines[starts + offset] = _FILLER
    long_starts = starts[prefixes == _LONG_PREFIX]
    for offset in range(_SHORT_PREFIX - 1, _LONG_PREFIX - 1):
        lines[long_starts + offset] = _FILLER
    lines[starts + prefixes - 1] = _COMMA
    return lines[1:].tobytes(), int(ends[-1])


def _find_chain(buffer: npt.NDArray[np.uint8]) -> tuple[_Offsets, _Offsets, _Offsets]:
    """Return the start and the end of each complete row in the chain, and the bytes before its string."""
    none = np.empty(0, np.int64)
    # A row of more than 65,535 bytes spans many reads, and searching each of them again would be slow.
    if len(buffer) < _LONG_PREFIX or buffer[2]:
        return none, none, none
    candidates = np.flatnonzero(buffer[2 : len(buffer) - _LONG_PREFIX + 3] == 0)
    sizes = buffer[candidates].astype(np.int64) + (buffer[candidates + 1].astype(np.int64) << 8)
    first = buffer[candidates + _HEADER].astype(np.int64)
    length = buffer[candidates + 5].astype(np.int64) + (buffer[candidates + 6].astype(np.int64) << 8)
    is_short = (first < _NULL) & (first == sizes - 1)
    is_long = (first == _TWO_BYTES) & (length == sizes - 3)
    is_row = (is_short | is_long) & (candidates + _HEADER + sizes <= len(buffer))
    starts, prefixes = candidates[is_row], np.where(is_short, _SHORT_PREFIX, _LONG_PREFIX)[is_row]
    ends = starts + _HEADER + sizes[is_row]
    follows = np.concatenate(([0], ends[:-1])) == starts
    count = len(starts) if follows.all() else int(np.argmin(follows))
    return starts[:count], ends[:count], prefixes[:count]


def _parse_one_by_one(data: bytes, position: int) -> tuple[list[bytes], int, bool]:
    """Return the complete rows from a position on, the position after them, and whether the result has ended."""
    strings: list[bytes] = []
    end = len(data)
    while position + _HEADER <= end:
        size = int.from_bytes(data[position : position + 3], "little")
        start = position + _HEADER
        if start + size > end:
            break
        if size == _MAX_PAYLOAD:
            payload, next_position = _join_payloads(data, position)
            if next_position is None:
                break
            strings.append(payload[9 if payload[0] == _EIGHT_BYTES else 4 :])
            position = next_position
            continue
        first = data[start]
        if first < _NULL:
            strings.append(data[start + 1 : start + size])
        elif first == _TWO_BYTES:
            strings.append(data[start + 3 : start + size])
        elif first == _THREE_BYTES:
            strings.append(data[start + 4 : start + size])
        else:
            _check_end(first, data[start : start + size])
            return strings, start + size, True
        position = start + size
    return strings, position, False


def _join_payloads(data: bytes, position: int) -> tuple[bytes, int | None]:
    """Return the payload of a row with several packets and the position after it, None if it is incomplete."""
    parts = []
    while position + _HEADER <= len(data):
        size = int.from_bytes(data[position : position + 3], "little")
        if position + _HEADER + size > len(data):
            break
        parts.append(data[position + _HEADER : position + _HEADER + size])
        position += _HEADER + size
        if size < _MAX_PAYLOAD:
            return b"".join(parts), position
    return b"", None


def _check_end(first: int, payload: bytes) -> None:
    """Raise unless the payload marks the end of the result."""
    if first == _ERROR:
        pymysql.err.raise_mysql_exception(payload)
    if first == _NULL:
        raise RowTooLongError
    if first != _EIGHT_BYTES or len(payload) >= _END_SIZE:
        raise pymysql.err.InternalError("the server sent a packet that is neither a row nor the end of the result")
