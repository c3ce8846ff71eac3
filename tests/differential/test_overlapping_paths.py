"""Files that several paths of a source name are read as often as Spark's own reader reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from session_settings import pushdown_off

from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

FORMATS = ("json", "csv", "avro", "orc", "parquet")
SCHEMA = "id INT, s STRING"
WHERE = "s = 'text 3'"
PATHS: dict[str, Callable[[str, str], list[str]]] = {
    "twice": lambda root, file: [root, root],
    "in two spellings": lambda root, file: [root, f"file:{root}/"],
    "a directory and its file": lambda root, file: [root, file],
    "globs": lambda root, file: [f"{root}/*", f"{root}/part-*", file],
}


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("paths")
    rows = spark.range(12).coalesce(1).selectExpr("CAST(id AS INT) AS id", "concat('text ', id % 4) AS s")
    for source_format in FORMATS:
        rows.write.format(spark_format(source_format)).save(str(root / source_format / "plain"))
        parts = rows.selectExpr("id", "s", "id % 2 AS part").write.partitionBy("part")
        parts.format(spark_format(source_format)).save(str(root / source_format / "part"))
    return root


def rows_of(frame: DataFrame) -> Counter[str]:
    return Counter(str(row.asDict()) for row in frame.collect())


def check(spark: SparkSession, source_format: str, paths: list[str], columns: list[str]) -> Counter[str]:
    """Assert that the pushdown reader returns Spark's rows of some paths. Return them."""
    session = PushdownSession(spark)
    session.add_source("data", path=paths, format=source_format, schema=SCHEMA, reader="pushdown")
    result = session.scan("data", columns=columns, where=WHERE)
    with pushdown_off(spark):
        spark_frame = spark.read.format(spark_format(source_format)).schema(SCHEMA).load(paths)
        expected = rows_of(spark_frame.where(WHERE).select(*columns))
    assert result.run(rows_of) == expected
    report = result.report()["data"]
    assert report.reader == "pushdown", report.reason
    assert report.skipped.get("files", 0) == 0
    return expected


@pytest.mark.usefixtures("carrier")
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("source_format", FORMATS)
def test_files_are_read_once_for_each_path(spark: SparkSession, root: Path, source_format: str, name: str) -> None:
    directory = root / source_format / "plain"
    (file,) = directory.glob("part-*")
    rows = check(spark, source_format, PATHS[name](str(directory), str(file)), ["id", "s"])
    assert min(rows.values()) > 1


@pytest.mark.usefixtures("carrier")
@pytest.mark.parametrize("source_format", FORMATS)
def test_partitions_are_read_once(spark: SparkSession, root: Path, source_format: str) -> None:
    directory = str(root / source_format / "part")
    assert check(spark, source_format, [directory, directory], ["id", "part"]).total() == 3


def test_files_with_other_types_are_read_once_for_each_path(spark: SparkSession, tmp_path: Path) -> None:
    for name, value in ("a", "1"), ("b", '"x"'):
        (tmp_path / f"{name}.json").write_text(f'{{"k": 5, "v": {value}}}\n')
    session = PushdownSession(spark)
    paths = [str(tmp_path), str(tmp_path / "b.json")]
    session.add_source("data", path=paths, format="json", on_schema_conflict="widen", reader="pushdown")
    result = session.scan("data", columns=["v"], where="k = 5").run(rows_of)
    assert result == Counter({"{'v': '1'}": 1, "{'v': 'x'}": 2})
