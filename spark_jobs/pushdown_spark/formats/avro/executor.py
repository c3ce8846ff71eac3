"""Runs programs over records: by Python for a few of them, compiled to machine code for many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from types import FunctionType

import numpy as np
import numpy.typing as npt

from pushdown_spark.formats.avro import interpreter
from pushdown_spark.formats.avro.bytecode import Program
from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.avro.interpreter import FRAME, MAX_DEPTH, RUN, SLOT, WIDTH, Status, walk
from pushdown_spark.formats.avro.regex_decoder import Stretch, stretches, walk_flat

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_ITEMS_EACH = 2
"""Items that lists are expected to have; where they have more, the records are walked once more."""
_COMPILED_FROM = 450_000
"""Microseconds of walking by Python from which loading the compiled function pays, which takes as long."""
_STEP = 1.4
"""Microseconds that an instruction takes by Python; all fields up to a text, in flat records, take half of that."""
_MESSAGES = {
    Status.PAST_END: "a value goes on behind the end of its block",
    Status.BAD_NUMBER: "a number is longer than its type allows",
    Status.BAD_LENGTH: "a length is negative or goes beyond the block",
    Status.BAD_BRANCH: "a union has a branch that its type does not have",
    Status.LEFT_OVER: "its records end before the block does",
}


class Runs:
    """Records to walk: for each run its first record's offset, its block's end, how many records, and whether all."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.records = int(numbers[2::RUN].sum())

    @classmethod
    def of_blocks(cls, spans: Sequence[tuple[int, int, int]]) -> Runs:
        """Whole blocks: where each begins and ends, and how many records it has."""
        return cls(np.array([number for begin, end, records in spans for number in (begin, end, records, 1)], np.int64))

    @classmethod
    def of_piece(cls, start: int, stop: int, records: int, *, is_last: bool) -> Runs:
        """Some records of one block."""
        return cls(np.array([start, stop, records, int(is_last)], np.int64))

    @classmethod
    def of_records(cls, starts: Numbers, stops: Numbers) -> Runs:
        """Single records, which need not be walked to their ends."""
        numbers = np.empty((len(starts), RUN), np.int64)
        numbers[:, 0], numbers[:, 1], numbers[:, 2], numbers[:, 3] = starts, stops, 1, 0
        return cls(numbers.ravel())


class WalkError(ValueError):
    """Records are damaged at an offset in the data."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


@dataclass(frozen=True)
class Filled:
    """What a walk left in the slots, each record's offset, the offset behind the last, and the bytes walked."""

    data: Bytes
    starts: Numbers
    end: int
    values: tuple[Numbers, ...]
    valid: tuple[Bytes, ...]

    @property
    def rows(self) -> int:
        """How many records there were."""
        return len(self.starts)


