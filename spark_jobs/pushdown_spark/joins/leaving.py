"""Tells which columns leave a join: those that something above it needs, the others Spark drops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from pushdown_spark.joins.block import Block, owner
from pushdown_spark.joins.cardinality import Member
from pushdown_spark.joins.graph import Chain, Leaf


class Leaving:
    """The columns that leave the joins of sets of a chain's relations."""

    def __init__(self, block: Block, chain: Chain, classes: Iterable[Sequence[Member]]) -> None:
        """`classes` are columns that are equal, of which any may be what relations are joined by."""
        self._names = [item.plan.name if isinstance(item.plan, Leaf) else None for item in chain.items]
        self._masks = {name: 1 << number for number, name in enumerate(self._names) if name is not None}
        self._conditions = [
            (self._mask(each.names), _columns(block, each.node)) for each in chain.conjuncts if each.joinable
        ]
        self._classes = [
            (sum({1 << each.relation for each in group}), {each.key for each in group}) for group in classes
        ]
        inside = {id(node) for each in chain.conjuncts if each.joinable for node in each.node.walk()}
        self._always = set[tuple[str, str]]()
        for node in block.select.walk():
            if isinstance(node, exp.Column) and id(node) not in inside:
                self._always |= _columns(block, node)
        self._all = _takes_all(block)

    def columns(self, mask: int, number: int) -> frozenset[str] | None:
        """The lower-case columns of a relation that leave the join of a set with it; None for all that are read."""
        name = self._names[number]
        if name is None or self._all:
            return None
        parts = [self._always]
        parts += [columns for refers_to, columns in self._conditions if refers_to & ~mask]
        parts += [columns for has, columns in self._classes if has & ~mask]
        return frozenset(column for part in parts for home, column in part if home == name)

    def _mask(self, names: Iterable[str]) -> int:
        """The relations of a condition; one that no set has where it refers to joins that are one relation."""
        return sum({self._masks.get(name, 1 << len(self._names)) for name in names})


def _columns(block: Block, node: exp.Expr) -> set[tuple[str, str]]:
    """The columns below a node, each with its relation; with every relation that has one where that is not certain."""
    found = set()
    for column in node.find_all(exp.Column):
        home = owner(column, block.columns)
        names = [part.name.lower() for part in column.parts]
        if home is not None:
            found.add((home, names[1] if len(names) > 1 and names[0] == home else names[0]))
        else:
            found |= {
                (relation, name)
                for relation, known in block.columns.items()
                for name in names
                if known is None or name in known
            }
    return found


def _takes_all(block: Block) -> bool:
    """Whether a star, or a join by the names of columns, may take any column."""
    if any(join.args.get("using") or join.method == "NATURAL" for join in block.joins.values()):
        return True
    return any(not isinstance(star.parent, exp.Count) for star in block.select.find_all(exp.Star))
