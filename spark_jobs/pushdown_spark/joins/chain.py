"""A chain of joins in one of Spark's plans, read into the model that orders are chosen over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from sqlglot import exp

from pushdown_spark.joins.block import Block
from pushdown_spark.joins.graph import Chain, Conjunct, Item, Join, JoinKind, Leaf, Pair, Plan, Tree
from pushdown_spark.runtime.jvm_gateway import elements

_KINDS = {"Inner$": JoinKind.INNER, "Cross$": JoinKind.CROSS}
_COMPARISONS = frozenset(
    {
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
        *("And", "Or", "Not", "In", "IsNull", "IsNotNull", "AttributeReference", "Literal", "Cast"),
        *("Lower", "Upper", "StringTrim", "Substring", "Concat", "Length", "StartsWith", "EndsWith", "Contains"),
        *("Coalesce", "CaseWhen", "If", "Greatest", "Least"),
    }
)
"""What never fails on any value; casts are judged by their types elsewhere."""

_QUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"})


@dataclass(frozen=True)
class CatalystChain:
    """Relations of a chain as Spark's plans, and the same as a model; `expressions` are its conditions, in order."""

    items: tuple[JavaObject, ...]
    names: tuple[str, ...]
    graph: Chain
    expressions: tuple[JavaObject, ...]
    block: Block

    @staticmethod
    def starting_at(plan: JavaObject) -> CatalystChain | None:
        """The chain whose top is a plan; None where there is none, or two of its relations share an attribute."""
        if not is_chained(plan):
            return None
        items, kinds, conditions = _flattened(plan, JoinKind.INNER)
        homes: dict[int, int] = {}
        for place, item in enumerate(items):
            for attribute in elements(item.output()):
                if homes.setdefault(_id(attribute), place) != place:
                    return None
        names = tuple(_name(item, place) for place, item in enumerate(items))
        graph = Chain(
            tuple(Item(Leaf(name), kind) for name, kind in zip(names, kinds, strict=True)),
            tuple(_conjunct(expression, number, homes, names) for number, expression in enumerate(conditions)),
        )
        columns = {
            name: frozenset(column_name(attribute) for attribute in elements(item.output()))
            for name, item in zip(names, items, strict=True)
        }
        relations = {name: exp.to_table(name) for name in names}
        block = Block(exp.Select(), _as_plan(graph), relations, columns)
        return CatalystChain(tuple(items), names, graph, tuple(conditions), block)

    @property
    def as_written(self) -> Tree:
        """The relations in the order of the plan, one after the other."""
        tree: Tree = 0
        for place in range(1, len(self.items)):
            tree = Pair(tree, place, JoinKind.INNER)
        return tree

    def expression(self, conjunct: Conjunct) -> JavaObject:
        """Spark's expression of a condition of the chain."""
        # Two of Spark's may have one form here, as casts have none.
        same = (number for number, each in enumerate(self.graph.conjuncts) if each is conjunct)
        place = next(same, None)
        return self.expressions[self.graph.conjuncts.index(conjunct) if place is None else place]

    def obstacle(self, *, ansi: bool) -> str | None:
        """Why the chain must stay as it is, None where it need not."""
        if not all(expression.deterministic() for expression in self.expressions):
            return "a condition is not deterministic"
        several = [
            expression
            for expression, conjunct in zip(self.expressions, self.graph.conjuncts, strict=True)
            if len(conjunct.names) > 1
        ]
        if ansi and any(_kind(node) not in _COMPARISONS for expression in several for node in nodes(expression)):
            return "a condition over several relations may fail, in another order on rows that it never met before"
        return None

    def conditions_on(self, place: int) -> Iterator[JavaObject]:
        """The conditions on one relation alone."""
        for expression, conjunct in zip(self.expressions, self.graph.conjuncts, strict=True):
            if conjunct.names == {self.names[place]}:
                yield expression

    def keys_of(self, place: int) -> frozenset[str]:
        """The columns of a relation that equalities between relations mention, by their names in the model."""
        columns = [
            column
            for conjunct in self.graph.conjuncts
            if isinstance(conjunct.node, exp.EQ)
            for column in conjunct.node.find_all(exp.Column)
        ]
        return frozenset(column.name for column in columns if column.table == self.names[place])


