"""Execution of bytecode over records, by Python or by machine code.

Python decodes a few records fastest, because machine code must be loaded first. So an executor starts in Python and
changes to machine code after a certain amount of work. Both run the same functions. fastavro is faster than Python, but
it also accepts records that Avro's Java library rejects, for example with numbers of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType

import numpy as np
import numpy.typing as npt

from pushdown_spark.formats.avro import interpreter
from pushdown_spark.formats.avro.bytecode import Bytecode
from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.avro.interpreter import (
    CODE_WIDTH,
    FRAME_WIDTH,
    MAX_DEPTH,
    RUN_WIDTH,
    SLOT_WIDTH,
    Memory,
    Status,
    interpret,
)

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_ITEMS_PER_LIST = 2
"""Expected items of a list on average. If lists have more, the records are read again with larger slots."""
_COMPILED_FROM = 1_000_000
"""Number of instructions after which machine code is loaded. Loading takes about as long as Python takes for them."""
_MESSAGES = {
    Status.PAST_END: "a value continues after the end of its block",
    Status.BAD_NUMBER: "a number is longer than its type allows",
    Status.BAD_LENGTH: "a length is negative or goes beyond the block",
    Status.BAD_BRANCH: "a union has a branch that its type does not have",
    Status.LEFT_OVER: "its records end before the block does",
}


class RecordRuns:
    """Sequences of consecutive records, in the form of the interpreter's `runs`."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.records = int(numbers[2::RUN_WIDTH].sum())

    @classmethod
    def of_blocks(cls, spans: Sequence[tuple[int, int, int]]) -> RecordRuns:
        """Return runs of whole blocks, given the start, the end and the number of records of each."""
        return cls(np.array([number for begin, end, records in spans for number in (begin, end, records, 1)], np.int64))

    @classmethod
    def of_piece(cls, start: int, stop: int, records: int, *, is_last: bool) -> RecordRuns:
        """Return a run of some records of one block."""
        return cls(np.array([start, stop, records, int(is_last)], np.int64))

    @classmethod
    def of_records(cls, starts: Numbers, stops: Numbers) -> RecordRuns:
        """Return runs of single records, which need not be read to their ends."""
        numbers = np.empty((len(starts), RUN_WIDTH), np.int64)
        numbers[:, 0], numbers[:, 1], numbers[:, 2], numbers[:, 3] = starts, stops, 1, 0
        return cls(numbers.ravel())


class DamagedRecordError(ValueError):
    """A damaged record, with its offset in the data."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


@dataclass(frozen=True)
class SlotValues:
    """The slots after a run: their values and validity flags, the offset of each record, the offset after the last one.

    `data` are the encoded records, to which the values of strings and bytes refer.
    """

    data: Bytes
    starts: Numbers
    end: int
    values: tuple[Numbers, ...]
    valid: tuple[Bytes, ...]

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self.starts)


class Executor:
    """Executes the bytecode of one writer's schema and one set of columns."""

    def __init__(self, bytecode: Bytecode) -> None:
        self.bytecode = bytecode
        self._instructions = 0
        self._items_per_list = _ITEMS_PER_LIST

    def run(self, data: Buffer, runs: RecordRuns) -> SlotValues:
        """Read some records of a buffer. Raises DamagedRecordError."""
        self._instructions += runs.records * len(self.bytecode.code) // CODE_WIDTH
        uses_machine_code = self._instructions >= _COMPILED_FROM or is_compiled()
        while True:
            capacities = [
                runs.records * (self._items_per_list if is_item else 1) for is_item in self.bytecode.is_item_slot
            ]
            status, slots = _execute(self.bytecode, data, runs, capacities, uses_machine_code=uses_machine_code)
            if status is Status.DONE:
                return slots
            if status is not Status.FULL:
                raise DamagedRecordError(_MESSAGES[status], slots.end)
            self._items_per_list *= 4


