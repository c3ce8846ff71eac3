"""Semi-join reduction at no cost: keys of a relation that was seen whole become a condition on what they join.

From `d.key BETWEEN 5 AND 9` and `s.key = d.key` follows what `s.key` is, and with that Spark skips row groups of `s`,
whose rows a join would else have to meet. Which keys its own conditions leave of a small relation is known from looking
at it; where they are not certain, there are only more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pushdown_spark.joins.cardinality import Member, RelationFigures, limits_of_others

_MOST_KEYS = 400
"""Keys that a list has at most: up to so many Spark compiles to jumps (`spark.sql.optimizer.inSetSwitchThreshold`)."""
_MOST_SHARE = 0.5
"""The part of a relation's keys that a condition leaves at most."""
_STEPS = 4
"""From how many relations to the next keys are followed."""
_WORTH = 50_000.0
"""Rows that a condition leaves out at least: it takes Spark hundredths of a second to read the query with it."""


@dataclass(frozen=True)
class KnownKeys:
    """Keys that conditions leave of a relation: from `low` to `high`, of which `listed` are all if it is not None.

    `member` is the column that they were seen in, `equal` are all columns of its class. `share` is the part that they
    are of the keys that the relations have which are joined by them; `count` and `whole` are how many there are and how
    many the relation has in all.
    """

    member: Member
    equal: tuple[Member, ...]
    low: int
    high: int
    listed: tuple[int, ...] | None
    share: float
    count: int
    whole: int

    def condition(self, column: exp.Expr) -> exp.Expr:
        """What they say of a column.

        >>> member = Member(0, ("d", "k"))
        >>> KnownKeys(member, (member,), 5, 9, None, 0.5, 5, 10).condition(exp.column("k")).sql("spark")
        'k BETWEEN 5 AND 9'
        """
        if self.listed is None:
            return exp.Between(this=column, low=exp.convert(self.low), high=exp.convert(self.high))
        return exp.In(this=column, expressions=[exp.convert(key) for key in self.listed])


Narrowed = Callable[[Member, Sequence[exp.Expr]], RelationFigures | None]
"""Figures of a column's relation with more conditions on it."""


def reduced_by_keys(
    relations: Sequence[RelationFigures],
    classes: Sequence[Sequence[Member]],
    is_read: Callable[[Member], bool],
    narrowed: Narrowed,
) -> tuple[list[RelationFigures], tuple[KnownKeys, ...]]:
    """The keys that pay as conditions, and the relations as these leave them.

    `is_read` tells of a column whether its relation is read from files or tables, where a condition leaves out rows.
    """
    left, followed = _followed(relations, classes, narrowed)
    paying = list(_paying(relations, left, classes, is_read))
    if not paying:
        return list(relations), ()
    known = followed | {keys.member: keys for keys in paying}
    return _with_keys(left, known.values()), tuple(known.values())


def _paying(
    relations: Sequence[RelationFigures],
    left: Sequence[RelationFigures],
    classes: Sequence[Sequence[Member]],
    is_read: Callable[[Member], bool],
) -> Iterator[KnownKeys]:
    """For each class of equal columns the keys that leave out most rows of the relations that are read, if it pays.

    `left` are the relations as the keys of others leave them.
    """
    for group in classes:
        best = _fewest(left, group)
        if best is None:
            continue
        others = {member.relation for member in group if is_read(member)} - {best.member.relation}
        rows = sum(relations[number].kept for number in others)
        if rows * (1.0 - best.share) >= _WORTH:
            yield best


def _followed(
    relations: Sequence[RelationFigures], classes: Sequence[Sequence[Member]], narrowed: Narrowed
) -> tuple[list[RelationFigures], dict[Member, KnownKeys]]:
    """The relations, those that were seen whole by the keys that others leave of them, and these keys.

    A region leaves five nations, and these leave a fifth of the suppliers.
    """
    left = list(relations)
    said: dict[int, list[exp.Expr]] = {}
    followed: dict[Member, KnownKeys] = {}
    for _ in range(_STEPS):
        reached = [
            (keys, member)
            for group in classes
            if (keys := _fewest(left, group)) is not None
            for member in group
            if member.relation != keys.member.relation and _is_seen(left[member.relation])
        ]
        news = [
            (keys, member, condition)
            for keys, member in reached
            if (condition := keys.condition(exp.column(member.key[1], table=member.key[0])))
            not in said.setdefault(member.relation, [])
        ]
        if not news:
            break
        for keys, member, condition in news:
            said[member.relation].append(condition)
            followed[keys.member] = keys
            left[member.relation] = narrowed(member, said[member.relation]) or left[member.relation]
    return left, followed


def _with_keys(relations: Sequence[RelationFigures], found: Iterable[KnownKeys]) -> list[RelationFigures]:
    """The relations as the conditions on their keys leave them."""
    left = list(relations)
    for keys in found:
        for number, key in ((member.relation, member.key) for member in keys.equal):
            column = left[number].columns.get(key)
            if column is None:
                continue
            # Those of the relation itself are what its conditions leave already.
            more = 1.0 if number == keys.member.relation else min(keys.share / max(column.kept, 1e-9), 1.0)
            columns = {**left[number].columns, key: replace(column, kept=min(column.kept, keys.share))}
            left[number] = replace(left[number], kept=left[number].kept * more, columns=columns)
    return left


def _fewest(relations: Sequence[RelationFigures], group: Sequence[Member]) -> KnownKeys | None:
    """The keys of that column of a class of which the smallest part is left, None where no keys are known."""
    found = (_keys(relations, group, member) for member in group)
    return min((keys for keys in found if keys is not None), key=lambda keys: keys.share, default=None)


def _is_seen(relation: RelationFigures) -> bool:
    """Whether all keys of a relation were seen."""
    return any(column.values is not None and column.values.certain for column in relation.columns.values())


def _keys(relations: Sequence[RelationFigures], group: Sequence[Member], member: Member) -> KnownKeys | None:
    """The keys of one column of a class, None where they are not known, or not few."""
    column = relations[member.relation].columns.get(member.key)
    values = None if column is None else column.values
    if values is None or not values.certain or not 0 < len(values.kept) < len(values.every):
        return None
    low, high = limits_of_others(relations, group, member) or (int(values.every.min()), int(values.every.max()))
    every, within = values.between(low, high)
    first, last = int(values.kept.min()), int(values.kept.max())
    spanned, _ = values.between(first, last)
    listed = None
    if spanned > len(values.kept) > _MOST_KEYS:
        within, _ = values.between(max(first, low), min(last, high))
    elif spanned > len(values.kept):
        listed = tuple(sorted(values.kept.tolist()))
    share = within / max(every, 1)
    if share > _MOST_SHARE:
        return None
    return KnownKeys(member, tuple(group), first, last, listed, share, len(values.kept), len(values.every))