def column_name(attribute: JavaObject) -> str:
    """The name of an attribute in the model."""
    return f"c{_id(attribute)}"


def conjuncts_of(condition: JavaObject) -> list[JavaObject]:
    """The parts of a condition that AND connects."""
    if _kind(condition) == "And":
        return [*conjuncts_of(condition.left()), *conjuncts_of(condition.right())]
    return [condition]


def nodes(tree: JavaObject) -> Iterator[JavaObject]:
    """A tree of Spark's, and all trees in it."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(list(elements(node.children())))


def computes(plan: JavaObject) -> bool:
    """Whether a plan is a projection of more than attributes."""
    return plan.nodeName() == "Project" and any(
        _kind(item) != "AttributeReference" for item in elements(plan.projectList())
    )


def is_chained(plan: JavaObject) -> bool:
    """Whether a plan is an inner or cross join without hints, or one below filters and projections of attributes."""
    kind = plan.nodeName()
    if kind == "Join":
        hint = plan.hint()
        is_hinted = hint.leftHint().isDefined() or hint.rightHint().isDefined()
        return plan.joinType().getClass().getSimpleName() in _KINDS and not is_hinted
    return kind in ("Filter", "Project", "SubqueryAlias") and not computes(plan) and is_chained(plan.child())


def _flattened(plan: JavaObject, kind: JoinKind) -> tuple[list[JavaObject], list[JoinKind], list[JavaObject]]:
    """The left spine: its relations, the kinds of the joins that brought them in, and all conditions."""
    if not is_chained(plan):
        return [plan], [kind], []
    if plan.nodeName() == "Join":
        own = _KINDS[plan.joinType().getClass().getSimpleName()]
        items, kinds, conditions = _flattened(plan.left(), own)
        condition = plan.condition()
        parts = conjuncts_of(condition.get()) if condition.isDefined() else []
        return [*items, plan.right()], [*kinds, own], [*conditions, *parts]
    items, kinds, conditions = _flattened(plan.child(), kind)
    if plan.nodeName() == "Filter":
        conditions = [*conditions, *conjuncts_of(plan.condition())]
    return items, kinds, conditions


def _conjunct(expression: JavaObject, number: int, homes: dict[int, int], names: Sequence[str]) -> Conjunct:
    references = [_id(attribute) for attribute in elements(expression.references())]
    movable = bool(references) and all(home in homes for home in references) and not _has_query(expression)
    if not movable:
        return Conjunct(exp.Var(this=f"condition {number}"), frozenset(), movable=False)
    about = frozenset(names[homes[each]] for each in references)
    sides = [_attribute(side) for side in elements(expression.children())] if _kind(expression) == "EqualTo" else []
    if len(sides) == 2 and len(about) == 2:
        columns = [exp.column(column_name(side), table=names[homes[_id(side)]]) for side in sides if side is not None]
        if len(columns) == 2:
            return Conjunct(exp.EQ(this=columns[0], expression=columns[1]), about)
    return Conjunct(exp.Var(this=f"condition {number}"), about)


def _attribute(expression: JavaObject) -> JavaObject | None:
    """The attribute of a side of an equality, seen through casts."""
    while _kind(expression) == "Cast":
        expression = expression.child()
    return expression if _kind(expression) == "AttributeReference" else None


def _has_query(expression: JavaObject) -> bool:
    return any(_kind(node) in _QUERIES for node in nodes(expression))


def _as_plan(graph: Chain) -> Plan:
    plan: Plan = graph.items[0].plan
    for item in graph.items[1:]:
        plan = Join(plan, item.plan, item.kind)
    return plan


def _name(item: JavaObject, place: int) -> str:
    """A name for a relation: its alias where it has one."""
    while item.nodeName() in ("Filter", "Project"):
        item = item.child()
    alias = str(item.alias()).lower() if item.nodeName() == "SubqueryAlias" else "relation"
    return f"{alias} {place + 1}"


def _id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())


def _kind(node: JavaObject) -> str:
    return str(node.getClass().getSimpleName())
