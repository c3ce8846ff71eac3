"""Walks encoded Avro records by a program: wanted values go into slots, the rest is stepped over.

Records have no lengths, so that even a value that nobody wants must be walked through. The functions here do it over
plain integers and flat sequences only: as they stand Python runs them over lists, and `machine` compiles the same
functions to machine code where there are more records than loading that costs. Offsets below zero are errors: a
Status with its sign changed.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from enum import IntEnum

WIDTH = 6
"""Numbers of an instruction: the operation and five arguments."""
RUN = 4
"""Numbers of a run: offset of its first record, where its block ends, records, whether those are all."""
MAX_DEPTH = 64
"""Arrays and maps that may lie within each other."""
FRAME = 2
"""Numbers that an array or map that is being walked has on the stack: items left in its chunk, items in all."""


class Op(IntEnum):
    """Instructions. A `slot` of -1 walks over the value; `null` is the union's number for null, -1 for no union."""

    END = 0
    """The record is complete."""
    VARINT = 1
    """slot, null, longest: a zigzag number of at most so many bytes."""
    BYTES = 2
    """slot, null: length and bytes; keeps where they lie."""
    FIXED = 3
    """slot, null, size: keeps where it lies."""
    WORD = 4
    """slot, null, size: 1, 4 or 8 bytes, little-endian, signed."""
    JUMP = 5
    """target."""
    PAD = 6
    """slot: a place-holder beneath a null."""
    ITEMS = 7
    """Begins an array or a map; NEXT follows."""
    UNION = 8
    """slot, branches, first: keeps the branch's number and goes to jumps[first + number]."""
    NEXT = 9
    """slot, behind, least: the next item, or goes to `behind`; `least` bytes is what an item takes at least."""


class Status(IntEnum):
    """How a walk ended."""

    DONE = 0
    FULL = 1
    """A slot has no room; give it more and walk again."""
    PAST_END = 2
    BAD_NUMBER = 3
    BAD_LENGTH = 4
    BAD_BRANCH = 5
    LEFT_OVER = 6


# What `walk` compares with: machine code has no enums that are numbers.
_END, _VARINT, _BYTES, _FIXED, _WORD = Op.END.value, Op.VARINT.value, Op.BYTES.value, Op.FIXED.value, Op.WORD.value
_JUMP, _PAD, _ITEMS, _UNION = Op.JUMP.value, Op.PAD.value, Op.ITEMS.value, Op.UNION.value
_FULL, _PAST_END, _BAD_NUMBER = -Status.FULL.value, -Status.PAST_END.value, -Status.BAD_NUMBER.value
_BAD_LENGTH, _BAD_BRANCH, _LEFT_OVER = -Status.BAD_LENGTH.value, -Status.BAD_BRANCH.value, Status.LEFT_OVER.value
_FIVE, _LONGEST = 5, 10
MOST_LAST_OF_FIVE, MOST_LAST_OF_TEN = 0x0F, 0x01
"""The fifth byte of a number of 32 bits has four of them, the tenth of 64 bits one: what has more is damaged."""
_MANY = 0xFFFFFF
"""Items without any bytes that an array may have."""


SLOT = 3
"""Numbers of a slot in the table: where its values begin, for how many there is room, how many there are."""


def at(number: int) -> int:
    """A place in a sequence. Machine code has it without a sign, and spares asking whether it counts from the end."""
    return number


def walk(
    data: Sequence[int],
    runs: Sequence[int],
    code: Sequence[int],
    jumps: Sequence[int],
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
    starts: MutableSequence[int],
    stack: MutableSequence[int],
    where: MutableSequence[int],
) -> int:
    """Walk the records of some runs; returns a Status.

    Each slot's values and flags (0 for nulls and place-holders) are appended where `table` says; of bytes that is
    offset << 32 | length. `starts` takes the offset of each record, `where` the one that was reached: behind the last
    record, or the beginning of one that is damaged.
    """
    record = 0
    for run in range(0, len(runs), RUN):
        pos = runs[run]
        stop = runs[run + 1]
        for _ in range(runs[run + 2]):
            where[0] = pos
            starts[at(record)] = pos
            record += 1
            pos = walk_record(data, pos, stop, code, jumps, table, values, valid, stack)
            if pos < 0:
                return -pos
        where[0] = pos
        if runs[run + 3] > 0 and pos != stop:
            return _LEFT_OVER
    return 0


def walk_record(
    data: Sequence[int],
    pos: int,
    stop: int,
    code: Sequence[int],
    jumps: Sequence[int],
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
    stack: MutableSequence[int],
) -> int:
    """Walk one record; returns the offset behind it."""
    pc = 0
    depth = 0
    while pos >= 0:
        op = code[at(pc)]
        slot = code[at(pc + 1)]
        if op == _END:
            break
        if op <= _WORD:
            pos = walk_value(data, pos, stop, op, slot, code[at(pc + 2)], code[at(pc + 3)], table, values, valid)
            pc += WIDTH
        elif op == _JUMP:
            pc = slot
        elif op == _PAD:
            pos = put(table, values, valid, slot, 0, 0, pos)
            pc += WIDTH
        elif op == _ITEMS:
            stack[FRAME * depth] = 0
            stack[FRAME * depth + 1] = 0
            depth += 1
            pc += WIDTH
        elif op == _UNION:
            branch, pos = walk_branch(data, pos, stop, slot, code[at(pc + 2)], table, values, valid)
            if pos >= 0:
                pc = jumps[code[at(pc + 3)] + branch]
        else:
            top = FRAME * (depth - 1)
            more, pos = walk_next(data, pos, stop, slot, code[at(pc + 3)], table, values, valid, stack, top)
            pc = pc + WIDTH if more else code[at(pc + 2)]
            depth -= 1 - more
    return pos


