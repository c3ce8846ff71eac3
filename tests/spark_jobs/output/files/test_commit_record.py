"""The record of a commit, by which a retry recognizes the output that an earlier try has written."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from interrupted_files import hidden_files
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec, OutputSummary, SourceSpec
from pushdown_spark.errors import OutputExistsError
from pushdown_spark.output.files.commit_record import CommitRecord
from pushdown_spark.output.files.file_output import FileOutput, open_output
from pushdown_spark.runtime.file_systems.local_files import LocalFiles
from pushdown_spark.session import PushdownSession

SUMMARY = OutputSummary(mode=OutputMode.ERROR_IF_EXISTS, columns={})


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1,), (2,)], "id int").repartition(2)


def attempt(
    spark: SparkSession, target: Path, generation: str = "0", run: str = "run 1", **fields: object
) -> FileOutput:
    spec = OutputSpec.model_validate({"path": str(target), "format": "json", **fields})
    return open_output(spark, spec, run, generation=generation)


def commit(output: FileOutput, frame: DataFrame, rows: int = 2) -> None:
    assert output.prepare()
    with output.transaction():
        output.stage(frame)
        output.staged_rows = rows


def write_incomplete_record(output: FileOutput, *files: str) -> None:
    """Write the record of a commit of some files as it is before the first move."""
    CommitRecord(LocalFiles(), output.paths, "0").write(files, None, SUMMARY, is_complete=False)


@pytest.mark.parametrize("mode", [OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE])
def test_each_retry_recognizes_its_output(
    spark: SparkSession, frame: DataFrame, tmp_path: Path, mode: OutputMode
) -> None:
    first = attempt(spark, tmp_path / "out", mode=mode)
    commit(first, frame)
    assert first.summary is not None
    summary = first.summary.model_copy(update={"is_from_earlier_try": True})
    for _ in range(2):
        retry = attempt(spark, tmp_path / "out", mode=mode)
        assert not retry.prepare()
        assert (retry.committed_rows, retry.summary) == (2, summary)


def test_no_row_of_a_record_is_read_with_the_outputs_of_a_directory(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        commit(attempt(spark, tmp_path / name), frame)
    assert hidden_files(tmp_path / "a") != []
    for reader in ("spark", "pushdown"):
        session = PushdownSession(spark)
        spec = {"path": (str(tmp_path / "*"),), "format": "json", "schema": "id int", "reader": reader}
        session.add("outputs", SourceSpec.model_validate(spec))
        assert sorted(row["id"] for row in session.scan("outputs").df.collect()) == [1, 1, 2, 2]


def test_an_output_that_is_created_again_has_one_record(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    for run in ("run 1", "run 2"):
        output = attempt(spark, tmp_path / "out", run=run)
        commit(output, frame)
        assert hidden_files(tmp_path / "out") == [output.paths.record.rpartition("/")[2]]
        shutil.rmtree(tmp_path / "out")


def test_a_run_that_is_repeated_on_purpose_does_not_take_the_output(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    commit(attempt(spark, tmp_path / "out"), frame)
    with pytest.raises(OutputExistsError):
        attempt(spark, tmp_path / "out", generation="1").prepare()


def test_an_output_that_another_run_has_replaced_is_not_taken(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    commit(attempt(spark, tmp_path / "out"), frame)
    shutil.rmtree(tmp_path / "out")
    frame.write.json(str(tmp_path / "out"))
    with pytest.raises(OutputExistsError):
        attempt(spark, tmp_path / "out").prepare()


def test_a_driver_that_ends_before_its_commit_has_not_committed(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    first = attempt(spark, tmp_path / "out")
    assert first.prepare()
    first.stage(frame)
    write_incomplete_record(first, "/part-0")
    assert attempt(spark, tmp_path / "out").prepare()


def test_a_driver_that_ends_after_its_commit_has_committed(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    first = attempt(spark, tmp_path / "out")
    commit(first, frame)
    write_incomplete_record(first, *(f"/{path.name}" for path in (tmp_path / "out").glob("part-*")))
    assert not attempt(spark, tmp_path / "out").prepare()


def test_an_empty_partitioned_output_is_recognized(spark: SparkSession, frame: DataFrame, tmp_path: Path) -> None:
    empty = frame.where("false").selectExpr("id", "id AS day")
    commit(attempt(spark, tmp_path / "out", partition_by=["day"]), empty, rows=0)
    retry = attempt(spark, tmp_path / "out", partition_by=["day"])
    assert not retry.prepare()
    assert retry.committed_rows == 0


def test_modes_that_replace_their_own_rows_write_no_record(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    for _ in range(2):
        commit(attempt(spark, tmp_path / "out", mode="append"), frame)
    assert spark.read.schema("id int").json(str(tmp_path / "out")).count() == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
