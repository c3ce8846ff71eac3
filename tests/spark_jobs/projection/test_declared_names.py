"""Names that a declared schema lacks: only errors that Spark would certainly find, compared with Spark itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.errors import BadPredicateError, BadSpecError, PushdownError, UnknownColumnError
from pushdown_spark.projection.declared_names import check_source, declared_columns, first_error

DDL = "level string, n int, month int, payload struct<kind: string>, tags array<int>"
WRONG = [
    "levle = 'x'",
    "n > 1 AND (level = 'x' OR NOT levle IS NULL)",
    "levle IN ('a', 'b')",
    "n BETWEEN 1 AND mm",
    "levle LIKE 'a%'",
    "n + mm > 3",
    "evnt.kind = 'x'",
    "n = = 2",
    "n = 2)",
    "(n = 2 OR n = 3",
    "n =",
    "= 2",
]
RIGHT = [
    "level = 'x' AND N > 1",
    "payload.kind = 'x'",
    "exists(tags, x -> x = n)",
    "current_date > date'2020-01-01'",
    "datediff(DAY, current_date, current_date) = n",
    "level COLLATE UTF8_LCASE = 'x'",
    "_metadata.file_name = 'x'",
    "n::int = 3",
    "level = '(' OR level = ')'",
    "level = 'it''s' OR n <> 1",
    "n IN (SELECT max(id) FROM range(3))",
    "current_user = level",
    "n >= -1 AND n == 1",
    "current_timestamp + INTERVAL 1 DAY > current_timestamp",
]


@pytest.fixture
def rows(tmp_path: Path) -> str:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "rows.json").write_text('{"level": "x", "n": 1}\n')
    return str(tmp_path / "rows")


def check(path: str, columns: list[str] | None = None, where: str | None = None, **fields: object) -> None:
    check_source({"schema": DDL, "path": [path], **fields}, columns, where)


@pytest.mark.parametrize("where", WRONG)
def test_spark_rejects_every_name_that_is_reported_as_an_error(spark: SparkSession, rows: str, where: str) -> None:
    with pytest.raises(PushdownError, match=r"^where: "):
        check(rows, where=where)
    with pytest.raises(AnalysisException):
        spark.read.schema(DDL).json(rows).where(where)


@pytest.mark.parametrize("where", RIGHT)
def test_names_that_spark_accepts_are_not_reported(spark: SparkSession, rows: str, where: str) -> None:
    spark.read.schema(DDL).json(rows).where(where)
    check(rows, where=where)


def test_errors_suggest_the_nearest_names(rows: str) -> None:
    with pytest.raises(UnknownColumnError) as error:
        check(rows, where="levle = 'x'")
    assert str(error.value) == "where: there is no column 'levle'; did you mean level?"
    with pytest.raises(UnknownColumnError) as error:
        check(rows, columns=["n", "paylaod.kind AS kind"])
    assert str(error.value) == "columns: there is no column 'paylaod'; did you mean payload?"
    with pytest.raises(BadPredicateError) as bad:
        check(rows, where="n = = 2")
    assert str(bad.value) == "where: '=' has no right side (character 5, at '= 2')"
    with pytest.raises(BadSpecError, match="columns"):
        check(rows, columns=["tags[0"])


def test_names_of_files_and_hidden_columns_pass(rows: str) -> None:
    check(rows, columns=["*", "LEVEL", "filename", "dir3", "tags[0]", "payload(kind) AS p"])
    check(rows, columns=["source"], implicit_names={"filename": "source"})
    check(rows, columns=["branch"], implicit_columns=["shop.columns:BranchColumns"])


def test_partition_columns_pass(tmp_path: Path) -> None:
    (tmp_path / "year=2026" / "a%3Ab=1").mkdir(parents=True)
    for name in ("year", "YEAR", "a:b"):
        check(str(tmp_path), columns=[f"`{name}`"])
        check(str(tmp_path / "*"), columns=[f"`{name}`"])
    check(f"file://{tmp_path}", columns=["year"])
    check(str(tmp_path / "year=2026"), columns=["year"])
    with pytest.raises(UnknownColumnError):
        check(str(tmp_path), columns=["day"])


@pytest.mark.parametrize("path", ["s3a://events/2026", "hdfs://name/events", "/no/such/directory"])
def test_directories_that_cannot_be_listed_may_have_every_column(path: str) -> None:
    check(path, columns=["yaer"], where="levle = 'x'")


@pytest.mark.parametrize(
    "ddl",
    [
        DDL,
        "time timestamp, date date, order int, end int, key string, value string, index int, comment string",
        "a decimal(10,2), t timestamp_ntz, i interval day to second, v variant, m map<string, array<struct<x: int>>>",
        "`a b` int NOT NULL COMMENT 'x, y', c struct<`d,e`: int>",
        "primary string, check int, like string, unique int, partition int, constraint string, foreign int",
        "a int, b: string",
        "struct<a: int, b: string>",
        '{"type": "struct", "fields": []}',
        "a int b string",
    ],
)
def test_a_schema_is_read_as_spark_reads_it_or_not_at_all(spark: SparkSession, ddl: str) -> None:
    actual = declared_columns(ddl)
    if actual is not None:
        expected = StructType.fromDDL(ddl)
        assert actual.fieldNames() == expected.fieldNames()


def test_only_scans_of_files_with_a_declared_schema_are_checked(rows: str) -> None:
    source = {"format": "json", "path": [rows], "schema": DDL}
    query = {"source": "s", "columns": ["levle"]}
    assert first_error({"sources": {"s": source}, "query": query}) is not None
    for spec in (
        {"sources": {"s": {**source, "schema": None}}, "query": query},
        {"sources": {"s": {"format": "remote", "table": "t"}}, "query": query},
        {"sources": {"s": source}, "query": {"sql": "SELECT levle FROM s"}},
    ):
        assert first_error(spec) is None


def test_the_program_prints_the_error_without_a_jvm(rows: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.json"
    source = {"format": "json", "path": [rows], "schema": DDL}
    command = [sys.executable, "-m", "pushdown_spark.projection.declared_names", str(spec)]
    environment = {"PATH": "/nowhere", "PYTHONPATH": str(Path(__file__).parents[3] / "spark_jobs")}
    for where, code in (("levle = 'x'", "unknown_column"), ("n = ", "bad_predicate")):
        spec.write_text(json.dumps({"sources": {"s": source}, "query": {"source": "s", "where": where}}))
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert json.loads(process.stdout)["code"] == code
    spec.write_text(json.dumps({"sources": {"s": source}, "query": {"source": "s", "where": "n = 1"}}))
    assert subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout == ""
