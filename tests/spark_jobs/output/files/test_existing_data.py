"""Outputs that would destroy other data are rejected before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.files.file_output import open_output

CHANGING = [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND]


def content(directory: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(directory.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("below", ["", "day=1", "day=1/hour=2"])
@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("Delta", "_delta_log/00000000000000000000.json"),
        ("Hudi", ".hoodie/hoodie.properties"),
        ("Iceberg", "metadata/v1.metadata.json"),
    ],
)
@pytest.mark.parametrize("mode", CHANGING)
def test_tables_with_a_log_are_rejected(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, name: str, log: str, below: str
) -> None:
    table = tmp_path / "table"
    for path in (table / log, table / "day=1" / "hour=2" / "part-0.parquet"):
        path.parent.mkdir(parents=True)
        path.write_text("old")
    before = content(tmp_path)
    partition_by = ("n",) if mode is OutputMode.OVERWRITE_PARTITIONS else ()
    output = open_output(spark, OutputSpec(path=str(table / below), mode=mode, partition_by=partition_by), "run")
    with pytest.raises(BadSpecError, match=f"output: file:{table} is a {name} table"):
        output.prepare()
    output.abort()
    assert content(tmp_path) == before


def test_a_partition_of_a_table_behind_a_link_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "table" / "_delta_log").mkdir(parents=True)
    (tmp_path / "table" / "day=1").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "table" / "day=1")
    output = open_output(spark, OutputSpec(path=str(tmp_path / "link" / "hour=2"), mode=OutputMode.APPEND), "run")
    with pytest.raises(BadSpecError, match=f"output: file:{tmp_path}/table is a Delta table"):
        output.prepare()


def test_a_directory_named_metadata_is_not_a_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out" / "metadata").mkdir(parents=True)
    output = open_output(spark, OutputSpec(path=str(tmp_path / "out"), mode=OutputMode.OVERWRITE), "run")
    assert output.prepare()
    with output.transaction():
        output.stage(spark.range(3))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3
