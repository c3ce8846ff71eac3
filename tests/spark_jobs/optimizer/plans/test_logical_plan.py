"""Chains of joins: the documented examples of flattening, and the cases of Spark's own test suites."""

from __future__ import annotations

import pytest
import sqlglot

from pushdown_spark.optimizer.plans.logical_plan import (
    ChainItem,
    Conjunct,
    Filter,
    Join,
    JoinChain,
    JoinKind,
    JoinNode,
    Plan,
    Project,
    RelationLeaf,
    attach_conjuncts,
    extract_chain,
    flatten,
    heuristic_order,
    item_numbers,
)

T1, T2, T3 = RelationLeaf("t1"), RelationLeaf("t2"), RelationLeaf("t3")
INNER, CROSS = JoinKind.INNER, JoinKind.CROSS


def condition(sql: str, *names: str) -> Conjunct:
    return Conjunct(sqlglot.parse_one(sql, dialect="spark"), frozenset(names))


T2_T1, T1_SIZE, T3_T1 = (
    condition("t2.id = t1.id", "t1", "t2"),
    condition("t1.id > 10", "t1"),
    condition("t3.id = t1.id", "t1", "t3"),
)


def counts(plan: Plan) -> tuple[int, int]:
    chain = flatten(plan)
    return len(chain.items), len(chain.conjuncts)


def test_example_1_one_cross_join() -> None:
    assert counts(Join(T1, T1, CROSS)) == (2, 0)


def test_example_2_one_inner_join_with_a_filter() -> None:
    assert counts(Filter((condition("t1 = t2", "t1", "t2"),), Join(T1, T2))) == (2, 1)


def test_example_3_one_inner_and_one_cross_join_with_a_compound_filter() -> None:
    assert counts(Filter((T2_T1, T1_SIZE), Join(Join(T1, T1, CROSS), T2))) == (3, 2)


def test_example_4_a_filter_between_joins() -> None:
    below = Filter((T2_T1, T1_SIZE), Join(Join(T1, T1, CROSS), T2))
    assert counts(Filter((T3_T1,), Join(below, Project(T3)))) == (4, 3)


def test_example_5_join_under_project_is_no_longer_consecutive() -> None:
    below = Filter((T2_T1, T1_SIZE), Join(Project(Join(T1, T1, CROSS)), T2))
    assert counts(Filter((T3_T1,), Join(below, Project(T3)))) == (3, 3)


def test_example_6_join_on_right_hand_side_is_not_considered() -> None:
    right = Filter((T2_T1, T1_SIZE), Join(T1, T2))
    plan = Filter((T2_T1, T1_SIZE), Join(Join(T1, right, CROSS), T2))
    assert counts(plan) == (3, 2)
    assert flatten(plan).items[1] == ChainItem(right, CROSS)


X, Y, Z = RelationLeaf("x"), RelationLeaf("y"), RelationLeaf("z")
X_Y, X_Z, Y_Z = (
    condition("x.b = y.d", "x", "y"),
    condition("x.b = z.b", "x", "z"),
    condition("y.d = z.a", "y", "z"),
)


@pytest.mark.parametrize("plan", [X, Filter((condition("x.b = 1", "x"),), X), Project(Join(X, Y))])
def test_only_joins_start_a_chain(plan: Plan) -> None:
    assert extract_chain(plan) is None


@pytest.mark.parametrize(
    ("plan", "items", "conditions"),
    [
        (Join(X, Y), "xy", ()),
        (Join(X, Y, conjuncts=(X_Y,)), "xy", (X_Y,)),
        (Filter((X_Y,), Join(X, Y)), "xy", (X_Y,)),
        (Join(Join(X, Y), Z), "xyz", ()),
        (Join(Filter((X_Y,), Join(X, Y)), Z), "xyz", (X_Y,)),
    ],
)
def test_a_chain_has_the_conditions_of_joins_and_filters(
    plan: Plan, items: str, conditions: tuple[Conjunct, ...]
) -> None:
    chain = extract_chain(plan)
    assert chain is not None
    assert [item.plan for item in chain.items] == [RelationLeaf(name) for name in items]
    assert chain.conjuncts == conditions


@pytest.mark.parametrize(
    ("plan", "kinds"),
    [
        (Join(X, Y, CROSS), [CROSS, CROSS]),
        (Join(Join(X, Y, CROSS), Z, CROSS), [CROSS, CROSS, CROSS]),
        (Join(Join(X, Y, INNER), Z, CROSS), [INNER, INNER, CROSS]),
        (Join(Join(X, Y, CROSS), Z, INNER), [CROSS, CROSS, INNER]),
    ],
)
def test_each_relation_has_the_kind_of_the_join_that_brought_it_in(plan: Plan, kinds: list[JoinKind]) -> None:
    assert [item.kind for item in flatten(plan).items] == kinds


