"""Join trees as nested lists of steps, which are readable in windows that are too narrow for a drawing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pushdown_spark.contract.join_report_text import estimate_ratio, relation_name, row_counts
from pushdown_spark.contract.join_tree import JoinTree

_LARGE_ERROR = 10
"""The factor from which an estimate is marked as wrong."""


@dataclass(frozen=True)
class Rows:
    """The estimated and actual rows of a node as text, and whether the estimate is far off."""

    text: str
    is_wrong: bool


@dataclass(frozen=True)
class JoinStep:
    """The relation that a step joins to the result of the steps before it.

    That is the relation `name`, or without a name the result of `steps`. `join` is the kind of the join, or an empty
    string for the first step, and `after` are the rows after it.
    """

    name: str
    rows: Rows
    steps: tuple[JoinStep, ...]
    is_moved: bool
    join: str = ""
    condition: str = ""
    after: Rows | None = None


def join_steps(tree: JoinTree, moves: Collection[frozenset[str]]) -> tuple[JoinStep, ...]:
    """Return the steps of a join tree. `moves` has the relations of each node that is marked.

    The deeper side of a join comes first. So a list within a list has at most half of the list's relations.
    """
    if not tree.sides:
        return (JoinStep(name=_name(tree), rows=_rows(tree), steps=(), is_moved=tree.relations in moves),)
    *others, last = sorted(tree.sides, key=lambda side: len(side.relations), reverse=True)
    is_left = last is tree.left and len(tree.sides) == 2
    step = JoinStep(
        name=_name(last) if not last.sides else "",
        rows=_rows(last),
        steps=join_steps(last, moves) if last.sides else (),
        is_moved=last.relations in moves or tree.relations in moves,
        join=f"{tree.kind} JOIN{_hint(tree)}{' with the left side' if is_left else ''}",
        condition=tree.condition or "",
        after=_rows(tree),
    )
    return (*(step for other in others for step in join_steps(other, moves)), step)


def is_far_off(tree: JoinTree) -> bool:
    """Return whether the estimated rows of a node are wrong by a large factor."""
    ratio = estimate_ratio(tree) or 1.0
    return max(ratio, 1 / ratio) >= _LARGE_ERROR


def _name(tree: JoinTree) -> str:
    return f"{relation_name(tree)}{_hint(tree)}"


def _hint(tree: JoinTree) -> str:
    return f" [{tree.hint.lower()}]" if tree.hint else ""


def _rows(tree: JoinTree) -> Rows:
    return Rows(row_counts(tree), is_far_off(tree))
