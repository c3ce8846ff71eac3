"""Options of join reordering, and the join trees before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from pushdown_spark.contract.message import Message


class JoinOptions(Message):
    """Options of join reordering."""

    reorder: bool = True
    """Whether to reorder joins, reduce large sources by the keys of small ones, and broadcast small relations."""
    dp_threshold: Annotated[int, Field(ge=2, le=30)] = 12
    """Up to this many relations, dynamic programming finds the cheapest order. Larger joins use a greedy search."""
    star_schema: bool = False
    """Whether to join a detected star first."""
    min_bytes: Annotated[int, Field(ge=0)] | None = None
    """Sources are sampled if they have at least this many bytes together, with 0 always. By default, they are sampled
    unless that takes more than a twentieth of the query's estimated time."""


class JoinTree(Message):
    """A relation or a join of two trees, with its output rows."""

    relation: str | None = None
    """The name of a relation in the query, or None for a join."""
    source: str | None = None
    """The declared source that a relation refers to, or None for a subquery."""
    kind: str | None = None
    """The kind of a join, such as INNER."""
    condition: str | None = None
    """The condition of a join as SQL."""
    hint: str | None = None
    """The join hint given to Spark."""
    estimated: float | None = None
    """The estimated rows, or None without statistics."""
    actual: int | None = None
    """The rows of the run, or None before it, and for nodes whose rows Spark does not count separately."""
    left: JoinTree | None = None
    """The left side of a join."""
    right: JoinTree | None = None
    """The right side of a join."""

    @property
    def sides(self) -> tuple[JoinTree, ...]:
        """The joined trees, or an empty tuple for a relation."""
        return tuple(side for side in (self.left, self.right) if side is not None)

    @property
    def relations(self) -> frozenset[str]:
        """The names of the relations in the tree."""
        return frozenset(node.relation for node in self.nodes() if node.relation is not None)

    def nodes(self) -> Iterator[JoinTree]:
        """Yield all nodes in preorder: the tree, its left side, its right side."""
        yield self
        for side in self.sides:
            yield from side.nodes()


class JoinReport(Message):
    """The joins of one SELECT, as written and as run."""

    before: JoinTree
    """The joins in Spark's own order."""
    after: JoinTree
    """The joins as run."""
    reason: str
    """Why the joins have this order."""
    reordered: bool = False
    """Whether the order was changed."""
    method: str | None = None
    """The search that found the order."""
    star: tuple[str, ...] = ()
    """The fact table of a detected star, then its dimensions."""
    seconds: float = 0.0
    """Seconds of the optimizer."""
