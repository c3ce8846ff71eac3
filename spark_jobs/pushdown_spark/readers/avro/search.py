"""Searches the encoded records of blocks for byte patterns, as long as that skips blocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

import hyperscan

from pushdown_spark.expressions.byte_patterns.avro import BlockPattern
from pushdown_spark.readers.avro.codecs import Buffer

_FLAGS = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_SINGLEMATCH
_MOST = 2
"""Patterns to search for, the rarest; a further one would rarely skip a block that these do not."""
_TRIAL = 32
"""Blocks by which a search is judged."""
_PAUSE, _LONGEST_PAUSE = 128, 1024
"""Blocks that go without a search after a trial that skipped too few, before it is tried again: twice as many after
every further trial that fails."""
_WORTH = 0.6
"""A search that lets more than this part of the blocks through costs more than it saves."""


class BlockSearch:
    """Tells blocks that may hold a matching record from those that do not."""

    def __init__(self, patterns: Sequence[BlockPattern]) -> None:
        self._patterns = patterns[:_MOST]
        self._automata = [_compiled(pattern.expressions) for pattern in self._patterns if pattern.expressions]
        self._is_never = any(not pattern.expressions for pattern in patterns)
        self._tried = self._found = self._pause = 0
        self._next_pause = _PAUSE

    @property
    def label(self) -> str:
        """What is searched for, in words."""
        return "nothing can match" if self._is_never else " and ".join(pattern.label for pattern in self._patterns)

    def is_paused(self) -> bool:
        """Whether the next block goes without a search because too few of the last ones were skipped. Counts blocks."""
        if self._tried == _TRIAL:
            if self._found > _WORTH * _TRIAL:
                self._pause = self._next_pause
                self._next_pause = min(2 * self._next_pause, _LONGEST_PAUSE)
            else:
                self._next_pause = _PAUSE
            self._tried = self._found = 0
        if self._pause:
            self._pause -= 1
            return True
        return False

    def may_match(self, data: Buffer) -> bool:
        """Whether all patterns are in a block's records."""
        found = not self._is_never and all(_is_in(automaton, data) for automaton in self._automata)
        self._tried += 1
        self._found += found
        return found


def _is_in(automaton: hyperscan.Database, data: Buffer) -> bool:
    if not len(data):
        return False
    found = False

    def matched(_id: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
        nonlocal found
        found = True
        return True

    with suppress(hyperscan.ScanTerminated):
        automaton.scan(data, match_event_handler=matched)  # type: ignore[type-var]  # any buffer will do
    return found


@lru_cache(maxsize=64)
def _compiled(expressions: tuple[str, ...]) -> hyperscan.Database:
    automaton = hyperscan.Database()
    automaton.compile(
        expressions=[expression.encode("ascii") for expression in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[_FLAGS] * len(expressions),
    )
    return automaton
