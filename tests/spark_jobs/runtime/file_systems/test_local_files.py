"""Local files of several processes that create and delete the same directory."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pushdown_spark.runtime.file_systems.local_files import LocalFiles

ROUNDS = 50


def test_a_file_is_created_while_others_delete_the_empty_directory(tmp_path: Path) -> None:
    directory = tmp_path / "a" / "commits"
    is_done = threading.Event()

    def delete() -> None:
        files = LocalFiles()
        while not is_done.is_set():
            files.delete_empty(f"file:{directory}")
            files.delete_empty(f"file:{directory.parent}")

    threads = [threading.Thread(target=delete) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for number in range(ROUNDS):
            file = directory / str(number)
            assert LocalFiles().create(f"file:{file}", "text")
            file.unlink()
            LocalFiles().write_text(f"file:{file}", "text")
            file.unlink()
            LocalFiles().make_directory(f"file:{directory}")
    finally:
        is_done.set()
        for thread in threads:
            thread.join()


def test_a_search_finds_the_files_that_others_keep(tmp_path: Path) -> None:
    """Runs of partitions create and delete their directories while the run of the whole output looks for claims."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".a.claim").touch()
    is_done = threading.Event()

    def churn(directory: Path) -> None:
        while not is_done.is_set():
            directory.mkdir()
            directory.rmdir()

    threads = [threading.Thread(target=churn, args=(tmp_path / name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60 * ROUNDS):
            assert LocalFiles().glob(f"file:{tmp_path}", "*/*.claim") == [f"file:{tmp_path}/kept/.a.claim"]
    finally:
        is_done.set()
        for thread in threads:
            thread.join()


def test_a_file_at_the_place_of_a_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(FileExistsError):
        LocalFiles().make_directory(f"file:{tmp_path}/file")


def test_a_listing_continues_after_a_file_that_another_process_deletes(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("nothing")
    listing = LocalFiles().files(f"file:{tmp_path}")
    actual = {next(listing).path.rpartition("/")[2]}
    deleted = next(name for name in "abc" if name not in actual)
    (tmp_path / deleted).unlink()
    actual.update(entry.path.rpartition("/")[2] for entry in listing)
    assert actual == {"a", "b", "c", "link"} - {deleted}
