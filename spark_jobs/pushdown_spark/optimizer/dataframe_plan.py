"""Chains of joins in Spark's logical plans, converted for the optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.optimizer.catalyst import CATALYST
from pushdown_spark.optimizer.join_order.reorder_safety import MAY_FAIL, NONDETERMINISTIC
from pushdown_spark.optimizer.plans.logical_plan import ChainItem, Conjunct, JoinChain, JoinKind, RelationLeaf
from pushdown_spark.optimizer.plans.select_block import SelectBlock
from pushdown_spark.runtime.jvm_gateway import class_name, elements, java_class, tree_nodes

_KINDS = {"Inner$": JoinKind.INNER, "Cross$": JoinKind.CROSS}
_NEVER_FAIL = frozenset(
    {
        *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
        *("And", "Or", "Not", "In", "IsNull", "IsNotNull", "AttributeReference", "Literal", "Cast"),
        *("Lower", "Upper", "StringTrim", "Substring", "Concat", "Length", "StartsWith", "EndsWith", "Contains"),
        *("Coalesce", "CaseWhen", "If", "Greatest", "Least"),
    }
)
"""Expressions that fail on no value. Casts are checked by type elsewhere."""


@dataclass(frozen=True)
class CatalystChain:
    """A chain in a Spark plan: its items and conditions as Spark's objects, and the same as a `JoinChain`."""

    items: tuple[JavaObject, ...]
    names: tuple[str, ...]
    chain: JoinChain
    expressions: tuple[JavaObject, ...]
    block: SelectBlock

    @staticmethod
    def from_plan(spark: SparkSession, plan: JavaObject) -> CatalystChain | None:
        """Return the chain at the top of a plan, or None if there is none or if two items share an attribute."""
        items, kinds, conditions = _flatten(plan, JoinKind.INNER)
        if len(items) < 2:
            return None
        attributes = [[_attribute_id(attribute) for attribute in elements(item.output())] for item in items]
        item_of = {attribute: number for number, ids in enumerate(attributes) for attribute in ids}
        if len(item_of) < sum(len(set(ids)) for ids in attributes):
            return None
        names = tuple(_item_name(item, number) for number, item in enumerate(items))
        # A condition with a sub-query stays where it is, like one over attributes from elsewhere.
        subquery = java_class(spark, f"{CATALYST}.trees.TreePattern").PLAN_EXPRESSION()
        chain = JoinChain(
            tuple(ChainItem(RelationLeaf(name), kind) for name, kind in zip(names, kinds, strict=True)),
            tuple(
                _conjunct(expression, number, {} if expression.containsPattern(subquery) else item_of, names)
                for number, expression in enumerate(conditions)
            ),
        )
        columns = {name: frozenset(f"c{number}" for number in ids) for name, ids in zip(names, attributes, strict=True)}
        relations = {name: exp.to_table(name) for name in names}
        # Only the chain is ordered, so the plan of the block does not matter.
        block = SelectBlock(exp.Select(), chain.items[0].plan, relations, columns)
        return CatalystChain(tuple(items), names, chain, tuple(conditions), block)

    def expression(self, conjunct: Conjunct) -> JavaObject:
        """Return Spark's expression of a conjunct of the chain."""
        # Different expressions may have equal conjuncts, which omit casts.
        pairs = zip(self.chain.conjuncts, self.expressions, strict=True)
        return next(expression for other, expression in pairs if other is conjunct)

    def check(self, *, ansi: bool) -> None:
        """Raise UnsupportedError if the chain must keep its order."""
        if not all(expression.deterministic() for expression in self.expressions):
            raise UnsupportedError(NONDETERMINISTIC)
        over_several = [
            expression
            for expression, conjunct in zip(self.expressions, self.chain.conjuncts, strict=True)
            if len(conjunct.names) > 1
        ]
        if ansi and any(
            class_name(node) not in _NEVER_FAIL for condition in over_several for node in tree_nodes(condition)
        ):
            raise UnsupportedError(MAY_FAIL)

    def conditions_on(self, number: int) -> Iterator[JavaObject]:
        """Yield the conditions on one item alone."""
        for expression, conjunct in zip(self.expressions, self.chain.conjuncts, strict=True):
            if conjunct.names == {self.names[number]}:
                yield expression

    def keys_of(self, number: int) -> frozenset[str]:
        """Return the columns of an item in equalities between items."""
        columns = [
            column
            for conjunct in self.chain.conjuncts
            if isinstance(conjunct.node, exp.EQ)
            for column in conjunct.node.find_all(exp.Column)
        ]
        return frozenset(column.name for column in columns if column.table == self.names[number])


