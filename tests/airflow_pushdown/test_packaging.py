"""The archive of the job: same code, same bytes, and it can be imported from."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from airflow_pushdown.packaging import archive_bytes, job_archive, job_program, package_directory


@pytest.fixture
def package(tmp_path: Path) -> Path:
    directory = tmp_path / "pack"
    (directory / "sub" / "__pycache__").mkdir(parents=True)
    (directory / "b.py").write_text("B = 2\n")
    (directory / "a.py").write_text("A = 1\n")
    (directory / "sub" / "data.txt").write_text("text")
    (directory / "sub" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"compiled")
    return directory


def test_the_archive_does_not_depend_on_times_modes_or_order(package: Path) -> None:
    before = archive_bytes(package)
    (package / "a.py").unlink()
    (package / "a.py").write_text("A = 1\n")
    os.utime(package / "b.py", (1, 1))
    (package / "b.py").chmod(0o600)
    assert archive_bytes(package) == before


def test_the_archive_holds_the_package_without_compiled_code(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(job_archive(tmp_path / "cache", package)) as archive:
        assert archive.namelist() == ["pack/a.py", "pack/b.py", "pack/sub/data.txt"]
        assert archive.read("pack/b.py") == b"B = 2\n"


def test_the_same_content_is_built_once_and_another_gets_another_name(package: Path, tmp_path: Path) -> None:
    first = job_archive(tmp_path / "cache", package)
    stamp = first.stat().st_mtime_ns
    assert job_archive(tmp_path / "cache", package).stat().st_mtime_ns == stamp
    (package / "a.py").write_text("A = 3\n")
    assert job_archive(tmp_path / "cache", package) != first


def test_an_archive_that_was_changed_is_built_again(package: Path, tmp_path: Path) -> None:
    archive = job_archive(tmp_path / "cache", package)
    content = archive.read_bytes()
    archive.write_bytes(b"something else")
    assert job_archive(tmp_path / "cache", package).read_bytes() == content


def test_a_directory_that_others_may_write_to_is_refused(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(PermissionError, match="must be a directory that only user"):
        job_archive(cache, package)


def test_the_job_can_be_imported_from_the_archive_alone(tmp_path: Path, spark_python: str) -> None:
    archive = job_archive(tmp_path / "cache")
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import spark_jobs.contract as c; print(c.__file__)"
    run = subprocess.run([spark_python, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert run.stdout.startswith(str(archive))


def test_the_program_is_part_of_the_package() -> None:
    assert job_program().is_file()
    assert job_program().parent == package_directory()
