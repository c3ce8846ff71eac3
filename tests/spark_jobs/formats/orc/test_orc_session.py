"""ORC scans in a session: implicit columns, limits, settings, and Spark's own switches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyorc
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from session_settings import session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import BadSpecError, PushdownError, UnreadableFileError
from pushdown_spark.formats.orc import cost
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

ROWS = 20_000
USE_SELECTED = "orc.filter.use.selected"
WHERE = "k = 4321"


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write keys that are spread over all row groups, in two directories."""
    root = tmp_path_factory.mktemp("orc") / "t"
    frame = spark.range(ROWS).select(f.expr("id * 7919 % 20000").alias("k"), f.expr("'v' || id").alias("v"))
    for part in ("left", "right"):
        frame.coalesce(1).write.option("orc.row.index.stride", "1000").orc(str(root / part))
    return root


def _session(spark: SparkSession, path: Path | str, reader: str = "pushdown", **fields: Any) -> PushdownSession:
    """Return a session with the ORC source `t`."""
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="orc", reader=reader, **fields)
    return session


def collect_rows(spark: SparkSession, path: Path, **options: str) -> list[Row]:
    reader_options = {key.replace("_", "."): value for key, value in options.items()}
    return spark.read.options(**reader_options).orc(str(path)).where(WHERE).collect()


def test_spark_loses_rows_with_use_selected(spark: SparkSession, table: Path) -> None:
    """This bug is why use_selected raises for Spark's reader. The test fails when Spark fixes it."""
    left = table / "left"
    assert [row.k for row in collect_rows(spark, left)] == [4321]
    assert [row.k for row in collect_rows(spark, left, orc_sarg_to_filter="true")] == [4321]
    both = collect_rows(spark, left, orc_sarg_to_filter="true", orc_filter_use_selected="true")
    assert [row.k for row in both] != [4321]


LOST = ("x = double('NaN')", "x IN (0.0D, 1.0D)", "x BETWEEN 9999 AND double('NaN')", "d = DATE'1500-02-28'")
"""Predicates that keep one row in Spark, and none in the row filter of its ORC reader."""


