"""Outputs that would destroy other data are rejected before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec, TableSourceSpec
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.writer import open_output
from pushdown_spark.relations.listing import escaped
from pushdown_spark.relations.tables import table_directories

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
    with pytest.raises(BadSpecError, match=f"output.path: file:{table} is a {name} table"):
        output.prepare()
    output.abort()
    assert content(tmp_path) == before


def test_a_directory_named_metadata_is_not_a_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out" / "metadata").mkdir(parents=True)
    output = open_output(spark, OutputSpec(path=str(tmp_path / "out"), mode=OutputMode.OVERWRITE), "run")
    assert output.prepare()
    with output.guarded():
        output.stage(spark.range(3))
    assert spark.read.parquet(str(tmp_path / "out")).count() == 3


@pytest.mark.parametrize(
    "source", ["{out}/events", "{out}/events/*.json", "{out}/events/n=[12]/*", "file:{out}/a.json"]
)
def test_overwrite_of_a_directory_with_the_source_is_rejected(spark: SparkSession, tmp_path: Path, source: str) -> None:
    source = source.format(out=tmp_path)
    with pytest.raises(BadSpecError) as error:
        open_output(spark, OutputSpec(path=str(tmp_path), mode=OutputMode.OVERWRITE), "run", sources=[source])
    assert f"overwriting {tmp_path} would delete the source {source}" in str(error.value)


@pytest.mark.parametrize("source", ["{lake}/*/events", "{lake}/{{raw,other}}/events/*.json", "*/raw/events"])
def test_overwrite_is_rejected_if_a_wildcard_above_finds_files_in_the_output(
    spark: SparkSession, tmp_path: Path, source: str
) -> None:
    lake = tmp_path / "lake"
    for name in ("raw", "other"):
        (lake / name / "events").mkdir(parents=True)
        (lake / name / "events" / "a.json").write_text('{"n": 1}\n')
    before = content(lake)
    source = source.format(lake=lake)
    if source.startswith("*"):
        # The JVM's working directory cannot change, so the path is relative to it.
        source = f"{os.path.relpath(tmp_path)}/{source}"
    output = OutputSpec(path=str(lake / "raw"), mode=OutputMode.OVERWRITE)
    with pytest.raises(BadSpecError, match=f"overwriting {lake}/raw would delete the source"):
        open_output(spark, output, "run", sources=[source])
    assert content(lake) == before


def test_overwrite_may_read_what_a_wildcard_finds_beside_the_output(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("raw", "other/events"):
        (tmp_path / name).mkdir(parents=True)
    output = OutputSpec(path=str(tmp_path / "raw"), mode=OutputMode.OVERWRITE)
    assert open_output(spark, output, "run", sources=[f"{tmp_path}/*/events"]).prepare()


def test_escaped_glob_characters_are_plain_ones(spark: SparkSession, tmp_path: Path) -> None:
    output, source = tmp_path / "out[1]", rf"{tmp_path}/out\[1\]/events/*.json"
    with pytest.raises(BadSpecError, match="would delete the source"):
        open_output(spark, OutputSpec(path=str(output), mode=OutputMode.OVERWRITE), "run", sources=[source])


def test_overwrite_of_the_directories_of_a_table_is_rejected(spark: SparkSession, tmp_path: Path) -> None:
    table, elsewhere = tmp_path / "lake[1]" / "t", tmp_path / "old" / "p=9"
    spark.sql(f"CREATE TABLE kept (a INT, p INT) USING parquet PARTITIONED BY (p) LOCATION 'file:{table}'")
    spark.sql(f"ALTER TABLE kept ADD PARTITION (p = 9) LOCATION 'file:{elsewhere}'")
    spark.sql("CREATE VIEW seen AS SELECT * FROM kept WHERE a > 1")
    try:
        for name in ("kept", "seen"):
            sources = [escaped(path) for path in table_directories(spark, TableSourceSpec(table=name))]
            for output in (table.parent, elsewhere.parent):
                with pytest.raises(BadSpecError, match="would delete the source"):
                    open_output(spark, OutputSpec(path=str(output), mode=OutputMode.OVERWRITE), "run", sources=sources)
            open_output(spark, OutputSpec(path=f"{tmp_path}/new", mode=OutputMode.OVERWRITE), "run", sources=sources)
    finally:
        spark.sql("DROP VIEW seen")
        spark.sql("DROP TABLE kept")


def test_overwrite_of_partitions_may_read_another_partition(spark: SparkSession, tmp_path: Path) -> None:
    lines = tmp_path / "day=1" / "lines.json"
    lines.parent.mkdir()
    lines.write_text('{"n": 1}\n')
    spec = OutputSpec(path=str(tmp_path), mode=OutputMode.OVERWRITE_PARTITIONS, partition_by=("day",))
    assert open_output(spark, spec, "run", sources=[f"{tmp_path}/day=1"]).prepare()


def test_overwrite_may_read_its_own_output(spark: SparkSession, tmp_path: Path) -> None:
    for source in (str(tmp_path), f"{tmp_path}/", f"{tmp_path}/*.parquet", f"{tmp_path}-other/x"):
        open_output(spark, OutputSpec(path=str(tmp_path), mode=OutputMode.OVERWRITE), "run", sources=[source])