class Machine:
    """Runs one program. It changes from Python to machine code once it has had enough to do."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._flat = stretches(program.code)
        self._each = _STEP * (len(self._flat) / 2 if self._flat else len(program.code) / WIDTH)
        self._done = 0.0
        self._room = _ITEMS_EACH

    @property
    def is_flat(self) -> bool:
        """Whether expressions walk the records, which is faster than instructions."""
        return self._flat is not None

    def run(self, data: Buffer, runs: Runs) -> Filled:
        """Walk some records of one buffer. Raises WalkError where they are damaged."""
        self._done += runs.records * self._each
        is_compiled = self._done >= _COMPILED_FROM or is_loaded()
        if self._flat is not None and not is_compiled:
            filled = _matched(self.program, self._flat, data, runs)
            if filled is not None:
                return filled
        walker = _compiled if is_compiled else _interpreted
        while True:
            rooms = [runs.records * (self._room if nested else 1) for nested in self.program.slots]
            status, filled = walker(self.program, data, runs, rooms)
            if status is Status.DONE:
                return filled
            if status is not Status.FULL:
                raise WalkError(_MESSAGES[status], filled.end)
            self._room *= 4


def _matched(program: Program, flat: Sequence[Stretch], data: Buffer, runs: Runs) -> Filled | None:
    found = walk_flat(flat, data, runs.numbers.tolist(), len(program.slots))
    if found is None:
        return None
    return Filled(
        np.frombuffer(data, np.uint8),
        np.array(found.starts, np.int64),
        found.end,
        tuple(np.array(values, np.int64) for values in found.values),
        tuple(np.array(valid, np.uint8) for valid in found.valid),
    )


def _compiled(program: Program, data: Buffer, runs: Runs, rooms: Sequence[int]) -> tuple[Status, Filled]:
    table = np.array(_table(rooms), np.int64)
    size = sum(rooms) + 1
    values, valid = np.empty(size, np.int64), np.empty(size, np.uint8)
    starts, where = np.empty(runs.records, np.int64), np.zeros(1, np.int64)
    stack = np.zeros(FRAME * MAX_DEPTH, np.int64)
    array = np.frombuffer(data, np.uint8)
    array.flags.writeable = False
    code, jumps = np.array(program.code, np.int64), np.array(program.jumps or [0], np.int64)
    status = compiled_walk()(array, runs.numbers, code, jumps, table, values, valid, starts, stack, where)
    spans = _spans(table.tolist())
    views = tuple(values[span] for span in spans), tuple(valid[span] for span in spans)
    return Status(status), Filled(array, starts, int(where[0]), *views)


def _interpreted(program: Program, data: Buffer, runs: Runs, rooms: Sequence[int]) -> tuple[Status, Filled]:
    table = _table(rooms)
    size = sum(rooms) + 1
    values, valid = [0] * size, [0] * size
    starts, where, stack = [0] * runs.records, [0], [0] * (FRAME * MAX_DEPTH)
    numbers = runs.numbers.tolist()
    status = walk(data, numbers, program.code, program.jumps, table, values, valid, starts, stack, where)
    spans = _spans(table)
    filled = Filled(
        np.frombuffer(data, np.uint8),
        np.array(starts, np.int64),
        where[0],
        tuple(np.array(values[span], np.int64) for span in spans),
        tuple(np.array(valid[span], np.uint8) for span in spans),
    )
    return Status(status), filled


def _table(rooms: Sequence[int]) -> list[int]:
    """Slots one behind the other, empty; one that nobody uses where there are none."""
    found: list[int] = []
    begin = 0
    for room in rooms:
        found += [begin, room, 0]
        begin += room
    return found or [0] * SLOT


def _spans(table: Sequence[int]) -> list[slice]:
    """Where each slot's values are."""
    return [slice(begin, begin + count) for begin, count in zip(table[::SLOT], table[2::SLOT], strict=True)]


_PARTS: tuple[Callable[..., object], ...] = (
    interpreter.zigzag,
    interpreter.word,
    interpreter.put,
    interpreter.walk_value,
    interpreter.walk_branch,
    interpreter.walk_next,
    interpreter.walk_record,
)

Function = Callable[..., int]


@cache
def compiled_walk() -> Function:
    """The function `interpreter.walk`.

    Its parts are inlined, and nothing in it is counted by references (`_nrt`): else each call of a part, with all its
    arrays, takes four times as long as its work.
    """
    names = dict(vars(interpreter))
    names[interpreter.at.__name__] = _unsigned()
    for part in _PARTS:
        names[part.__name__] = _njit()(_bound(part, names), inline="always", _nrt=False)
    return _kept(_bound(interpreter.walk, names))


@cache
def compiled_copy() -> Function:
    """The function `interpreter.copy`."""
    return _kept(interpreter.copy)


def is_loaded() -> bool:
    """Whether this process has the compiled functions already."""
    return compiled_walk.cache_info().currsize > 0


def _kept(function: Function) -> Function:
    try:
        return _njit()(function, cache=True, nogil=True, _nrt=False)
    except RuntimeError:
        # There is no directory to keep it in.
        return _njit()(function, nogil=True, _nrt=False)


def _njit() -> Callable[..., Function]:
    # Loaded here: it takes longer than many a scan.
    import numba

    found: Callable[..., Function] = numba.njit
    return found


def _unsigned() -> Function:
    """The function `interpreter.at`: an index that has a sign costs a third of a walk."""
    import numba

    found: Function = _njit()(lambda number: numba.uint64(number), _nrt=False)
    return found


def _bound(function: Callable[..., object], names: dict[str, object]) -> FunctionType:
    """The function with other functions behind the names that it uses."""
    return FunctionType(function.__code__, names, function.__name__)
