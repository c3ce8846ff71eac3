"""The report lists the files of a source with their counts, up to the maximum size of a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import FileReport
from pushdown_spark.runtime.spark_internals import AVRO_CLASS
from pushdown_spark.scan.task_counts import MAX_FILES, group_by_file, most_read_files
from pushdown_spark.session import PushdownSession

_SPARK_FORMATS = {"avro": AVRO_CLASS}
"""Formats that the session writes by another name."""


@pytest.mark.parametrize(("source_format", "kind"), [("json", None), ("orc", "stripes"), ("avro", "blocks")])
def test_the_report_lists_each_file(spark: SparkSession, tmp_path: Path, source_format: str, kind: str | None) -> None:
    place = tmp_path / "table"
    frame = spark.range(4_000).selectExpr("id", "concat('text ', id) AS s").repartition(2)
    frame.write.format(_SPARK_FORMATS.get(source_format, source_format)).save(str(place))
    session = PushdownSession(spark)
    session.add_source("t", path=str(place), format=source_format, reader="pushdown")
    result = session.scan("t", where="id = 77")
    assert [row.s for row in result.run(lambda frame: frame.collect())] == ["text 77"]
    report = result.report()["t"]
    assert sorted(file.path for file in report.files) == sorted(
        str(path) for path in place.iterdir() if path.name.startswith("part-")
    )
    assert sum(file.bytes_read for file in report.files) == report.bytes_read
    assert sum(file.rows_decoded for file in report.files) == report.rows_decoded
    for file in report.files:
        assert list(file.units) == ([kind, "row groups"] if kind == "stripes" else [kind] if kind else [])
        for name, outcomes in report.units.items():
            assert file.units[name].keys() == outcomes.keys()
    for name, outcomes in report.units.items():
        assert {outcome: sum(file.units[name][outcome] for file in report.files) for outcome in outcomes} == outcomes


def test_counts_of_splits_are_summed_by_file() -> None:
    assert group_by_file([{"a": 1, "b": 2}, {"a": 3}]) == {"a": [1, 3], "b": [2]}


def test_the_report_lists_the_files_with_the_most_bytes_read() -> None:
    files = [FileReport(path=f"{number:03}", bytes_read=number // 2, rows_decoded=1) for number in range(200)]
    most_read = most_read_files(files)
    assert len(most_read) == MAX_FILES
    assert [file.path for file in most_read[:3]] == ["198", "199", "196"]
