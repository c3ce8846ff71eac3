"""Semi-join reduction: the keys of a small, filtered source become a condition on a large one joined with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import functions as f
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.joins.block import Block, owner
from pushdown_spark.joins.figures import SourceFigures, Wanted
from pushdown_spark.joins.graph import Conjunct, Filter, Join, Leaf, Plan, Project
from pushdown_spark.joins.places import ColumnTypes, Place, in_block, unqualified
from pushdown_spark.joins.push import column_equality, reaching
from pushdown_spark.joins.result import NamedScan
from pushdown_spark.joins.text import written
from pushdown_spark.projection.paths import quote_name
from pushdown_spark.relations.declaration import RemoteSource, Source

MAX_KEYS = 1_000
"""Keys that a condition lists at most."""
_SMALL_BYTES = 32 << 20
_LARGER = 16
"""The large side has at least so many times the bytes of the small one: reading that twice is then a small matter."""
_WORTH_A_JOB = 256 << 20
"""Bytes of a large side of which leaving out a part is worth a job of Spark's that reads the small side's keys."""
_FEWER = 10
"""The large side has at least so many times the keys."""
_TIME = re.compile(r"Current|Local|Utc|Unix|Now|Rand|Uuid|Session|User")
"""How sqlglot's names of functions begin that may give another value each time."""
_FORMATS = frozenset({SourceFormat.JSON, SourceFormat.CSV, SourceFormat.AVRO, SourceFormat.ORC})
"""Formats of which a reader leaves out rows or bytes by a list of keys; Spark's join does it for the others."""


@dataclass(frozen=True)
class Reduction:
    """A condition on the source behind a view, and where it comes from, in words."""

    view: str
    condition: str
    note: str


@dataclass(frozen=True)
class _Side:
    """A relation of a block with one of its columns."""

    name: str
    column: exp.Column
    place: Place


class Reducer:
    """Finds what reductions pay in the SELECTs of a query, and reads the keys for them."""

    def __init__(self, figures: SourceFigures, scans: Mapping[str, NamedScan], min_bytes: int | None) -> None:
        """`scans` are those of the query by their views; no source of fewer than `min_bytes` bytes is reduced."""
        self._figures = figures
        self._scans = scans
        self._min_bytes = _WORTH_A_JOB if min_bytes is None else min_bytes

    def reductions(
        self, block: Block, by_view: Mapping[str, Place], types: ColumnTypes, where: Mapping[str, str]
    ) -> Iterator[Reduction]:
        """The reductions of one SELECT; `where` holds the conditions that reach the sources, by their views."""
        here = {name: place for name, place in in_block(block, by_view).items() if not place.table.args.get("sample")}
        reached = reaching(block.plan, block.columns, types.spelt_once)
        for small, larges in self._pairs(block, here, types):
            conditions = reached[small.name]
            if not conditions or any(map(_depends_on_time, conditions)):
                continue
            reachable = _carried(block, small, [0], types)
            paying = [
                large
                for large in larges
                if reachable[large.name] != reached[large.name] and self._pays(small, large, conditions)
            ]
            keys = self._keys(small, where.get(small.place.view)) if paying else None
            if not keys:
                continue
            found = _carried(block, small, keys, types)
            note = f"{len(keys)} values of {small.column.name} in {small.place.key} became a condition"
            for large in paying:
                for condition in set(found[large.name]) - set(reached[large.name]):
                    text = written(condition.transform(unqualified, large.name))
                    yield Reduction(large.place.view, text, note)

    def _pairs(
        self, block: Block, here: Mapping[str, Place], types: ColumnTypes
    ) -> Iterator[tuple[_Side, list[_Side]]]:
        """Each column that inner joins equate, with those that it is equated with."""
        found: dict[tuple[str, str], tuple[_Side, list[_Side]]] = {}
        for condition in _conditions_somewhere(block.plan):
            pair = column_equality(condition.node)
            if pair is None or not types.spelt_once(*pair):
                continue
            names = [owner(column, block.columns) for column in pair]
            if names[0] == names[1] or any(name not in here for name in names):
                continue
            sides = [
                _Side(name, column, here[name]) for name, column in zip(names, pair, strict=True) if name is not None
            ]
            for one, two in (sides, reversed(sides)):
                found.setdefault((one.name, one.column.name.lower()), (one, []))[1].append(two)
        yield from found.values()

    def _pays(self, small: _Side, large: _Side, conditions: Sequence[exp.Expr]) -> bool:
        """Whether the keys of the small side are few enough, and leave out enough of the large one."""
        size = self._figures.bytes(small.place.declared, small.place.source)
        if size is None or size > _SMALL_BYTES or not self._may_be_large(large, size):
            return False
        key = (small.name, small.column.name.lower())
        parts = tuple(condition.transform(unqualified, small.name) for condition in conditions)
        wanted = Wanted(small.name, parts, frozenset({key[1]}))
        known = self._figures.of(small.place.declared, small.place.source, wanted)
        if known is None or (keys := known.distinct_kept(key)) > MAX_KEYS:
            return False
        if isinstance(large.place.declared, RemoteSource):
            return True
        other = (large.name, large.column.name.lower())
        whole = self._figures.of(
            large.place.declared, large.place.source, Wanted(large.name, (), frozenset({other[1]}))
        )
        return whole is not None and whole.distinct_kept(other) >= _FEWER * keys

    def _may_be_large(self, large: _Side, small_size: int) -> bool:
        declared = large.place.declared
        if isinstance(declared, RemoteSource):
            return declared.spec.filter_pushdown
        size = self._figures.bytes(declared, large.place.source)
        return (
            isinstance(declared, Source)
            and declared.format in _FORMATS
            and declared.filter_pushdown
            and declared.reader is not ReaderChoice.SPARK
            and size is not None
            and size >= max(_LARGER * small_size, self._min_bytes)
        )

    def _keys(self, side: _Side, where: str | None) -> list[int | str] | None:
        """The values of a column in the rows that its conditions keep; None where there are too many to list."""
        if where is None:
            return None
        frame = self._scans[side.place.view].planned.native("its keys are read").frame().where(where)
        column = f.col(quote_name(side.column.name))
        kept = frame.select(column.alias("key")).where("key IS NOT NULL").distinct().limit(MAX_KEYS + 1)
        kind = kept.schema["key"].dataType
        values = [row[0] for row in kept.collect()] if isinstance(kind, t.IntegralType | t.StringType) else []
        if len(values) > MAX_KEYS or any(isinstance(value, str) and set(value) & set("'\\") for value in values):
            return None
        return sorted(values)