def _execute(
    bytecode: Bytecode, data: Buffer, runs: RecordRuns, capacities: Sequence[int], *, uses_machine_code: bool
) -> tuple[Status, SlotValues]:
    """Run the bytecode as machine code or in Python."""
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    size = sum(capacities) + 1
    memory = Memory(
        data=array,
        runs=runs.numbers,
        code=np.array(bytecode.code, np.int64),
        jumps=np.array(bytecode.jumps or [0], np.int64),
        table=(table := np.array(_slot_table(capacities), np.int64)),
        values=(values := np.empty(size, np.int64)),
        valid=(valid := np.empty(size, np.uint8)),
        starts=(starts := np.empty(runs.records, np.int64)),
        stack=np.zeros(FRAME_WIDTH * MAX_DEPTH, np.int64),
        cursor=(cursor := np.zeros(1, np.int64)),
    )
    status = compiled_interpreter()(memory) if uses_machine_code else _interpret(memory, data)
    spans = _slot_spans(table.tolist())
    views = tuple(values[span] for span in spans), tuple(valid[span] for span in spans)
    return Status(status), SlotValues(array, starts, int(cursor[0]), *views)


def _interpret(memory: Memory, data: Buffer) -> int:
    """Run the bytecode in Python, over lists, which Python indexes faster than arrays."""
    lists = Memory(data, *(np.asarray(array).tolist() for array in memory[1:]))
    status = interpret(lists)
    # The fields before the slot table are only read.
    for array, numbers in zip(memory[4:], lists[4:], strict=True):
        array[:] = numbers
    return status


def _slot_table(capacities: Sequence[int]) -> list[int]:
    """Return the interpreter's `table` of empty slots. Without slots it has one that is never used."""
    table: list[int] = []
    begin = 0
    for capacity in capacities:
        table += [begin, capacity, 0]
        begin += capacity
    return table or [0] * SLOT_WIDTH


def _slot_spans(table: Sequence[int]) -> list[slice]:
    """Return where the values of each slot are."""
    return [slice(begin, begin + count) for begin, count in zip(table[::SLOT_WIDTH], table[2::SLOT_WIDTH], strict=True)]


_INLINE_FUNCTIONS: tuple[Callable[..., object], ...] = (
    interpreter.read_zigzag,
    interpreter.read_word,
    interpreter.append,
    interpreter.read_value,
    interpreter.read_branch,
    interpreter.next_item,
    interpreter.read_record,
)

CompiledFunction = Callable[..., int]


@cache
def compiled_interpreter() -> CompiledFunction:
    """Return `interpreter.interpret` as machine code.

    The functions that it calls are inlined, and arrays are not reference-counted (`_nrt`): otherwise passing the arrays
    takes longer than the work of a call.
    """
    names = dict(vars(interpreter))
    names["index"] = _unsigned_index()
    for function in _INLINE_FUNCTIONS:
        names[function.__name__] = _njit()(_rebind(function, names), inline="always", _nrt=False)
    return _compile_with_cache(_rebind(interpreter.interpret, names))


@cache
def compiled_copy() -> CompiledFunction:
    """Return `interpreter.copy_bytes` as machine code."""
    return _compile_with_cache(interpreter.copy_bytes)


def is_compiled() -> bool:
    """Return whether this process has loaded the machine code."""
    return compiled_interpreter.cache_info().currsize > 0


def _compile_with_cache(function: CompiledFunction) -> CompiledFunction:
    """Compile a function, once for all processes if there is a directory for the cache."""
    try:
        return _njit()(function, cache=True, nogil=True, _nrt=False)
    except RuntimeError:
        return _njit()(function, nogil=True, _nrt=False)


def _njit() -> Callable[..., CompiledFunction]:
    # Imported here because the import takes longer than many scans.
    import numba

    njit: Callable[..., CompiledFunction] = numba.njit
    return njit


def _unsigned_index() -> CompiledFunction:
    """Return the compiled version of `index` in the interpreter."""
    import numba

    function: CompiledFunction = _njit()(lambda number: numba.uint64(number), _nrt=False)
    return function


def _rebind(function: Callable[..., object], names: dict[str, object]) -> FunctionType:
    """Return a function with other global names."""
    return FunctionType(function.__code__, names, function.__name__)
