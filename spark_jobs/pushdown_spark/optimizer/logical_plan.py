"""The logical plan of one SELECT: relations, joins, filters and conjuncts, and chains of joins that may be reordered.

A chain is a sequence of inner and cross joins with the filters between them. The rules are those of Spark's
`ExtractFiltersAndInnerJoins`: only the left side of a join is followed, so a join on the right side is one item of the
chain. A projection, an aggregate, an outer join or a hinted join ends the chain and is one item of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.optimizer.sql_dialect import truncation_unit
from pushdown_spark.optimizer.sql_reader import referenced_cte

_NONDETERMINISTIC = (exp.Rand, exp.Randn, exp.Uuid, exp.Anonymous, exp.AnonymousAggFunc)
"""Functions whose value may differ between calls. Functions that sqlglot does not know are among them."""


class JoinKind(StrEnum):
    """Kinds of joins. The values are SQL keywords."""

    INNER = "INNER"
    CROSS = "CROSS"
    LEFT = "LEFT OUTER"
    RIGHT = "RIGHT OUTER"
    FULL = "FULL OUTER"
    SEMI = "LEFT SEMI"
    ANTI = "LEFT ANTI"

    @property
    def is_inner(self) -> bool:
        """Whether the join returns exactly the pairs that satisfy its condition, so that its order is free."""
        return self in (JoinKind.INNER, JoinKind.CROSS)

    @property
    def preserves_left(self) -> bool:
        """Whether the join treats each left row independently, so that a filter on left rows may run before it."""
        return self in (JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)


_SIDES = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}
_KINDS = {"SEMI": JoinKind.SEMI, "ANTI": JoinKind.ANTI, "CROSS": JoinKind.CROSS}

RelationColumns = Mapping[str, frozenset[str] | None]
"""Lower-case column names by relation; None where they are unknown."""

ColumnsOf = Callable[[exp.Expr], frozenset[str] | None]
"""Returns the lower-case column names of a table or sub-query, or None if they are unknown."""


@dataclass(frozen=True)
class Conjunct:
    """One conjunct of a condition, and the names of the relations that it refers to.

    `movable` is false for nondeterministic conditions, conditions with sub-queries and conditions with columns of
    unknown origin.
    """

    node: exp.Expr
    names: frozenset[str]
    movable: bool = True

    @property
    def is_joinable(self) -> bool:
        """Whether a join may evaluate the conjunct. A conjunct without columns stays where it is."""
        return self.movable and bool(self.names)


@dataclass(frozen=True)
class RelationLeaf:
    """A table or sub-query. `name` qualifies its columns."""

    name: str

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return frozenset({self.name})


@dataclass(frozen=True)
class Project:
    """A projection or an aggregate. Joins above and below it do not form one chain."""

    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.child.names


@dataclass(frozen=True)
class Filter:
    """Conjuncts over a plan."""

    conjuncts: tuple[Conjunct, ...]
    child: Plan

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.child.names


@dataclass(frozen=True)
class Join:
    """A join of two plans. `hinted` means that the query has a hint for this join."""

    left: Plan
    right: Plan
    kind: JoinKind = JoinKind.INNER
    conjuncts: tuple[Conjunct, ...] = ()
    hinted: bool = False

    @property
    def names(self) -> frozenset[str]:
        """The names of the relations in the plan."""
        return self.left.names | self.right.names

    @property
    def is_chainable(self) -> bool:
        """Whether the join may be part of a chain."""
        return self.kind.is_inner and not self.hinted


Plan = RelationLeaf | Project | Filter | Join


@dataclass(frozen=True)
class ChainItem:
    """An item of a chain, and the kind of the join that added it. The first item has the kind of the join above it."""

    plan: Plan
    kind: JoinKind


@dataclass(frozen=True)
class JoinChain:
    """A chain of joins: its items from left to right, and all conjuncts between and above them."""

    items: tuple[ChainItem, ...]
    conjuncts: tuple[Conjunct, ...]


@dataclass(frozen=True)
class JoinNode:
    """A join in an ordered chain. Each side is a join, or the number of an item of the chain."""

    left: ChainTree
    right: ChainTree
    kind: JoinKind
    conjuncts: tuple[Conjunct, ...] = ()


ChainTree = int | JoinNode


@dataclass(frozen=True)
class OrderedChain:
    """A join tree over a chain, and the conjuncts of the filter above it."""

    tree: ChainTree
    above: tuple[Conjunct, ...] = ()


def extract_chain(plan: Plan) -> JoinChain | None:
    """Return the chain at the top of a plan, or None if the plan is neither a join nor a filter over a join."""
    joined = plan.child if isinstance(plan, Filter) else plan
    return flatten(plan) if isinstance(joined, Join) and joined.is_chainable else None


def flatten(plan: Plan, kind: JoinKind = JoinKind.INNER) -> JoinChain:
    """Flatten a plan into a chain. A plan that does not start a chain becomes a chain of one item of this kind.

    >>> chain = flatten(Join(Join(RelationLeaf("a"), RelationLeaf("b")), Join(RelationLeaf("c"), RelationLeaf("d"))))
    >>> [sorted(item.plan.names) for item in chain.items]
    [['a'], ['b'], ['c', 'd']]
    """
    if isinstance(plan, Join) and plan.is_chainable:
        left = flatten(plan.left, plan.kind)
        return JoinChain((*left.items, ChainItem(plan.right, plan.kind)), (*left.conjuncts, *plan.conjuncts))
    if isinstance(plan, Filter) and isinstance(plan.child, Join) and plan.child.is_chainable:
        below = flatten(plan.child)
        return JoinChain(below.items, (*below.conjuncts, *plan.conjuncts))
    return JoinChain((ChainItem(plan, kind),), ())


def item_numbers(tree: ChainTree) -> tuple[int, ...]:
    """Return the item numbers of a join tree from left to right."""
    return (tree,) if isinstance(tree, int) else (*item_numbers(tree.left), *item_numbers(tree.right))


def relation_names(tree: ChainTree, items: Sequence[ChainItem]) -> frozenset[str]:
    """Return the names of all relations of a join tree."""
    return frozenset[str]().union(*(items[number].plan.names for number in item_numbers(tree)))


def split_by_relations(
    conditions: Iterable[Conjunct], names: frozenset[str]
) -> tuple[tuple[Conjunct, ...], tuple[Conjunct, ...]]:
    """Split conjuncts into those that these relations suffice for, and the others."""
    conditions = tuple(conditions)
    return (
        tuple(condition for condition in conditions if condition.names <= names),
        tuple(condition for condition in conditions if not condition.names <= names),
    )


def attach_conjuncts(tree: ChainTree, items: Sequence[ChainItem], conditions: Iterable[Conjunct]) -> OrderedChain:
    """Attach each conjunct to the lowest join that has all its relations.

    Conjuncts on a single relation stay above the tree, as do those that no join can evaluate.
    """
    conditions = tuple(conditions)
    above = [conjunct for conjunct in conditions if not conjunct.is_joinable]
    pending = tuple(conjunct for conjunct in conditions if conjunct.is_joinable)

    def attach(node: ChainTree) -> ChainTree:
        nonlocal pending
        if isinstance(node, int):
            single, pending = split_by_relations(pending, items[node].plan.names)
            above.extend(single)
            return node
        left, right = attach(node.left), attach(node.right)
        own, pending = split_by_relations(pending, relation_names(node, items))
        return JoinNode(left, right, JoinKind.INNER if own else JoinKind.CROSS, own)

    attached = attach(tree)
    return OrderedChain(attached, (*above, *pending))


@dataclass(frozen=True)
class SelectBlock:
    """One SELECT and its logical plan.

    `relations` holds its tables and sub-queries by lower-case name, in the order of the text, and `columns` their
    columns. `joins` maps the identity of each join of the plan to its syntax tree. `hidden` are the relations on the
    right side of semi and anti joins, whose columns are not visible above these. `has_ambiguous_names` means that a
    name in an ON clause could refer to another column if more relations were in scope.
    """

    select: exp.Select
    plan: Plan
    relations: Mapping[str, exp.Expr]
    columns: RelationColumns
    joins: Mapping[int, exp.Join] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    has_ambiguous_names: bool = False

    def is_table(self, name: str) -> bool:
        """Return whether a relation is a table, as opposed to a sub-query or a common table expression."""
        node = self.relations[name]
        return isinstance(node, exp.Table) and referenced_cte(node) is None


def select_blocks(tree: exp.Expr, columns_of: ColumnsOf) -> Iterator[SelectBlock]:
    """Return the SELECTs of a query whose FROM clause consists of joins of named relations."""
    for select in tree.find_all(exp.Select):
        block = _BlockReader(select, columns_of).read()
        if block is not None:
            yield block


def owner(column: exp.Expr, columns: RelationColumns) -> str | None:
    """Return the relation that a column belongs to, or None if that is uncertain.

    As in Spark, a first name part that is the name of a relation refers to that relation. An unqualified column belongs
    to the only relation that has it, provided that the columns of all relations are known.

    >>> columns = {"a": frozenset({"x", "y"}), "b": frozenset({"y"})}
    >>> [owner(exp.column(name), columns) for name in ("x", "y")]
    ['a', None]
    """
    parts = [part.name.lower() for part in column.parts] if isinstance(column, exp.Column) else []
    if len(parts) > 1 and parts[0] in columns:
        names = columns[parts[0]]
        return parts[0] if names is None or parts[1] in names else None
    if not parts or any(names is None for names in columns.values()):
        return None
    candidates = [relation for relation, names in columns.items() if names is not None and parts[0] in names]
    return candidates[0] if len(candidates) == 1 else None


def is_nondeterministic(node: exp.Expr) -> bool:
    """Return whether an expression may have another value for the same row."""
    return node.find(*_NONDETERMINISTIC) is not None


def conjunct_of(node: exp.Expr, columns: RelationColumns) -> Conjunct:
    """Return a condition with the relations that it refers to."""
    owners = [owner(column, columns) for column in node.find_all(exp.Column)]
    fixed = (
        node.find(exp.Query, exp.Exists, exp.Window, exp.Lambda, exp.Star) is not None
        or is_nondeterministic(node)
        or any(not isinstance(truncation_unit(each), exp.Literal) for each in node.find_all(exp.TimestampTrunc))
        or None in owners
    )
    if fixed:
        return Conjunct(node, frozenset(), movable=False)
    return Conjunct(node, frozenset(name for name in owners if name is not None))


def factor_common_conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """Return conditions whose conjunction is this condition, with the common conjuncts of an OR in front.

    A common equality can then connect relations. Spark's `BooleanSimplification` does the same before it orders joins.

    >>> import sqlglot
    >>> condition = sqlglot.condition("(a.k = b.k AND p = 1) OR (q = 2 AND a.k = b.k)")
    >>> [part.sql() for part in factor_common_conjuncts(condition)]
    ['a.k = b.k', 'p = 1 OR q = 2']
    >>> [part.sql() for part in factor_common_conjuncts(sqlglot.condition("(k = 1 AND p = 1) OR k = 1"))]
    ['k = 1']
    """
    condition = condition.unnest()
    if not isinstance(condition, exp.Or):
        return [condition]
    alternatives = [conjuncts(alternative) for alternative in condition.flatten()]
    common = [part for part in dict.fromkeys(alternatives[0]) if all(part in other for other in alternatives[1:])]
    if not common:
        return [condition]
    rest = [[part for part in alternative if part not in common] for alternative in alternatives]
    return common if [] in rest else [*common, exp.or_(*(exp.and_(*parts) for parts in rest))]


class _BlockReader:
    """Reads FROM and WHERE of one SELECT."""

    def __init__(self, select: exp.Select, columns_of: ColumnsOf) -> None:
        self._select = select
        self._columns_of = columns_of
        self._relations: dict[str, exp.Expr] = {}
        self._columns: dict[str, frozenset[str] | None] = {}
        self._joins: dict[int, exp.Join] = {}
        self._hidden: set[str] = set()
        self._has_ambiguous_names = False

    def read(self) -> SelectBlock | None:
        source = self._select.args.get("from_")
        if source is None or self._select.args.get("laterals") or self._select.args.get("pivots"):
            return None
        joins = self._select.args.get("joins") or []
        if not all(self._add_relations(node) for node in (source.this, *(join.this for join in joins))):
            return None
        plan = self._joined(self._plan(source.this), joins)
        where = self._select.args.get("where")
        if where is not None:
            plan = Filter(self._conjuncts(where.this, plan.names), plan)
        hidden = frozenset(self._hidden)
        return SelectBlock(
            self._select, plan, self._relations, self._columns, self._joins, hidden, self._has_ambiguous_names
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

    def _joined(self, plan: Plan, joins: Sequence[exp.Join]) -> Plan:
        has_hints = self._select.args.get("hint") is not None
        for join in joins:
            on = join.args.get("on")
            kind = _join_kind(join)
            right = self._plan(join.this)
            conditions = () if on is None else self._conjuncts(on, plan.names | right.names)
            plan = Join(plan, right, kind, conditions, has_hints or bool(join.hint))
            self._joins[id(plan)] = join
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                self._hidden |= plan.right.names
            if merges_columns(join):
                plan = Project(plan)
        return plan

    def _plan(self, node: exp.Expr) -> Plan:
        first = _first_in_parentheses(node)
        if first is None:
            return RelationLeaf(node.alias_or_name.lower())
        return self._joined(RelationLeaf(first.alias_or_name.lower()), first.args.get("joins") or [])

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
