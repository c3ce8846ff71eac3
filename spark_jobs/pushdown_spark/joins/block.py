"""Reads one SELECT as a plan of joins: its relations, who a column belongs to, and its conditions as conjuncts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.joins.factored import factored
from pushdown_spark.joins.graph import Conjunct, Filter, Join, JoinKind, Leaf, Plan, Project
from pushdown_spark.joins.kept import unit_of
from pushdown_spark.joins.text import expression_of

_NONDETERMINISTIC = (exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous, exp.AnonymousAggFunc)
"""Functions that give another value each time, and those that are not known, which may."""
_OUTER = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}
_KINDS = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI, "CROSS": JoinKind.CROSS}

Columns = Callable[[exp.Expr], frozenset[str] | None]
"""Lower-case column names of a table or sub-query, None where they are not known."""


@dataclass(frozen=True)
class Block:
    """One SELECT over a plan of joins.

    `relations` are its tables and sub-queries by lower-case name, in the order of the text; `columns` their columns.
    `joins` are the syntax trees of the plan's joins, by the joins' identity. `hidden` are the relations on the right of
    semi and anti joins, whose columns nothing above these sees. `shadows` tells that some name in an ON would mean
    another column elsewhere, where more relations are seen.
    """

    select: exp.Select
    plan: Plan
    relations: Mapping[str, exp.Expr]
    columns: Mapping[str, frozenset[str] | None]
    joins: Mapping[int, exp.Join] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    shadows: bool = False

    def is_table(self, name: str) -> bool:
        """Whether a relation is a table by its name, and neither a sub-query nor a common table expression."""
        node = self.relations[name]
        return isinstance(node, exp.Table) and expression_of(node) is None


def blocks(tree: exp.Expr, columns: Columns) -> Iterator[Block]:
    """The SELECTs of a query that can be read as joins of named relations."""
    for select in tree.find_all(exp.Select):
        found = _Reader(select, columns).block()
        if found is not None:
            yield found


def owner(column: exp.Expr, columns: Mapping[str, frozenset[str] | None]) -> str | None:
    """The relation that a column belongs to, None where that is not certain or it is none of them.

    A first part that names a relation is taken for that, as Spark does; a column without one belongs to the only
    relation that has it, if the columns of all are known.
    """
    parts = [part.name.lower() for part in column.parts] if isinstance(column, exp.Column) else []
    if len(parts) > 1 and parts[0] in columns:
        known = columns[parts[0]]
        return parts[0] if known is None or parts[1] in known else None
    if not parts or any(known is None for known in columns.values()):
        return None
    having = [name for name, known in columns.items() if known is not None and parts[0] in known]
    return having[0] if len(having) == 1 else None


def conjunct_of(node: exp.Expr, columns: Mapping[str, frozenset[str] | None]) -> Conjunct:
    """A condition with the relations that it refers to; one whose columns are not all certain may not be moved."""
    if node.find(exp.Query, exp.Exists, exp.Window, exp.Lambda, *_NONDETERMINISTIC) is not None:
        return Conjunct(node, frozenset(), movable=False)
    if any(not isinstance(unit_of(each), exp.Literal) for each in node.find_all(exp.TimestampTrunc)):
        return Conjunct(node, frozenset(), movable=False)
    owners = [owner(column, columns) for column in node.find_all(exp.Column)]
    if None in owners or node.find(exp.Star) is not None:
        return Conjunct(node, frozenset(), movable=False)
    return Conjunct(node, frozenset(name for name in owners if name is not None))


class _Reader:
    """Reads the FROM and WHERE of one SELECT."""

    def __init__(self, select: exp.Select, columns: Columns) -> None:
        self._select = select
        self._columns_of = columns
        self._relations: dict[str, exp.Expr] = {}
        self._columns: dict[str, frozenset[str] | None] = {}
        self._joins: dict[int, exp.Join] = {}
        self._hidden: set[str] = set()
        self._shadows = False

    def block(self) -> Block | None:
        source = self._select.args.get("from_")
        if source is None or self._select.args.get("laterals") or self._select.args.get("pivots"):
            return None
        fragments = [source.this, *(join.this for join in self._select.args.get("joins") or ())]
        if not all(self._collect(fragment) for fragment in fragments):
            return None
        plan = self._chained(self._plan(source.this), self._select.args.get("joins") or [])
        where = self._select.args.get("where")
        if where is not None:
            plan = Filter(self._conjuncts(where.this, plan.names), plan)
        hidden = frozenset(self._hidden)
        return Block(self._select, plan, self._relations, self._columns, self._joins, hidden, self._shadows)

    def _collect(self, node: exp.Expr) -> bool:
        """Note the relations of a part of FROM; false where one has no name, or a name is there twice."""
        group = _group(node)
        if group is None:
            return not node.args.get("joins") and self._note(node)
        return self._note(group) and all(self._collect(join.this) for join in group.args.get("joins") or ())

    def _note(self, node: exp.Expr) -> bool:
        name = node.alias_or_name.lower()
        named = isinstance(node, exp.Table | exp.Subquery) and bool(name) and name not in self._relations
        if not named or node.args.get("pivots"):
            return False
        self._relations[name] = node
        self._columns[name] = self._columns_of(node)
        return True

    def _chained(self, plan: Plan, joins: list[exp.Join]) -> Plan:
        hinted = self._select.args.get("hint") is not None
        for join in joins:
            using = join.args.get("using") or join.method == "NATURAL"
            on = join.args.get("on")
            kind = _kind(join)
            right = self._plan(join.this)
            conditions = () if on is None else self._conjuncts(on, plan.names | right.names)
            plan = Join(plan, right, kind, conditions, hinted or bool(join.hint))
            self._joins[id(plan)] = join
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                self._hidden |= plan.right.names
            if using:
                plan = Project(plan)
        return plan

    def _plan(self, node: exp.Expr) -> Plan:
        group = _group(node)
        if group is None:
            return Leaf(node.alias_or_name.lower())
        return self._chained(Leaf(group.alias_or_name.lower()), group.args.get("joins") or [])

    def _conjuncts(self, condition: exp.Expr, among: frozenset[str]) -> tuple[Conjunct, ...]:
        # Of relations that come later, and above a semi or anti join of its right side, the condition sees no columns:
        # the same name may mean one of a query around, or a variable.
        visible = {name: self._columns[name] for name in among - self._hidden}
        others = {name: known for name, known in self._columns.items() if name not in visible}
        parts = [part for each in conjuncts(condition) for part in factored(each)]
        self._shadows |= any(_is_shadowed(part, visible, others) for part in parts)
        return tuple(conjunct_of(part, visible) for part in parts)


def _is_shadowed(
    node: exp.Expr, visible: Mapping[str, frozenset[str] | None], others: Mapping[str, frozenset[str] | None]
) -> bool:
    """Whether a column of a condition may be one of other relations to those who see them as well."""
    for column in node.find_all(exp.Column):
        first = column.parts[0].name.lower()
        is_named = len(column.parts) > 1 and owner(column, visible) is not None
        if not is_named and any(first == name or known is None or first in known for name, known in others.items()):
            return True
    return False


def _group(node: exp.Expr) -> exp.Table | None:
    """The first table of joins in parentheses that have no name of their own, None for anything else."""
    if not isinstance(node, exp.Subquery) or node.alias or not isinstance(node.this, exp.Table):
        return None
    return None if any(node.args.get(part) for part in ("joins", "sample", "pivots")) else node.this


def _kind(join: exp.Join) -> JoinKind:
    if join.kind in _KINDS:
        return _KINDS[join.kind]
    return _OUTER.get(join.side, JoinKind.INNER)
