"""Matches names that differ in case alone, where a session takes those for the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def name_key(name: str, *, case_sensitive: bool) -> str:
    """What all names of one column have in common."""
    return name if case_sensitive else name.lower()


def by_name_key(items: Iterable[T], name: Callable[[T], str], *, case_sensitive: bool) -> dict[str, list[T]]:
    """Items by the key of their name, in their order.

    >>> by_name_key(["a", "B", "A"], str, case_sensitive=False)
    {'a': ['a', 'A'], 'b': ['B']}
    """
    found: dict[str, list[T]] = {}
    for item in items:
        found.setdefault(name_key(name(item), case_sensitive=case_sensitive), []).append(item)
    return found
