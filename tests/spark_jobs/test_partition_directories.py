"""Columns that Spark finds in the names of directories are never taken for columns of the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs.session import PushdownSession


@pytest.mark.parametrize("schema", [None, "a BIGINT, k INT"])
@pytest.mark.parametrize("format", ["json", "orc"])
def test_rows_are_kept_by_conditions_on_either_kind_of_column(
    spark: SparkSession, tmp_path: Path, format: str, schema: str | None
) -> None:
    rows = spark.sql("SELECT CAST(id AS BIGINT) AS a, CAST(id % 2 AS INT) AS k FROM range(10)")
    rows.write.partitionBy("k").format(format).save(str(tmp_path / "data"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "data"), format=format, schema=schema, reader="pushdown")
    result = session.scan("t", columns=["a", "k"], where="k = 1 AND a = 3")
    assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [(3, 1)]
    assert result.report()["t"].reason == "partition columns come from directory names"


def test_a_directory_may_have_an_output_name(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "one.json").write_text('{"a": 1}\n')
    session = PushdownSession(spark)
    session.add_source("u", path=str(tmp_path), format="json", options={"recursiveFileLookup": "true"}, schema="a INT")
    for columns in (["dir0 AS d"], ["DIR0 as d"], ["dir0"]):
        result = session.scan("u", columns=columns)
        assert result.run(lambda frame: [tuple(row) for row in frame.collect()]) == [("north",)]
