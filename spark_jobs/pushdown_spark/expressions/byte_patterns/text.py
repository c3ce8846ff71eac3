"""Byte patterns for lines of text: what JSON and CSV share.

A byte pattern is a set of regular expressions. A line that matches none of them provably fails the predicate. This
module defines the patterns, and combines them along AND and OR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pushdown_spark.expressions.byte_patterns.facts import (
    AllOf,
    AnyOf,
    EqualsAny,
    Fact,
    HasSubstrings,
    InRange,
    NotNull,
)

NOT_ASCII = "[\\x80-\\xff]"
"""An expression for a byte of a character that is not ASCII."""
_MIN_STRING = 3
"""Shorter strings occur in most lines."""
_MAX_STRING = 500
_MAX_STRINGS = 40_000


@dataclass(frozen=True)
class Fields:
    """The fields of a CSV line where a match counts, by their positions from 0.

    The field of a match is found by counting `sep` (one byte) before it. This works unless a byte of `quoting` (quote
    and escape, which can hide a separator) occurs before the match.
    """

    sep: bytes
    quoting: bytes
    numbers: frozenset[int]

    def __or__(self, other: Fields) -> Fields:
        return Fields(self.sep, self.quoting, self.numbers | other.numbers)


@dataclass(frozen=True)
class BytePattern:
    """Regular expressions of which a line must match at least one to satisfy the predicate.

    The expressions are in Hyperscan's syntax, over bytes. A match may end with the line's terminator, never after it.
    `on_backslash` are searched only in text with a backslash, and `on_non_ascii` only in text that is not ASCII. With
    `fields`, only matches that end in one of these fields or its terminator count. `general` is an equivalent pattern
    with a slower search, which matches fewer lines if unusual spellings are common.
    """

    always: tuple[str, ...]
    on_backslash: tuple[str, ...] = ()
    on_non_ascii: tuple[str, ...] = ()
    label: str = ""
    fields: Fields | None = None
    general: BytePattern | None = None

    def __or__(self, other: BytePattern) -> BytePattern:
        general = None
        if self.general or other.general:
            general = (self.general or self) | (other.general or other)
        return BytePattern(
            _distinct(self.always, other.always),
            _distinct(self.on_backslash, other.on_backslash),
            _distinct(self.on_non_ascii, other.on_non_ascii),
            f"{self.label} | {other.label}",
            self.fields | other.fields if self.fields and other.fields else None,
            general,
        )

    @property
    def size(self) -> int:
        """The length of all expressions together, in characters."""
        return sum(map(len, self.always + self.on_backslash + self.on_non_ascii))


def _distinct(one: Iterable[str], two: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def patterns(facts: AllOf, of_fact: Callable[[Fact], BytePattern | None]) -> list[BytePattern]:
    """Return one pattern per usable part. Each pattern alone is a sound filter. `of_fact` returns a fact's pattern."""
    candidates = (_part(part, of_fact) for part in facts.parts)
    return [pattern for pattern in candidates if pattern is not None]


def _part(part: Fact | AnyOf, of_fact: Callable[[Fact], BytePattern | None]) -> BytePattern | None:
    """Return a pattern for a part. OR needs a pattern from every branch, and takes the smallest of each."""
    if not isinstance(part, AnyOf):
        return of_fact(part)
    union: BytePattern | None = None
    for branch in part.branches:
        strict = AllOf(tuple(fact for fact in branch.parts if not isinstance(fact, NotNull)))
        choices = patterns(strict, of_fact) or patterns(branch, of_fact)
        if not choices:
            return None
        best = min(choices, key=lambda pattern: pattern.size)
        union = best if union is None else union | best
    return union


def literal(text: str) -> str:
    """Return an expression that matches exactly the UTF-8 bytes of a string."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\x{b:02x}" for b in text.encode("utf-8"))


def is_in_any_case(fact: Fact) -> bool:
    """Return whether a fact is about strings in any case of their letters."""
    return isinstance(fact, HasSubstrings) and fact.is_any_case


def spelling(text: str, fact: Fact) -> str:
    """Return an expression that matches a string of a fact: its bytes, or an ASCII string in any case."""
    if not is_in_any_case(fact):
        return literal(text)
    return "".join(f"[{c.lower()}{c.upper()}]" if c.isalpha() else literal(c) for c in text)


def searched_length(strings: int) -> int:
    """Return how many characters of each string to search for, given the number of strings.

    Longer patterns take more time to compile. Hyperscan allows 16,000 characters in one expression, and a character of
    a string can become 16 of them.
    """
    return max(12, min(_MAX_STRING, _MAX_STRINGS // max(strings, 1)))


def longest_safe_part(strings: Iterable[str], unsafe: frozenset[str]) -> str | None:
    """Return the longest part of some strings without unsafe characters, among them NUL; None if it is too short."""
    runs = (run for text in strings for run in "".join("\0" if c in unsafe else c for c in text).split("\0"))
    best = max(runs, key=lambda run: len(run.encode("utf-8")), default="")[: searched_length(1)]
    return best if len(best) >= _MIN_STRING else None


def character_class(characters: str) -> str:
    """Return the members of a character class for single-byte characters."""
    return "".join(f"\\x{ord(c):02x}" for c in characters)


def alternation(items: Iterable[str], limit: int = 12_000) -> list[str]:
    """Return alternations of at most `limit` characters each (Hyperscan allows 16,000 in one expression)."""
    groups: list[str] = []
    current: list[str] = []
    length = 0
    for item in items:
        if current and length + len(item) > limit:
            groups.append("(?:" + "|".join(current) + ")")
            current, length = [], 0
        current.append(item)
        length += len(item) + 1
    if current:
        groups.append("(?:" + "|".join(current) + ")")
    return groups


def describe(fact: Fact) -> str:
    """Return the values that a fact allows, for the report."""
    if isinstance(fact, InRange):
        return f"{'' if fact.low is None else fact.low!s}..{'' if fact.high is None else fact.high!s}"
    return value_summary([str(value) for value in fact.values]) if isinstance(fact, EqualsAny) else ""


def value_summary(values: list[str]) -> str:
    """Return the only value, or the number of values."""
    return values[0] if len(values) == 1 else f"one of {len(values)} values"
