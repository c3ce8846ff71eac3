"""Take the rows of a one-column answer out of MySQL's packets, many at a time.

PyMySQL reads a packet for each row by several calls, 4 microseconds of processor time. What the socket has is looked
through at once instead: wherever bytes look like the beginning of a packet with one text, its length must lead to the
next such place, from the first byte on. Rows that this does not find, long ones and the end, are taken one by one.
Packets as in the protocol's documentation: three bytes of length, a number, the payload, here one text behind its own
length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pymysql

_READ = 1 << 20
_ENOUGH = 1 << 20
"""Bytes of lines that are worth to be parsed: a server over TLS sends 16 thousand at a time."""
_LARGEST = 0xFFFFFF
"""A payload of this length goes on in the next packet."""
_NULL, _TWO_BYTES, _THREE_BYTES, _EIGHT_BYTES, _ERROR = 0xFB, 0xFC, 0xFD, 0xFE, 0xFF
_END_SIZE = 9
"""A payload that begins like a text of great length and is shorter than this ends the answer."""
_BEFORE_LENGTH, _BEFORE_SHORT, _BEFORE_LONG = 4, 5, 7
"""Bytes of a packet before the length of its text, and before texts of less than 251 bytes and less than 65,536."""
_LINE, _FILLER, _COMMA = ord("\n"), ord("0"), ord(",")

_Places = npt.NDArray[np.int64]


class TooLongRowError(Exception):
    """The server had no room for a row as one text."""


def row_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The texts of an answer's rows as lines, a megabyte at a time; the last has no end.

    Each line begins with a field that means nothing: what stood before the text in its packet, made harmless. Raises
    the driver's own exceptions for errors that the server sends, and OperationalError where the stream ends.
    """
    pending = b""
    found: list[bytes] = []
    size = 0
    ended = False
    while not ended:
        chunk = stream.read1(_READ)  # type: ignore[attr-defined]
        if not chunk:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server while it sent rows")
        data = pending + chunk if pending else chunk
        lines, place = _lines(data)
        texts, place, ended = _texts(data, place)
        pending = data[place:]
        found += filter(None, (lines, b"\n".join(b"," + text for text in texts)))
        size += place
        if found and (ended or size >= _ENOUGH):
            yield b"\n".join(found)
            found, size = [], 0


def _lines(data: bytes) -> tuple[bytes, int]:
    """The rows at the beginning of some bytes that look like ordinary ones, as lines, and where the rest begins."""
    buffer = np.frombuffer(data, np.uint8)
    starts, ends, before = _rows(buffer)
    if not len(starts):
        return b"", 0
    lines = buffer[: ends[-1]].copy()
    lines[starts] = _LINE
    for place in range(1, _BEFORE_SHORT - 1):
        lines[starts + place] = _FILLER
    longer = starts[before == _BEFORE_LONG]
    for place in range(_BEFORE_SHORT - 1, _BEFORE_LONG - 1):
        lines[longer + place] = _FILLER
    lines[starts + before - 1] = _COMMA
    return lines[1:].tobytes(), int(ends[-1])


def _rows(buffer: npt.NDArray[np.uint8]) -> tuple[_Places, _Places, _Places]:
    """The whole ordinary rows from the first byte on: where each starts and ends, and the bytes before its text."""
    none = np.empty(0, np.int64)
    # A row of more than 65,535 bytes comes in many reads, each of which would be looked through again.
    if len(buffer) < _BEFORE_LONG or buffer[2]:
        return none, none, none
    likely = np.flatnonzero(buffer[2 : len(buffer) - _BEFORE_LONG + 3] == 0)
    sizes = buffer[likely].astype(np.int64) + (buffer[likely + 1].astype(np.int64) << 8)
    first = buffer[likely + _BEFORE_LENGTH].astype(np.int64)
    length = buffer[likely + 5].astype(np.int64) + (buffer[likely + 6].astype(np.int64) << 8)
    is_short = (first < _NULL) & (first == sizes - 1)
    is_long = (first == _TWO_BYTES) & (length == sizes - 3)
    is_row = (is_short | is_long) & (likely + _BEFORE_LENGTH + sizes <= len(buffer))
    starts, before = likely[is_row], np.where(is_short, _BEFORE_SHORT, _BEFORE_LONG)[is_row]
    ends = starts + _BEFORE_LENGTH + sizes[is_row]
    follows = np.concatenate(([0], ends[:-1])) == starts
    number = len(starts) if follows.all() else int(np.argmin(follows))
    return starts[:number], ends[:number], before[:number]


def _texts(data: bytes, place: int) -> tuple[list[bytes], int, bool]:
    """The whole rows in some bytes from a place on, where the rest begins, and whether the answer has ended."""
    texts: list[bytes] = []
    end = len(data)
    while place + _BEFORE_LENGTH <= end:
        size = int.from_bytes(data[place : place + 3], "little")
        start = place + _BEFORE_LENGTH
        if start + size > end:
            break
        if size == _LARGEST:
            payload, behind = _joined(data, place)
            if behind is None:
                break
            texts.append(payload[9:])
            place = behind
            continue
        first = data[start]
        if first < _NULL:
            texts.append(data[start + 1 : start + size])
        elif first == _TWO_BYTES:
            texts.append(data[start + 3 : start + size])
        elif first == _THREE_BYTES:
            texts.append(data[start + 4 : start + size])
        else:
            _check(first, data[start : start + size])
            return texts, start + size, True
        place = start + size
    return texts, place, False


def _joined(data: bytes, place: int) -> tuple[bytes, int | None]:
    """The payload of a row that has more than one packet, and where it ends; None where not all of it is there."""
    parts = []
    while place + _BEFORE_LENGTH <= len(data):
        size = int.from_bytes(data[place : place + 3], "little")
        if place + _BEFORE_LENGTH + size > len(data):
            break
        parts.append(data[place + _BEFORE_LENGTH : place + _BEFORE_LENGTH + size])
        place += _BEFORE_LENGTH + size
        if size < _LARGEST:
            return b"".join(parts), place
    return b"", None


def _check(first: int, payload: bytes) -> None:
    """Raises unless the payload is the end of the answer."""
    if first == _ERROR:
        pymysql.err.raise_mysql_exception(payload)
    if first == _NULL:
        raise TooLongRowError
    if first != _EIGHT_BYTES or len(payload) >= _END_SIZE:
        raise pymysql.err.InternalError("the server sent a packet that is neither row nor end")
