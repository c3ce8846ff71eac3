"""Files of Hadoop's file systems: writes, renames and deletions."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.runtime.file_paths import local_path
from pushdown_spark.runtime.filesystem import HadoopFiles


@pytest.fixture
def files(spark: SparkSession) -> HadoopFiles:
    return HadoopFiles(spark)


def test_write_text_replaces_the_file(files: HadoopFiles, tmp_path: Path) -> None:
    target = tmp_path / "a b%20.json"
    files.write_text(str(target), "first")
    files.write_text(f"file://{target}", "zwölf")
    assert target.read_text(encoding="utf-8") == "zwölf"
    assert files.length(str(target)) == 6
    assert [entry.path for entry in files.files(str(tmp_path))] == [f"file:{target}"]


def test_rename_to_existing_path_raises(files: HadoopFiles, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    with pytest.raises(FileExistsError, match="the target already exists"):
        files.rename(str(tmp_path / "source"), str(tmp_path / "target"))
    files.rename(str(tmp_path / "source"), str(tmp_path / "other"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "target"]


def test_delete_of_directory_and_missing_path(files: HadoopFiles, tmp_path: Path) -> None:
    files.make_directory(str(tmp_path / "a" / "b"))
    files.write_text(str(tmp_path / "a" / "c"), "")
    assert sorted(files.names(str(tmp_path / "a"))) == ["b", "c"]
    files.delete(str(tmp_path / "a"))
    files.delete(str(tmp_path / "a"))
    assert files.names(str(tmp_path / "a")) == []
    assert not files.exists(str(tmp_path / "a"))


def test_paths_split_into_parent_and_name(files: HadoopFiles) -> None:
    assert files.split("hdfs://nn/a/b/") == ("hdfs://nn/a", "b")
    assert files.split("file:/a") == ("file:", "a")
    assert files.split("s3a://bucket/") == ("", "")


def test_only_uris_of_this_machine_have_a_local_path(files: HadoopFiles, tmp_path: Path) -> None:
    assert local_path(files.qualify(str(tmp_path / "a b%20"))) == tmp_path / "a b%20"
    assert local_path("file:///a") == Path("/a")
    assert local_path("hdfs://nn/a") is None