def _depends_on_time(condition: exp.Expr) -> bool:
    """Whether a condition may keep other rows when the query runs than while it is planned."""
    return any(
        isinstance(node, exp.Anonymous) or _TIME.match(type(node).__name__) is not None
        for node in condition.find_all(exp.Func)
    )


def _carried(
    block: Block, small: _Side, keys: Sequence[int | str], types: ColumnTypes
) -> dict[str, tuple[exp.Expr, ...]]:
    """The conditions that reach each relation if the small side has these keys alone."""
    listed = exp.In(this=small.column.copy(), expressions=[exp.convert(key) for key in keys])
    plan = _with_condition(block.plan, Conjunct(listed, frozenset({small.name})))
    return reaching(plan, block.columns, types.spelt_once)


def _conditions_somewhere(plan: Plan) -> Iterator[Conjunct]:
    """The conditions of all inner joins and filters of a plan, also of those that only hold for a part of it."""
    if isinstance(plan, Filter) or (isinstance(plan, Join) and plan.kind.is_inner):
        yield from plan.conjuncts
    if isinstance(plan, Join):
        yield from _conditions_somewhere(plan.left)
        yield from _conditions_somewhere(plan.right)
    elif not isinstance(plan, Leaf):
        yield from _conditions_somewhere(plan.child)


def _with_condition(plan: Plan, condition: Conjunct) -> Plan:
    """The plan with a condition over the relation that it is about."""
    if isinstance(plan, Leaf):
        return Filter((condition,), plan) if plan.names == condition.names else plan
    if isinstance(plan, Join):
        left, right = _with_condition(plan.left, condition), _with_condition(plan.right, condition)
        return replace(plan, left=left, right=right)
    if isinstance(plan, Project):
        return Project(_with_condition(plan.child, condition))
    return Filter(plan.conjuncts, _with_condition(plan.child, condition))
