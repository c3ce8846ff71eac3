"""Static semi-join reduction: the keys that conditions keep in small files become a predicate on joined relations.

This costs no job: the samples of small Parquet and ORC files have all their integer keys. Spark can then skip row
groups of the large relation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.optimizer.join_order.equalities import JoinColumn
from pushdown_spark.optimizer.statistics.cardinality import joined_bounds
from pushdown_spark.optimizer.statistics.relation_statistics import RelationStatistics

_MAX_LISTED_KEYS = 400
"""Maximum number of listed keys. Spark compiles longer lists to hash sets (inSetSwitchThreshold)."""
_MAX_KEPT_FRACTION = 0.5
"""Maximum fraction of the keys of a relation that pass a static semi-join."""
_MAX_STEPS = 4
"""Maximum number of relations in a chain of propagated keys."""
_MIN_SKIPPED_ROWS = 50_000.0
"""Minimum number of rows that a static semi-join skips, because Spark needs time to analyze the longer query."""


@dataclass(frozen=True, kw_only=True)
class KeyPredicate:
    """A predicate from the keys that the conditions on a relation keep.

    The keys lie between `low` and `high`. `keys` has all of them, unless there are too many to list or they are
    contiguous. They were seen in the column `member`; the predicate holds for all `members` of its class. `selectivity`
    is the fraction of the keys that can be joined at all. The relation has `total` keys, of which `count` are kept by
    the `conditions`, which refer to columns without the name of the relation.
    """

    member: JoinColumn
    members: tuple[JoinColumn, ...]
    low: int
    high: int
    keys: tuple[int, ...] | None
    selectivity: float
    count: int
    total: int
    conditions: tuple[exp.Expr, ...] = ()

    def condition(self, column: exp.Expr) -> exp.Expr:
        """Return the predicate on a column.

        >>> member = JoinColumn(0, ("d", "k"))
        >>> fields = {"low": 5, "high": 9, "keys": None, "selectivity": 0.5, "count": 5, "total": 10}
        >>> KeyPredicate(member=member, members=(member,), **fields).condition(exp.column("k")).sql("spark")
        'k BETWEEN 5 AND 9'
        """
        if self.keys is None:
            return exp.Between(this=column, low=exp.convert(self.low), high=exp.convert(self.high))
        return exp.In(this=column, expressions=[exp.convert(key) for key in self.keys])

    def __str__(self) -> str:
        relation, column = self.member.key
        return f"{self.count:,} of {self.total:,} values of {column} in {relation} became a condition"


StatisticsWith = Callable[[JoinColumn, Sequence[exp.Expr]], RelationStatistics | None]
"""Returns the statistics of a column's relation with additional conditions."""


def reduce_statically(
    relations: Sequence[RelationStatistics],
    classes: Sequence[Sequence[JoinColumn]],
    is_table: Callable[[JoinColumn], bool],
    statistics_with: StatisticsWith,
) -> tuple[list[RelationStatistics], tuple[KeyPredicate, ...]]:
    """Return the worthwhile static semi-joins, and the statistics of the relations after them.

    `is_table` returns whether a column's relation is a table, whose reader can skip rows.
    """
    reduced_relations, predicate_of = _propagate(relations, classes, statistics_with)
    worthwhile = list(_find_worthwhile(relations, reduced_relations, classes, is_table))
    if not worthwhile:
        return list(relations), ()
    predicates = predicate_of | {predicate.member: predicate for predicate in worthwhile}
    return _apply(reduced_relations, predicates.values()), tuple(predicates.values())


def _find_worthwhile(
    relations: Sequence[RelationStatistics],
    reduced_relations: Sequence[RelationStatistics],
    classes: Sequence[Sequence[JoinColumn]],
    is_table: Callable[[JoinColumn], bool],
) -> Iterator[KeyPredicate]:
    """Yield for each class the most selective predicate, if the tables have enough rows to skip."""
    for group in classes:
        best = _most_selective(reduced_relations, group)
        if best is None:
            continue
        tables = {member.relation for member in group if is_table(member)} - {best.member.relation}
        rows = sum(relations[number].filtered_rows for number in tables)
        if rows * (1.0 - best.selectivity) >= _MIN_SKIPPED_ROWS:
            yield best


