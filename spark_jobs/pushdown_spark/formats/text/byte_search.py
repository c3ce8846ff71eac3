"""Byte search with Hyperscan, on the driver and in Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import hyperscan

from pushdown_spark.expressions.byte_patterns.text import BytePattern

_FLAGS = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_MULTILINE

_State = tuple[BytePattern, tuple[bytes | None, ...]]


class Searcher:
    """A compiled byte pattern. The driver compiles it, and pickling includes the compiled automata.

    The automaton of an empty list of expressions is None and matches nothing.
    """

    def __init__(self, pattern: BytePattern) -> None:
        self.pattern = pattern
        self._automata = tuple(map(_compiled, _parts(pattern)))

    def __getstate__(self) -> _State:
        return self.pattern, tuple(None if a is None else hyperscan.dumpb(a) for a in self._automata)

    def __setstate__(self, state: _State) -> None:
        self.pattern, dumped = state
        try:
            self._automata = tuple(map(_loaded, dumped))
        except hyperscan.HyperscanError:
            # The driver has another kind of processor.
            self._automata = tuple(map(_compiled, _parts(self.pattern)))

    def hits(self, data: bytearray, length: int) -> list[int]:
        """Return the end offsets of matches in the first `length` bytes of `data`, ascending."""
        always, on_backslash, on_non_ascii = self._automata
        window = memoryview(data)[:length]
        found: list[int] = []
        _scan(always, window, found)
        extra: list[int] = []
        if on_backslash is not None and data.find(b"\\", 0, length) >= 0:
            _scan(on_backslash, window, extra)
        # Bytes after the window belong to an earlier window. Including them may cost a search, but never a line.
        if on_non_ascii is not None and not data.isascii():
            _scan(on_non_ascii, window, extra)
        window.release()
        return sorted(found + extra) if extra else found


def _scan(automaton: hyperscan.Database | None, window: memoryview, found: list[int]) -> None:
    if automaton is not None:
        append = found.append

        def matched(_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append(end)

        automaton.scan(window, match_event_handler=matched)  # type: ignore[type-var]  # any buffer will do


def _parts(pattern: BytePattern) -> tuple[tuple[str, ...], ...]:
    return pattern.always, pattern.on_backslash, pattern.on_non_ascii


def _loaded(dumped: bytes | None) -> hyperscan.Database | None:
    if dumped is None:
        return None
    automaton = hyperscan.loadb(dumped, hyperscan.HS_MODE_BLOCK)
    automaton.scratch = hyperscan.Scratch(automaton)
    return automaton


@lru_cache(maxsize=64)
def _compiled(expressions: Sequence[str]) -> hyperscan.Database | None:
    if not expressions:
        return None
    automaton = hyperscan.Database()
    automaton.compile(
        expressions=[expression.encode("ascii") for expression in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[_FLAGS] * len(expressions),
    )
    return automaton
