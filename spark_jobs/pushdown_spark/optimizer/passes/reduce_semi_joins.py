"""Dynamic semi-join reduction: the keys of a small, filtered relation become a predicate on those joined with it.

A Spark job reads the keys while the query is planned, if that is worthwhile. `join_order/static_semi_joins.py` has the
static reduction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import functions as f
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.expressions.predicate import is_deterministic
from pushdown_spark.optimizer.key_guard import KeyGuard
from pushdown_spark.optimizer.passes.push_predicates import Predicates, pushdown_predicates
from pushdown_spark.optimizer.plans.logical_plan import (
    Conjunct,
    Filter,
    Join,
    Plan,
    Project,
    RelationLeaf,
    column_equality,
    owner,
)
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.optimizer.plans.sql_dialect import predicate_of, to_sql
from pushdown_spark.optimizer.query_context import (
    QueryContext,
    QueryPlan,
    QueryScan,
    SemiJoin,
    SourceReference,
    remove_qualifier,
)
from pushdown_spark.optimizer.statistics.relation_statistics import StatisticsRequest
from pushdown_spark.projection.paths import quote_name

MAX_DYNAMIC_KEYS = 1_000
"""Maximum number of keys in the list of a dynamic semi-join."""
_MAX_SMALL_BYTES = 32 << 20
_MIN_SIZE_RATIO = 16
"""The large side has at least this many times the bytes of the small side, which is read twice."""
_MIN_LARGE_BYTES = 256 << 20
"""Minimum bytes of the large side. For less, a job that reads the keys of the small side is not worthwhile."""
_MIN_KEY_RATIO = 10
"""The large side has at least this many times the keys of the small side."""
_UNLISTED = frozenset("'\\\ufffd")
"""Characters of keys that are not listed: those that SQL escapes, and the one that replaces bytes other than UTF-8."""
_VOLATILE = re.compile(r"Current|Local|Utc|Unix|Now|Session|User")
"""Prefixes of sqlglot's names of functions whose value depends on the time or on the session."""
_SKIPPING_FORMATS = frozenset(
    {SourceFormat.JSON, SourceFormat.CSV, SourceFormat.AVRO, SourceFormat.ORC, SourceFormat.PARQUET}
)
"""Formats whose pushdown readers skip rows or bytes by a list of keys."""


def reduce_semi_joins(context: QueryContext, plan: QueryPlan) -> QueryPlan:
    """Return the plan with the predicates of dynamic semi-joins on the sources of a query, and with scans of these."""
    if not context.uses_keys or not plan.predicates or not context.options.reorder:
        return plan
    if context.statistics_obstacle is not None:
        return plan
    by_view: dict[str, list[SemiJoin]] = {}
    for block in context.blocks:
        for semi_join in _DynamicReduction(context, plan, block).semi_joins():
            by_view.setdefault(semi_join.view, []).append(semi_join)
    return context.with_scans(replace(plan, semi_joins=by_view), by_view)


@dataclass(frozen=True)
class _JoinSide:
    """A relation of a block and one of its columns."""

    name: str
    column: exp.Column
    reference: SourceReference

    @property
    def key(self) -> tuple[str, str]:
        """The column with its relation."""
        return self.name, self.column.name.lower()


