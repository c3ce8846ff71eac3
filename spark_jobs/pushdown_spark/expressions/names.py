"""Column names, compared with or without case as the session does.

Python workers import this module, so it needs neither Spark nor the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class NameRule:
    """Whether names that differ only in case are different columns."""

    case_sensitive: bool

    def key(self, name: str) -> str:
        """Return a key that all spellings of one column name share."""
        return name if self.case_sensitive else name.lower()

    def same(self, left: str, right: str) -> bool:
        """Return whether two names are the same column."""
        return self.key(left) == self.key(right)

    def group(self, items: Iterable[T], name: Callable[[T], str]) -> dict[str, list[T]]:
        """Group items by the key of their name. The order of the items is preserved.

        >>> ANY_CASE.group(["a", "B", "A"], str)
        {'a': ['a', 'A'], 'b': ['B']}
        """
        groups: dict[str, list[T]] = {}
        for item in items:
            groups.setdefault(self.key(name(item)), []).append(item)
        return groups


EXACT_NAMES = NameRule(case_sensitive=True)
ANY_CASE = NameRule(case_sensitive=False)
