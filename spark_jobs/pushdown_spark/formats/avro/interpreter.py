"""The interpreter of the bytecode that reads encoded Avro records."""

from __future__ import annotations

from enum import IntEnum
from operator import index
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pushdown_spark.formats.avro.container_file import Buffer

    Integers = list[int] | npt.NDArray[np.integer]

# Avro records have no lengths: to reach a field, a reader must step over every field before it. The bytecode lists
# these steps for one writer's schema and one set of requested columns. Its data structures are flat sequences of
# integers (see Memory).
#
# Python runs these functions over lists, for few records. The executor compiles the same functions to machine code, for
# many. Therefore they use only integers and sequences. A function that returns an offset returns a negative Status for
# an error.
# `index` does nothing in Python. The executor replaces it with a conversion to an unsigned number, to avoid checks for
# negative indexes. `data[...] + 0` does nothing in Python either. In machine code, it widens a byte to 64 bits.

CODE_WIDTH = 6
RUN_WIDTH = 4
SLOT_WIDTH = 3
FRAME_WIDTH = 2
MAX_DEPTH = 64
"""Maximum levels of nested arrays and maps."""


class Memory(NamedTuple):
    """What the interpreter reads and writes in one call. Machine code needs arrays, Python is faster over lists."""

    data: Buffer | Integers
    """The encoded records of one or more blocks, as bytes."""
    runs: Integers
    """RUN_WIDTH numbers for each run, which is a sequence of consecutive records: the offset of its first record, the
    end of its block, the number of records, and 1 if the run ends where the block must end."""
    code: Integers
    """CODE_WIDTH numbers for each instruction: the opcode and up to five arguments. See Opcode."""
    jumps: Integers
    """The targets of UNION instructions: one index into `code` for each branch."""
    table: Integers
    """SLOT_WIDTH numbers for each slot: where its part of `values` begins, its capacity, and its current length."""
    values: Integers
    """The numbers in all slots. Strings and bytes are stored as offset << 32 | length. They are not copied here."""
    valid: Integers
    """One flag for each element of `values`: 0 for nulls and for placeholders below a null."""
    starts: Integers
    """The offset of each record."""
    stack: Integers
    """FRAME_WIDTH numbers for each open array or map: the items left in its chunk, and its items so far. Avro stores
    items in chunks, each with its number of items. An empty chunk is the last one."""
    cursor: Integers
    """One number: the offset after the last record, or the start of the record that is damaged."""


class Opcode(IntEnum):
    """Instructions and their arguments.

    With a `slot` of -1, the value is stepped over. `null` is the index of a union's null branch, -1 outside of unions.
    """

    END = 0
    """The record is complete."""
    VARINT = 1
    """slot, null, longest: a zigzag number of at most `longest` bytes."""
    BYTES = 2
    """slot, null: a length and bytes. Stores their offset and length."""
    FIXED = 3
    """slot, null, size: bytes of a fixed size. Stores their offset and length."""
    WORD = 4
    """slot, null, size: 1, 4 or 8 bytes, little-endian, signed."""
    JUMP = 5
    """target: continue there."""
    PAD = 6
    """slot: append a placeholder."""
    ITEMS = 7
    """Begin an array or a map. NEXT follows."""
    UNION = 8
    """slot, branches, first: store the index of the branch and continue at jumps[first + index]."""
    NEXT = 9
    """slot, end, minimum: read the next item, or store the number of items and continue at `end`. `minimum` is the
    smallest size of an item in bytes."""


class Status(IntEnum):
    """How a call of `interpret` ended."""

    DONE = 0
    FULL = 1
    """A slot is full. Call again with a larger capacity."""
    PAST_END = 2
    """A value continues after the end of its block."""
    BAD_NUMBER = 3
    BAD_LENGTH = 4
    BAD_BRANCH = 5
    LEFT_OVER = 6
    """The block continues after its last record."""


