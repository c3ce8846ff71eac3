"""A byte pattern: regular expressions of which a line must match at least one to possibly satisfy a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pushdown_spark.predicates.facts import AllOf, AnyOf, Fact, Present


@dataclass(frozen=True)
class Fields:
    """Where in a line of separated fields a match must lie: the numbers of those fields, from 0.

    A match's field is told by counting `sep` (one byte) before it, as long as no byte of `guards` (quote and escape,
    which can hide a separator) stands before it.
    """

    sep: bytes
    guards: bytes
    numbers: frozenset[int]

    def __or__(self, other: Fields) -> Fields:
        return Fields(self.sep, self.guards, self.numbers | other.numbers)


@dataclass(frozen=True)
class BytePattern:
    """Alternatives to search raw lines for; a line that matches none provably fails the predicate.

    The alternatives are in Hyperscan's syntax, over bytes. A match may end in its line's terminator, never behind it.
    `on_backslash` need be searched only in text that holds a backslash, `on_non_ascii` only in non-ASCII text.
    With `fields`, matches elsewhere prove nothing: those that count end in one of these fields or in its terminator.
    `general` does the same by a slower search that lets fewer lines through where unusual spellings are common.
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
        """Length of all expressions together, in characters."""
        return sum(map(len, self.always + self.on_backslash + self.on_non_ascii))


def _distinct(one: Iterable[str], two: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*one, *two)))


def patterns(facts: AllOf, of_fact: Callable[[Fact], BytePattern | None]) -> list[BytePattern]:
    """One pattern per usable part, given how to turn a single fact into one; each is a sound filter by itself."""
    found = (_part(part, of_fact) for part in facts.parts)
    return [pattern for pattern in found if pattern is not None]


def _part(part: Fact | AnyOf, of_fact: Callable[[Fact], BytePattern | None]) -> BytePattern | None:
    """AND may use any of its patterns, OR needs one from every branch."""
    if not isinstance(part, AnyOf):
        return of_fact(part)
    whole: BytePattern | None = None
    for branch in part.branches:
        strict = AllOf(tuple(p for p in branch.parts if not isinstance(p, Present)))
        choices = patterns(strict, of_fact) or patterns(branch, of_fact)
        if not choices:
            return None
        best = min(choices, key=lambda p: p.size)
        whole = best if whole is None else whole | best
    return whole


def literal(text: str) -> str:
    """The text's UTF-8 bytes as an expression that matches just them."""
    return "".join(chr(b) if chr(b).isalnum() and b < 128 else f"\\x{b:02x}" for b in text.encode("utf-8"))


_LONGEST_TEXT = 500
_LONGEST_LIST = 40_000


def searched_length(texts: int) -> int:
    """Of how many characters of each of some texts a pattern is made: the rest would only cost time to compile.

    Hyperscan takes 16,000 characters in one expression, and a character of a text can become 16 of them.
    """
    return max(12, min(_LONGEST_TEXT, _LONGEST_LIST // max(texts, 1)))


def byte_class(characters: str) -> str:
    """Members of a character class for these single-byte characters."""
    return "".join(f"\\x{ord(c):02x}" for c in characters)


def alternation(items: Iterable[str], limit: int = 12_000) -> list[str]:
    """Alternations over the items, none longer than `limit` characters (Hyperscan takes 16,000 in one expression)."""
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