def column_name(attribute: JavaObject) -> str:
    """Return the name that stands for an attribute in a `JoinChain`."""
    return f"c{_attribute_id(attribute)}"


def conjuncts_of(condition: JavaObject) -> list[JavaObject]:
    """Return the conjuncts of a condition."""
    if class_name(condition) == "And":
        return [*conjuncts_of(condition.left()), *conjuncts_of(condition.right())]
    return [condition]


def computes_columns(plan: JavaObject) -> bool:
    """Return whether a plan is a projection of more than attributes."""
    return plan.nodeName() == "Project" and any(
        class_name(item) != "AttributeReference" for item in elements(plan.projectList())
    )


def _flatten(plan: JavaObject, kind: JoinKind) -> tuple[list[JavaObject], list[JoinKind], list[JavaObject]]:
    """Return the items of the left spine, the kinds of the joins that added them, and all conditions.

    Inner and cross joins without hints make a chain, also below filters and projections that compute nothing. Any other
    plan is a chain of one item.
    """
    node = plan.nodeName()
    if node == "Join" and class_name(plan.joinType()) in _KINDS and not _has_hint(plan):
        join_kind = _KINDS[class_name(plan.joinType())]
        items, kinds, conditions = _flatten(plan.left(), join_kind)
        condition = plan.condition()
        conjuncts = conjuncts_of(condition.get()) if condition.isDefined() else []
        return [*items, plan.right()], [*kinds, join_kind], [*conditions, *conjuncts]
    if node in ("Filter", "Project", "SubqueryAlias") and not computes_columns(plan):
        items, kinds, conditions = _flatten(plan.child(), kind)
        if len(items) > 1:
            own = conjuncts_of(plan.condition()) if node == "Filter" else []
            return items, kinds, [*conditions, *own]
    return [plan], [kind], []


def _has_hint(join: JavaObject) -> bool:
    hint = join.hint()
    return bool(hint.leftHint().isDefined() or hint.rightHint().isDefined())


def _conjunct(expression: JavaObject, number: int, item_of: Mapping[int, int], names: Sequence[str]) -> Conjunct:
    """Return a condition as a conjunct. Only equalities of attributes are translated.

    `item_of` returns the numbers of the items that have attributes. Conditions over others stay where they are.
    """
    references = [_attribute_id(attribute) for attribute in elements(expression.references())]
    placeholder = exp.Var(this=f"condition {number}")
    if any(column not in item_of for column in references):
        return Conjunct(placeholder)
    relations = frozenset(names[item_of[column]] for column in references)
    is_equality = class_name(expression) == "EqualTo"
    sides = [_without_casts(side) for side in elements(expression.children())] if is_equality else []
    columns = [
        exp.column(column_name(side), table=names[item_of[_attribute_id(side)]]) for side in sides if side is not None
    ]
    if len(columns) == 2 and len(relations) == 2:
        return Conjunct(exp.EQ(this=columns[0], expression=columns[1]), relations)
    return Conjunct(placeholder, relations)


def _without_casts(expression: JavaObject) -> JavaObject | None:
    """Return the attribute below casts, or None for any other expression."""
    while class_name(expression) == "Cast":
        expression = expression.child()
    return expression if class_name(expression) == "AttributeReference" else None


def _item_name(item: JavaObject, number: int) -> str:
    """Return a unique name for an item that contains its alias."""
    while item.nodeName() in ("Filter", "Project"):
        item = item.child()
    alias = str(item.alias()).lower() if item.nodeName() == "SubqueryAlias" else "relation"
    return f"{alias} {number + 1}"


def _attribute_id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())