class _DynamicReduction:
    """The dynamic semi-joins of one SELECT."""

    def __init__(self, context: QueryContext, plan: QueryPlan, block: SelectBlock) -> None:
        min_bytes = context.options.min_bytes
        self._plan = plan
        self._block = block
        self._statistics = context.statistics
        self._min_bytes = _MIN_LARGE_BYTES if min_bytes is None else min_bytes
        self._is_exact_equality = context.types_in(block).is_exact_equality
        self._references = {
            name: reference
            for name, reference in context.references_in(block).items()
            if not reference.table.args.get("sample")
        }

    def semi_joins(self) -> Iterator[SemiJoin]:
        """Yield the worthwhile semi-joins. This runs Spark jobs that read keys."""
        predicates = self._push(self._block.plan)
        for small, candidates in self._equated_columns():
            conditions = predicates[small.name]
            if not conditions or any(map(_is_volatile, conditions)):
                continue
            large_sides = [large for large in candidates if self._pays(small, large, conditions)]
            # Keys are read only for predicates that reach a large side.
            with_one_key = self._push_with_keys(small, [0]) if large_sides else predicates
            large_sides = [large for large in large_sides if with_one_key[large.name] != predicates[large.name]]
            keys = self._read_keys(small) if large_sides else None
            if not keys:
                continue
            predicates_with_keys = self._push_with_keys(small, keys)
            note = f"{len(keys)} values of {small.column.name} in {small.reference.key} became a condition"
            guard = self._guard(small, keys)
            for large in large_sides:
                for condition in set(predicates_with_keys[large.name]) - set(predicates[large.name]):
                    yield SemiJoin(large.reference.view, remove_qualifier(condition, large.name), note, guard)

    def _push(self, plan: Plan) -> Predicates:
        return pushdown_predicates(plan, self._block.columns, self._is_exact_equality)

    def _push_with_keys(self, small: _JoinSide, keys: Sequence[int | str]) -> Predicates:
        """Return the predicates of all relations if the small side had these keys alone."""
        condition = Conjunct(_key_list(small.column, keys), frozenset({small.name}))
        return self._push(_with_condition(self._block.plan, condition))

    def _guard(self, small: _JoinSide, keys: Sequence[int | str]) -> KeyGuard:
        """Return the guard of the keys that `_read_keys` returned."""
        view = small.reference.view
        conditions = exp.and_(*self._plan.predicates[view])
        key_list = remove_qualifier(_key_list(small.column, keys), small.name)
        return KeyGuard(view, small.reference.key, to_sql(conditions), to_sql(key_list))

    def _equated_columns(self) -> Iterator[tuple[_JoinSide, list[_JoinSide]]]:
        """Yield each column that an inner join equates, with the columns that it is equated with."""
        partners_of: dict[tuple[str, str], tuple[_JoinSide, list[_JoinSide]]] = {}
        for condition in _inner_conditions_anywhere(self._block.plan):
            pair = column_equality(condition.node)
            if pair is None or not self._is_exact_equality(*pair):
                continue
            names = [owner(column, self._block.columns) for column in pair]
            if names[0] == names[1] or any(name not in self._references for name in names):
                continue
            sides = [
                _JoinSide(name, column, self._references[name])
                for name, column in zip(names, pair, strict=True)
                if name is not None
            ]
            for side, other in (sides, reversed(sides)):
                partners_of.setdefault(side.key, (side, []))[1].append(other)
        yield from partners_of.values()

    def _pays(self, small: _JoinSide, large: _JoinSide, conditions: Sequence[exp.Expr]) -> bool:
        """Return whether the small side has few enough keys, and the large side enough rows with other keys."""
        small_bytes = self._statistics.file_bytes(small.reference.relation)
        if small_bytes is None or small_bytes > _MAX_SMALL_BYTES or not self._may_pay(large, small_bytes):
            return False
        keys = self._distinct(small, tuple(remove_qualifier(condition, small.name) for condition in conditions))
        if keys is None or keys > MAX_DYNAMIC_KEYS:
            return False
        if not large.reference.is_of_files:
            return True
        large_keys = self._distinct(large, ())
        return large_keys is not None and large_keys >= _MIN_KEY_RATIO * keys

    def _may_pay(self, large: _JoinSide, small_bytes: int) -> bool:
        """Return whether the reader of the large side skips rows by keys, and has enough bytes to skip."""
        source = large.reference.relation.source
        if not large.reference.is_of_files or not source.filter_pushdown:
            return source.filter_pushdown
        large_bytes = self._statistics.file_bytes(large.reference.relation) or 0
        skips_rows = source.format in _SKIPPING_FORMATS and source.reader is not ReaderChoice.SPARK
        return skips_rows and large_bytes >= max(_MIN_SIZE_RATIO * small_bytes, self._min_bytes)

    def _distinct(self, side: _JoinSide, conditions: tuple[exp.Expr, ...]) -> float | None:
        request = StatisticsRequest(side.name, conditions, frozenset({side.key[1]}))
        statistics = self._statistics.statistics_of(side.reference.relation, request)
        return None if statistics is None else statistics.filtered_distinct(side.key)

    def _read_keys(self, side: _JoinSide) -> list[int | str] | None:
        """Read the values of a column that satisfy its predicate. Return None if they cannot be listed."""
        predicate = predicate_of(self._plan.predicates.get(side.reference.view, ()))
        if predicate is None:
            return None
        scan: QueryScan = self._plan.scans[side.reference.view]
        frame = scan.planned_scan.spark_scan("its keys are read").frame().where(predicate.sql)
        column = f.col(quote_name(side.column.name))
        keys = frame.select(column.alias("key")).where("key IS NOT NULL").distinct().limit(MAX_DYNAMIC_KEYS + 1)
        if not isinstance(keys.schema["key"].dataType, t.IntegralType | t.StringType):
            return []
        values = [row[0] for row in keys.collect()]
        if len(values) > MAX_DYNAMIC_KEYS or any(isinstance(key, str) and _UNLISTED & set(key) for key in values):
            return None
        return sorted(values)


def _key_list(column: exp.Column, keys: Sequence[int | str]) -> exp.In:
    return exp.In(this=column.copy(), expressions=[exp.convert(key) for key in keys])


def _is_volatile(condition: exp.Expr) -> bool:
    """Return whether a condition may keep other rows when the query runs than while it is planned."""
    return not is_deterministic(condition) or any(
        _VOLATILE.match(type(node).__name__) is not None for node in condition.find_all(exp.Func)
    )


def _inner_conditions_anywhere(plan: Plan) -> Iterator[Conjunct]:
    """Yield the conditions of all inner joins and filters of a plan, including those below outer joins."""
    if isinstance(plan, Filter) or (isinstance(plan, Join) and plan.kind.is_inner):
        yield from plan.conjuncts
    if isinstance(plan, Join):
        yield from _inner_conditions_anywhere(plan.left)
        yield from _inner_conditions_anywhere(plan.right)
    elif not isinstance(plan, RelationLeaf):
        yield from _inner_conditions_anywhere(plan.child)


def _with_condition(plan: Plan, condition: Conjunct) -> Plan:
    """Return a plan with a condition directly above the relation that it refers to."""
    if isinstance(plan, RelationLeaf):
        return Filter((condition,), plan) if plan.names == condition.names else plan
    if isinstance(plan, Join):
        left, right = _with_condition(plan.left, condition), _with_condition(plan.right, condition)
        return replace(plan, left=left, right=right)
    if isinstance(plan, Project):
        return Project(_with_condition(plan.child, condition))
    return Filter(plan.conjuncts, _with_condition(plan.child, condition))
