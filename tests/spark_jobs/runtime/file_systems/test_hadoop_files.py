"""Files of Hadoop's file systems: writes, renames and deletions."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hdfs_server import run_server
from pyspark.sql import SparkSession

from pushdown_spark.local_paths import local_path
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles, open_files
from pushdown_spark.runtime.file_systems.local_files import LocalFiles


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


@pytest.mark.nightly
def test_write_text_replaces_a_file_of_hdfs_in_one_step(spark: SparkSession, tmp_path: Path) -> None:
    with run_server(tmp_path) as root:
        path = f"{root}/new directory/a file"
        files = open_files(spark, path)
        files.write_text(path, "0")

        def write_all() -> None:
            for number in range(100):
                files.write_text(path, str(number))

        with ThreadPoolExecutor(1) as pool:
            writes = pool.submit(write_all)
            missing = 0
            while not writes.done():
                missing += files.read_text(path) is None
        writes.result()
        assert missing == 0
        assert files.read_text(path) == "99"
        assert files.names(f"{root}/new directory") == ["a file"]


def test_write_text_leaves_no_draft(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(spark, moves_directories=True)
    for text in ("first", "second"):
        files.write_text(str(tmp_path / "file"), text)
    assert (tmp_path / "file").read_text() == "second"
    assert files.names(str(tmp_path)) == ["file"]


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


def test_a_qualified_path_leads_to_the_local_path(files: HadoopFiles, tmp_path: Path) -> None:
    assert local_path(files.qualify(str(tmp_path / "a b%20"))) == str(tmp_path / "a b%20")


@pytest.mark.parametrize("store", ["local", "hadoop"])
@pytest.mark.parametrize("deleted", ["other", "all", "before"])
def test_a_listing_continues_after_a_directory_that_another_process_deletes(
    files: HadoopFiles, tmp_path: Path, store: str, deleted: str
) -> None:
    root = tmp_path / "tree"
    paths = [root / f"a{number}" / "b" / "file" for number in range(4)]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text("text", encoding="utf-8")
    if deleted == "before":
        shutil.rmtree(root)
    listing = (LocalFiles() if store == "local" else files).files(f"file:{root}")
    actual = [] if deleted == "before" else [next(listing).path]
    others = [path for path in paths if actual != [f"file:{path}"]]
    if deleted == "other":
        shutil.rmtree(others.pop().parents[1])
        actual += [f"file:{path}" for path in others]
    elif deleted == "all":
        shutil.rmtree(root)
    assert sorted(actual) == sorted([*actual[:1], *(entry.path for entry in listing)])


@pytest.mark.nightly
@pytest.mark.parametrize("deleted", ["other", "all", "before"])
def test_a_listing_of_hdfs_continues_after_a_directory_that_another_process_deletes(
    spark: SparkSession, tmp_path: Path, deleted: str
) -> None:
    with run_server(tmp_path) as root:
        files = open_files(spark, f"{root}/tree")
        for number in range(4):
            files.write_text(f"{root}/tree/a{number}/file", "text")
        if deleted == "before":
            files.delete(f"{root}/tree")
        listing = files.files(f"{root}/tree")
        actual = [] if deleted == "before" else [next(listing).path]
        others = [name for name in files.names(f"{root}/tree") if f"{root}/tree/{name}/file" not in actual]
        if deleted == "other":
            files.delete(f"{root}/tree/{others.pop()}")
        elif deleted == "all":
            files.delete(f"{root}/tree")
        rest = [entry.path for entry in listing]
        assert rest == ([f"{root}/tree/{name}/file" for name in others] if deleted == "other" else [])


@pytest.mark.parametrize("store", ["local", "hadoop"])
def test_an_empty_tree_is_deleted_up_to_directories_with_files_and_links(
    files: HadoopFiles, tmp_path: Path, store: str
) -> None:
    for name in ("tree/a/b", "tree/c/d", "elsewhere/empty"):
        (tmp_path / name).mkdir(parents=True)
    any_files = LocalFiles() if store == "local" else files
    (tmp_path / "tree" / "c" / "file").touch()
    any_files.delete_empty_tree(f"file:{tmp_path}/tree")
    assert [path.name for path in sorted((tmp_path / "tree").rglob("*"))] == ["c", "file"]
    (tmp_path / "tree" / "c" / "file").unlink()
    (tmp_path / "tree" / "link").symlink_to(tmp_path / "elsewhere")
    any_files.delete_empty_tree(f"file:{tmp_path}/tree")
    assert (tmp_path / "elsewhere" / "empty").is_dir()
    (tmp_path / "tree" / "link").unlink()
    any_files.delete_empty_tree(f"file:{tmp_path}/tree")
    assert not (tmp_path / "tree").exists()
