"""Remote tables in a session on real databases: names, columns, predicates and limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from every_type import sqlite_file
from pyspark.sql import SparkSession
from remote_scans import KINDS, MYSQLS, Connection, count, numbers, quote_of, rows_of, scanner

from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.session import PushdownSession

ODD = 'select "x" -- `y`'


@pytest.mark.parametrize("kind", KINDS)
def test_names_with_special_characters_are_quoted(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    quote = quote_of(kind)
    name = quote + ODD.replace(quote, quote * 2) + quote
    hostile = "\\\\'') OR 1=1 -- '';" if kind in MYSQLS else "\\'') OR 1=1 -- '';"
    connection = fill(
        f"DROP TABLE IF EXISTS {name}",
        f"CREATE TABLE {name} ({name} int, b varchar(40))",
        f"INSERT INTO {name} VALUES (1, 'x'), (2, '{hostile}')",
    )
    column = f"`{ODD.replace('`', '``')}`"
    scan = scanner(spark, connection, table='"' + ODD.replace('"', '""') + '"')
    assert rows_of(scan(where=f"{column} > 1", columns=[column])) == [{ODD: 2}]
    assert rows_of(scan(where=r"b = '\\\') OR 1=1 -- \';'", columns=[column])) == [{ODD: 2}]


@pytest.mark.parametrize("kind", KINDS)
def test_only_requested_columns_and_matching_rows_are_transferred(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    result = scan(columns=["s"], where="k IN (7, 8) AND upper(s) <> 'S8'")
    assert " IN (7, 8)" in result.explain().partition("SQL: SELECT ")[2]
    assert rows_of(result) == [{"s": "s7"}]
    report = result.report()["source"]
    assert report.reader == "remote"
    assert report.rows_decoded == 2
    assert report.rows_returned == 1
    assert report.bytes_read
    assert report.pushed == ("k IN (7, 8)",)
    assert report.residual == ("UPPER(s) <> 'S8'",)
    (statement,) = report.statements
    assert " IN (7, 8)" in statement
    assert "g" not in statement.replace("`", '"').split('"')


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_is_pushed_only_with_an_exact_predicate(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    exact = scan(where="g = 3", limit=5)
    assert [row["g"] for row in rows_of(exact)] == [3] * 5
    assert exact.report()["source"].rows_decoded == 5
    assert exact.report()["source"].statements[0].endswith(" LIMIT 5")
    inexact = scan(where="g = 3 AND upper(s) LIKE 'S%'", limit=5)
    assert [row["g"] for row in rows_of(inexact)] == [3] * 5
    assert "LIMIT" not in inexact.report()["source"].statements[0]
    assert exact.df.count() == 5


@pytest.mark.parametrize("kind", KINDS)
def test_spark_evaluates_the_predicate_without_filter_pushdown(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers", filter_pushdown=False)(where="k = 7")
    assert count(result) == 1
    assert result.report()["source"].rows_decoded == 1000


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_over_several_sources_pushes_columns_and_conjuncts_to_each(
    kind: str, fill: Callable[..., Connection], spark: SparkSession, tmp_path: Path
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    (tmp_path / "rows.json").write_text("".join(f'{{"k": {k}, "x": {k % 7}}}\n' for k in range(0, 1000, 3)))
    session = PushdownSession(spark)
    session.add_remote("r", connection, table="numbers")
    session.add_source("f", path=str(tmp_path / "rows.json"), format="json", schema="k int, x int")
    result = session.sql("SELECT r.s FROM r JOIN f ON r.k = f.k WHERE r.g = 3 AND f.x = 0")
    expected_values = {f"s{k}" for k in range(0, 1000, 3) if k % 7 == 0 and k % 10 == 3}
    assert {str(row["s"]) for row in rows_of(result)} == expected_values
    report = result.report()["r"]
    assert report.pushed[0] == "g = 3"
    if kind == "sqlite":
        assert report.rows_decoded == 100, "its integers have 64 bits, the file's have not: no keys are sent"
    else:
        assert report.pushed[1].startswith("k IN (0, 21, 42, "), "the keys of the file's few rows are sent along"
        assert report.rows_decoded == len(expected_values) == 5


def test_file_columns_of_a_table_raise(tmp_path: Path, spark: SparkSession) -> None:
    scan = scanner(spark, sqlite_file(tmp_path, *numbers()), table="numbers")
    with pytest.raises(UnknownColumnError, match="filename"):
        scan(columns=["k", "filename"])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({}, "give either a `table` or a `query`"),
        ({"table": "a", "query": "SELECT 1"}, "give either a `table` or a `query`"),
        ({"table": "a", "lower_bound": 1}, "lower_bound"),
        ({"query": "SELECT 1; DROP TABLE numbers"}, "one statement"),
        ({"table": "a.b.c.d"}, "not a valid name"),
    ],
)
def test_an_undeclared_table_raises(
    table: dict[str, object], message: str, tmp_path: Path, spark: SparkSession
) -> None:
    with pytest.raises(BadSpecError, match=message):
        scanner(spark, sqlite_file(tmp_path, *numbers()), **table)()


DEEP = {
    "1000 alternatives": (" OR ".join(f"(k = {n * 2} AND g < {n % 20 + 8})" for n in range(1000)), "exact"),
    "a long sum": ("k + " + " + ".join("1" for _ in range(150)) + " < 400", None),
    "sums in sums": ("k - (1 - (" * 12 + "g" + "))" * 12 + " < 400", None),
    "cases in cases": ("CASE WHEN k > 3 THEN " * 15 + "g" + " ELSE 1 END" * 15 + " = 5", None),
    "calls in calls": ("coalesce(k, " * 18 + "g" + ")" * 18 + " < 50", None),
    "parentheses": ("(" * 300 + "k = 7" + ")" * 300, "unsupported"),
}
"""Predicates, and what becomes of them where every database should agree."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", DEEP)
def test_deeply_nested_predicates_are_pushed_or_evaluated_by_spark(
    spark: SparkSession, fill: Callable[..., Connection], name: str, kind: str
) -> None:
    where, exactness = DEEP[name]
    scan = scanner(spark, fill(*numbers(quote_of(kind))), table="numbers")
    result = scan(where=where, columns=["s"])
    actual = sorted(str(row["s"]) for row in rows_of(result))
    rows = spark.range(1000).selectExpr(
        "if(id % 50 = 0, NULL, int(id)) AS k", "int(id % 10) AS g", "concat('s', id) AS s"
    )
    assert actual == sorted(row.s for row in rows.where(where).collect())
    if exactness is not None:
        assert {str(each.exactness) for each in result.report()["source"].conjuncts} == {exactness}
