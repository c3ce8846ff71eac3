"""Checks of staged rows: failures, their messages, and that the output does not change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from session_settings import session_settings

from pushdown_spark.contract import ErrorCode, OutputChecks, OutputMode, OutputSpec
from pushdown_spark.errors import CheckFailedError, UnknownColumnError
from pushdown_spark.output.files.file_output import FileOutput, open_output
from pushdown_spark.runtime.error_classification import classify

ROWS = """SELECT * FROM VALUES
    (1, 'a', struct(1 AS y), DATE'2026-01-01'), (2, 'a', struct(2 AS y), DATE'2026-01-01'),
    (3, '', struct(2 AS y), NULL), (CAST(NULL AS INT), 'line\nbreak', NULL, DATE'2026-01-02') AS rows(id, t, s, d)"""


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.sql(ROWS)


@pytest.fixture
def output(spark: SparkSession, tmp_path: Path) -> Callable[..., FileOutput]:
    def of(checks: dict[str, object], **more: object) -> FileOutput:
        arguments = {"path": str(tmp_path / "out"), "mode": OutputMode.OVERWRITE, "checks": checks, **more}
        return open_output(spark, OutputSpec.model_validate(arguments), "run")

    return of


def write(output: FileOutput, frame: DataFrame) -> None:
    assert output.prepare()
    with output.transaction():
        output.stage(frame)


@pytest.mark.parametrize(
    "checks",
    [
        {"min_rows": 4, "max_rows": 4},
        {"min_rows": 0},
        {"not_null": ["t"]},
        {"unique": ["id", ["t", "id"], ["d", "id"]]},
        {"unique": [["t", "s.y"]]},
        {"not_null": ["`t`"], "unique": ["`id`"], "min_rows": 1},
    ],
)
def test_rows_that_pass_checks_are_written(
    spark: SparkSession, tmp_path: Path, rows: DataFrame, output: Callable[..., FileOutput], checks: dict[str, object]
) -> None:
    output_path = output(checks)
    write(output_path, rows)
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4
    assert output_path.checks
    assert all(check.passed for check in output_path.checks)


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ({"min_rows": 5}, "min_rows requires at least 5, found 4"),
        ({"max_rows": 3}, "max_rows requires at most 3, found 4"),
        ({"not_null": ["t", "id"]}, "not_null: id requires no NULL, found 1 NULL"),
        ({"not_null": ["s.y"]}, "not_null: s.y requires no NULL, found 1 NULL"),
        ({"unique": ["t"]}, "unique: t requires no repeated key, found 1 repeated"),
        ({"unique": [["d"]]}, "unique: d requires no repeated key, found 1 repeated"),
        ({"unique": ["s.y"]}, "unique: s.y requires no repeated key, found 1 repeated"),
    ],
)
def test_failed_check_keeps_the_output(
    spark: SparkSession,
    tmp_path: Path,
    rows: DataFrame,
    output: Callable[..., FileOutput],
    checks: dict[str, object],
    message: str,
) -> None:
    write(output({}), spark.range(7).toDF("id"))
    failing = output(checks)
    with pytest.raises(CheckFailedError) as error:
        write(failing, rows)
    assert str(error.value) == f"checks: {message}. Nothing was committed and the output is unchanged"
    assert [check.passed for check in failing.checks].count(False) == 1
    assert failing.summary is None
    assert spark.read.parquet(str(tmp_path / "out")).count() == 7
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_error_names_all_failed_checks(rows: DataFrame, output: Callable[..., FileOutput]) -> None:
    with pytest.raises(CheckFailedError, match=r"min_rows requires .*; not_null: id requires .*; unique: t requires"):
        write(output({"min_rows": 9, "not_null": ["id", "t"], "unique": ["t"]}), rows)


def test_checks_apply_to_an_empty_result(spark: SparkSession, output: Callable[..., FileOutput]) -> None:
    """Spark knows that the result is empty, and may remove the observation from its plan."""
    for empty in (spark.range(0), spark.range(9).where("id < 0"), spark.range(9).where("false")):
        with pytest.raises(CheckFailedError, match="min_rows requires at least 1, found 0"):
            write(output({"min_rows": 1}), empty)
        write(output({"max_rows": 0, "unique": ["id"], "not_null": ["id"]}), empty)


@pytest.mark.parametrize("name", ["parquet", "orc", "avro", "json", "csv", "xml"])
@pytest.mark.parametrize("partition_by", [(), ("d",)])
def test_unique_check_passes_in_all_formats(
    rows: DataFrame, output: Callable[..., FileOutput], name: str, partition_by: tuple[str, ...]
) -> None:
    flat = rows.select("id", "t", "d")
    options = {"rowTag": "row"} if name == "xml" else {}
    how = {"format": name, "partition_by": partition_by, "options": options}
    write(output({"unique": ["id", ["id", "t"]], "not_null": ["t"], "min_rows": 4, "max_rows": 4}, **how), flat)
    with pytest.raises(CheckFailedError, match="unique: d, t requires no repeated key, found 1 repeated"):
        write(output({"unique": [["d", "t"]]}, **how), flat)


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS])
def test_empty_strings_in_a_partition_column_are_null(
    spark: SparkSession, tmp_path: Path, rows: DataFrame, output: Callable[..., FileOutput], mode: OutputMode
) -> None:
    """Spark writes them to the directory of NULL."""
    how = {"partition_by": ("T",), "mode": mode}
    with pytest.raises(CheckFailedError, match="not_null: t requires no NULL, found 1 NULL"):
        write(output({"not_null": ["t"]}, **how), rows)
    write(output({"not_null": ["d.d"], "unique": ["t"]}, **how), spark.sql("SELECT struct(1 AS d) AS d, '' AS t"))
    assert [tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).select("t").collect()] == [(None,)]


@pytest.mark.parametrize("value", ["X''", "'__HIVE_DEFAULT_PARTITION__'"])
def test_values_in_the_directory_of_null_are_null(
    spark: SparkSession, output: Callable[..., FileOutput], value: str
) -> None:
    with pytest.raises(CheckFailedError, match="not_null: t requires no NULL, found 1 NULL"):
        write(output({"not_null": ["t"]}, partition_by=("t",)), spark.sql(f"SELECT 1 AS id, {value} AS t"))


def test_timestamps_that_occur_twice_cannot_name_a_partition(
    spark: SparkSession, tmp_path: Path, output: Callable[..., FileOutput]
) -> None:
    with session_settings(spark, {"spark.sql.session.timeZone": "Europe/Berlin"}):
        times = "SELECT 1 AS id, timestamp'{}' AS at"
        write(output({}, partition_by=("at",)), spark.sql(times.format("2026-10-25T00:30:00Z")))
        with pytest.raises(PySparkException) as problem:
            write(output({}, partition_by=("at",)), spark.sql(times.format("2026-10-25T01:30:00Z")))
    error = classify(problem.value)
    assert error.code is ErrorCode.CHECK_FAILED
    assert error.message.startswith("partition column at has a time that occurs twice")
    assert [row.id for row in spark.read.parquet(str(tmp_path / "out")).collect()] == [1]


@pytest.mark.parametrize("kind", ["binary", "string"])
def test_bytes_that_are_not_utf_8_cannot_name_a_partition(
    spark: SparkSession, tmp_path: Path, output: Callable[..., FileOutput], kind: str
) -> None:
    values = f"SELECT id, CAST(t AS {kind}) AS t FROM VALUES (1, X'C3A9'), (2, NULL), (3, X'') AS rows (id, t)"
    write(output({}, partition_by=("t",)), spark.sql(values))
    with pytest.raises(PySparkException) as problem:
        write(output({}, partition_by=("t",)), spark.sql(values.replace("A9", "")))
    error = classify(problem.value)
    assert error.code is ErrorCode.CHECK_FAILED
    assert error.message.startswith("partition column t has bytes that are not UTF-8")
    rows = spark.read.parquet(str(tmp_path / "out")).select("id", "t").collect()
    assert sorted(map(tuple, rows)) == [(1, "é"), (2, None), (3, None)]


@pytest.mark.parametrize("name", ["a[1]", "{a,b}", "a*", "a?", "a b%20"])
def test_unique_check_reads_an_output_with_glob_characters(
    spark: SparkSession, rows: DataFrame, tmp_path: Path, output: Callable[..., FileOutput], name: str
) -> None:
    path = str(tmp_path / name)
    write(output({"unique": ["id"]}, path=path), rows)
    with pytest.raises(CheckFailedError, match="unique: d requires no repeated key, found 1 repeated"):
        write(output({"unique": ["d"]}, path=path), rows)


@pytest.mark.parametrize("check", ["not_null", "unique"])
def test_unknown_column_raises_before_the_write(
    tmp_path: Path, rows: DataFrame, output: Callable[..., FileOutput], check: str
) -> None:
    with pytest.raises(UnknownColumnError, match=f"checks.{check}: there is no column `nope`"):
        write(output({check: ["nope"]}), rows)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [{"min_row": 1}, {"min_rows": -1}, {"unique": "id"}, {"not_null": "id"}])
def test_invalid_checks_raise(arguments: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        OutputChecks.model_validate(arguments)
