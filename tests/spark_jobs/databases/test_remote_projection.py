"""Remote tables follow the projection rules of files, and report rules that cannot apply."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from databases import Server
from every_type import sqlite_file
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.errors import BadSpecError, KindMismatchError, PushdownError, UnknownColumnError
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

Scan = Callable[..., PushdownResult]
TABLE = (
    'CREATE TABLE goods (id int, "full name" text, "a.b" text, filename text, price real)',
    "INSERT INTO goods VALUES (1, 'pen', 'x', 'f1', 0.5), (2, NULL, 'y', NULL, NULL)",
)
LISTS = (
    "DROP TABLE IF EXISTS lists",
    'CREATE TABLE lists (id int, "ID" int, ia integer[], ta text[], j jsonb)',
    """INSERT INTO lists VALUES (1, 10, '{1,NULL,3}', '{a,b}', '{"a": 1}'), (2, 20, NULL, '{}', NULL)""",
)


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def scanning(spark: SparkSession, connection: dict[str, object], table: str) -> Scan:
    session = PushdownSession(spark)
    session.add_remote("source", connection, table=table)
    return lambda **query: session.scan("source", **query)


@pytest.fixture
def goods(spark: SparkSession, tmp_path: Path) -> Scan:
    """Create a table whose names need quotes, with a column named like an implicit column."""
    return scanning(spark, sqlite_file(tmp_path, *TABLE), "goods")


@pytest.fixture
def lists(spark: SparkSession, postgresql_server: Server) -> Scan:
    """Create a table with arrays, a JSON document, and two names that differ only by case."""
    postgresql_server.execute(*LISTS)
    return scanning(spark, postgresql_server.connection(), "lists")


@pytest.mark.parametrize(
    ("columns", "names", "expected", "read"),
    [
        (("price", "id"), ["price", "id"], [(0.5, 1), (None, 2)], ("id", "price")),
        (("ID", "id", "id AS again"), ["ID", "again"], [(1, 1), (2, 2)], ("id",)),
        (("`full name`", "`A.B` AS ab"), ["full name", "ab"], [("pen", "x"), (None, "y")], ("full name", "a.b")),
        (("*", "id AS n"), ["id", "full name", "a.b", "filename", "price", "n"],
         [(1, "pen", "x", "f1", 0.5, 1), (2, None, "y", None, None, 2)],
         ("id", "full name", "a.b", "filename", "price")),
        (("filename",), ["filename"], [("f1",), (None,)], ("filename",)),
    ],
)  # fmt: skip
def test_columns_are_returned_in_the_requested_order(
    goods: Scan, columns: tuple[str, ...], names: list[str], expected: list[tuple[object, ...]], read: tuple[str, ...]
) -> None:
    actual = goods(columns=columns)
    assert actual.df.columns == names
    assert actual.run(rows) == sorted(expected, key=str)
    assert actual.report()["source"].columns == read


def test_a_table_column_takes_precedence_with_a_note(goods: Scan) -> None:
    notes = goods(columns=["filename"]).report()["source"].notes
    assert "filename is a column of the table, so it is not the implicit column of that name" in notes


def test_a_filter_that_only_spark_parses_reads_its_columns(goods: Scan) -> None:
    actual = goods(columns=["`full name`"], where="id >>> 1 = 0 AND exists(array(`a.b`), x -> x = 'x') -- comment")
    assert actual.run(rows) == [("pen",)]
    assert actual.report()["source"].columns == ("id", "full name", "a.b")


def test_a_filter_can_use_columns_that_are_not_selected(goods: Scan) -> None:
    assert goods(columns=["`full name`"], where="price > 0.25").run(rows) == [("pen",)]


@pytest.mark.parametrize(
    ("column", "error", "parts"),
    [
        ("fqn", UnknownColumnError, ["table of a database", "fqn"]),
        ("dir0", UnknownColumnError, ["table of a database", "dir0"]),
        ("pric", UnknownColumnError, ["'pric'", "did you mean price"]),
        ("price[0]", KindMismatchError, ["'price[0]'", "of a double", "in the table of 'source'"]),
        ("filename.x", KindMismatchError, ["'filename.x'", "member 'x' of a string"]),
        ("columns[0]", UnknownColumnError, ["'columns'"]),
        ("id AS price; price", BadSpecError, ["would both be named 'price'"]),
    ],
)
def test_impossible_columns_raise_a_typed_error(
    goods: Scan, column: str, error: type[PushdownError], parts: list[str]
) -> None:
    with pytest.raises(error) as problem:
        goods(columns=column.split("; "))
    assert all(part in str(problem.value) for part in parts), problem.value


def test_a_filter_on_a_file_column_raises(goods: Scan) -> None:
    with pytest.raises(PushdownError, match="dir0"):
        goods(columns=["id"], where="dir0 = 'x'").run(rows)


def test_arrays_have_positions_and_json_documents_are_strings(lists: Scan, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        actual = lists(columns=["ia[2]", "ia[0, 1]", "ta[0] AS first", "ta[9]"])
        assert actual.df.columns == ["ia[2]", "ia[0,1]", "first", "ta[9]"]
        assert actual.run(rows) == [(3, [1, None], "a", None), (None, None, None, None)]
        with pytest.raises(KindMismatchError, match=r"'j\.a' asks for member 'a' of a string \(in the table"):
            lists(columns=["j.a"])
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_two_spellings_are_two_columns_if_spark_is_case_sensitive(lists: Scan, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        assert lists(columns=["ID", "id"], where="ID = 20").run(rows) == [(20, 2)]
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    with pytest.raises(PushdownError, match="id"):
        lists(columns=["id"])
