"""A parser of MySQL result packets with one string column.

PyMySQL reads each row's packet with several calls and has no public method that reads many: a scan of two columns would
take four times as long. A packet has this layout:

    3 bytes: length of the payload | 1 byte: sequence number | payload: length of the string, string
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import pymysql

_READ = 1 << 20
_MIN_OUTPUT_BYTES = 1 << 20
"""Bytes of lines to collect before they are parsed. A server that uses TLS sends 16 KB at a time."""
_MAX_PAYLOAD = 0xFFFFFF
"""A payload of this length continues in the next packet."""
_HEADER = 4
_NULL, _TWO_BYTES, _THREE_BYTES, _EIGHT_BYTES, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_PREFIXES = {_TWO_BYTES: 3, _THREE_BYTES: 4, _EIGHT_BYTES: 9}
"""Bytes before the string by the first byte of the payload. Strings of up to 250 bytes have one byte before them."""
_END_SIZE = 9
"""A payload that starts like an 8-byte length and is shorter than this ends the result."""


class RowTooLongError(Exception):
    """A row, as one string, exceeds the server's maximum packet size."""


def row_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the strings of a result as lines, about a megabyte at a time. The last line has no line break.

    Raises the driver's exceptions for errors that the server sends, and OperationalError if the stream ends early.
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
        strings, position, ended = _parse(data)
        pending = data[position:]
        output += strings
        size += position
        if output and (ended or size >= _MIN_OUTPUT_BYTES):
            yield b"\n".join(output)
            output, size = [], 0


def _parse(data: bytes) -> tuple[list[bytes], int, bool]:
    """Return the strings of the complete rows, the position after them, and whether the result has ended."""
    strings: list[bytes] = []
    position, end = 0, len(data)
    while position + _HEADER <= end:
        size = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        start = position + _HEADER
        if start + size > end:
            break
        if size == _MAX_PAYLOAD:
            payload, next_position = _join_payloads(data, position)
            if next_position is None:
                break
            strings.append(payload[_PREFIXES[payload[0]] :])
            position = next_position
            continue
        first = data[start]
        position = start + size
        if first < _NULL:
            strings.append(data[start + 1 : position])
        elif first in (_TWO_BYTES, _THREE_BYTES):
            strings.append(data[start + _PREFIXES[first] : position])
        else:
            _check_end(first, data[start:position])
            return strings, position, True
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
