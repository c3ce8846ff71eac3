"""The search for byte patterns in the encoded records of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property

import hyperscan

from pushdown_spark.expressions.byte_patterns.avro import BlockPattern
from pushdown_spark.formats.avro.container_file import Buffer
from pushdown_spark.formats.text.byte_search import compile_automaton

_FLAGS = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_SINGLEMATCH
_MAX_PATTERNS = 2
"""Number of patterns that are searched for, the rarest first. A third pattern would rarely skip another block."""
_TRIAL = 32
"""Number of blocks after which the search decides whether to pause."""
_FIRST_PAUSE, _MAX_PAUSE = 128, 1024
"""Blocks that are not searched after a trial that skipped too few. Each failed trial doubles the pause."""
_MAX_MATCHING_FRACTION = 0.6
"""The fraction of matching blocks above which searching costs more than it saves."""


class BlockSearch:
    """Decides which blocks may hold a matching record."""

    def __init__(self, patterns: Sequence[BlockPattern]) -> None:
        self._patterns = patterns[:_MAX_PATTERNS]
        self._matches_nothing = any(not pattern.expressions for pattern in patterns)
        self._search_count = self._match_count = self._pause = 0
        self._next_pause = _FIRST_PAUSE

    @cached_property
    def _automata(self) -> list[hyperscan.Database]:
        """The compiled patterns. Compiling them may take longer than a scan of few blocks."""
        return [compile_automaton(pattern.expressions, _FLAGS) for pattern in self._patterns if pattern.expressions]

    @property
    def label(self) -> str:
        """The patterns in words, for the report."""
        return (
            "nothing can match" if self._matches_nothing else " and ".join(pattern.label for pattern in self._patterns)
        )

    def is_paused(self) -> bool:
        """Return whether the next block is not searched, because too few of the last ones were skipped.

        Call it once for each block.
        """
        if self._search_count == _TRIAL:
            if self._match_count > _MAX_MATCHING_FRACTION * _TRIAL:
                self._pause = self._next_pause
                self._next_pause = min(2 * self._next_pause, _MAX_PAUSE)
            else:
                self._next_pause = _FIRST_PAUSE
            self._search_count = self._match_count = 0
        if self._pause:
            self._pause -= 1
            return True
        return False

    def may_match(self, data: Buffer) -> bool:
        """Return whether a block's records contain all patterns."""
        matches = not self._matches_nothing and all(_contains(automaton, data) for automaton in self._automata)
        self._search_count += 1
        self._match_count += matches
        return matches


def _contains(automaton: hyperscan.Database, data: Buffer) -> bool:
    if not len(data):
        return False
    is_match = False

    def stop(_id: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
        nonlocal is_match
        is_match = True
        return True

    with suppress(hyperscan.ScanTerminated):
        automaton.scan(data, match_event_handler=stop)  # type: ignore[type-var]  # any buffer will do
    return is_match
