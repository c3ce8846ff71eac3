"""The progress of scans: nothing before a run, everything after it, and unknown where tasks do not count."""

from __future__ import annotations

from pathlib import Path

import fastavro
import pytest
from pyspark.sql import SparkSession

from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

ROWS = 600
FILES = 3


def write(spark: SparkSession, file_format: str, path: Path) -> None:
    if file_format != "avro":
        frame = spark.range(ROWS).selectExpr("id", "concat('n', id % 10) AS name")
        frame.repartition(FILES).write.format(file_format).save(str(path))
        return
    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
    schema = fastavro.parse_schema({"type": "record", "name": "row", "fields": fields})
    path.mkdir()
    for number in range(FILES):
        rows = ({"id": id, "name": f"n{id % 10}"} for id in range(number, ROWS, FILES))
        with (path / f"{number}.avro").open("wb") as file:
            fastavro.writer(file, schema, rows)


def scan(spark: SparkSession, path: Path, file_format: str, *, reader: str = "pushdown") -> PushdownSession:
    session = PushdownSession(spark)
    schema = "id bigint, name string" if file_format in ("json", "csv") else None
    session.add_source("data", path=str(path), format=file_format, schema=schema, reader=reader)
    return session


def run(result: PushdownResult) -> None:
    result.run(lambda frame: frame.write.format("noop").mode("overwrite").save(), single_pass=True)


@pytest.mark.parametrize("file_format", ["json", "csv", "avro", "orc", "parquet"])
def test_the_progress_of_a_scan_counts_its_finished_tasks(
    spark: SparkSession, tmp_path: Path, file_format: str
) -> None:
    write(spark, file_format, tmp_path / "data")
    result = scan(spark, tmp_path / "data", file_format).scan("data", where="name = 'n7'")
    (before,) = result.progress() or ()
    run(result)
    (after,) = result.progress() or ()
    assert before is not None
    assert after is not None
    size = sum(file.stat().st_size for file in (tmp_path / "data").glob(f"*.{file_format}"))
    assert (before.files_done, before.bytes_done, before.rows_found) == (0, 0, 0)
    assert (after.files_done, after.bytes_done, after.rows_found) == (FILES, size, ROWS // 10)
    assert (before.files_total, before.bytes_total) == (after.files_total, after.bytes_total) == (FILES, size)


def test_unknown_progress_is_not_shown_as_zero(spark: SparkSession, tmp_path: Path) -> None:
    write(spark, "json", tmp_path / "data")
    session = scan(spark, tmp_path / "data", "json")
    limit_result = session.scan("data", where="name = 'n7'", limit=1)
    assert limit_result.progress() is None, "the end of the scan is not known"
    session.add_source("by_spark", path=str(tmp_path / "data"), format="json", reader="spark")
    assert session.scan("by_spark", where="name = 'n7'").progress() == (None,)
    both = session.sql("SELECT a.id FROM data a JOIN by_spark b ON a.id = b.id WHERE a.name = 'n7'")
    run(both)
    ours, sparks = sorted(both.progress() or (), key=lambda progress: progress is None)
    assert ours is not None
    assert ours.files_done == FILES
    assert sparks is None
