"""What the contract says of joins: how they may be ordered, and in which order they were run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from spark_jobs.message import Message


class JoinOptions(Message):
    """How the joins of a query may be changed.

    `reorder` allows another order than the written one, and semi-join reductions. Up to `dp_threshold` relations the
    order is the cheapest by the estimates, beyond that one found greedily. `star_schema` joins what is recognised as a
    star before everything else. Sources are not analysed where that would take more than a twentieth of the query's
    time by estimate, or, if `min_bytes` is given, where they have fewer bytes altogether; 0 analyses always.
    """

    reorder: bool = True
    dp_threshold: Annotated[int, Field(ge=2, le=30)] = 12
    star_schema: bool = False
    min_bytes: Annotated[int, Field(ge=0)] | None = None


class JoinTree(Message):
    """A relation, or the join of two trees; rows are those that flow out of it.

    `hint` is what Spark was told about the relation. `estimated` is None where there was no analysis, `actual` before a
    run and where the rows could not be told apart.
    """

    relation: str | None = None
    kind: str | None = None
    condition: str | None = None
    hint: str | None = None
    estimated: float | None = None
    actual: int | None = None
    left: JoinTree | None = None
    right: JoinTree | None = None

    @property
    def sides(self) -> tuple[JoinTree, ...]:
        """The trees joined, none for a relation."""
        return tuple(side for side in (self.left, self.right) if side is not None)

    def nodes(self) -> Iterator[JoinTree]:
        """The tree and all trees in it, joins before what they join, left before right."""
        yield self
        for side in self.sides:
            yield from side.nodes()


class JoinReport(Message):
    """The joins of one SELECT: as written and as run, and why. `seconds` is what the analysis took."""

    before: JoinTree
    after: JoinTree
    reason: str
    reordered: bool = False
    method: str | None = None
    star: tuple[str, ...] = ()
    seconds: float = 0.0
