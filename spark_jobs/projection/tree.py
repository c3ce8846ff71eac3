"""Merges column paths into one tree that says which parts of a table have to be read at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from spark_jobs.projection.paths import ColumnPath, Elements, Group, Member, Step, render_steps


@dataclass(frozen=True)
class ProjectionNode:
    """What is wanted of one column or struct member.

    `members` lists the wanted members, empty for all of them. `positions` has one entry per array dimension that is
    narrowed, each the wanted zero-based positions; no entry means every element.
    """

    name: str
    members: tuple[ProjectionNode, ...] = ()
    positions: tuple[tuple[int, ...], ...] = ()

    def __str__(self) -> str:
        steps: list[Step] = [Member(self.name), *(Elements(dimension) for dimension in self.positions)]
        text = render_steps(steps)
        return f"{text}({', '.join(map(str, self.members))})" if self.members else text


@dataclass(frozen=True)
class ProjectionTree:
    """The wanted parts of a table, one node per top-level column, in the order first asked for."""

    nodes: tuple[ProjectionNode, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the top-level columns."""
        return tuple(node.name for node in self.nodes)

    def __str__(self) -> str:
        return ", ".join(map(str, self.nodes))


def merge_paths(paths: Iterable[ColumnPath], *, case_sensitive: bool = False) -> ProjectionTree:
    """Merges paths (without wildcards) into a tree.

    A column wanted whole swallows paths into it, array positions coalesce, duplicates merge. Names that differ in case
    alone are the same column unless `case_sensitive`.
    """
    return ProjectionTree(_merged([_node(path.steps) for path in paths], case_sensitive))


def same_name(left: str, right: str, *, case_sensitive: bool) -> bool:
    """Whether two names mean the same column."""
    return left == right if case_sensitive else left.lower() == right.lower()


def _node(steps: Sequence[Step]) -> ProjectionNode:
    first, *rest = steps
    assert isinstance(first, Member)
    dimensions = list(takewhile(lambda step: isinstance(step, Elements), rest))
    positions = tuple(step.positions for step in dimensions if isinstance(step, Elements))
    rest = rest[len(dimensions) :]
    members: tuple[ProjectionNode, ...] = ()
    if rest and isinstance(rest[0], Group):
        members = tuple(_node(path.steps) for path in rest[0].members)
    elif rest:
        members = (_node(rest),)
    return ProjectionNode(first.name, members, positions)


def _merged(nodes: Iterable[ProjectionNode], case_sensitive: bool) -> tuple[ProjectionNode, ...]:
    by_name: dict[str, ProjectionNode] = {}
    for node in nodes:
        normal = replace(node, members=_merged(node.members, case_sensitive))
        key = node.name if case_sensitive else node.name.lower()
        by_name[key] = _union(by_name[key], normal, case_sensitive) if key in by_name else normal
    return tuple(by_name.values())


def _union(left: ProjectionNode, right: ProjectionNode, case_sensitive: bool) -> ProjectionNode:
    both_narrow = bool(left.members and right.members)
    members = _merged([*left.members, *right.members], case_sensitive) if both_narrow else ()
    pairs = zip(left.positions, right.positions, strict=False)
    positions = tuple(tuple(sorted({*mine, *theirs})) for mine, theirs in pairs)
    return ProjectionNode(left.name, members, positions)
