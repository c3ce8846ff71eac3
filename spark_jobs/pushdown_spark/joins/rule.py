"""Orders a chain of joins without statistics, by the rule that Spark documents for its `ReorderJoin`."""

from __future__ import annotations

from collections.abc import Sequence

from pushdown_spark.joins.graph import Chain, Conjunct, Item, JoinKind, Ordered, Pair, Tree, names_at


def documented_order(chain: Chain) -> Ordered:
    """The order of a chain of two or more relations.

    Two relations keep their order. Of more, the first takes the first other one that a condition connects it with, or
    the next one where there is none; that join is the first relation from then on. A condition goes into the first join
    that has all its relations. Conditions without references, nondeterministic ones and those with sub-queries connect
    nothing and stay above. Raises ValueError for a chain of fewer relations.
    """
    if len(chain.items) < 2:
        raise ValueError("a chain has at least two relations")
    above = tuple(conjunct for conjunct in chain.conjuncts if not conjunct.joinable)
    conditions = tuple(conjunct for conjunct in chain.conjuncts if conjunct.joinable)
    joined: Tree = 0
    kind, waiting = chain.items[0].kind, list(range(1, len(chain.items)))
    while len(waiting) > 1:
        chosen = _connected(joined, waiting, chain.items, conditions)
        waiting.remove(chosen)
        taken, conditions = _split(conditions, names_at(joined, chain.items) | chain.items[chosen].plan.names)
        joined = Pair(joined, chosen, chain.items[chosen].kind, taken)
        kind = JoinKind.INNER
    last = waiting[0]
    both_inner = kind is JoinKind.INNER and chain.items[last].kind is JoinKind.INNER
    taken, left_over = _split(conditions, names_at(joined, chain.items) | chain.items[last].plan.names)
    return Ordered(Pair(joined, last, JoinKind.INNER if both_inner else JoinKind.CROSS, taken), (*left_over, *above))


def _connected(joined: Tree, waiting: Sequence[int], items: Sequence[Item], conditions: Sequence[Conjunct]) -> int:
    """The first relation that a condition connects with what is joined already, or the next one."""
    here = names_at(joined, items)
    for place in waiting:
        there = items[place].plan.names
        if any(
            condition.names <= here | there and not condition.names <= here and not condition.names <= there
            for condition in conditions
        ):
            return place
    return waiting[0]


def _split(conditions: Sequence[Conjunct], names: frozenset[str]) -> tuple[tuple[Conjunct, ...], tuple[Conjunct, ...]]:
    """Conditions that can be evaluated over these relations, and the others."""
    taken = tuple(condition for condition in conditions if condition.names <= names)
    return taken, tuple(condition for condition in conditions if not condition.names <= names)
