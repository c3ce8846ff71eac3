"""Facts of predicates: what is implied, and what must not be."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from pyspark.sql import types as t

from pushdown_spark.predicates.derive import Scope, derive
from pushdown_spark.predicates.facts import AnyOf, Between, Contains, Fact, OneOf, Present
from pushdown_spark.predicates.parse import conjuncts, parse_predicate

SCHEMA = t.StructType(
    [
        t.StructField("i", t.LongType()),
        t.StructField("j", t.LongType()),
        t.StructField("x", t.DoubleType()),
        t.StructField("m", t.DecimalType(10, 2)),
        t.StructField("s", t.StringType()),
        t.StructField("d", t.DateType()),
        t.StructField("b", t.BooleanType()),
        t.StructField("n", t.StructType([t.StructField("k", t.StringType())])),
        t.StructField("list", t.ArrayType(t.StringType())),
        t.StructField("standard", t.StringType(), metadata={"CURRENT_DEFAULT": "'a'"}),
    ]
)


def _facts(where: str, *, plain_strings: bool = True) -> tuple[Fact | AnyOf, ...]:
    tree = parse_predicate(where)
    assert tree is not None
    return derive(tree, Scope(SCHEMA, plain_strings=plain_strings)).parts


@pytest.mark.parametrize(
    "where",
    [
        "i IS NULL",
        "i <=> NULL",
        "i = 5 OR s IS NULL",
        "coalesce(i, 5) = 5",
        "i + 1 = 5",
        "i = '5'",
        "i IN (1, '5')",
        "i = j OR i = 5",
        "s = 5",
        "s = 'a' OR length(s) = 1",
        "b = 'true'",
        "list[0] = 'a'",
        "standard = 'a'",
        "d = '1995-1-5'",
        "d = TIMESTAMP'1995-01-05 00:00:00'",
        "i IN (SELECT 5)",
        "s RLIKE 'a'",
        "s ILIKE 'a%'",
        "s LIKE 'a!%' ESCAPE '!'",
        "i < 9223372036854775808",
        "i = 9007199254740992E0",
        "NOT (i = j IS NOT NULL)",
        "NOT i = j IS NOT NULL",
        "i IN (9007199254740993, 1e0)",
        "m IN (5, 12345678901)",
        "missing = 5",
        "NOT (i <=> 5)",
        "CASE WHEN i = 5 THEN true ELSE false END",
        "if(i = 5, true, false)",
    ],
)
def test_nothing_is_implied(where: str) -> None:
    assert _facts(where) == ()


@pytest.mark.parametrize(
    ("where", "low", "high"),
    [
        ("i > 5", 6, None),
        ("5 > i", None, 4),
        ("i BETWEEN 2 AND 3", 2, 3),
        ("i >= 2 AND i < 9", 2, 8),
        ("NOT (i < 2 OR i > 8)", 2, 8),
        ("i > 1.5", Decimal("1.5"), None),
    ],
)
def test_intervals(where: str, low: int | None, high: int | None) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, Between)
    assert (fact.low, fact.high) == (low, high)


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("i = 5", (5,)),
        ("i <=> -5", (-5,)),
        ("NOT i <> 5", (5,)),
        ("i IN (1, 2, NULL, 1)", (1, 2)),
        ("I == 5", (5,)),
        ("n.k = 'a'", ("a",)),
        ("d = '1995-01-05'", (date(1995, 1, 5),)),
        ("NOT b", (False,)),
        ("b", (True,)),
        ("s LIKE 'abc'", ("abc",)),
    ],
)
def test_values(where: str, values: tuple[object, ...]) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, OneOf)
    assert fact.values == values


@pytest.mark.parametrize(
    ("where", "runs", "prefix"),
    [
        ("s LIKE 'abc%'", ("abc",), True),
        ("s LIKE '%abc'", ("abc",), False),
        ("s LIKE '_bc%d'", ("bc", "d"), False),
        ("NOT s NOT LIKE 'abc%'", ("abc",), True),
        ("startswith(s, 'abc')", ("abc",), True),
    ],
)
def test_runs(where: str, runs: tuple[str, ...], prefix: bool) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, Contains)
    assert (fact.runs, fact.prefix) == (runs, prefix)


@pytest.mark.parametrize(
    "where",
    ["s NOT LIKE 'a%'", "NOT s LIKE 'a%'", "s <> 'a'", "s < 'x'", "i NOT IN (1, 2)", "i IS NOT NULL", "s LIKE '%'"],
)
def test_only_presence_is_implied(where: str) -> None:
    assert all(isinstance(fact, Present) for fact in _facts(where))
    assert _facts(where)


def test_strings_that_could_not_be_read_exactly_imply_nothing() -> None:
    assert _facts("s = 'abc'", plain_strings=False) == ()
    assert _facts("s LIKE 'abc%'", plain_strings=False) == ()


def test_either_of_several_columns() -> None:
    (fact,) = _facts("i = 5 OR (s = 'a' AND j > 3) OR n.k = 'b'")
    assert isinstance(fact, AnyOf)
    assert len(fact.branches) == 3


def test_long_chains_need_no_deep_stack() -> None:
    every = " AND ".join(f"i <> {n}" for n in range(3000))
    tree = parse_predicate(every)
    assert tree is not None
    assert len(conjuncts(tree)) == 3000
    (fact,) = _facts(" OR ".join(f"i = {n}" for n in range(3000)))
    assert isinstance(fact, AnyOf)
