"""Byte search with Hyperscan, on the driver and in Python workers."""

from __future__ import annotations

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
        self._automata = tuple(map(_compile, _expressions(pattern)))

    def __getstate__(self) -> _State:
        return self.pattern, tuple(None if a is None else hyperscan.dumpb(a) for a in self._automata)

    def __setstate__(self, state: _State) -> None:
        self.pattern, dumps = state
        try:
            self._automata = tuple(map(_load, dumps))
        except hyperscan.HyperscanError:
            # The driver has a different kind of processor.
            self._automata = tuple(map(_compile, _expressions(self.pattern)))

    def hits(self, data: bytearray, length: int) -> list[int]:
        """Return the end offsets of matches in the first `length` bytes of `data`, in ascending order."""
        always, on_backslash, on_non_ascii = self._automata
        window = memoryview(data)[:length]
        ends: list[int] = []
        _scan(always, window, ends)
        extra_ends: list[int] = []
        if on_backslash is not None and data.find(b"\\", 0, length) >= 0:
            _scan(on_backslash, window, extra_ends)
        # Bytes after `length` are from an earlier window. They may cause a useless search, but never lose a line.
        if on_non_ascii is not None and not data.isascii():
            _scan(on_non_ascii, window, extra_ends)
        window.release()
        return sorted(ends + extra_ends) if extra_ends else ends


def _scan(automaton: hyperscan.Database | None, window: memoryview, ends: list[int]) -> None:
    """Append the end offsets of the matches to `ends`."""
    if automaton is not None:
        append = ends.append

        def on_match(_id: int, _start: int, end: int, _flags: int, _context: object) -> None:
            append(end)

        automaton.scan(window, match_event_handler=on_match)  # type: ignore[type-var]  # any buffer will do


def _expressions(pattern: BytePattern) -> tuple[tuple[str, ...], ...]:
    return pattern.always, pattern.on_backslash, pattern.on_non_ascii


def _load(dump: bytes | None) -> hyperscan.Database | None:
    if dump is None:
        return None
    automaton = hyperscan.loadb(dump, hyperscan.HS_MODE_BLOCK)
    automaton.scratch = hyperscan.Scratch(automaton)
    return automaton


def _compile(expressions: tuple[str, ...]) -> hyperscan.Database | None:
    return compile_automaton(expressions, _FLAGS) if expressions else None


@lru_cache(maxsize=64)
def compile_automaton(expressions: tuple[str, ...], flags: int) -> hyperscan.Database:
    """Compile expressions over bytes, with flags of Hyperscan, to one automaton."""
    automaton = hyperscan.Database()
    automaton.compile(
        expressions=[expression.encode("ascii") for expression in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[flags] * len(expressions),
    )
    return automaton
