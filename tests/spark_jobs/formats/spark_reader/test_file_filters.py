"""The filters in the report are those that Spark plans for its own file readers."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import Exactness
from pushdown_spark.formats.spark_reader.file_filters import file_filters
from pushdown_spark.session import PushdownSession

_CONJUNCTS = (
    "k = 5",
    "k <=> 5",
    "cast(k AS double) = 5.0",
    "k IN (1, 2, 3)",
    "k = 1 OR s LIKE 'x%'",
    "s LIKE '%x'",
    "NOT (d < DATE '2020-01-01')",
    "day = 1",
    "day = 1 OR k = 5",
    "(day = 1 AND k = 5) OR (day = 2 AND k = 6)",
    "day + k > 3",
    "day > rand() * 5",
    "member.m = 3",
    "upper(s) = 'X'",
    "1 = 1",
    "_metadata.file_name = 'x'",
)


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filters")
    columns = ("id AS k", "string(id) AS s", "date '2020-01-01' AS d", "struct(id AS m) AS member", "id % 3 AS day")
    rows = spark.range(9).selectExpr(*columns)
    for name in ("json", "orc", "parquet"):
        rows.write.partitionBy("day").format(name).save(str(path / name))
    return path


def _plan_filters(frame: DataFrame, conjunct: str) -> tuple[str, bool]:
    """Return the filters in Spark's plan of one conjunct without null checks, and whether it prunes partitions."""
    plan = str(frame.where(conjunct)._jdf.queryExecution().executedPlan().toString())
    filter_list = plan.partition("PushedFilters: [")[2].partition("], ReadSchema")[0]
    prunes = "PartitionFilters: []" not in plan and "Filter (" not in plan
    filters = [text for text in filter_list.split("), ") if text and not text.startswith("IsNotNull(")]
    return "), ".join(filters), prunes


@pytest.mark.parametrize("name", ["json", "orc", "parquet"])
def test_filters_are_those_of_sparks_plan(spark: SparkSession, root: Path, name: str) -> None:
    schema = "k bigint, s string, d date, member struct<m: bigint>, day bigint"
    frame = spark.read.schema(schema).format(name).load(str(root / name))
    for report in file_filters(frame, ("day",), _CONJUNCTS):
        filters, prunes = _plan_filters(frame, report.sql)
        if prunes:
            assert report.exactness is Exactness.EXACT, report
        elif filters:
            assert report.pushed_as == f"Spark's reader: {filters}"
        else:
            assert report.exactness is Exactness.UNSUPPORTED, report


def test_the_reader_of_text_files_ignores_the_filters_that_spark_plans(spark: SparkSession, tmp_path: Path) -> None:
    lines = spark.range(9).selectExpr("string(id) AS value", "id % 3 AS day")
    lines.write.partitionBy("day").text(str(tmp_path / "text"))
    session = PushdownSession(spark)
    session.add_source("lines", path=str(tmp_path / "text"), format="text")
    result = session.scan("lines", where="value = '4' AND day = 1")
    result.run(lambda frame: frame.collect(), single_pass=True)
    report = result.report()["lines"]
    assert {one.sql: one.exactness for one in report.conjuncts} == {
        "value = '4'": Exactness.UNSUPPORTED,
        "day = 1": Exactness.EXACT,
    }
    assert (report.rows_after_pushdown, report.rows_returned) == (3, 1)


def test_a_conjunct_that_spark_cannot_plan_is_reported_as_unsupported(spark: SparkSession, root: Path) -> None:
    frame = spark.read.orc(str(root / "orc"))
    (report,) = file_filters(frame, ("day",), ["1 / 0 = 1"])
    assert (report.exactness, report.pushed_as) == (Exactness.UNSUPPORTED, None)