# Plain integers, because compiled functions do not support enumerations of integers.
_END, _BYTES, _FIXED, _WORD = Opcode.END.value, Opcode.BYTES.value, Opcode.FIXED.value, Opcode.WORD.value
_JUMP, _PAD, _ITEMS, _UNION = Opcode.JUMP.value, Opcode.PAD.value, Opcode.ITEMS.value, Opcode.UNION.value
_FULL, _PAST_END, _BAD_NUMBER = -Status.FULL.value, -Status.PAST_END.value, -Status.BAD_NUMBER.value
_BAD_LENGTH, _BAD_BRANCH = -Status.BAD_LENGTH.value, -Status.BAD_BRANCH.value
_LEFT_OVER = Status.LEFT_OVER.value
_MAX_INT_SIZE, _MAX_LONG_SIZE = 5, 10
MAX_FIFTH_BYTE, MAX_TENTH_BYTE = 0x0F, 0x01
"""The last byte of the longest varints: the fifth byte of an int has four bits, the tenth byte of a long has one."""
_MAX_EMPTY_ITEMS = 0xFFFFFF
"""Maximum items of an array whose items have no bytes."""


def interpret(memory: Memory) -> int:
    """Read the records of all runs into the slots. Return a Status."""
    runs = memory.runs
    record = 0
    for run in range(0, len(runs), RUN_WIDTH):
        pos = runs[run]
        stop = runs[run + 1]
        for _ in range(runs[run + 2]):
            memory.cursor[0] = pos
            memory.starts[index(record)] = pos
            record += 1
            pos = read_record(memory, pos, stop)
            if pos < 0:
                return -pos
        memory.cursor[0] = pos
        if runs[run + 3] > 0 and pos != stop:
            return _LEFT_OVER
    return 0


def read_record(memory: Memory, pos: int, stop: int) -> int:
    """Read one record from `pos` to `stop` at most. Return the offset after it."""
    code, stack = memory.code, memory.stack
    pc = 0
    depth = 0
    while pos >= 0:
        op = code[index(pc)]
        slot = code[index(pc + 1)]
        if op == _END:
            break
        if op <= _WORD:
            pos = read_value(memory, pos, stop, op, slot, pc)
            pc += CODE_WIDTH
        elif op == _JUMP:
            pc = slot
        elif op == _PAD:
            pos = append(memory, slot, 0, 0, pos)
            pc += CODE_WIDTH
        elif op == _ITEMS:
            stack[FRAME_WIDTH * depth] = 0
            stack[FRAME_WIDTH * depth + 1] = 0
            depth += 1
            pc += CODE_WIDTH
        elif op == _UNION:
            branch, pos = read_branch(memory, pos, stop, pc)
            if pos >= 0:
                pc = memory.jumps[code[index(pc + 3)] + branch]
        else:
            more, pos = next_item(memory, pos, stop, pc, FRAME_WIDTH * (depth - 1))
            pc = pc + CODE_WIDTH if more else code[index(pc + 2)]
            depth -= 1 - more
    return pos


def read_value(memory: Memory, pos: int, stop: int, op: int, slot: int, pc: int) -> int:  # noqa: PLR0917 - compiled
    """Read a value without parts, and append it to its slot if it has one. Return the offset after it."""
    data, code = memory.data, memory.code
    null, size = code[index(pc + 2)], code[index(pc + 3)]
    if null >= 0:
        if pos >= stop:
            return _PAST_END
        # The indexes of the two branches, 0 and 1, are stored as zigzag numbers of one byte, 0 and 2.
        branch = data[index(pos)]
        pos += 1
        if branch == 2 * null:
            return append(memory, slot, 0, 0, pos)
        if branch != 2 - 2 * null:
            return _BAD_BRANCH
    if op >= _FIXED:
        if size > stop - pos:
            return _PAST_END
        value = read_word(data, pos, size) if op == _WORD and slot >= 0 else (pos << 32) | size
        return append(memory, slot, value, 1, pos + size)
    number, pos = read_zigzag(data, pos, stop, size)
    if pos < 0:
        return pos
    if op == _BYTES:
        if number < 0 or number > stop - pos:
            return _BAD_LENGTH
        return append(memory, slot, (pos << 32) | number, 1, pos + number)
    return append(memory, slot, number, 1, pos)


