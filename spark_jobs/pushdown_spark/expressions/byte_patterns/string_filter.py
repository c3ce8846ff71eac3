"""Filters of lines that search for strings, as a weaker form of byte patterns."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from pushdown_spark.expressions.byte_patterns.json import OVERLONG
from pushdown_spark.expressions.byte_patterns.required_strings import required_strings
from pushdown_spark.expressions.byte_patterns.text import BytePattern

_MAX_STRINGS = 16
"""Maximum number of strings. Each of them is a separate search."""


@dataclass(frozen=True)
class StringFilter:
    """Conditions of which a line must satisfy at least one to match a byte pattern.

    - It contains one of `strings`.
    - It contains a backslash and matches one of the expressions `on_backslash`.
    - It is not ASCII and matches one of the expressions `on_non_ascii`.
    - It is not valid UTF-8, if `finds_invalid_utf8` is set.

    The expressions are over bytes, as in `BytePattern`. `pattern` is the pattern that the filter stands for.
    """

    strings: tuple[str, ...]
    on_backslash: tuple[str, ...]
    on_non_ascii: tuple[str, ...]
    finds_invalid_utf8: bool
    pattern: BytePattern

    @classmethod
    def of(cls, pattern: BytePattern) -> StringFilter | None:
        """Return the filter of a pattern, or None if its matches have no strings in common, or too many."""
        required = required_strings(pattern.always, _MAX_STRINGS)
        if required is None:
            return None
        try:
            strings = tuple(text.decode("utf-8") for text in required)
        except UnicodeDecodeError:
            return None
        # The expressions of overlong forms match only lines that are not valid UTF-8.
        on_non_ascii = tuple(expression for expression in pattern.on_non_ascii if expression not in OVERLONG)
        finds_invalid_utf8 = len(on_non_ascii) < len(pattern.on_non_ascii)
        return cls(strings, pattern.on_backslash, on_non_ascii, finds_invalid_utf8, pattern)

    @property
    def searches(self) -> int:
        """The number of searches in each line."""
        return len(self.strings) + bool(self.on_backslash) + bool(self.on_non_ascii) + self.finds_invalid_utf8

    def matches(self, line: bytes) -> bool:
        """Return whether a line satisfies one of the conditions."""
        if any(text in line for text in self._byte_strings):
            return True
        if self.on_backslash and b"\\" in line and self._escapes.search(line):
            return True
        return not line.isascii() and self._matches_non_ascii(line)

    def _matches_non_ascii(self, line: bytes) -> bool:
        if self.on_non_ascii and self._non_ascii.search(line):
            return True
        return self.finds_invalid_utf8 and not _is_utf8(line)

    @cached_property
    def _byte_strings(self) -> tuple[bytes, ...]:
        return tuple(text.encode("utf-8") for text in self.strings)

    @cached_property
    def _escapes(self) -> re.Pattern[bytes]:
        return re.compile("|".join(self.on_backslash).encode("ascii"), re.DOTALL)

    @cached_property
    def _non_ascii(self) -> re.Pattern[bytes]:
        return re.compile("|".join(self.on_non_ascii).encode("ascii"), re.DOTALL)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
