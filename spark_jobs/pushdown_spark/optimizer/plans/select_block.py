"""The SELECTs of a query: reading FROM and WHERE as a logical plan, and writing a plan back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.optimizer.plans.logical_plan import (
    Conjunct,
    Filter,
    Join,
    JoinKind,
    Plan,
    Project,
    RelationColumns,
    RelationLeaf,
    conjunct_of,
    factor_common_conjuncts,
    owner,
)
from pushdown_spark.optimizer.plans.sql_dialect import parse_sql
from pushdown_spark.optimizer.plans.sql_reader import referenced_cte
from pushdown_spark.projection.paths import quote_name

_SIDES = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}
_KINDS = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI, "CROSS": JoinKind.CROSS}

ColumnsOf = Callable[[exp.Expr], frozenset[str] | None]
"""Returns the lower-case column names of a table or sub-query, or None if they are unknown."""


@dataclass(frozen=True)
class SelectBlock:
    """One SELECT and its logical plan.

    `relations` holds its tables and sub-queries by lower-case name, in the order of the text, and `columns` their
    columns. `joins` are the joins in its text. `hidden` are the relations on the right side of semi and anti joins,
    whose columns are not visible above these. `has_ambiguous_names` means that a name in an ON clause could refer to
    another column if more relations were in scope.
    """

    select: exp.Select
    plan: Plan
    relations: Mapping[str, exp.Expr]
    columns: RelationColumns
    joins: tuple[exp.Join, ...] = ()
    hidden: frozenset[str] = frozenset()
    has_ambiguous_names: bool = False

    def is_table(self, name: str) -> bool:
        """Return whether a relation is a table, as opposed to a sub-query or a common table expression."""
        node = self.relations[name]
        return isinstance(node, exp.Table) and referenced_cte(node) is None


def select_blocks(tree: exp.Expr, columns_of: ColumnsOf) -> Iterator[SelectBlock]:
    """Yield the SELECTs of a query whose FROM clause consists of joins of named relations."""
    for select in tree.find_all(exp.Select):
        block = _BlockReader(select, columns_of).read()
        if block is not None:
            yield block


class _BlockReader:
    """Reads FROM and WHERE of one SELECT."""

    def __init__(self, select: exp.Select, columns_of: ColumnsOf) -> None:
        self._select = select
        self._columns_of = columns_of
        self._relations: dict[str, exp.Expr] = {}
        self._columns: dict[str, frozenset[str] | None] = {}
        self._joins: list[exp.Join] = []
        self._hidden: set[str] = set()
        self._has_ambiguous_names = False

    def read(self) -> SelectBlock | None:
        source = self._select.args.get("from_")
        if source is None or self._select.args.get("laterals") or self._select.args.get("pivots"):
            return None
        joins = self._select.args.get("joins") or []
        if not all(self._add_relations(node) for node in (source.this, *(join.this for join in joins))):
            return None
        plan = self._join(self._plan(source.this), joins)
        where = self._select.args.get("where")
        if where is not None:
            plan = Filter(self._conjuncts(where.this, plan.names), plan)
        hidden = frozenset(self._hidden)
        return SelectBlock(
            self._select, plan, self._relations, self._columns, tuple(self._joins), hidden, self._has_ambiguous_names
        )

    def _add_relations(self, node: exp.Expr) -> bool:
        """Register the relations of a part of FROM. Return False if one has no name or a name occurs twice."""
        first = _first_in_parentheses(node)
        if first is None:
            return not node.args.get("joins") and self._add_relation(node)
        return self._add_relation(first) and all(
            self._add_relations(join.this) for join in first.args.get("joins") or ()
        )

    def _add_relation(self, node: exp.Expr) -> bool:
        name = node.alias_or_name.lower()
        is_named = isinstance(node, exp.Table | exp.Subquery) and bool(name) and name not in self._relations
        if not is_named or node.args.get("pivots"):
            return False
        self._relations[name] = node
        self._columns[name] = self._columns_of(node)
        return True

    def _join(self, plan: Plan, joins: Sequence[exp.Join]) -> Plan:
        has_hints = self._select.args.get("hint") is not None
        for join in joins:
            on = join.args.get("on")
            kind = _join_kind(join)
            right = self._plan(join.this)
            conditions = () if on is None else self._conjuncts(on, plan.names | right.names)
            plan = Join(plan, right, kind, conditions, has_hints or bool(join.hint), join)
            self._joins.append(join)
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                self._hidden |= plan.right.names
            if merges_columns(join):
                plan = Project(plan)
        return plan

    def _plan(self, node: exp.Expr) -> Plan:
        first = _first_in_parentheses(node)
        if first is None:
            return RelationLeaf(node.alias_or_name.lower())
        return self._join(RelationLeaf(first.alias_or_name.lower()), first.args.get("joins") or [])

    def _conjuncts(self, condition: exp.Expr, names: frozenset[str]) -> tuple[Conjunct, ...]:
        # A condition sees neither the columns of later relations nor those of the right side of semi and anti joins:
        # the same name may refer to an outer query or to a session variable there.
        visible = {name: self._columns[name] for name in names - self._hidden}
        invisible = {name: columns for name, columns in self._columns.items() if name not in visible}
        parts = [part for conjunct in conjuncts(condition) for part in factor_common_conjuncts(conjunct)]
        self._has_ambiguous_names |= any(_is_ambiguous(part, visible, invisible) for part in parts)
        return tuple(conjunct_of(part, visible) for part in parts)


def merges_columns(join: exp.Join) -> bool:
    """Return whether a join merges columns of equal names (USING, NATURAL)."""
    return bool(join.args.get("using")) or join.method == "NATURAL"


def _is_ambiguous(node: exp.Expr, visible: RelationColumns, invisible: RelationColumns) -> bool:
    """Return whether a column of a condition could refer to an invisible relation if that were in scope."""
    for column in node.find_all(exp.Column):
        first = column.parts[0].name.lower()
        is_qualified = len(column.parts) > 1 and owner(column, visible) is not None
        if not is_qualified and any(
            first == relation or names is None or first in names for relation, names in invisible.items()
        ):
            return True
    return False


def _first_in_parentheses(node: exp.Expr) -> exp.Table | None:
    """Return the first table of joins in parentheses without an alias, or None for anything else."""
    if not isinstance(node, exp.Subquery) or node.alias or not isinstance(node.this, exp.Table):
        return None
    return None if any(node.args.get(part) for part in ("joins", "sample", "pivots")) else node.this


def _join_kind(join: exp.Join) -> JoinKind:
    if join.kind in _KINDS:
        return _KINDS[join.kind]
    return _SIDES.get(join.side, JoinKind.INNER)


def write_plan(block: SelectBlock, plan: Plan, broadcast: Collection[str]) -> None:
    """Write the FROM, WHERE and hints of a plan into a block's SELECT, in place.

    `broadcast` names relations to hint. A bare star becomes one star per relation in the original order, so that the
    output columns stay the same.

    >>> from pushdown_spark.optimizer.plans.sql_reader import parse_query
    >>> block = next(select_blocks(parse_query("SELECT * FROM a, b WHERE a.k = b.k"), lambda table: frozenset("k")))
    >>> write_plan(block, Join(RelationLeaf("b"), RelationLeaf("a"), conjuncts=block.plan.conjuncts), {"a"})
    >>> block.select.sql("spark")
    'SELECT /*+ BROADCAST(`a`) */ `a`.*, `b`.* FROM b JOIN a ON a.k = b.k'
    """
    select = block.select
    names = [node.alias_or_name for name, node in block.relations.items() if name not in block.hidden]
    stars = [exp.Column(this=exp.Star(), table=exp.to_identifier(name, quoted=True)) for name in names]
    items: list[exp.Expr] = []
    for item in select.expressions:
        items += [star.copy() for star in stars] if isinstance(item, exp.Star) else [item]
    above, plan = (plan.conjuncts, plan.child) if isinstance(plan, Filter) else ((), plan)
    first, joins = _from_clause(plan, block)
    select.set("expressions", items)
    select.set("from_", exp.From(this=first))
    select.set("joins", joins or None)
    select.set("where", exp.Where(this=_conjunction(above)) if above else None)
    if broadcast:
        hint_names = ", ".join(quote_name(block.relations[name].alias_or_name) for name in sorted(broadcast))
        template = parse_sql(f"SELECT /*+ BROADCAST({hint_names}) */ 1")
        select.set("hint", template.args["hint"])


def _join_on(conditions: Sequence[Conjunct]) -> exp.Join:
    """Return an inner join on conditions, or a cross join without conditions. Its right side is still missing."""
    return exp.Join(on=_conjunction(conditions)) if conditions else exp.Join(kind=JoinKind.CROSS.value)


def _conjunction(conditions: Sequence[Conjunct]) -> exp.Expr:
    return exp.and_(*(condition.node for condition in conditions))


def _from_clause(plan: Plan, block: SelectBlock) -> tuple[exp.Expr, list[exp.Join]]:
    """Return a plan as the first relation of a FROM clause and the joins after it."""
    if isinstance(plan, RelationLeaf):
        node = block.relations[plan.name].copy()
        node.set("joins", None)
        return node, []
    if isinstance(plan, Project):
        return _from_clause(plan.child, block)
    if not isinstance(plan, Join):
        raise ValueError("a FROM clause cannot contain a filter")
    first, joins = _from_clause(plan.left, block)
    join = plan.syntax.copy() if plan.syntax is not None else _join_on(plan.conjuncts)
    join.set("this", _right_side(plan.right, block))
    return first, [*joins, join]


def _right_side(plan: Plan, block: SelectBlock) -> exp.Expr:
    """Return a plan as a relation, or as joins in parentheses."""
    first, joins = _from_clause(plan, block)
    if not joins:
        return first
    start = first.copy()
    start.set("joins", list(joins))
    return exp.Subquery(this=start)
