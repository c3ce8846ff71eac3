"""A decoder of flat records by regular expressions: the fastest decoder for few records.

Flat records have no lists, maps or records in unions. A regular expression matches all fields up to the next string,
whose length it cannot use, in less time than Python takes for one instruction of the bytecode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.avro.interpreter import (
    CODE_WIDTH,
    MAX_FIFTH_BYTE,
    MAX_TENTH_BYTE,
    RUN_WIDTH,
    Opcode,
    read_word,
    read_zigzag,
)

_LONGEST = 10
"""Bytes of the longest length."""


@dataclass(frozen=True)
class _Capture:
    """A wanted value: its slot, its group in the expression, and its encoding."""

    slot: int
    group: int
    opcode: Opcode
    size: int


@dataclass(frozen=True)
class Segment:
    """Fields up to a string, whose length is the last group. `slot` is None in a segment that no string follows."""

    expression: re.Pattern[bytes]
    captures: tuple[_Capture, ...]
    group: int
    slot: int | None


@dataclass
class FlatRecords:
    """Decoded records: values and validity flags of each slot, the offset of each record, the offset after the last."""

    values: tuple[list[int], ...]
    valid: tuple[list[int], ...]
    starts: list[int]
    end: int = 0


@lru_cache(maxsize=64)
def compile_segments(code: tuple[int, ...]) -> tuple[Segment, ...] | None:
    """Return the segments of a record, or None for bytecode of records that are not flat."""
    segments: list[Segment] = []
    builder = _SegmentBuilder()
    for opcode, slot, null, size in _instructions(code):
        if opcode > Opcode.WORD:
            return None
        builder.add_field(opcode, slot, null, size)
        if opcode is Opcode.BYTES:
            segments.append(builder.build(slot))
            builder = _SegmentBuilder()
    return (*segments, builder.build(None))


def decode_flat(segments: Sequence[Segment], data: Buffer, runs: Sequence[int], slots: int) -> FlatRecords | None:
    """Decode the records of some runs as `interpret` does. Return None for damaged records."""
    records = FlatRecords(tuple([] for _ in range(slots)), tuple([] for _ in range(slots)), [])
    for run in range(0, len(runs), RUN_WIDTH):
        pos, stop, count, is_whole = runs[run : run + RUN_WIDTH]
        for _ in range(count):
            records.starts.append(pos)
            pos = _decode_record(segments, data, pos, stop, records)
            if pos < 0:
                return None
        if is_whole and pos != stop:
            return None
        records.end = pos
    return records


def _decode_record(segments: Sequence[Segment], data: Buffer, pos: int, stop: int, records: FlatRecords) -> int:
    """Decode one record. Return the offset after it, or a negative number if it is damaged."""
    for segment in segments:
        match = segment.expression.match(data, pos, stop)
        if match is None:
            return -1
        for capture in segment.captures:
            begin = match.start(capture.group)
            records.values[capture.slot].append(_value(capture, data, begin, stop) if begin >= 0 else 0)
            records.valid[capture.slot].append(int(begin >= 0))
        pos = match.end()
        if segment.slot is not None:
            begin = match.start(segment.group)
            length = _length(data, begin, pos)
            if not 0 <= length <= stop - pos:
                return -1
            if segment.slot >= 0:
                records.values[segment.slot].append((pos << 32) | length if begin >= 0 else 0)
                records.valid[segment.slot].append(int(begin >= 0))
            pos += length
    return pos


def _value(capture: _Capture, data: Buffer, begin: int, stop: int) -> int:
    if capture.opcode is Opcode.VARINT:
        return read_zigzag(data, begin, stop, capture.size)[0]
    if capture.opcode is Opcode.WORD:
        return read_word(data, begin, capture.size)
    return (begin << 32) | capture.size


def _length(data: Buffer, begin: int, end: int) -> int:
    """Return the length in these bytes, or 0 for null, whose group did not match (`begin` is negative)."""
    if begin < 0:
        return 0
    if end - begin > 1:
        return read_zigzag(data, begin, end, _LONGEST)[0]
    byte = data[begin]
    return -1 if byte & 1 else byte >> 1


def _instructions(code: Sequence[int]) -> Iterator[tuple[Opcode, int, int, int]]:
    """Return the instructions before the last one, which ends the record."""
    for start in range(0, len(code) - CODE_WIDTH, CODE_WIDTH):
        opcode, slot, null, size = code[start : start + 4]
        yield Opcode(opcode), slot, null, size


def _varint(longest: int) -> bytes:
    """Return the expression of a varint. The last byte of the longest varints has few bits."""
    most = MAX_TENTH_BYTE if longest == _LONGEST else MAX_FIFTH_BYTE
    return rb"(?:[\x80-\xff]{0,%d}+[\x00-\x7f]|[\x80-\xff]{%d}[\x00-\x%02x])" % (longest - 2, longest - 1, most)


class _SegmentBuilder:
    """Builds the expression of one segment."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._captures: list[_Capture] = []
        self._groups = 0

    def add_field(self, opcode: Opcode, slot: int, null: int, size: int) -> None:
        """Append a field. `null` is the index of the null branch if the field is in a union with null."""
        if opcode in (Opcode.FIXED, Opcode.WORD):
            expression = b".{%d}" % size
        else:
            expression = _varint(_LONGEST if opcode is Opcode.BYTES else size)
        if opcode is Opcode.BYTES or slot >= 0:
            expression = b"(%s)" % expression
            self._groups += 1
        if opcode is not Opcode.BYTES and slot >= 0:
            self._captures.append(_Capture(slot, self._groups, opcode, size))
        if null >= 0:
            expression = rb"(?:\x%02x|\x%02x%s)" % (2 * null, 2 - 2 * null, expression)
        self._parts.append(expression)

    def build(self, slot: int | None) -> Segment:
        """Return the segment. Its last field is the string that goes to `slot`, unless `slot` is None."""
        return Segment(re.compile(b"".join(self._parts), re.DOTALL), tuple(self._captures), self._groups, slot)
