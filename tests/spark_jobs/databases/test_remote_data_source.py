"""`spark.read.format("pushdown_remote")` returns the right rows, pushes predicates, and shows no credentials."""

from __future__ import annotations

from pathlib import Path

import pytest
from databases import Server
from every_type import create_tables, sqlite_file
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from pushdown_spark.databases.data_source import FORMAT, register
from pushdown_spark.errors import BadSpecError

NUMBERS = (
    "DROP TABLE IF EXISTS plain_numbers",
    "CREATE TABLE plain_numbers (k int, s varchar(10))",
    f"INSERT INTO plain_numbers VALUES {', '.join(f'({k}, {chr(39)}s{k}{chr(39)})' for k in range(200))}",
)


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server", "sqlite"])
def source(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> tuple[str, dict[str, object]]:
    """Yield a kind of database and its connection. The database has the table of numbers."""
    if request.param == "sqlite":
        return request.param, sqlite_file(tmp_path, *NUMBERS)
    server: Server = request.getfixturevalue(request.param)
    server.execute(*NUMBERS)
    return request.param, server.connection()


@pytest.fixture
def read(spark: SparkSession, source: tuple[str, dict[str, object]]) -> DataFrameReader:
    register(spark, {"shop": source[1]})
    return spark.read.format(FORMAT).option("connection", "shop")


def keys(frame: DataFrame) -> list[int]:
    return sorted(int(row[0]) for row in frame.select("k").collect())


def test_the_data_source_returns_all_rows(read: DataFrameReader) -> None:
    assert keys(read.load("plain_numbers")) == list(range(200))


def test_columns_of_every_type_have_the_expected_types(
    source: tuple[str, dict[str, object]], request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession
) -> None:
    kind, _ = source
    (tmp_path / "types").mkdir()
    server = None if kind == "sqlite" else request.getfixturevalue(kind)
    expected, connection = create_tables(server, tmp_path / "types")
    register(spark, {"shop": connection})
    frame = spark.read.format(FORMAT).options(connection="shop", table="every_type").load()
    assert {field.name: field.dataType.simpleString() for field in frame.schema} == expected.types
    assert frame.count() == len(expected.rows)


def test_only_the_columns_of_a_given_schema_are_read(read: DataFrameReader, source: tuple[str, object]) -> None:
    wide = "bigint" if source[0] == "sqlite" else "int"
    frame = read.schema(f"k {wide}").load("plain_numbers")
    assert frame.columns == ["k"]
    assert keys(frame) == list(range(200))


def test_the_option_where_filters_rows(read: DataFrameReader) -> None:
    frame = read.option("where", "k % 50 = 3 OR s = 's7'").load("plain_numbers")
    assert keys(frame) == [3, 7, 53, 103, 153]


def test_the_option_where_rejects_unsupported_predicates(read: DataFrameReader) -> None:
    with pytest.raises(PySparkException, match=r"option where: .*upper"):
        read.option("where", "upper(s) = 'S7'").load("plain_numbers").collect()


@pytest.mark.parametrize("predicate", [r"s = 's\t5'", 's = "s5"'])
def test_the_option_where_rejects_text_whose_meaning_depends_on_the_session(
    read: DataFrameReader, predicate: str
) -> None:
    with pytest.raises(PySparkException, match="have a meaning that depends on the session; use single quotes"):
        read.option("where", predicate).load("plain_numbers").collect()


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [("k IN (5, 6) OR k IS NULL", [5, 6]), ("s LIKE 's19%' AND k <> 19", list(range(190, 200))), ("s = 's5'", [5])],
)
def test_a_filter_of_spark_and_the_option_where_return_the_same_rows(
    read: DataFrameReader, predicate: str, expected: list[int]
) -> None:
    assert keys(read.load("plain_numbers").where(predicate)) == expected
    assert keys(read.option("where", predicate).load("plain_numbers")) == expected


def test_several_partitions_return_every_row_once(read: DataFrameReader) -> None:
    options = {"partition_column": "k", "num_partitions": "4", "consistent": "false"}
    frame = read.options(**options).load("plain_numbers")
    assert frame.rdd.getNumPartitions() == 4
    assert keys(frame) == list(range(200))


def test_no_credential_is_in_plan_or_options(read: DataFrameReader, source: tuple[str, dict[str, object]]) -> None:
    frame = read.load("plain_numbers").where("k = 7")
    plan = frame._jdf.queryExecution().toString()
    assert keys(frame) == [7]
    assert "password" not in plan
    if source[0] != "sqlite":
        assert str(source[1]["password"]) not in plan


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"connection": "other"}, "'other' is not registered; the registered connections are shop"),
        ({"num_partitions": "many"}, "option num_partitions: "),
        ({"numPartition": "4"}, "option numpartition: "),
        ({"query": "SELECT 1"}, "give either a `table` or a `query`"),
    ],
)
def test_errors_name_invalid_options(
    options: dict[str, str], message: str, spark: SparkSession, tmp_path: Path
) -> None:
    register(spark, {"shop": sqlite_file(tmp_path, *NUMBERS)})
    with pytest.raises(PySparkException, match=message):
        spark.read.format(FORMAT).options(
            **{"connection": "shop", "table": "plain_numbers", **options}
        ).load().collect()


def test_an_invalid_connection_raises_without_its_values(spark: SparkSession) -> None:
    with pytest.raises(BadSpecError, match="connection 'shop': ") as error:
        register(spark, {"shop": {"kind": "oracle", "database": "x", "password": "hush"}})
    assert "hush" not in str(error.value)
