"""Search bytes for a pattern with Hyperscan, on the driver and in Python workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import hyperscan

from spark_jobs.predicates.pattern import BytePattern

_FLAGS = hyperscan.HS_FLAG_DOTALL | hyperscan.HS_FLAG_MULTILINE


@dataclass(frozen=True)
class Searcher:
    """A compiled byte pattern.

    A database of no expressions is None: it finds nothing.
    """

    always: hyperscan.Database | None
    on_backslash: hyperscan.Database | None
    on_non_ascii: hyperscan.Database | None

    def hits(self, window: memoryview, backing: bytearray, length: int) -> list[int]:
        """End offsets of matches in `window`, the first `length` bytes of `backing`, ascending."""
        found: list[int] = []
        if self.always is not None:
            _scan(self.always, window, found)
        extra: list[int] = []
        if self.on_backslash is not None and backing.find(b"\\", 0, length) >= 0:
            _scan(self.on_backslash, window, extra)
        if self.on_non_ascii is not None and not window.tobytes().isascii():
            _scan(self.on_non_ascii, window, extra)
        return sorted(found + extra) if extra else found


def _scan(database: hyperscan.Database, window: memoryview, found: list[int]) -> None:
    append = found.append
    database.scan(window, match_event_handler=lambda _id, _start, end, _flags, _context: append(end))


def searcher(pattern: BytePattern) -> Searcher:
    """Compile a pattern; the same pattern is compiled once per process."""
    return _compiled(pattern.always, pattern.on_backslash, pattern.on_non_ascii)


@lru_cache(maxsize=64)
def _compiled(always: tuple[str, ...], on_backslash: tuple[str, ...], on_non_ascii: tuple[str, ...]) -> Searcher:
    return Searcher(_database(always), _database(on_backslash), _database(on_non_ascii))


def _database(expressions: Sequence[str]) -> hyperscan.Database | None:
    if not expressions:
        return None
    database = hyperscan.Database()
    database.compile(
        expressions=[e.encode("ascii") for e in expressions],
        ids=list(range(len(expressions))),
        elements=len(expressions),
        flags=[_FLAGS] * len(expressions),
    )
    return database