@pytest.mark.parametrize("kind", [kind for kind in JoinKind if not kind.is_inner])
def test_outer_semi_and_anti_joins_end_the_chain(kind: JoinKind) -> None:
    assert counts(Join(Join(X, Y, kind, (X_Y,)), Z, conjuncts=(X_Z,))) == (2, 1)
    assert extract_chain(Join(X, Y, kind, (X_Y,))) is None


def test_a_hinted_join_ends_the_chain() -> None:
    assert counts(Join(Join(X, Y, has_hint=True), Z)) == (2, 0)


def order_chain(*conditions: Conjunct, items: str = "xyz", kinds: tuple[JoinKind, ...] = (INNER,) * 3) -> JoinChain:
    return JoinChain(
        tuple(ChainItem(RelationLeaf(name), kind) for name, kind in zip(items, kinds, strict=False)), conditions
    )


def test_two_relations_keep_their_order_and_are_inner_only_if_both_are() -> None:
    constant, row_number = condition("TRUE"), condition("row_number() = 2")
    for kinds, expected in (((INNER, INNER), INNER), ((INNER, CROSS), CROSS), ((CROSS, INNER), CROSS)):
        result = heuristic_order(order_chain(X_Y, row_number, constant, items="xy", kinds=kinds))
        assert result.tree == JoinNode(0, 1, expected, (X_Y,))
        assert result.above == (row_number, constant)


def test_the_first_relation_is_joined_with_the_first_connected_one() -> None:
    result = heuristic_order(order_chain(X_Z, Y_Z))
    assert result.tree == JoinNode(JoinNode(0, 2, INNER, (X_Z,)), 1, INNER, (Y_Z,))
    assert result.above == ()


def test_join_kinds_stay_with_their_relations() -> None:
    result = heuristic_order(order_chain(X_Z, Y_Z, kinds=(CROSS, CROSS, CROSS)))
    assert result.tree == JoinNode(JoinNode(0, 2, CROSS, (X_Z,)), 1, CROSS, (Y_Z,))
    last = heuristic_order(order_chain(X_Z, kinds=(INNER, INNER, CROSS)))
    assert last.tree == JoinNode(JoinNode(0, 2, CROSS, (X_Z,)), 1, INNER, ())


def test_a_condition_over_one_relation_connects_nothing() -> None:
    result = heuristic_order(order_chain(condition("z.a > 1", "z"), condition("x.b > 1", "x")))
    assert item_numbers(result.tree) == (0, 1, 2)


def test_unconnected_relations_come_last() -> None:
    result = heuristic_order(order_chain(X_Z, items="xyz"))
    assert item_numbers(result.tree) == (0, 2, 1)


def test_conditions_that_stay_above_connect_nothing() -> None:
    for moved in (condition("x.b = z.b AND rand() < 1"), condition("1 = 1")):
        result = heuristic_order(order_chain(moved))
        assert item_numbers(result.tree) == (0, 1, 2)
        assert result.above == (moved,)


def test_a_condition_over_three_relations_waits_for_the_third() -> None:
    three = condition("x.b + y.d = z.a", "x", "y", "z")
    result = heuristic_order(order_chain(three))
    assert result.tree == JoinNode(JoinNode(0, 1, INNER, ()), 2, INNER, (three,))


def test_a_single_relation_cannot_be_ordered() -> None:
    with pytest.raises(ValueError, match="at least two"):
        heuristic_order(order_chain(items="x"))


def test_conditions_go_to_the_lowest_join_that_has_all_their_relations() -> None:
    chain = order_chain(X_Y, X_Z, Y_Z, condition("y.d > 1", "y"), condition("rand() < x.b"))
    result = attach_conjuncts(JoinNode(JoinNode(1, 2, INNER), 0, INNER), chain.items, chain.conjuncts)
    assert result.tree == JoinNode(JoinNode(1, 2, INNER, (Y_Z,)), 0, INNER, (X_Y, X_Z))
    assert set(result.above) == set(chain.conjuncts[3:])
    apart = attach_conjuncts(JoinNode(JoinNode(0, 1, INNER), 2, INNER), chain.items, (X_Z,))
    assert apart.tree == JoinNode(JoinNode(0, 1, CROSS), 2, INNER, (X_Z,))