def walk_value(
    data: Sequence[int],
    pos: int,
    stop: int,
    op: int,
    slot: int,
    null: int,
    size: int,
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
) -> int:
    """Walk a value that has no parts, and keep it where it has a slot; returns the offset behind it."""
    if null >= 0:
        if pos >= stop:
            return _PAST_END
        branch = data[at(pos)]
        pos += 1
        if branch == 2 * null:
            return put(table, values, valid, slot, 0, 0, pos)
        if branch != 2 - 2 * null:
            return _BAD_BRANCH
    if op >= _FIXED:
        if size > stop - pos:
            return _PAST_END
        place = word(data, pos, size) if op == _WORD and slot >= 0 else (pos << 32) | size
        return put(table, values, valid, slot, place, 1, pos + size)
    number, pos = zigzag(data, pos, stop, size)
    if pos < 0:
        return pos
    if op == _BYTES:
        if number < 0 or number > stop - pos:
            return _BAD_LENGTH
        return put(table, values, valid, slot, (pos << 32) | number, 1, pos + number)
    return put(table, values, valid, slot, number, 1, pos)


def put(
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
    slot: int,
    value: int,
    is_valid: int,
    pos: int,
) -> int:
    """Append a value to a slot, if it has one; returns `pos`."""
    if slot < 0 or pos < 0:
        return pos
    count = table[at(SLOT * slot + 2)]
    if count >= table[at(SLOT * slot + 1)]:
        return _FULL
    place = table[at(SLOT * slot)] + count
    values[at(place)] = value
    valid[at(place)] = is_valid
    table[at(SLOT * slot + 2)] = count + 1
    return pos


def zigzag(data: Sequence[int], pos: int, stop: int, longest: int) -> tuple[int, int]:
    """The number of at most 5 bytes (32 bits) or 10 (64 bits) at an offset, and the offset behind it."""
    if pos >= stop:
        return 0, _PAST_END
    byte = data[at(pos)] + 0
    pos += 1
    number = byte & 127
    turn = 1
    while byte >= 128:
        if turn == longest:
            return 0, _BAD_NUMBER
        if pos >= stop:
            return 0, _PAST_END
        byte = data[at(pos)] + 0
        pos += 1
        number |= (byte & 127) << (7 * turn)
        turn += 1
    if turn == longest and byte > (MOST_LAST_OF_FIVE if longest == _FIVE else MOST_LAST_OF_TEN):
        return 0, _BAD_NUMBER
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), pos


def word(data: Sequence[int], pos: int, size: int) -> int:
    """A little-endian number; of more than one byte, its last byte has the sign."""
    number = data[at(pos + size - 1)] + 0
    if size > 1 and number > 127:
        number -= 256
    for place in range(pos + size - 2, pos - 1, -1):
        number = (number << 8) | data[at(place)]
    return number


def walk_branch(
    data: Sequence[int],
    pos: int,
    stop: int,
    slot: int,
    branches: int,
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
) -> tuple[int, int]:
    """The branch of a union, and the offset behind its number."""
    branch, pos = zigzag(data, pos, stop, _LONGEST)
    if pos >= 0 and (branch < 0 or branch >= branches):
        return 0, _BAD_BRANCH
    return branch, put(table, values, valid, slot, branch, 1, pos)


def walk_next(
    data: Sequence[int],
    pos: int,
    stop: int,
    slot: int,
    least: int,
    table: MutableSequence[int],
    values: MutableSequence[int],
    valid: MutableSequence[int],
    stack: MutableSequence[int],
    top: int,
) -> tuple[int, int]:
    """Whether (1 or 0) another item of an array or map follows, and the offset where it does."""
    if stack[top] > 0:
        stack[top] -= 1
        return 1, pos
    items, pos = zigzag(data, pos, stop, _LONGEST)
    if items < 0:
        # Chunks with a negative number of items also tell their length in bytes.
        length, pos = zigzag(data, pos, stop, _LONGEST)
        items = -items
        if pos >= 0 and (length < 0 or length > stop - pos):
            return 0, _BAD_LENGTH
    if items == 0 or pos < 0:
        return 0, put(table, values, valid, slot, stack[top + 1], 1, pos)
    stack[top + 1] += items
    most = _MANY if least == 0 else (stop - pos) // least
    if items < 0 or items > most or (least == 0 and stack[top + 1] > most):
        return 0, _BAD_LENGTH
    stack[top] = items - 1
    return 1, pos


def copy(data: Sequence[int], places: Sequence[int], out: MutableSequence[int]) -> int:
    """Copy the bytes at each place (offset << 32 | length); returns how many there are."""
    end = 0
    for place in places:
        start = place >> 32
        for byte in range(start, start + (place & 0xFFFFFFFF)):
            out[end] = data[byte]
            end += 1
    return end
