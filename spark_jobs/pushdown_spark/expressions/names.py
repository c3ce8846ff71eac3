"""Column names, compared with or without case as the session does.

Python workers import this module, so it needs neither Spark nor the parser.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def name_key(name: str, *, case_sensitive: bool) -> str:
    """Return a key that all spellings of one column name share."""
    return name if case_sensitive else name.lower()


def by_name_key(items: Iterable[T], name: Callable[[T], str], *, case_sensitive: bool) -> dict[str, list[T]]:
    """Group items by the key of their name. The order of the items is preserved.

    >>> by_name_key(["a", "B", "A"], str, case_sensitive=False)
    {'a': ['a', 'A'], 'b': ['B']}
    """
    groups: dict[str, list[T]] = {}
    for item in items:
        groups.setdefault(name_key(name(item), case_sensitive=case_sensitive), []).append(item)
    return groups
