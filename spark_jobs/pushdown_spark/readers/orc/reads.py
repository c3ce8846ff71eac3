"""Decide which row groups of a stripe are read for the select columns, given those that have survivors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.readers.orc.cut import Groups

BRIDGED_GROUPS = 2
"""Row groups without survivors that are decoded rather than skipped where two others have some: beginning anew inside a
stripe costs about as much as decoding this many row groups (measured on TPC-H lineitem)."""


@dataclass(frozen=True)
class ReadPlan:
    """Runs of row groups: those to fetch, and those of them to decode."""

    fetched: tuple[Groups, ...]
    decoded: tuple[Groups, ...]


def plan_reads(hits: Sequence[int], alive: Sequence[int], partial_reads: int | None) -> ReadPlan:
    """Plan the reads of a stripe's select columns.

    `hits` are the row groups with survivors and `alive` those that statistics could not exclude, both ascending. At
    most `partial_reads` runs of row groups are read by themselves; after them one read takes everything alive up to the
    end of the stripe. None reads every run by itself.

    >>> plan_reads([2, 5], range(7), 0).fetched
    (Groups(first=2, last=6),)
    >>> plan_reads([2, 5], range(7), 1).fetched
    (Groups(first=2, last=2), Groups(first=5, last=6))
    """
    if partial_reads is None:
        decoded = _runs(hits, BRIDGED_GROUPS)
        return ReadPlan(decoded, decoded)
    decoded = _runs(hits, 0)
    alone, rest = decoded[:partial_reads], decoded[partial_reads:]
    if not rest:
        return ReadPlan(decoded, decoded)
    tail = _runs([group for group in alive if group >= rest[0].first], 0)
    return ReadPlan((*alone, *tail), decoded)


def _runs(groups: Sequence[int], bridged: int) -> tuple[Groups, ...]:
    """Runs of consecutive numbers, across gaps of at most `bridged`."""
    runs: list[Groups] = []
    for group in groups:
        if runs and group - runs[-1].last <= bridged + 1:
            runs[-1] = Groups(runs[-1].first, group)
        else:
            runs.append(Groups(group, group))
    return tuple(runs)


def pieces(run: Groups, at_most: int) -> list[Groups]:
    """A run cut into pieces of at most so many row groups."""
    return [
        Groups(first, min(first + at_most - 1, run.last)) for first in range(run.first, run.last + 1, max(at_most, 1))
    ]