@pytest.fixture(scope="module")
def unusual(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write numbers with one NaN and one -0.0, and dates of which one is old."""
    path = tmp_path_factory.mktemp("orc") / "unusual"
    numbers = "CASE id WHEN 7 THEN double('NaN') WHEN 8 THEN -0.0D ELSE id + 2D END AS x"
    days = "IF(id = 7, DATE'1500-02-28', DATE'2020-01-01') AS d"
    spark.range(5_000, numPartitions=1).selectExpr("id", numbers, days).write.orc(str(path))
    return path


@pytest.mark.parametrize("where", LOST)
def test_the_row_filter_of_spark_loses_rows(spark: SparkSession, unusual: Path, where: str) -> None:
    """This is why the filter is off for these predicates. The test fails when Spark or ORC fixes it."""
    assert spark.read.orc(str(unusual)).where(where).count() == 1
    assert spark.read.option("orc.sarg.to.filter", "true").orc(str(unusual)).where(where).count() == 0


@pytest.mark.parametrize(("reader", "orc"), [("spark", {"sarg_to_filter": True}), ("auto", {})])
def test_the_row_filter_of_spark_is_off_where_it_loses_rows(
    spark: SparkSession, unusual: Path, reader: str, orc: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    # With these costs, `auto` chooses Spark's row filter wherever it may.
    monkeypatch.setattr(cost, "_COSTS", replace(cost._COSTS, search=1.0, spark_value=1.0))
    session = _session(spark, unusual, reader=reader, orc=orc)
    first_result = session.scan("t", columns=["id"], where="id = 7")
    assert "orc.sarg.to.filter is true" in first_result.report()["t"].notes
    for where in LOST:
        result = session.scan("t", columns=["id"], where=where)
        assert not any(note == "orc.sarg.to.filter is true" for note in result.report()["t"].notes)
        assert result.run(lambda frame: frame.count()) == 1


@pytest.mark.parametrize("where", LOST)
def test_a_setting_of_the_session_does_not_turn_the_row_filter_on_where_it_loses_rows(
    spark: SparkSession, unusual: Path, where: str
) -> None:
    session = _session(spark, unusual, reader="spark")
    with session_settings(spark, {"orc.sarg.to.filter": "true"}):
        result = session.scan("t", columns=["id"], where=where)
        assert result.run(lambda frame: frame.count()) == 1
    assert any("orc.sarg.to.filter is false: " in note for note in result.report()["t"].notes)


def test_lists_with_null_are_read_by_pushdown(spark: SparkSession, table: Path) -> None:
    """Spark 4.3.0 fails at these lists for any rows. The test fails when Spark fixes it."""
    where = "k IN (4321, NULL)"
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.read.orc(str(table / "left")).where(where).collect()
    session = _session(spark, table / "left", reader="auto")
    result = session.scan("t", where=where, columns=["k"])
    assert [row.k for row in result.run(lambda frame: frame.collect())] == [4321]
    assert result.report()["t"].reason == "Spark's ORC reader fails at lists of numbers that hold a NULL"


@pytest.mark.parametrize(("value", "where"), [(-0.0, "x = 0"), (0.0, "x IN (-0.0D, 9D)")])
def test_auto_finds_zeros_that_spark_loses(spark: SparkSession, tmp_path: Path, value: float, where: str) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(value,)], "x double").write.orc(path)
    assert spark.read.orc(path).where(where).count() == 0, "Spark or ORC has been fixed"
    session = _session(spark, path, reader="auto")
    result = session.scan("t", where=where)
    assert result.run(lambda frame: frame.count()) == 1
    report = result.report()["t"]
    assert report.reader == "spark"
    assert report.conjuncts[0].reason == "Spark's filter pushdown may lose rows with NaN, 0.0 or -0.0"


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_zeros_are_not_lost_if_only_spark_can_read_them(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    path = str(tmp_path / "t")
    spark.createDataFrame([(-0.0,)], "x double").write.orc(path)
    session = _session(spark, path, reader=reader)
    with session_settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
        result = session.scan("t", where="x = 0")
        assert result.run(lambda frame: frame.count()) == 1
    assert result.report()["t"].reader == "spark"


MAPS = "map_from_arrays(array('b', 'c', 'a'), array(id, 2, 3)) AS m"
"""Maps whose keys are not stored in their order."""


@pytest.mark.parametrize(
    ("settings", "columns", "reader"),
    [
        ({}, 1, "pushdown"),
        ({}, 97, "pushdown"),
        ({}, 98, "spark"),
        ({"spark.sql.codegen.wholeStage": "false"}, 1, "spark"),
        ({"spark.sql.orc.enableVectorizedReader": "FALSE"}, 1, "spark"),
        ({"spark.sql.orc.enableNestedColumnVectorizedReader": "false"}, 1, "spark"),
        ({"spark.sql.codegen.maxFields": "2"}, 1, "spark"),
    ],
)
def test_entries_of_maps_have_the_order_of_sparks_reader(
    spark: SparkSession, tmp_path: Path, settings: dict[str, str], columns: int, reader: str
) -> None:
    more = [f"id AS c{number}" for number in range(columns)]
    spark.range(20).selectExpr("id", MAPS, *more).coalesce(1).write.orc(str(tmp_path / "maps"))
    session = _session(spark, tmp_path / "maps")
    with session_settings(spark, settings):
        expected = spark.read.orc(str(tmp_path / "maps")).where("id = 7").collect()
        result = session.scan("t", where="id = 7")
        (actual,) = result.run(lambda frame: frame.collect())
    assert list(actual.m.items()) == list(expected[0].m.items())
    assert result.report()["t"].reader == reader


@pytest.mark.parametrize("columns", [["id", "m"], ["id", "m", "p"]])
def test_partition_columns_do_not_change_the_order_of_map_entries(
    spark: SparkSession, tmp_path: Path, columns: list[str]
) -> None:
    rows = spark.range(20).selectExpr("id", MAPS, "id % 2 AS p").coalesce(1)
    rows.write.partitionBy("p").orc(str(tmp_path / "maps"))
    session = _session(spark, tmp_path / "maps")
    with session_settings(spark, {"spark.sql.codegen.maxFields": "3"}):
        expected = spark.read.orc(str(tmp_path / "maps")).where("id = 7").select(*columns).collect()
        result = session.scan("t", where="id = 7", columns=columns)
        (actual,) = result.run(lambda frame: frame.collect())
    assert list(actual.m.items()) == list(expected[0].m.items())
    assert result.report()["t"].reader == "pushdown"


def test_counts_of_workers_load_no_planner(spark: SparkSession, table: Path) -> None:
    """Workers unpickle the accumulator of a scan. The planner's modules would take them half a second."""
    session = _session(spark, table / "left")
    accumulator = session.scan("t", where=WHERE)._scan.scan._counts
    pickle_bytes = cloudpickle.dumps(accumulator.accum_param)
    assert not any(module in pickle_bytes for module in (b"worker_scan", b"columnar_scan"))


@pytest.mark.parametrize("reader", ["spark", "auto"])
def test_use_selected_is_rejected_with_sparks_reader(spark: SparkSession, table: Path, reader: str) -> None:
    with pytest.raises(BadSpecError, match="use_selected=True needs reader='pushdown'"):
        PushdownSession(spark).add_source("t", path=str(table), format="orc", reader=reader, orc={"use_selected": True})


@pytest.fixture
def hadoop_option(spark: SparkSession) -> Iterator[None]:
    """Set the option in Hadoop's configuration, as spark.hadoop.* does."""
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.set(USE_SELECTED, "true")
    yield
    hadoop.unset(USE_SELECTED)


@pytest.mark.parametrize("reader", ["spark", "auto", "pushdown"])
def test_use_selected_in_the_configuration_is_rejected(
    spark: SparkSession, table: Path, hadoop_option: None, reader: str
) -> None:
    _check_use_selected_is_unsafe(spark, table, reader, {})


@pytest.mark.parametrize("reader", ["spark", "auto", "pushdown"])
def test_use_selected_as_an_option_is_rejected(spark: SparkSession, table: Path, reader: str) -> None:
    _check_use_selected_is_unsafe(spark, table, reader, {USE_SELECTED: "true"})


def _check_use_selected_is_unsafe(spark: SparkSession, table: Path, reader: str, options: dict[str, str]) -> None:
    session = _session(spark, table / "left", reader=reader, options=options)
    with pytest.raises(PushdownError, match=USE_SELECTED) as error:
        session.scan("t", where=WHERE)
    assert error.value.code is ErrorCode.UNSAFE_SETTING


@pytest.mark.parametrize("use_selected", [False, True])
def test_the_pushdown_reader_supports_use_selected(spark: SparkSession, table: Path, use_selected: bool) -> None:
    session = _session(spark, table / "left", orc={"use_selected": use_selected})
    result = session.scan("t", columns=["v"], where="k IN (4321, 5) OR k IS NULL")
    assert len(result.run(lambda frame: frame.collect())) == 2
    assert result.report()["t"].reader == "pushdown"
    plan = result.df._jdf.queryExecution().optimizedPlan().toString()
    assert ("Filter" in plan) is not use_selected


def test_implicit_columns_are_selected_and_filtered(spark: SparkSession, table: Path) -> None:
    options = {"recursiveFileLookup": "true"}
    session = _session(spark, table, options=options)
    result = session.scan("t", columns=["k", "dir0", "filename"], where="k IN (1, 2) AND dir0 = 'right'")
    rows = result.run(lambda frame: frame.collect())
    assert sorted(row.k for row in rows) == [1, 2]
    assert {row.dir0 for row in rows} == {"right"}
    assert all(row.filename.endswith(".orc") for row in rows)
    assert result.report()["t"].reader == "pushdown"


@pytest.mark.parametrize("limit", [0, 1, 7, 100_000])
def test_a_limit_returns_matching_rows_up_to_the_limit(spark: SparkSession, table: Path, limit: int) -> None:
    options = {"recursiveFileLookup": "true"}
    session = _session(spark, table, options=options)
    rows = session.scan("t", columns=["k"], where="k < 50", limit=limit).run(lambda frame: frame.collect())
    assert len(rows) == min(limit, 100)
    assert all(row.k < 50 for row in rows)


@pytest.mark.parametrize("where", [None, "k >= 0", "true", "1 = 2", "k IS NULL"])
def test_rows_without_columns_are_counted(spark: SparkSession, table: Path, where: str | None) -> None:
    session = _session(spark, table / "left")
    query = "SELECT count(*) AS n FROM t" + (f" WHERE {where}" if where else "")
    ((actual,),) = session.sql(query).run(lambda frame: frame.collect())
    assert actual == (ROWS if where in (None, "k >= 0", "true") else 0)


def test_julian_dates_are_read_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.sql("SELECT DATE '1500-02-28' AS d, 1 AS n UNION ALL SELECT DATE '2020-01-01', 2")
    frame.coalesce(1).write.orc(str(tmp_path / "t"))
    session = _session(spark, tmp_path / "t")
    result = session.scan("t", columns=["n"], where="d = DATE '1500-02-28'")
    assert [row.n for row in result.run(lambda frame: frame.collect())] == [1]
    report = result.report()["t"]
    assert report.reader == "spark"
    assert "1582" in report.reason


def test_members_are_case_sensitive(spark: SparkSession, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        spark.sql("SELECT named_struct('a', 1, 'A', 2) AS s").write.orc(str(tmp_path / "t"))
        session = _session(spark, tmp_path / "t")
        result = session.scan("t", where="s.A = 2 AND s.a = 1")
        assert [tuple(row.s) for row in result.run(lambda frame: frame.collect())] == [(1, 2)]
        assert session.scan("t", where="s.A = 1").run(lambda frame: frame.count()) == 0
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_padded_strings_are_those_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "chars.orc"
    with path.open("wb") as out, pyorc.Writer(out, "struct<c:char(5),v:varchar(5),n:int>") as writer:
        writer.writerows([("a", "a", 1), ("a  ", "a  ", 2), ("", "", 3), (None, None, 4), ("abcde", "abcde", 5)])
    for schema in (None, "c string, v string, n int"):
        for where in ("c = 'a'", "c = 'a    '", "c <= 'abc'", "v = 'a'", "c LIKE '%e'", "n > 0"):
            expected = spark.read.orc(str(path)) if schema is None else spark.read.schema(schema).orc(str(path))
            session = _session(spark, path, schema=schema)
            actual = session.scan("t", where=where).run(sorted_rows)
            assert session.scan("t", where=where).report()["t"].reader == "pushdown" or "c " in where
            assert actual == sorted_rows(expected.where(where)), (schema, where)


def test_a_damaged_file_is_named(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    (part,) = (table / "left").glob("part-*.orc")
    content = part.read_bytes()
    (tmp_path / "cut.orc").write_bytes(content[: len(content) // 2])
    session = _session(spark, tmp_path / "cut.orc", schema="k bigint")
    with pytest.raises(Exception, match=r"cannot read .*cut\.orc") as error:
        session.scan("t", where=WHERE).run(lambda frame: frame.collect())
    assert classify(error.value).code is UnreadableFileError.code


def test_extra_columns_of_hive_files_fail_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Partition columns are not columns of the file."""
    path = tmp_path / "day=1" / "a.orc"
    path.parent.mkdir()
    with path.open("wb") as file, pyorc.Writer(file, "struct<_col0:int,_col1:string>") as rows:
        rows.write((1, "x"))
    for reader in ("spark", "pushdown"):
        session = _session(spark, tmp_path, schema="a int, day int", reader=reader)
        with pytest.raises(Exception, match="has fewer 1 fields"):
            session.scan("t", where="a = 1").run(lambda frame: frame.collect())
    session = _session(spark, tmp_path, schema="a int, b string, day int")
    result = session.scan("t", where="a = 1")
    assert result.run(lambda frame: frame.collect()) == [Row(a=1, b="x", day=1)]
    assert result.report()["t"].reader == "pushdown"


def test_only_the_pushdown_reader_reads_names_with_a_backtick(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "ticks")
    spark.sql("SELECT id, concat('t', id) AS `tick``s` FROM range(3)").write.orc(path)
    schema = "id BIGINT, `tick``s` STRING"
    row_count = spark.read.schema(schema).orc(path).where("`tick``s` IS NOT NULL").count()
    assert row_count == 0, "Spark's reader reads the column now: there is nothing to refuse any more"
    session = PushdownSession(spark)
    session.add_source("ours", path=path, format="orc", schema=schema, reader="pushdown")
    result = session.scan("ours", columns=["`tick``s`"], where="id = 2")
    assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [("t2",)]
    session.add_source("spark", path=path, format="orc", schema=schema, reader="spark")
    with pytest.raises(BadSpecError, match="has a backtick; set reader='pushdown'"):
        session.scan("spark", where="id = 2")
    assert session.scan("spark", columns=["id"], where="id = 2").df.count() == 1
