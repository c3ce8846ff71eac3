"""Statistics prune a unit of rows only if no row in it can pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal

import pytest
from pyspark.sql import types as t

from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, can_match, may_contain, probes
from pushdown_spark.expressions.types import Path, Value

SCHEMA = t.StructType(
    [
        t.StructField("i", t.IntegerType()),
        t.StructField("j", t.IntegerType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("y", t.DoubleType()),
        t.StructField("m", t.DecimalType(10, 2)),
        t.StructField("s", t.StringType()),
        t.StructField("d", t.DateType()),
        t.StructField("b", t.BooleanType()),
        t.StructField("n", t.StructType([t.StructField("k", t.LongType())])),
    ]
)


def _root(where: str) -> Node:
    tree = parse_predicate(where)
    assert tree is not None
    outcome = bind(tree, Scope(SCHEMA, has_plain_strings=True))
    assert outcome.artifact is not None, outcome.reason
    return outcome.artifact


def _statistics(**columns: ColumnBounds) -> Callable[[Path], ColumnBounds | None]:
    return {tuple(name.split("__")): bounds for name, bounds in columns.items()}.get


SOME = ColumnBounds(10, 20, False, 100)
"""Integers from 10 to 20 without nulls."""


@pytest.mark.parametrize(
    ("where", "may"),
    [
        ("i = 9", False),
        ("i = 10", True),
        ("i <=> 21", False),
        ("i < 10", False),
        ("i <= 10", True),
        ("i > 20", False),
        ("i >= 20", True),
        ("i <> 15", True),
        ("NOT (i < 21)", False),
        ("NOT (i >= 10)", False),
        ("NOT (i > 10)", True),
        ("i BETWEEN 21 AND 30", False),
        ("i NOT BETWEEN 5 AND 30", False),
        ("i IN (1, 2, 30)", False),
        ("i IN (1, 12, 30)", True),
        ("i NOT IN (1, 12, NULL)", False),
        ("i IS NULL", False),
        ("i IS NOT NULL", True),
        ("i = 15.5", False),
        ("i > 20 OR i < 10", False),
        ("i > 20 OR j = 1", True),
        ("i > 20 AND j = 1", False),
        ("(i > 20 OR i = 5) IS NULL", False),
        ("(i > 20 OR i = 5) IS TRUE", False),
        ("(i > 20 OR i = 5) IS NOT TRUE", True),
        ("i < 99999999999999999999", True),
        ("i = NULL", False),
        ("FALSE", False),
        ("i = 5 AND s RLIKE 'x'", False),
    ],
)
def test_integer_bounds_exclude_values_outside(where: str, may: bool) -> None:
    assert can_match(_root(where), _statistics(i=SOME)) is may


def test_a_unit_of_one_value_cannot_match_its_negation() -> None:
    only = _statistics(i=ColumnBounds(7, 7, False, 3))
    assert not can_match(_root("i <> 7"), only)
    assert not can_match(_root("i NOT IN (5, 7)"), only)
    assert can_match(_root("i <> 8"), only)
    assert not can_match(_root("i IS DISTINCT FROM 7"), only)
    nullable = _statistics(i=ColumnBounds(7, 7, True, 3))
    assert can_match(_root("i IS DISTINCT FROM 7"), nullable)
    assert not can_match(_root("i <> 7"), nullable)


def test_null_counts_exclude_null_tests() -> None:
    all_null = _statistics(i=ColumnBounds(None, None, True, 0))
    for where in ("i = 1", "i <> 1", "NOT (i = 1)", "i IN (1, 2)", "i NOT IN (1)", "i IS NOT NULL", "i < j"):
        assert not can_match(_root(where), all_null), where
    for where in ("i IS NULL", "i <=> NULL", "NOT (i <=> 1)", "(i = 1 OR i = 2) IS NULL"):
        assert can_match(_root(where), all_null), where


def test_unknown_statistics_exclude_nothing() -> None:
    for where in ("i = 1", "i IS NULL", "i IS NOT NULL", "i NOT IN (1)", "s LIKE 'a%'", "i < j", "x > 1", "NOT b"):
        assert can_match(_root(where), lambda path: None), where
        assert can_match(_root(where), lambda path: ColumnBounds()), where


def test_one_known_bound_excludes_values_beyond_it() -> None:
    assert not can_match(_root("i < 10"), _statistics(i=ColumnBounds(low=10)))
    assert can_match(_root("i > 1000"), _statistics(i=ColumnBounds(low=10)))
    assert not can_match(_root("i > 20"), _statistics(i=ColumnBounds(high=20)))


def test_nan_may_exceed_any_bound() -> None:
    bounds = _statistics(x=ColumnBounds(1.0, 2.0, False, 9))
    for where in (
        "x > 5",
        "x >= 5",
        "isnan(x)",
        "x = double('NaN')",
        "x <> 1.5",
        "NOT (x < 5)",
        "NOT (x <= 5)",
        "x > y",
    ):
        tree = parse_predicate(where)
        assert tree is not None
        outcome = bind(tree, Scope(SCHEMA, has_plain_strings=True, fold=_fold_nan))
        assert outcome.artifact is not None, outcome.reason
        assert can_match(outcome.artifact, bounds), where
    for where in ("x < 1", "x = 5", "x IN (0, 3)", "NOT (x >= 1)", "NOT (x > 0.5)", "x <=> 0"):
        assert not can_match(_root(where), bounds), where


def _fold_nan(sql: str) -> object:
    return [("double", "NaN")] if "NaN" in sql else None


def test_nan_is_not_a_bound() -> None:
    for bounds in (
        ColumnBounds(math.nan, math.nan, False, 9),
        ColumnBounds(1.0, math.nan),
        ColumnBounds(math.nan, 1.0),
    ):
        assert can_match(_root("x = 5"), _statistics(x=bounds))
        assert can_match(_root("x < -5"), _statistics(x=bounds))


def test_zeros_of_both_signs_are_equal() -> None:
    assert can_match(_root("x = 0"), _statistics(x=ColumnBounds(-0.0, -0.0, False, 1)))
    assert can_match(_root("x >= 0"), _statistics(x=ColumnBounds(-5.0, -0.0, False, 1)))


def test_bounds_of_every_type_exclude_values_outside() -> None:
    assert not can_match(_root("m > 2.005"), _statistics(m=ColumnBounds(Decimal("1.00"), Decimal("2.00"))))
    assert can_match(_root("m >= 1.995"), _statistics(m=ColumnBounds(Decimal("1.00"), Decimal("2.00"))))
    assert not can_match(_root("d < DATE '1970-01-11'"), _statistics(d=ColumnBounds(10, 20)))
    assert can_match(_root("d <= DATE '1970-01-11'"), _statistics(d=ColumnBounds(10, 20)))
    assert not can_match(_root("b"), _statistics(b=ColumnBounds(False, False)))
    assert not can_match(_root("NOT b"), _statistics(b=ColumnBounds(True, True)))
    assert not can_match(_root("n.k = 5"), _statistics(n__k=SOME))


@pytest.mark.parametrize(
    ("where", "may"),
    [
        ("s LIKE 'ab%'", False),
        ("s LIKE 'b%'", True),
        ("s LIKE 'bb%'", True),
        ("s LIKE 'm%'", True),
        ("s LIKE 'x%'", True),
        ("s LIKE 'y%'", False),
        ("s LIKE 'a%z'", False),
        ("s LIKE 'a_'", False),
        ("s LIKE '%z'", True),
        ("s NOT LIKE 'ab%'", True),
        ("startswith(s, 'ab')", False),
        ("s = 'ba'", False),
        ("s = 'bb'", True),
        ("s > 'xy'", False),
        ("s IN ('a', 'z')", False),
    ],
)
def test_string_bounds_exclude_values_outside(where: str, may: bool) -> None:
    assert can_match(_root(where), _statistics(s=ColumnBounds("bb", "xy", False, 50))) is may


def test_strings_are_ordered_by_their_bytes() -> None:
    bounds = _statistics(s=ColumnBounds("\uffee", "\U0001f600"))
    assert can_match(_root("s = '\uffef'"), bounds)
    assert not can_match(_root("s = 'z'"), bounds)


def test_bounds_exclude_comparisons_of_two_columns() -> None:
    low, high = ColumnBounds(1, 5, False, 9), ColumnBounds(6, 9, False, 9)
    assert not can_match(_root("i = j"), _statistics(i=low, j=high))
    assert not can_match(_root("i > j"), _statistics(i=low, j=high))
    assert not can_match(_root("j <= i"), _statistics(i=low, j=high))
    assert can_match(_root("i < j"), _statistics(i=low, j=high))
    assert can_match(_root("i = j"), _statistics(i=low))
    assert not can_match(_root("i < j"), _statistics(i=ColumnBounds(5, 5), j=ColumnBounds(5, 5)))
    assert can_match(_root("i <= j"), _statistics(i=ColumnBounds(5, 5), j=ColumnBounds(5, 5)))


def _bounds_around(*values: Value) -> Callable[[Path, Value], bool]:
    return lambda path, value: value in values


@pytest.mark.parametrize(
    ("where", "may"),
    [
        ("i = 1", False),
        ("i = 5", True),
        ("i <=> 1", False),
        ("i IN (1, 2)", False),
        ("i IN (1, 5)", True),
        ("i IN (1, NULL)", False),
        ("i = 1 AND j > 0", False),
        ("i = 1 OR j > 0", True),
        ("i = 1 OR j = 2", False),
        ("NOT (i = 1)", True),
        ("NOT (i <> 1)", False),
        ("NOT (i <> 1 OR j > 0)", False),
        ("NOT (i <> 1 AND j > 0)", True),
        ("i > 1", True),
        ("i IS NULL", True),
        ("(i = 1 OR i = 2) IS TRUE", False),
        ("(i = 1 OR i = 2) IS NOT TRUE", True),
        ("(i = 1 OR i = 2) IS NULL", True),
        ("i = 1.5", False),
        ("x = 0", False),
        ("x IN (0, 1)", False),
        ("b = true", True),
        ("s LIKE 'abc'", False),
        ("s LIKE 'abc%'", True),
    ],
)
def test_bloom_filters_exclude_equalities_with_missing_values(where: str, may: bool) -> None:
    assert may_contain(_root(where), _bounds_around(5, "xyz")) is may


def test_probes_contain_the_columns_and_constants_of_equalities() -> None:
    actual = probes(_root("(i = 1 OR n.k IN (3, 2)) AND NOT (i <> 4) AND j > 7 AND NOT (j = 3) AND s = 'a'"))
    assert actual == {("i",): (1, 4), ("n", "k"): (2, 3), ("s",): ("a",)}
    assert probes(_root("i > 1 OR x IS NULL OR b")) == {}
