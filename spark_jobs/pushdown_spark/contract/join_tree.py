"""Options of join reordering, and the join trees before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from pushdown_spark.contract.message import Message


class JoinOptions(Message):
    """Options of join reordering.

    `reorder` allows join reordering and semi-join reductions. Up to `dp_threshold` relations, dynamic programming finds
    the cheapest order by estimate; larger queries use a greedy search. `star_schema` joins a detected star first.
    Sources are not sampled if that takes more than a twentieth of the query's estimated time or, with `min_bytes`, if
    all sources together have fewer bytes; `min_bytes=0` always samples.
    """

    reorder: bool = True
    dp_threshold: Annotated[int, Field(ge=2, le=30)] = 12
    star_schema: bool = False
    min_bytes: Annotated[int, Field(ge=0)] | None = None


class JoinTree(Message):
    """A relation or a join of two trees, with its output rows.

    `source` is the declared source that a relation refers to, None for a sub-query. `hint` is the join hint given to
    Spark. `estimated` is None without statistics. `actual` is None before a run, and for nodes whose rows Spark does
    not count separately.
    """

    relation: str | None = None
    source: str | None = None
    kind: str | None = None
    condition: str | None = None
    hint: str | None = None
    estimated: float | None = None
    actual: int | None = None
    left: JoinTree | None = None
    right: JoinTree | None = None

    @property
    def sides(self) -> tuple[JoinTree, ...]:
        """The joined trees, empty for a relation."""
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
    """The joins of one SELECT, as written and as run, and the reason. `seconds` is the time of the optimizer."""

    before: JoinTree
    after: JoinTree
    reason: str
    reordered: bool = False
    method: str | None = None
    star: tuple[str, ...] = ()
    seconds: float = 0.0