def append(memory: Memory, slot: int, value: int, is_valid: int, pos: int) -> int:
    """Append a value to a slot, unless the slot is -1. Return `pos`."""
    if slot < 0 or pos < 0:
        return pos
    table = memory.table
    count = table[index(SLOT_WIDTH * slot + 2)]
    if count >= table[index(SLOT_WIDTH * slot + 1)]:
        return _FULL
    element = table[index(SLOT_WIDTH * slot)] + count
    memory.values[index(element)] = value
    memory.valid[index(element)] = is_valid
    table[index(SLOT_WIDTH * slot + 2)] = count + 1
    return pos


def read_zigzag(data: Buffer | Integers, pos: int, stop: int, max_size: int) -> tuple[int, int]:
    """Read a number of at most 5 bytes (32 bits) or 10 bytes (64 bits). Return it and the offset after it."""
    if pos >= stop:
        return 0, _PAST_END
    byte = data[index(pos)] + 0
    pos += 1
    number = byte & 127
    count = 1
    while byte >= 128:
        if count == max_size:
            return 0, _BAD_NUMBER
        if pos >= stop:
            return 0, _PAST_END
        byte = data[index(pos)] + 0
        pos += 1
        number |= (byte & 127) << (7 * count)
        count += 1
    if count == max_size and byte > (MAX_FIFTH_BYTE if max_size == _MAX_INT_SIZE else MAX_TENTH_BYTE):
        return 0, _BAD_NUMBER
    return ((number >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(number & 1), pos


def read_word(data: Buffer | Integers, pos: int, size: int) -> int:
    """Read a little-endian number. A number of more than one byte is signed."""
    number = data[index(pos + size - 1)] + 0
    if size > 1 and number > 127:
        number -= 256
    for offset in range(pos + size - 2, pos - 1, -1):
        number = (number << 8) | data[index(offset)]
    return number


def read_branch(memory: Memory, pos: int, stop: int, pc: int) -> tuple[int, int]:
    """Read the index of a union's branch. Return it and the offset after it."""
    slot, branches = memory.code[index(pc + 1)], memory.code[index(pc + 2)]
    branch, pos = read_zigzag(memory.data, pos, stop, _MAX_LONG_SIZE)
    if pos >= 0 and (branch < 0 or branch >= branches):
        return 0, _BAD_BRANCH
    return branch, append(memory, slot, branch, 1, pos)


def next_item(memory: Memory, pos: int, stop: int, pc: int, top: int) -> tuple[int, int]:
    """Go to the next item of an array or map. Return whether there is one (1 or 0), and the offset.

    `top` is the index of the last frame of the stack.
    """
    data, stack = memory.data, memory.stack
    slot, minimum = memory.code[index(pc + 1)], memory.code[index(pc + 3)]
    if stack[top] > 0:
        stack[top] -= 1
        return 1, pos
    items, pos = read_zigzag(data, pos, stop, _MAX_LONG_SIZE)
    if items < 0:
        # A chunk with a negative number of items also has its length in bytes.
        length, pos = read_zigzag(data, pos, stop, _MAX_LONG_SIZE)
        items = -items
        if pos >= 0 and (length < 0 or length > stop - pos):
            return 0, _BAD_LENGTH
    if items == 0 or pos < 0:
        return 0, append(memory, slot, stack[top + 1], 1, pos)
    stack[top + 1] += items
    max_items = _MAX_EMPTY_ITEMS if minimum == 0 else (stop - pos) // minimum
    if items < 0 or items > max_items or (minimum == 0 and stack[top + 1] > max_items):
        return 0, _BAD_LENGTH
    stack[top] = items - 1
    return 1, pos


def copy_bytes(data: Buffer | Integers, references: Integers, out: Integers) -> int:
    """Copy the bytes at each reference (offset << 32 | length) to `out`. Return the number of bytes."""
    end = 0
    for reference in references:
        start = reference >> 32
        for offset in range(start, start + (reference & 0xFFFFFFFF)):
            out[end] = data[offset]
            end += 1
    return end
