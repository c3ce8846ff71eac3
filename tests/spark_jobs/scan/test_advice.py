"""Advice is given where it applies, and to follow it makes the next run read less."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import ConjunctReport, Exactness, SourceReport
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.scan.advice import with_advice
from pushdown_spark.session import PushdownSession

ROWS = 100_000
SCHEMA = "id bigint, tail string, note string"


@pytest.fixture(scope="module")
def flights(spark: SparkSession) -> DataFrame:
    """Return rows whose order says nothing about `tail`, which has each value ten times."""
    tail = f"concat('N', lpad(CAST(pmod(hash(id), {ROWS // 10}) AS STRING), 6, '0')) AS tail"
    return spark.range(ROWS).selectExpr("id", tail, "sha2(CAST(id AS STRING), 256) AS note")


def report(spark: SparkSession, path: Path, file_format: str, where: str) -> SourceReport:
    session = PushdownSession(spark)
    schema = SCHEMA if file_format == "json" else None
    session.add_source("data", path=str(path), format=file_format, schema=schema, reader="pushdown")
    result = session.scan("data", where=where)
    result.run(lambda frame: frame.write.format("noop").mode("overwrite").save(), single_pass=True)
    return result.report()["data"]


def write_orc(frame: DataFrame, path: Path, **options: str) -> Path:
    frame.write.format("orc").options(**{"orc.row.index.stride": "1000", **options}).save(str(path))
    return path


def write_parquet(frame: DataFrame, path: Path) -> Path:
    frame.write.format("parquet").option("parquet.page.row.count.limit", "1000").save(str(path))
    return path


@pytest.mark.parametrize(("file_format", "write"), [("orc", write_orc), ("parquet", write_parquet)])
def test_sorted_rows_are_pruned_by_statistics(
    spark: SparkSession,
    flights: DataFrame,
    tmp_path: Path,
    file_format: str,
    write: Callable[[DataFrame, Path], Path],
) -> None:
    where = "tail = 'N000042'"
    before = report(spark, write(flights.coalesce(1), tmp_path / "any_order"), file_format, where)
    assert before.advice[0].startswith("Sort the rows by tail before you write the files")
    after = report(spark, write(flights.coalesce(1).sort("tail"), tmp_path / "sorted"), file_format, where)
    assert after.rows_returned == before.rows_returned
    assert 10 * (after.rows_decoded or 0) < (before.rows_decoded or 0)
    assert (after.bytes_read or 0) < (before.bytes_read or 0)
    assert after.advice == ()


def test_bloom_filters_prune_row_groups(spark: SparkSession, flights: DataFrame, tmp_path: Path) -> None:
    where = "tail = 'N000042'"
    before = report(spark, write_orc(flights.coalesce(1), tmp_path / "plain"), "orc", where)
    assert "orc.bloom.filter.columns=tail" in before.advice[1]
    bloom = {"orc.bloom.filter.columns": "tail"}
    after = report(spark, write_orc(flights.coalesce(1), tmp_path / "bloom", **bloom), "orc", where)
    assert after.rows_returned == before.rows_returned
    assert 2 * (after.rows_decoded or 0) < (before.rows_decoded or 0)
    assert not any("bloom" in line for line in after.advice)


def test_following_the_advice_to_write_larger_files_reads_fewer_bytes(
    spark: SparkSession, flights: DataFrame, tmp_path: Path
) -> None:
    few, where = flights.limit(20_000).cache(), "id = 42"
    before = report(spark, write_orc(few.repartition(60), tmp_path / "many"), "orc", where)
    assert any(line.startswith("Write fewer, larger files") for line in before.advice)
    after = report(spark, write_orc(few.coalesce(1), tmp_path / "one"), "orc", where)
    few.unpersist()
    assert after.rows_returned == before.rows_returned == 1
    assert 2 * (after.bytes_read or 0) < (before.bytes_read or 0)
    assert not any("files" in line for line in after.advice if "larger" in line)


def test_a_plain_comparison_has_a_byte_pattern(spark: SparkSession, flights: DataFrame, tmp_path: Path) -> None:
    flights.limit(20_000).write.json(str(tmp_path / "json"))
    before = report(spark, tmp_path / "json", "json", "upper(tail) = 'Ñ000042'")
    assert before.advice[0].endswith("compare the column itself: tail = 'Ñ000042'.")
    assert before.rows_decoded == 20_000
    after = report(spark, tmp_path / "json", "json", "tail = 'Ñ000042'")
    assert after.rows_returned == before.rows_returned
    assert (after.rows_decoded or 0) < 1_000
    assert after.advice == ()


def test_advice_that_would_not_help_is_not_given() -> None:
    def advice(sql: str, **counts: object) -> tuple[str, ...]:
        predicate = Predicate.parse(sql)
        conjunct = ConjunctReport(sql=predicate.conjunct_texts[0], exactness=Exactness.UNSUPPORTED)
        values = {"reader": "spark", "reason": "r", "conjuncts": [conjunct], **counts}
        return with_advice(SourceReport.model_validate(values), predicate).advice

    assert len(advice("upper(a) = 'X'", files_total=1)) == 1
    assert advice("upper(a) = 'X'") == (), "a table of a database has no files"
    assert advice("upper(a) = upper(b)", files_total=1) == (), "the column has no constant to be compared with"
    rows = {"rows_decoded": 1_000, "rows_after_pushdown": 1}
    equal = ConjunctReport(sql="a = 1", exactness=Exactness.EXACT)
    for groups, count in ((1, 0), (20, 1)):
        units = {"row groups": {"total": groups}}
        assert len(advice("a = 1", conjuncts=[equal], files_total=1, units=units, **rows)) == count
