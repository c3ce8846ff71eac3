"""Walks records without lists, maps and records in unions by regular expressions: for few records the fastest way.

Python runs an instruction of `walk` in about a microsecond, and machine code must be loaded first. A regular expression
steps over all fields up to the next text or bytes, whose length it cannot use, in less time than one instruction takes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.avro.interpreter import MOST_LAST_OF_FIVE, MOST_LAST_OF_TEN, RUN, WIDTH, Op, word, zigzag

_LENGTH = 10
"""Bytes of the longest length."""


@dataclass(frozen=True)
class _Kept:
    """A value that is wanted: the slot it goes to, its group in the expression, and how it is stored."""

    slot: int
    group: int
    op: Op
    size: int


@dataclass(frozen=True)
class Stretch:
    """Fields up to a text or bytes, whose length is the expression's last group; `slot` None: nothing comes behind."""

    expression: re.Pattern[bytes]
    kept: tuple[_Kept, ...]
    group: int
    slot: int | None


@dataclass
class Found:
    """What a walk has found: values and flags of each slot, each record's offset, and the offset behind the last."""

    values: tuple[list[int], ...]
    valid: tuple[list[int], ...]
    starts: list[int]
    end: int = 0


@lru_cache(maxsize=64)
def stretches(code: tuple[int, ...]) -> tuple[Stretch, ...] | None:
    """The stretches of a program's records, or None for a program that does more than walk over single values."""
    found: list[Stretch] = []
    writer = _Writer()
    for op, slot, null, size in _instructions(code):
        if op > Op.WORD:
            return None
        writer.field(op, slot, null, size)
        if op is Op.BYTES:
            found.append(writer.done(slot))
            writer = _Writer()
    return (*found, writer.done(None))


def walk_flat(parts: Sequence[Stretch], data: Buffer, runs: Sequence[int], slots: int) -> Found | None:
    """Walk the records of some runs, as `walk` does; None where something is wrong with them, of which `walk` tells."""
    found = Found(tuple([] for _ in range(slots)), tuple([] for _ in range(slots)), [])
    for run in range(0, len(runs), RUN):
        pos, stop, records, is_whole = runs[run : run + RUN]
        for _ in range(records):
            found.starts.append(pos)
            pos = _walk_record(parts, data, pos, stop, found)
            if pos < 0:
                return None
        if is_whole and pos != stop:
            return None
        found.end = pos
    return found


def _walk_record(parts: Sequence[Stretch], data: Buffer, pos: int, stop: int, found: Found) -> int:
    """Walk one record; returns the offset behind it, below zero where it is damaged."""
    for part in parts:
        match = part.expression.match(data, pos, stop)
        if match is None:
            return -1
        for kept in part.kept:
            begin = match.start(kept.group)
            found.values[kept.slot].append(_value(kept, data, begin, stop) if begin >= 0 else 0)
            found.valid[kept.slot].append(int(begin >= 0))
        pos = match.end()
        if part.slot is not None:
            begin = match.start(part.group)
            length = _length(data, begin, pos)
            if not 0 <= length <= stop - pos:
                return -1
            if part.slot >= 0:
                found.values[part.slot].append((pos << 32) | length if begin >= 0 else 0)
                found.valid[part.slot].append(int(begin >= 0))
            pos += length
    return pos


def _value(kept: _Kept, data: Buffer, begin: int, stop: int) -> int:
    if kept.op is Op.VARINT:
        return zigzag(data, begin, stop, kept.size)[0]
    return word(data, begin, kept.size) if kept.op is Op.WORD else (begin << 32) | kept.size


def _length(data: Buffer, begin: int, end: int) -> int:
    """The length whose bytes these are, 0 for null, of which there are none (`begin` is below zero)."""
    if begin < 0:
        return 0
    if end - begin > 1:
        return zigzag(data, begin, end, _LENGTH)[0]
    byte = data[begin]
    return -1 if byte & 1 else byte >> 1


def _instructions(code: Sequence[int]) -> Iterator[tuple[Op, int, int, int]]:
    """The instructions before the last, which ends the record."""
    for place in range(0, len(code) - WIDTH, WIDTH):
        op, slot, null, size = code[place : place + 4]
        yield Op(op), slot, null, size


def _number(longest: int) -> bytes:
    """The expression of a zigzag number: of the longest only few bits are left for the last byte."""
    most = MOST_LAST_OF_TEN if longest == _LENGTH else MOST_LAST_OF_FIVE
    return rb"(?:[\x80-\xff]{0,%d}+[\x00-\x7f]|[\x80-\xff]{%d}[\x00-\x%02x])" % (longest - 2, longest - 1, most)


class _Writer:
    """Writes the expression of one stretch."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._kept: list[_Kept] = []
        self._groups = 0

    def field(self, op: Op, slot: int, null: int, size: int) -> None:
        """Append a field, in a union with null if `null` is its number there."""
        shape = b".{%d}" % size if op in (Op.FIXED, Op.WORD) else _number(_LENGTH if op is Op.BYTES else size)
        if op is Op.BYTES or slot >= 0:
            shape = b"(%s)" % shape
            self._groups += 1
        if op is not Op.BYTES and slot >= 0:
            self._kept.append(_Kept(slot, self._groups, op, size))
        if null >= 0:
            shape = rb"(?:\x%02x|\x%02x%s)" % (2 * null, 2 - 2 * null, shape)
        self._parts.append(shape)

    def done(self, slot: int | None) -> Stretch:
        """The stretch; the last field is the text or bytes that go to `slot`, unless that is None."""
        return Stretch(re.compile(b"".join(self._parts), re.DOTALL), tuple(self._kept), self._groups, slot)
