"""The columns that each join of a chain returns. The cost of an order depends on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from pushdown_spark.optimizer.join_order.equalities import JoinColumn
from pushdown_spark.optimizer.plans.logical_plan import JoinChain, RelationLeaf, owner
from pushdown_spark.optimizer.plans.select_block import SelectBlock, merges_columns


class RequiredOutputColumns:
    """The columns that the joins of a chain return. Spark drops the columns that nothing above a join needs."""

    def __init__(self, block: SelectBlock, chain: JoinChain, classes: Iterable[Sequence[JoinColumn]]) -> None:
        """Collect the columns of a block. `classes` are equal columns, any of which may become a join key."""
        self._names = [item.plan.name if isinstance(item.plan, RelationLeaf) else None for item in chain.items]
        self._masks = {name: 1 << number for number, name in enumerate(self._names) if name is not None}
        conditions = [conjunct for conjunct in chain.conjuncts if conjunct.is_joinable]
        # Columns are needed above a join while a relation of the condition or class is not part of it.
        self._needed_by = [
            (self._mask(condition.names), _referenced_columns(block, condition.node)) for condition in conditions
        ]
        self._needed_by += [
            (sum({1 << member.relation for member in group}), {member.key for member in group}) for group in classes
        ]
        join_nodes = {id(node) for condition in conditions for node in condition.node.walk()}
        self._always_needed = set[tuple[str, str]]()
        for node in block.select.walk():
            if isinstance(node, exp.Column) and id(node) not in join_nodes:
                self._always_needed |= _referenced_columns(block, node)
        self._needs_all = _has_star_or_merged_columns(block)

    def columns(self, mask: int, number: int) -> frozenset[str] | None:
        """Return the lower-case columns of an item that the join of a set of items returns, or None for all of them."""
        name = self._names[number]
        if name is None or self._needs_all:
            return None
        groups = [self._always_needed, *(columns for relations, columns in self._needed_by if relations & ~mask)]
        return frozenset(column for group in groups for relation, column in group if relation == name)

    def _mask(self, names: Iterable[str]) -> int:
        """Return the items of a condition. One bit stands for all relations inside items that are joins."""
        return sum({self._masks.get(name, 1 << len(self._names)) for name in names})


def _referenced_columns(block: SelectBlock, node: exp.Expr) -> set[tuple[str, str]]:
    """Return the columns in an expression with their relations. A column of unknown origin counts for all relations."""
    columns = set()
    for column in node.find_all(exp.Column):
        relation = owner(column, block.columns)
        names = [part.name.lower() for part in column.parts]
        if relation is not None:
            columns.add((relation, names[1] if len(names) > 1 and names[0] == relation else names[0]))
        else:
            columns |= {
                (candidate, name)
                for candidate, candidate_columns in block.columns.items()
                for name in names
                if candidate_columns is None or name in candidate_columns
            }
    return columns


def _has_star_or_merged_columns(block: SelectBlock) -> bool:
    if any(map(merges_columns, block.joins)):
        return True
    return any(not isinstance(star.parent, exp.Count) for star in block.select.find_all(exp.Star))
