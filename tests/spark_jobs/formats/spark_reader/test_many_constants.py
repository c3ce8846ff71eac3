"""Spark's readers that build row by row are not given hundreds of constants to compare with each row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import Exactness
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

SCHEMA = "k bigint, word string"
ROWS = 2_000
LONG = f"k IN ({', '.join(map(str, range(0, ROWS * 2, 3)))})"
SHORT = "k IN (0, 3, 6) OR k > 9"
FORMATS = ("json", "csv", "avro")
KEYS = [f"spark.sql.{name}.filterPushdown.enabled" for name in FORMATS]


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    root = tmp_path_factory.mktemp("many")
    frame = spark.range(ROWS).selectExpr("id AS k", "concat('w', id) AS word")
    for name in FORMATS:
        frame.write.format(spark_format(name)).save(str(root / name))
    return {name: str(root / name) for name in FORMATS}


@pytest.fixture(autouse=True)
def no_settings(spark: SparkSession) -> Iterator[None]:
    """Unset the settings for pushdown, and restore them after the test."""
    before = {key: spark.conf.get(key, None) for key in KEYS}
    for key in KEYS:
        spark.conf.unset(key)
    yield
    for key, value in before.items():
        if value is not None:
            spark.conf.set(key, value)


@pytest.fixture(params=[None, "false", "true"])
def pushdown_setting(spark: SparkSession, no_settings: None, request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Set the session's setting for pushdown before the query."""
    for key in KEYS if request.param is not None else ():
        spark.conf.set(key, request.param)
    yield request.param
    for key in KEYS:
        spark.conf.unset(key)


def plan_scan(
    spark: SparkSession, files: dict[str, str], name: str, where: str, reader: str = "auto", **options: str
) -> PushdownResult:
    session = PushdownSession(spark)
    schema = None if name == "avro" else SCHEMA
    session.add_source("t", path=files[name], format=name, schema=schema, reader=reader, options=options)
    return session.scan("t", where=where)


def pushdown_while_running(spark: SparkSession, result: PushdownResult, name: str) -> tuple[str, list[int]]:
    """Return the setting during an action, and the keys that the action receives."""

    def action(frame: DataFrame) -> tuple[str, list[int]]:
        setting = str(spark.conf.get(f"spark.sql.{name}.filterPushdown.enabled"))
        return setting, sorted(row.k for row in frame.collect())

    return result.run(action)


@pytest.mark.parametrize("name", FORMATS)
def test_long_lists_are_evaluated_after_the_reader(
    spark: SparkSession, files: dict[str, str], name: str, pushdown_setting: str | None
) -> None:
    result = plan_scan(spark, files, name, LONG)
    assert pushdown_while_running(spark, result, name) == ("false", list(range(0, ROWS, 3)))
    assert spark.conf.get(f"spark.sql.{name}.filterPushdown.enabled") == (pushdown_setting or "true")
    (conjunct,) = result.report()["t"].conjuncts
    assert conjunct.exactness is Exactness.UNSUPPORTED
    assert "many constants" in (conjunct.reason or "")


def test_the_setting_is_restored_after_a_failure(spark: SparkSession, files: dict[str, str]) -> None:
    def fails(frame: DataFrame) -> None:
        raise RuntimeError(frame.columns[0])

    with pytest.raises(RuntimeError, match="k"):
        plan_scan(spark, files, "json", LONG).run(fails)
    assert spark.conf.get("spark.sql.json.filterPushdown.enabled") == "true"


@pytest.mark.parametrize(("where", "reader"), [(SHORT, "auto"), (LONG, "spark")])
def test_other_lists_are_pushed_to_the_reader(
    spark: SparkSession, files: dict[str, str], where: str, reader: str
) -> None:
    result = plan_scan(spark, files, "json", where, reader)
    expected = [row.k for row in spark.range(ROWS).selectExpr("id AS k").where(where).collect()]
    assert pushdown_while_running(spark, result, "json") == ("true", expected)


def test_the_setting_is_restored_after_a_join(spark: SparkSession, files: dict[str, str]) -> None:
    session = PushdownSession(spark)
    for name in FORMATS[:2]:
        session.add_source(name, path=files[name], format=name, schema=SCHEMA)
    result = session.sql(f"SELECT a.k FROM json a JOIN csv b ON a.k = b.k WHERE a.{LONG}")
    assert pushdown_while_running(spark, result, "json") == ("false", list(range(0, ROWS, 3)))
    assert spark.conf.get("spark.sql.json.filterPushdown.enabled") == "true"


def test_all_conjuncts_of_the_same_pattern_are_reported_as_pushed(spark: SparkSession, files: dict[str, str]) -> None:
    result = plan_scan(spark, files, "json", "k <> 1 AND k <> 2", "pushdown")
    assert result.run(lambda frame: frame.count()) == ROWS - 2
    assert [bool(each.pushed_as) for each in result.report()["t"].conjuncts] == [True, True]


def test_only_some_conjuncts_are_planned_for_the_report(spark: SparkSession, files: dict[str, str]) -> None:
    result = plan_scan(spark, files, "csv", " AND ".join(f"k <> {n}" for n in range(40)), "spark")
    filters = [each.pushed_as or "" for each in result.report()["t"].conjuncts]
    assert [("Not(EqualTo(k," in text, "not planned for the report" in text) for text in filters] == [
        (True, False)
    ] * 32 + [(False, True)] * 8
