"""Facts that predicates imply, and predicates that imply none."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.byte_patterns.facts import (
    AnyOf,
    EqualsAny,
    Fact,
    HasSubstrings,
    InRange,
    NotNull,
    facts_of,
)
from pushdown_spark.expressions.conjuncts import conjuncts
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Scope
from pushdown_spark.expressions.types import LogicalType

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


def _facts(where: str, *, has_plain_strings: bool = True) -> tuple[Fact | AnyOf, ...]:
    tree = parse_predicate(where)
    assert tree is not None
    outcome = bind(tree, Scope(SCHEMA, has_plain_strings=has_plain_strings))
    return () if outcome.artifact is None else facts_of(outcome.artifact).parts


@pytest.mark.parametrize(
    "where",
    [
        "i IS NULL",
        "i <=> NULL",
        "i = 5 OR s IS NULL",
        "coalesce(i, 5) = 5",
        "i + 1 = 5",
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
        "i < 9223372036854775808",
        "NOT (i = j IS NOT NULL)",
        "NOT i = j IS NOT NULL",
        "missing = 5",
        "NOT (i <=> 5)",
        "CASE WHEN i = 5 THEN true ELSE false END",
        "if(i = 5, true, false)",
        "i < j",
        "NOT i < j",
        "x = CAST('NaN' AS DOUBLE)",
        "i = NULL",
        "x > 1E400",
    ],
)
def test_unsupported_predicates_imply_no_facts(where: str) -> None:
    assert _facts(where) == ()


@pytest.mark.parametrize(
    ("where", "low", "high"),
    [
        ("i > 5", 6, None),
        ("5 > i", None, 4),
        ("i BETWEEN 2 AND 3", 2, 3),
        ("i >= 2 AND i < 9", 2, 8),
        ("NOT (i < 2 OR i > 8)", 2, 8),
        ("i > 1.5", 2, None),
        ("i = 9007199254740992E0", 2**53, 2**53 + 1),
        ("d < '1995-01-05' AND d >= '1995-01-01'", date(1995, 1, 1), date(1995, 1, 4)),
        ("x > 1.5", Decimal("1.5"), None),
        ("d BETWEEN '1995-01-01' AND current_date()", date(1995, 1, 1), None),
        ("NOT x > 1.5", None, Decimal("1.5")),
    ],
)
def test_comparisons_imply_a_range(where: str, low: object, high: object) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, InRange)
    assert (fact.low, fact.high) == (low, high)


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("i = 5", (5,)),
        ("i = '5'", (5,)),
        ("m IN (5, 12345678901)", (5,)),
        ("s LIKE 'a!%' ESCAPE '!'", ("a%",)),
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
def test_equalities_and_lists_imply_values(where: str, values: tuple[object, ...]) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, EqualsAny)
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
def test_string_predicates_imply_substrings(where: str, runs: tuple[str, ...], prefix: bool) -> None:
    (fact,) = _facts(where)
    assert isinstance(fact, HasSubstrings)
    assert (fact.substrings, fact.is_prefix) == (runs, prefix)


@pytest.mark.parametrize(
    "where",
    ["s NOT LIKE 'a%'", "NOT s LIKE 'a%'", "s <> 'a'", "s < 'x'", "i NOT IN (1, 2)", "i IS NOT NULL", "s LIKE '%'"],
)
def test_negations_and_open_comparisons_imply_only_not_null(where: str) -> None:
    assert all(isinstance(fact, NotNull) for fact in _facts(where))
    assert _facts(where)


def test_strings_with_uncertain_values_imply_nothing() -> None:
    assert _facts("s = 'abc'", has_plain_strings=False) == ()
    assert _facts("s LIKE 'abc%'", has_plain_strings=False) == ()


def test_or_over_several_columns_implies_alternatives() -> None:
    (fact,) = _facts("i = 5 OR (s = 'a' AND j > 3) OR n.k = 'b'")
    assert isinstance(fact, AnyOf)
    assert len(fact.branches) == 3


def test_long_chains_do_not_recurse() -> None:
    every = " AND ".join(f"i <> {n}" for n in range(3000))
    tree = parse_predicate(every)
    assert tree is not None
    assert len(conjuncts(tree)) == 3000
    (fact,) = _facts(" OR ".join(f"i = {n}" for n in range(3000)))
    assert isinstance(fact, AnyOf)


def test_integers_in_a_list_with_a_double_are_ranges() -> None:
    (alternatives,) = _facts("i IN (9007199254740993, 1e0)")
    text = str(alternatives)
    assert "low=Decimal('9007199254740992'), high=Decimal('9007199254740993')" in text


def test_a_list_of_one_boolean_implies_the_same_as_its_equality() -> None:
    assert _facts("b IN (true)") == _facts("b = true") != ()


def test_a_varchar_column_is_a_string() -> None:
    column = Scope(t.StructType([t.StructField("v", t.VarcharType(5))]), has_plain_strings=True).column(("v",))
    assert (column.type, column.storage) == (LogicalType.STRING, pa.string())
