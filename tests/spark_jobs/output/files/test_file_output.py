"""Outputs that are directories of files: modes, retries, and failures that leave the output as it was."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.errors import (
    BadSpecError,
    OutputConflictError,
    OutputExistsError,
    OutputTakenError,
    PushdownError,
    UnknownColumnError,
    UnwritableValueError,
)
from pushdown_spark.expressions.session_settings import temporary_settings
from pushdown_spark.output.files.commit_log import CommitLog
from pushdown_spark.output.files.file_output import FileOutput, open_output
from pushdown_spark.runtime.error_classification import classify

Frame = Callable[..., DataFrame]

FILE_MODES = [mode for mode in OutputMode if mode is not OutputMode.MERGE]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "some marts" / "out%20put"


@pytest.fixture
def frame(spark: SparkSession) -> Frame:
    def of(*values: int) -> DataFrame:
        rows = [(value, value % 2) for value in values or (0,)]
        return spark.createDataFrame(rows, "id int, odd int").repartition(2)

    return of


@pytest.fixture
def writer(spark: SparkSession, target: Path) -> Callable[..., FileOutput]:
    def of(mode: OutputMode, run_key: str = "run 1", **more: object) -> FileOutput:
        if mode is OutputMode.OVERWRITE_PARTITIONS:
            more = {"partition_by": ["odd"], **more}
        spec = OutputSpec.model_validate({"path": str(target), "mode": mode, "format": "json", **more})
        return open_output(spark, spec, run_key)

    return of


def write(writer: FileOutput, frame: DataFrame) -> None:
    assert writer.prepare()
    with writer.transaction():
        writer.stage(frame)


def ids(spark: SparkSession, target: Path) -> list[int]:
    return sorted(row["id"] for row in spark.read.schema("id int").json(str(target)).collect())


def siblings(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize("mode", FILE_MODES)
def test_all_modes_write_a_new_output(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    write(writer(mode), frame(1, 2, 3))
    assert ids(spark, target) == [1, 2, 3]
    assert siblings(target) == [target.name]
    assert (target / "_SUCCESS").exists()


def test_overwrite_replaces_everything(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE), frame(1, 2))
    write(writer(OutputMode.OVERWRITE, "run 2"), frame(3))
    assert ids(spark, target) == [3]
    assert siblings(target) == [target.name]


def test_output_may_be_its_own_source(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE), frame(1, 2))
    write(writer(OutputMode.OVERWRITE), spark.read.schema("id int").json(str(target)).where("id > 1"))
    assert ids(spark, target) == [2]


def test_errorifexists_raises_in_prepare(target: Path, frame: Frame, writer: Callable[..., FileOutput]) -> None:
    write(writer(OutputMode.ERROR_IF_EXISTS), frame(1))
    with pytest.raises(OutputExistsError, match="already exists; remove it"):
        writer(OutputMode.ERROR_IF_EXISTS, "run 2").prepare()
    assert siblings(target) == [target.name]


def test_errorifexists_raises_in_commit(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    late = writer(OutputMode.ERROR_IF_EXISTS, "late")
    assert late.prepare()
    write(writer(OutputMode.ERROR_IF_EXISTS, "early"), frame(1))
    with pytest.raises(OutputExistsError), late.transaction():
        late.stage(frame(2))
    assert ids(spark, target) == [1]
    assert siblings(target) == [target.name]


def test_ignore_keeps_an_existing_output(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.IGNORE), frame(1))
    assert not writer(OutputMode.IGNORE, "run 2").prepare()
    assert ids(spark, target) == [1]


def test_retried_append_replaces_only_its_own_rows(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.APPEND, "run 1"), frame(1, 2))
    write(writer(OutputMode.APPEND, "run 2"), frame(3, 4))
    assert ids(spark, target) == [1, 2, 3, 4]
    write(writer(OutputMode.APPEND, "run 2"), frame(5))
    write(writer(OutputMode.APPEND, "run 1"), frame(1, 6))
    assert ids(spark, target) == [1, 5, 6]
    assert siblings(target) == [target.name]


def test_an_append_to_partitions_replaces_the_rows_of_the_same_run(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.APPEND, "run 1", partition_by=["odd"]), frame(1, 2))
    write(writer(OutputMode.APPEND, "run 2", partition_by=["ODD"]), frame(3))
    write(writer(OutputMode.APPEND, "run 1", partition_by=["odd"]), frame(1, 4, 6))
    rows = spark.read.schema("id int, odd int").json(str(target)).collect()
    assert sorted((row["id"], row["odd"]) for row in rows) == [(1, 1), (3, 1), (4, 0), (6, 0)]


def ids_by_partition(spark: SparkSession, target: Path) -> dict[int, list[int]]:
    """Return the ids in each partition of an output that is partitioned by `odd`."""
    actual: dict[int, list[int]] = {}
    for row in spark.read.schema("id int, odd int").json(str(target)).collect():
        actual.setdefault(row["odd"], []).append(row["id"])
    return {odd: sorted(ids) for odd, ids in actual.items()}


def test_overwrite_partitions_replaces_only_written_partitions(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE_PARTITIONS), frame(1, 2, 3, 4))
    second = writer(OutputMode.OVERWRITE_PARTITIONS, "run 2")
    write(second, frame(7, 9))
    assert ids_by_partition(spark, target) == {0: [2, 4], 1: [7, 9]}
    assert siblings(target) == [target.name]
    assert second.summary is not None
    assert (second.summary.partitions, second.summary.partitions_total) == (("odd=1",), 1)
    write(writer(OutputMode.OVERWRITE_PARTITIONS, "run 3"), frame().where("id > 0"))
    assert ids_by_partition(spark, target) == {0: [2, 4], 1: [7, 9]}


def test_overwrite_partitions_replaces_directories_that_other_programs_have_named(
    spark: SparkSession, target: Path, writer: Callable[..., FileOutput]
) -> None:
    # Spark reads the last one as two characters, but other programs as one.
    directories = ["n=2/k=a b", "n=1/k=A b", "n=1x/k=a b", "n=1/k=01", "n=1/k=%C3%A9"]
    for name in ("n=01/k=a%20b", "n=1/k=a%20b", "n=1/k=a b", *directories):
        (target / name).mkdir(parents=True)
        (target / name / "old.json").write_text('{"id": 0}')
    output = writer(OutputMode.OVERWRITE_PARTITIONS, partition_by=["n", "k"])
    write(output, spark.sql("SELECT 1 AS id, 1 AS n, explode(array('a b', '1', 'é')) AS k"))
    actual = {str(path.parent.relative_to(target)): path.name for path in target.rglob("*.json")}
    assert {name for name, file in actual.items() if file == "old.json"} == set(directories)
    assert sorted(actual.keys() - set(directories)) == ["n=1/k=1", "n=1/k=a b", "n=1/k=é"]


@pytest.mark.parametrize(
    ("kind", "value", "replaced", "kept"),
    [
        ("int", "1", ["1", "01", "+1", "1.0", "1e0"], ["1.5", "10", "x1"]),
        (
            "date",
            "DATE'2026-01-01'",
            ["2026-01-01", "2026-1-1", "2026", "2026-01-01 00%3A00%3A00"],
            ["2026-1-2", "20260101", "2026-13-01", "2026-01-01 05%3A00%3A00", "2026-01-01 x"],
        ),
        ("decimal(9,2)", "1.5BD", ["1.50", "1.5", "01.500"], ["1.501", "1.51"]),
        ("double", "1D", ["1.0", "1", "+1", "1e0"], ["1.5", "10"]),
        ("boolean", "true", ["true", "TRUE"], ["false", "maybe"]),
        (
            "timestamp",
            "TIMESTAMP'2026-01-01 00:00:00'",
            ["2026-01-01 00%3A00%3A00", "2026-01-01 00%3A00%3A00.000", "2026-01-01"],
            ["2026-01-01 00%3A00%3A01", "2026-01-02"],
        ),
        ("string", "'1'", ["1", "%31"], ["01", "1 "]),
    ],
)
def test_overwrite_partitions_replaces_the_directories_with_other_names_of_the_same_value(
    spark: SparkSession,
    target: Path,
    writer: Callable[..., FileOutput],
    kind: str,
    value: str,
    replaced: list[str],
    kept: list[str],
) -> None:
    for name in (*replaced, *kept, "__HIVE_DEFAULT_PARTITION__"):
        (target / f"p={name}").mkdir(parents=True)
        (target / f"p={name}" / "old.json").write_text('{"id": 0}')
    output = writer(OutputMode.OVERWRITE_PARTITIONS, partition_by=["p"])
    write(output, spark.sql(f"SELECT 1 AS id, CAST({value} AS {kind}) AS p"))
    left = {path.parent.name.removeprefix("p=") for path in target.rglob("old.json")}
    assert left == {*kept, "__HIVE_DEFAULT_PARTITION__"}
    assert len([*target.rglob("part-*")]) == 1


def test_overwrite_partitions_replaces_directories_with_the_column_in_another_case(
    spark: SparkSession, target: Path, writer: Callable[..., FileOutput]
) -> None:
    for name in ("n=1", "N=1", "n=2", "N=3"):
        (target / name).mkdir(parents=True)
        (target / name / "old.json").write_text('{"id": 0}')
    output = writer(OutputMode.OVERWRITE_PARTITIONS, partition_by=["n"])
    write(output, spark.sql("SELECT 1 AS id, explode(array(1, 2)) AS n"))
    actual = spark.read.schema("id int, n int").json(str(target)).collect()
    assert sorted(map(tuple, actual)) == [(0, 3), (1, 1), (1, 2)]


@pytest.mark.parametrize("by_option", [True, False])
def test_dynamic_overwrite_keeps_other_partitions(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], by_option: bool
) -> None:
    """As an option or a setting. Plain Spark keeps them too."""
    write(writer(OutputMode.OVERWRITE, partition_by=["odd"]), frame(1, 2))
    options = {"partitionOverwriteMode": "Dynamic"} if by_option else {}
    if not by_option:
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        write(writer(OutputMode.OVERWRITE, "run 2", partition_by=["odd"], options=options), frame(3))
        assert ids_by_partition(spark, target) == {0: [2], 1: [3]}
        write(writer(OutputMode.OVERWRITE, "run 3", options=options), frame(5))
        assert ids(spark, target) == [5], "an output without partitions is replaced as a whole"
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")


def test_option_takes_precedence_over_setting(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE, partition_by=["odd"]), frame(1, 2))
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        options = {"partitionOverwriteMode": "static"}
        write(writer(OutputMode.OVERWRITE, "run 2", partition_by=["odd"], options=options), frame(3))
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert ids_by_partition(spark, target) == {1: [3]}
    with pytest.raises(BadSpecError, match="partitionOverwriteMode must be 'static' or 'dynamic', not 'dynmic'"):
        writer(OutputMode.OVERWRITE, options={"partitionOverwriteMode": "dynmic"})


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.OVERWRITE_PARTITIONS])
@pytest.mark.parametrize("existing", [[], ["id"], ["id", "odd"], ["odd", "id"]])
def test_other_partition_columns_raise_in_prepare(
    target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode, existing: list[str]
) -> None:
    whole = frame(1, 2).selectExpr("*", "id AS value")
    write(writer(OutputMode.OVERWRITE, partition_by=existing), whole)
    actual = ", ".join(existing) or "no column"
    with pytest.raises(BadSpecError, match=f"is partitioned by {actual}, not by odd; use another directory"):
        writer(mode, "run 2", partition_by=["odd"]).prepare()


def test_other_partition_columns_raise_if_the_existing_ones_begin_with_an_underscore(
    target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE, partition_by=["_odd"]), frame(1, 2).selectExpr("id", "odd AS _odd"))
    with pytest.raises(BadSpecError, match="is partitioned by _odd, not by odd; use another directory"):
        writer(OutputMode.APPEND, "run 2", partition_by=["odd"]).prepare()


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND])
def test_an_output_that_is_a_link_stays_one(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    directory = target.parent / "elsewhere" / "directory"
    directory.parent.mkdir(parents=True)
    target.symlink_to(directory)
    write(writer(mode, "run 1"), frame(1))
    by_name = writer(mode, "run 2")
    assert by_name.prepare()
    by_name.stage(frame(1))
    write(writer(mode, "run 3", path=str(directory)), frame(3))
    if mode is not OutputMode.APPEND:
        with pytest.raises(OutputConflictError), by_name.transaction():
            pass
    assert target.is_symlink()
    assert ids(spark, directory) == ([1, 3] if mode is OutputMode.APPEND else [3])
    by_name.abort()
    assert siblings(target) == ["elsewhere", target.name]
    assert siblings(directory) == [directory.name]


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND])
def test_partition_columns_with_a_leading_underscore_are_committed_once(
    target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    rows = frame(1, 2, 3).selectExpr("id", "odd AS _x", "'' AS t")
    for run in ("run 1", "run 1", "run 2"):
        write(writer(mode, run, partition_by=["_x", "t"]), rows)
    lines = sorted(path.read_text() for path in target.glob("_x=1/t=*/part-*.json"))
    assert "".join(lines).count('"id":1') == (2 if mode is OutputMode.APPEND else 1)
    assert sorted(path.name for path in target.glob("_x=*/t=*")) == ["t=__HIVE_DEFAULT_PARTITION__"] * 2


@pytest.mark.parametrize("name", ["._COPYING_", ".x", "_x", "x y", "__HIVE_DEFAULT_PARTITION__", "..", "a/b", "a%2F"])
@pytest.mark.parametrize("is_value", [False, True])
def test_rows_of_partitions_are_read_back_or_refused(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], name: str, is_value: bool
) -> None:
    column, value = ("t", name) if is_value else (name, "t")
    rows = frame(1, 2, 3).selectExpr("id", f"'{value}' AS `{column}`")
    unread, options = f"{column}={value}".startswith(".") or value == "._COPYING_", {"partition_by": [column]}
    if unread:
        with pytest.raises((BadSpecError, UnwritableValueError), match="partition_by: Spark reads no directory whose"):
            write(writer(OutputMode.APPEND, **options), rows)
        assert not target.exists()
        return
    for run in ("run 1", "run 1", "run 2"):
        write(writer(OutputMode.APPEND, run, **options), rows)
    write(writer(OutputMode.OVERWRITE_PARTITIONS, "run 3", **options), rows)
    read = spark.read.schema(f"id int, `{column}` string").json(str(target))
    stored = None if value == "__HIVE_DEFAULT_PARTITION__" else value
    assert sorted(map(tuple, read.collect())) == [(1, stored), (2, stored), (3, stored)]


def test_partition_columns_keep_the_spelling_of_the_output(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE, partition_by=["odd"]), frame(1, 2))
    write(writer(OutputMode.OVERWRITE_PARTITIONS, "run 2", partition_by=["ODD"]), frame(3))
    assert ids_by_partition(spark, target) == {0: [2], 1: [3]}
    assert sorted(path.name for path in target.glob("[!_.]*")) == ["odd=0", "odd=1"]


def test_the_summary_of_a_commit_has_columns_partitions_files_and_bytes(
    target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    for mode in (OutputMode.OVERWRITE, OutputMode.APPEND):
        output = writer(mode, mode, partition_by=["odd"])
        write(output, frame(1, 2, 3))
        assert output.summary is not None
        files = list(target.glob(f"odd=*/part-{'' if mode is OutputMode.OVERWRITE else output.paths.run}*"))
        assert output.summary.columns == {"id": "int", "odd": "int"}
        assert (output.summary.mode, output.summary.format) == (mode, "json")
        assert (output.summary.partitions, output.summary.partitions_total) == (("odd=0", "odd=1"), 2)
        assert output.summary.files == len(files)
        assert output.summary.bytes == sum(path.stat().st_size for path in files)


@pytest.mark.parametrize("mode", [OutputMode.APPEND, OutputMode.OVERWRITE_PARTITIONS])
def test_file_of_a_task_that_still_writes_is_not_committed(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    write(writer(OutputMode.OVERWRITE_PARTITIONS), frame(1, 2))
    output = writer(mode, "run 2", partition_by=["odd"])
    assert output.prepare()
    with output.transaction():
        output.stage(frame(3, 4))
        unfinished = Path(output.paths.rows.removeprefix("file:")) / "_temporary" / "0" / "attempt" / "odd=1"
        unfinished.mkdir(parents=True)
        (unfinished / "part-00000.json").write_text('{"id":')
    assert not list(target.rglob("_temporary"))
    assert output.summary is not None
    assert output.summary.partitions == ("odd=0", "odd=1")
    assert ids(spark, target) == ([1, 2, 3, 4] if mode is OutputMode.APPEND else [3, 4])


@pytest.mark.parametrize("mode", FILE_MODES)
def test_files_with_another_base_name_are_committed(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    options = {"mapreduce.output.basename": "sales"}
    for _ in range(2 if mode.is_repeatable or mode is OutputMode.APPEND else 1):
        output = writer(mode, options=options)
        write(output, frame(1, 2))
        assert output.summary is not None
        assert output.summary.files == len(list(target.rglob("*sales-*.json")))
        assert ids(spark, target) == [1, 2]


def test_unknown_partition_column_raises(frame: Frame, writer: Callable[..., FileOutput]) -> None:
    with pytest.raises(UnknownColumnError, match="partition_by: the result has no column 'day'; it has id, odd"):
        writer(OutputMode.OVERWRITE, partition_by=["day"]).stage(frame(1))


def test_partition_column_in_another_case_raises_in_a_case_sensitive_session(
    spark: SparkSession, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    with (
        temporary_settings(spark, {"spark.sql.caseSensitive": "true"}),
        pytest.raises(UnknownColumnError, match="partition_by: the result has no column 'ODD'"),
    ):
        writer(OutputMode.OVERWRITE, partition_by=["ODD"]).stage(frame(1))


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.APPEND])
def test_failed_write_keeps_the_output(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    write(writer(mode), frame(1))
    failing = frame(1, 2, 3, 4).selectExpr("if(id = 4, raise_error('broken'), id) AS id")
    again = writer(mode, "run 2")
    assert again.prepare()
    with pytest.raises(Exception, match="broken"), again.transaction():
        again.stage(failing)
    assert ids(spark, target) == [1]
    assert siblings(target) == [target.name]


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.APPEND])
def test_files_that_the_driver_does_not_see_keep_the_output(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    """An executor on another machine may have written them to its own disk."""
    write(writer(mode, "run 1"), frame(1, 2))
    output = writer(mode, "run 2")
    assert output.prepare()
    output.stage(frame(3, 4))
    next(Path(output.paths.rows.removeprefix("file:")).rglob("part-*.json")).unlink()
    with (
        pytest.raises(PushdownError, match=r"wrote 2 files to .*, but the driver sees 1.* delete .*\.pushdown there"),
        output.transaction(),
    ):
        pass
    assert ids(spark, target) == [1, 2]
    assert siblings(target) == [target.name]


def test_staging_twice_writes_the_second_dataframe(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    once = writer(OutputMode.OVERWRITE)
    assert once.prepare()
    with once.transaction():
        once.stage(frame(1, 2))
        once.stage(frame(3))
    assert ids(spark, target) == [3]


def test_failed_append_adds_nothing(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.APPEND, "run 1", partition_by=["odd"]), frame(2))
    (target / "odd=1").write_text("in the way")
    again = writer(OutputMode.APPEND, "run 1", partition_by=["odd"])
    assert again.prepare()
    with pytest.raises((OSError, Py4JJavaError)), again.transaction():
        again.stage(frame(1, 2, 4))
    (target / "odd=1").unlink()
    assert ids(spark, target) == [2]
    assert siblings(target) == [target.name]


@pytest.mark.parametrize("mode", FILE_MODES)
def test_earlier_attempt_cannot_commit(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput], mode: OutputMode
) -> None:
    slow, slower, retry = writer(mode), writer(mode), writer(mode)
    for given_up in (slow, slower):
        assert given_up.prepare()
        given_up.stage(frame(1))
    assert retry.prepare()
    retry.stage(frame(2))
    with pytest.raises(OutputTakenError, match="another attempt of this run has begun"), slow.transaction():
        slow.stage(frame(1))
    with retry.transaction():
        pass
    with pytest.raises(OutputTakenError), slower.transaction():
        slower.stage(frame(1))
    assert ids(spark, target) == [2]
    assert siblings(target) == [target.name]


@pytest.mark.parametrize("path", ["/", "file:///", "file:/"])
def test_root_of_a_file_system_raises(spark: SparkSession, path: str) -> None:
    with pytest.raises(BadSpecError, match="is the root of a file system"):
        open_output(spark, OutputSpec(path=path), "run")


@pytest.mark.parametrize("path", ["hdfs://127.0.0.1:8020/lake/2026-01-01T00:00:00", "hdfs://127.0.0.1:8020/a:b/out"])
def test_a_colon_in_a_store_of_hadoop_raises(writer: Callable[..., FileOutput], path: str) -> None:
    with pytest.raises(BadSpecError, match="output: Hadoop cannot list directories with a colon in their names"):
        writer(OutputMode.APPEND, path=path)


def test_file_in_place_of_the_parent_directory_raises(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    output = open_output(spark, OutputSpec(path=str(tmp_path / "file" / "below" / "out")), "run")
    with pytest.raises(BadSpecError, match=r"output: cannot write next to .*file/below/out: .*; choose a path below"):
        output.prepare()


Mount = Callable[[Path], Path]


@pytest.fixture
def mount() -> Iterator[Mount]:
    """Return a function that mounts an empty file system at a directory. It skips the test where that is forbidden."""
    places = []

    def at(place: Path) -> Path:
        place.mkdir(exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", place]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("mounting a file system takes more rights than this user has")
        places.append(place)
        return place

    yield at
    for place in places:
        subprocess.run(["umount", "-l", place], check=False)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)


@pytest.mark.parametrize("mode", [OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE])
def test_an_output_that_another_program_creates_during_the_commit_is_kept(
    spark: SparkSession,
    target: Path,
    writer: Callable[..., FileOutput],
    frame: Frame,
    monkeypatch: pytest.MonkeyPatch,
    mode: OutputMode,
) -> None:
    commits_of_others = CommitLog.commits_of_others

    def create_output(log: CommitLog) -> dict[str, str]:
        target.mkdir()
        (target / "theirs.json").write_text('{"id": 7}')
        return commits_of_others(log)

    monkeypatch.setattr(CommitLog, "commits_of_others", create_output)
    with pytest.raises(FileExistsError, match="the target already exists"):
        write(writer(mode), frame(1))
    assert ids(spark, target) == [7]
    assert siblings(target) == [target.name]


@pytest.mark.parametrize("mode", FILE_MODES)
def test_a_disk_that_becomes_read_only_is_named_and_a_retry_writes_the_rows(
    spark: SparkSession, tmp_path: Path, mount: Mount, frame: Frame, mode: OutputMode
) -> None:
    disk = mount(tmp_path / "disk")
    partition_by = ("odd",) if mode is OutputMode.OVERWRITE_PARTITIONS else ()
    spec = OutputSpec(path=str(disk / "out"), format="json", mode=mode, partition_by=partition_by)
    remount(disk, "ro")
    with pytest.raises(BadSpecError, match=r"cannot write next to .*/out: Read-only file system; choose a path"):
        open_output(spark, spec, "run").prepare()
    remount(disk, "rw")
    output = open_output(spark, spec, "run")
    assert output.prepare()
    output.stage(frame(1))
    remount(disk, "ro")
    with pytest.raises(OSError, match="Read-only") as problem, output.transaction():
        pass
    error = classify(problem.value)
    assert error.message.startswith(f"access denied: [Errno {errno.EROFS}] Read-only file system: '{disk}/.out")
    assert error.message.endswith("let the user of the job read and write there")
    assert not error.retryable
    remount(disk, "rw")
    write(open_output(spark, spec, "run"), frame(2))
    assert ids(spark, disk / "out") == [2]
    assert [path.name for path in disk.iterdir()] == ["out"]


def test_replaced_files_that_cannot_be_deleted_are_named_until_a_retry_can_delete_them(
    spark: SparkSession, target: Path, mount: Mount, frame: Frame
) -> None:
    """The new rows are in place. A mount point can be moved with its directory, and cannot be deleted."""
    spec = OutputSpec(path=str(target), format="json", mode=OutputMode.OVERWRITE)
    write(open_output(spark, spec, "first"), frame(1))
    mount(target / "mounted")
    with pytest.raises(OSError, match=r"the rows of run second are in .*cannot be deleted \(.*busy.*; delete") as error:
        write(open_output(spark, spec, "second"), frame(2))
    assert classify(error.value).retryable
    assert ids(spark, target) == [2]
    aside = str(error.value).rpartition("; delete file:")[2].removesuffix(", and run the task again")
    subprocess.run(["umount", Path(aside) / "whole" / "mounted"], check=True)
    write(open_output(spark, spec, "second"), frame(2))
    assert ids(spark, target) == [2]
    assert siblings(target) == [target.name]


JOB_WITH_LETTERS = """
import sys
from pyspark.sql import SparkSession
from pushdown_spark.contract import OutputSpec
from pushdown_spark.output.files.file_output import open_output
from pushdown_spark.runtime.error_classification import classify

spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.log.level", "OFF").getOrCreate())

for name, value in (("na\\u00efve", "a"), ("out", "\\u00e9")):
    spec = OutputSpec(path=f"{sys.argv[1]}/{name}", format="json", mode="overwrite", partition_by=("v",))
    output = open_output(spark, spec, "run")
    try:
        output.prepare()
        with output.transaction():
            output.stage(spark.sql(f"SELECT 1 AS id, '{value}' AS v"))
    except Exception as problem:
        print(ascii(classify(problem).message))
"""


@pytest.mark.nightly
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_names_that_the_locale_does_not_have_are_refused(tmp_path: Path, locale: str) -> None:
    environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "1"}
    command = [sys.executable, "-c", JOB_WITH_LETTERS, str(tmp_path)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    paths = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("[!.]*/v=*"))
    if locale == "C":
        assert paths == []
        for line in process.stdout.splitlines():
            assert "Java cannot write the name " in line
            assert "set LC_ALL=C.UTF-8" in line
        assert len(process.stdout.splitlines()) == 2
    else:
        assert paths == ["na\u00efve/v=a", "out/v=\u00e9"]


SLOW_JOB = """
import sys, time
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf
from pushdown_spark.contract import OutputSpec
from pushdown_spark.output.files.file_output import FileOutput, open_output

spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.log.level", "ERROR").getOrCreate())

@udf("int")
def slow(value):
    if value >= 2:
        time.sleep(600)
    return value

writer = open_output(spark, OutputSpec(path=sys.argv[1], format="json", mode="overwrite"), "run 2")
writer.prepare()
with writer.transaction():
    writer.stage(spark.range(0, 4, numPartitions=4).select(slow("id").alias("id")))
"""


def test_retry_cleans_up_after_a_killed_driver(
    spark: SparkSession, target: Path, frame: Frame, writer: Callable[..., FileOutput]
) -> None:
    write(writer(OutputMode.OVERWRITE), frame(1))
    root = str(Path(__file__).resolve().parents[4] / "spark_jobs")
    job = subprocess.Popen(
        [sys.executable, "-c", SLOW_JOB, str(target)],
        env={**os.environ, "PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while not any(target.parent.glob(".*.pushdown/staging-*/*/_temporary/**/part-*")):
            assert job.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
    finally:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    assert ids(spark, target) == [1]
    assert len(siblings(target)) == 2
    write(writer(OutputMode.OVERWRITE, "run 2"), frame(2))
    assert ids(spark, target) == [2]
    assert siblings(target) == [target.name]
