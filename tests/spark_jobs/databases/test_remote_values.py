"""Values of remote tables arrive in Spark as they are in the database."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from databases import Server
from every_type import EveryType, create_tables
from pyspark.sql import SparkSession
from remote_scans import KINDS, MYSQLS, Connection, rows_of, scanner

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.runtime.error_classification import classify


def same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return left == right


def assert_rows(rows: list[dict[str, object]], expected: EveryType) -> None:
    rows = sorted(rows, key=lambda row: int(str(row["id"])))
    assert len(rows) == len(expected.rows)
    wrong = [
        (name, row[name], expected_row[name])
        for row, expected_row in zip(rows, expected.rows, strict=True)
        for name in expected_row
        if not same(row[name], expected_row[name])
    ]
    assert not wrong


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_values_of_every_type_are_returned(
    kind: str, partitions: int | None, server: Server | None, tmp_path: Path, spark: SparkSession
) -> None:
    """They are read in the driver and in tasks. A given number of partitions uses ADBC without an estimate."""
    expected, connection = create_tables(server, tmp_path)
    result = scanner(spark, connection, table="every_type", num_partitions=partitions)()
    assert {field.name: field.dataType.simpleString() for field in result.df.schema} == expected.types
    assert_rows(rows_of(result), expected)
    assert result.rows == len(expected.rows)
    assert_rows(result.df.toArrow().to_pylist(), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_of_the_user_has_the_types_of_its_columns(
    kind: str, server: Server | None, tmp_path: Path, spark: SparkSession
) -> None:
    expected, connection = create_tables(server, tmp_path)
    names = [name for name in expected.columns if name not in ("b", "e", "j", "tz")]
    result = scanner(spark, connection, query=f"SELECT {', '.join(names)} FROM every_type")()
    expected_types = {name: expected.types[name] for name in names}
    assert {field.name: field.dataType.simpleString() for field in result.df.schema} == expected_types
    assert_rows(rows_of(result), EveryType((), {name: expected.columns[name] for name in names}))
    assert_rows(result.df.toArrow().to_pylist(), EveryType((), {name: expected.columns[name] for name in names}))


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_only_nulls_are_returned(
    kind: str, partitions: int | None, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS hollow",
        "CREATE TABLE hollow (id int, k int, s text)",
        "INSERT INTO hollow VALUES (1, NULL, NULL), (2, 5, ''), (3, NULL, NULL)",
    )
    scan = scanner(spark, connection, table="hollow", num_partitions=partitions)
    assert [row["k"] for row in rows_of(scan(columns=["k"]))] == [None, 5, None]
    assert rows_of(scan(columns=["s"], where="id = 3")) == [{"s": None}]
    assert [row["s"] for row in rows_of(scan(columns=["s"]))] == [None, "", None]
    assert rows_of(scan(where="id > 3")) == []


@pytest.mark.parametrize("partitions", [None, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_long_strings_are_returned(
    kind: str, partitions: int | None, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    column = "mediumtext" if kind in MYSQLS else "text"
    length = 1_500_000
    connection = fill(
        "DROP TABLE IF EXISTS long_strings",
        f"CREATE TABLE long_strings (id int, s {column})",
        *(f"INSERT INTO long_strings VALUES ({number}, '{'é' * length}{number}')" for number in range(2)),
    )
    rows = rows_of(scanner(spark, connection, table="long_strings", num_partitions=partitions)(where="id < 2"))
    assert sorted((row["id"], len(str(row["s"])), str(row["s"])[-1]) for row in rows) == [
        (number, length + 1, str(number)) for number in range(2)
    ]


HARD_STRINGS = (
    '"',
    '""',
    '","',
    ",",
    "",
    "\n",
    "\r",
    "a\r\nb",
    "\\.",
    "\\N",
    "NULL",
    " x ",
    "t",
    "é\t😀",
    "'",
    "1e5",
    "\\\\",
)


@pytest.mark.parametrize("kind", KINDS)
def test_strings_that_look_like_other_types_are_returned(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    """They are fetched by the driver, copied by a task, and read by a task that was requested."""
    strings = [None, *HARD_STRINGS, None]
    literals = ["NULL" if text is None else "'" + text.replace("'", "''") + "'" for text in strings]
    if kind in MYSQLS:
        # Their client makes one end of a line of two characters.
        literals = [text.replace("\\", "\\" * 2).replace("\r", "\\r") for text in literals]
    values = ", ".join(f"({place}, {text})" for place, text in enumerate(literals))
    connection = fill(
        "DROP TABLE IF EXISTS hard", "CREATE TABLE hard (id int, s text)", f"INSERT INTO hard VALUES {values}"
    )
    for partitions in (None, 1):
        result = scanner(spark, connection, table="hard", num_partitions=partitions)()
        for rows in (rows_of(result), result.df.toArrow().to_pylist()):
            assert [row["s"] for row in sorted(rows, key=lambda row: int(str(row["id"])))] == strings
        result = scanner(spark, connection, table="hard", num_partitions=partitions)(columns=["s"])
        assert sorted(map(str, (row["s"] for row in rows_of(result)))) == sorted(map(str, strings))


@pytest.mark.parametrize("kind", MYSQLS)
def test_zero_dates_raise_or_are_null(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS zero_dates",
        "CREATE TABLE zero_dates (id int, d date)",
        "SET sql_mode = ''",
        "INSERT INTO zero_dates VALUES (1, '2024-00-00'), (2, '0000-00-00'), (3, '2024-01-02')",
    )
    result = scanner(spark, connection, table="zero_dates", zero_dates_as_null=True)(where="d IS NULL")
    assert sorted(str(row["id"]) for row in rows_of(result)) == ["1", "2"]
    with pytest.raises(Exception) as problem:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
        rows_of(scanner(spark, connection, table="zero_dates")())
    error = classify(problem.value)
    assert error.code is ErrorCode.SCHEMA_CONFLICT
    assert "column d (date) holds '2024-00-00'" in error.message


@pytest.mark.parametrize("kind", ["postgresql"])
@pytest.mark.parametrize(
    ("declaration", "value", "problem"),
    [
        ("d date", "infinity", "column d (date) holds "),
        ("n numeric(10,2)", "NaN", "column n holds NaN"),
        ("n numeric(30,2)", "NaN", "column n (numeric(30,2)) holds 'NaN'"),
        ("n numeric", "-Infinity", "column n (numeric) holds '-Infinity'"),
        ("a integer[]", "{{1,2},{3,4}}", "column a holds {{1,2},{3,4}}, which has several dimensions"),
        ("a integer[][]", "{{1,2},{3,4}}", "column a holds {{1,2},{3,4}}, which has several dimensions"),
        ("a text[]", '{{"a b",NULL}}', 'column a holds {{"a b",NULL}}, which has several dimensions'),
    ],
)
def test_values_without_a_counterpart_in_spark_raise_an_error_that_names_the_column(
    kind: str, declaration: str, value: str, problem: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS bad", f"CREATE TABLE bad (k int, {declaration})", f"INSERT INTO bad VALUES (1, '{value}')"
    )
    for partitions in (None, 1):
        with pytest.raises(Exception) as caught:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
            rows_of(scanner(spark, connection, table="bad", num_partitions=partitions)())
        error = classify(caught.value)
        assert error.code is ErrorCode.SCHEMA_CONFLICT, error.message
        assert problem in error.message
        assert error.message.endswith("leave the column out, or give a `query` that converts it")


@pytest.mark.parametrize("kind", ["postgresql"])
def test_an_error_names_all_columns_that_may_hold_a_value(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(
        "DROP TABLE IF EXISTS bad",
        "CREATE TABLE bad (k int, m numeric(9,1), n numeric(18,2), w numeric(38,2))",
        "INSERT INTO bad VALUES (1, 1, 'NaN', 1)",
    )
    with pytest.raises(SchemaConflictError, match="one of the columns m, n holds NaN"):
        rows_of(scanner(spark, connection, table="bad")())