def _propagate(
    relations: Sequence[RelationStatistics],
    classes: Sequence[Sequence[JoinColumn]],
    statistics_with: StatisticsWith,
) -> tuple[list[RelationStatistics], dict[JoinColumn, KeyPredicate]]:
    """Propagate keys through completely sampled relations, for example from a region to its nations and customers."""
    results = list(relations)
    conditions_of: dict[int, list[exp.Expr]] = {}
    predicate_of: dict[JoinColumn, KeyPredicate] = {}
    for _ in range(_MAX_STEPS):
        additions = []
        for group in classes:
            predicate = _most_selective(results, group)
            if predicate is None:
                continue
            for member in group:
                if member.relation == predicate.member.relation or not _has_known_keys(results[member.relation]):
                    continue
                condition = predicate.condition(exp.column(member.key[1], table=member.key[0]))
                if condition not in conditions_of.setdefault(member.relation, []):
                    additions.append((predicate, member, condition))
        if not additions:
            break
        for predicate, member, condition in additions:
            conditions_of[member.relation].append(condition)
            predicate_of[predicate.member] = predicate
            results[member.relation] = (
                statistics_with(member, conditions_of[member.relation]) or results[member.relation]
            )
    return results, predicate_of


def _apply(relations: Sequence[RelationStatistics], predicates: Iterable[KeyPredicate]) -> list[RelationStatistics]:
    """Return the statistics of the relations with predicates applied."""
    results = list(relations)
    for predicate in predicates:
        for member in predicate.members:
            relation = results[member.relation]
            column = relation.columns.get(member.key)
            if column is None:
                continue
            # The conditions on the predicate's own relation keep these keys already.
            is_own = member.relation == predicate.member.relation
            fraction = 1.0 if is_own else min(predicate.selectivity / max(column.selectivity, 1e-9), 1.0)
            selectivity = min(column.selectivity, predicate.selectivity)
            columns = {**relation.columns, member.key: replace(column, selectivity=selectivity)}
            results[member.relation] = replace(
                relation, filtered_rows=relation.filtered_rows * fraction, columns=columns
            )
    return results


def _most_selective(relations: Sequence[RelationStatistics], group: Sequence[JoinColumn]) -> KeyPredicate | None:
    """Return the most selective predicate of a class, or None if no keys are known."""
    predicates = (_key_predicate(relations, group, member) for member in group)
    return min(
        (predicate for predicate in predicates if predicate is not None),
        key=lambda predicate: predicate.selectivity,
        default=None,
    )


def _has_known_keys(relation: RelationStatistics) -> bool:
    return any(column.values is not None and column.values.is_certain for column in relation.columns.values())


def _key_predicate(
    relations: Sequence[RelationStatistics], group: Sequence[JoinColumn], member: JoinColumn
) -> KeyPredicate | None:
    """Return the predicate from one column of a class, or None if its keys are unknown or too many of them are kept."""
    column = relations[member.relation].columns.get(member.key)
    values = None if column is None else column.values
    if values is None or not values.is_certain or not 0 < len(values.filtered) < len(values.every):
        return None
    bounds = joined_bounds(relations, group, member) or (int(values.every.min()), int(values.every.max()))
    joinable_keys, kept_keys = values.count_between(*bounds)
    first, last = int(values.filtered.min()), int(values.filtered.max())
    keys_in_range, _ = values.count_between(first, last)
    keys = None
    if keys_in_range > len(values.filtered) > _MAX_LISTED_KEYS:
        kept_keys, _ = values.count_between(max(first, bounds[0]), min(last, bounds[1]))
    elif keys_in_range > len(values.filtered):
        keys = tuple(sorted(values.filtered.tolist()))
    selectivity = kept_keys / max(joinable_keys, 1)
    if selectivity > _MAX_KEPT_FRACTION:
        return None
    count, total = len(values.filtered), len(values.every)
    return KeyPredicate(
        member=member,
        members=tuple(group),
        low=first,
        high=last,
        keys=keys,
        selectivity=selectivity,
        count=count,
        total=total,
        conditions=values.conditions,
    )
