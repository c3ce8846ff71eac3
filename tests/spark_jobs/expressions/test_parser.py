"""Long lists of integers are taken out of a predicate before parsing. The tree is the same."""

from __future__ import annotations

import pytest
import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.expressions.parser import LongLists, parse_predicate, shorten_lists

MANY = ", ".join(str(number * 7) for number in range(150))
LARGE = ", ".join(str(number * 987_654_321_987) for number in range(3, 153))
FEW = ", ".join(map(str, range(20)))
INPUTS = [
    f"a IN ({MANY})",
    f"a in( {MANY} ) AND b NOT IN ({MANY}) OR c = 1",
    f"NOT (a IN ({MANY.replace(', ', chr(10) + ',')}))",
    f"a IN ({FEW}) AND b.c IN ({MANY}) AND d IN ({MANY}, -1)",
    f"a IN ({MANY}, 12345678901) OR a IN ({MANY}, 1.5)",
    f"a IN ({MANY}) AND b = 'IN ({MANY})'",
    f"`a IN (1)` = 1 AND a IN ({MANY}) -- IN ({MANY})",
    f"abs(a) IN ({MANY}) AND CASE WHEN b IN ({MANY}) THEN c ELSE d END IN ({MANY})",
    f"a = 100000000000000000 AND b IN ({MANY})",
    f"{'a IN (' + MANY + ') OR '}" * 3 + "b > 0",
    f"a IN (007, {MANY})",
    f"main IN ({MANY})",
    f"a IN ({LARGE}) OR b IN ({MANY}, 12345678901) OR c IN (9{'0' * 17}, {MANY})",
]


@pytest.mark.parametrize("text", INPUTS)
def test_tree_equals_that_of_the_whole_text(text: str) -> None:
    tree = parse_predicate(text)
    assert tree == sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
    assert tree is not None
    assert all(item.parent is node for node in tree.find_all(exp.In) for item in node.expressions)


def test_only_long_lists_of_integers_are_replaced() -> None:
    assert LongLists(INPUTS[0]).text == "a IN (100000000000000000)"
    assert LongLists(f"a IN ({LARGE})").text == "a IN (100000000000000000)"
    assert LongLists(f"a IN ({FEW})").text == f"a IN ({FEW})"
    for text in (INPUTS[4].partition(" OR ")[2], f"a IN ({MANY}, {10**18})", INPUTS[5], INPUTS[6], INPUTS[8]):
        assert LongLists(text).text == text


def test_invalid_predicate_has_no_tree() -> None:
    assert parse_predicate(f"a IN ({MANY}) AND AND") is None


@pytest.mark.parametrize("word", ["symmetric", "ASYMMETRIC", "/**/ Symmetric"])
def test_names_that_only_sqlglot_takes_for_keywords_leave_the_predicate_to_spark(word: str) -> None:
    """To Spark, `a BETWEEN symmetric -5 AND 3` has the lower bound `symmetric - 5`."""
    assert parse_predicate(f"a BETWEEN {word} -5 AND 3") is None


def _type_or_error(frame: DataFrame, predicate: str) -> str:
    """Return the type in which Spark compares the list, or the error that it finds."""
    try:
        condition = frame.where(predicate)._jdf.queryExecution().analyzed().condition()
    except AnalysisException as problem:
        return str(problem.getCondition())
    return str(condition.list().head().dataType().simpleString())


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("numbers", [MANY, LARGE, f"{MANY}, {LARGE}", f"{LARGE}, {MANY}"])
@pytest.mark.parametrize(
    "column",
    [
        "id",
        "CAST(id AS TINYINT)",
        "CAST(id AS FLOAT)",
        "CAST(id AS STRING)",
        "CAST(id AS DECIMAL(5, 2))",
        "CAST(id AS DATE)",
        "array(id)",
        "nothing",
    ],
)
def test_spark_finds_the_same_types_and_errors_in_shortened_lists(
    column: str, numbers: str, ansi: str, spark: SparkSession
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", ansi)
    short = shorten_lists(f"{column} IN ({numbers})")
    assert len(short) < 70
    assert _type_or_error(session.range(3), short) == _type_or_error(session.range(3), f"{column} IN ({numbers})")
