"""The archive of the job's code: the same code gives the same bytes, and Python can import from it."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from airflow_pushdown.packaging import job_archive, job_program, package_directory, write_atomically


@pytest.fixture
def package(tmp_path: Path) -> Path:
    directory = tmp_path / "pack"
    (directory / "sub" / "__pycache__").mkdir(parents=True)
    (directory / "b.py").write_text("B = 2\n")
    (directory / "a.py").write_text("A = 1\n")
    (directory / "sub" / "data.txt").write_text("text")
    (directory / "sub" / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"compiled")
    return directory


def test_the_name_of_the_archive_does_not_depend_on_times_modes_or_order(package: Path, tmp_path: Path) -> None:
    before = job_archive(tmp_path / "cache", package)
    (package / "a.py").unlink()
    (package / "a.py").write_text("A = 1\n")
    os.utime(package / "b.py", (1, 1))
    (package / "b.py").chmod(0o600)
    assert job_archive(tmp_path / "cache", package) == before


def test_the_archive_has_only_the_package_and_its_compiled_code(package: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(job_archive(tmp_path / "cache", package)) as archive:
        assert archive.namelist() == ["pack/a.py", "pack/a.pyc", "pack/b.py", "pack/b.pyc", "pack/sub/data.txt"]
        assert archive.read("pack/b.py") == b"B = 2\n"


def test_equal_content_is_built_once_and_changed_content_gets_a_new_name(package: Path, tmp_path: Path) -> None:
    first = job_archive(tmp_path / "cache", package)
    stamp = first.stat().st_mtime_ns
    assert job_archive(tmp_path / "cache", package).stat().st_mtime_ns == stamp
    (package / "a.py").write_text("A = 3\n")
    assert job_archive(tmp_path / "cache", package) != first


def test_a_modified_archive_is_rebuilt(package: Path, tmp_path: Path) -> None:
    archive = job_archive(tmp_path / "cache", package)
    whole = archive.read_bytes()
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("pack/a.py", "A = 3\n")
    for content in (b"something else", whole[: len(whole) // 2], (tmp_path / "other.zip").read_bytes()):
        archive.write_bytes(content)
        job_archive(tmp_path / "cache", package)
        with zipfile.ZipFile(archive) as built:
            assert built.testzip() is None
            assert built.read("pack/a.py") == b"A = 1\n"


def test_a_directory_that_others_can_write_to_raises(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    with pytest.raises(PermissionError, match="must be a directory that only user"):
        job_archive(cache, package)


def test_a_file_that_cannot_be_written_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "archive.zip").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "archive.zip", b"content", 0o600)
    assert [file.name for file in tmp_path.iterdir()] == ["archive.zip"]


def evaluate_in_archive(python: str, archive: Path, expression: str) -> str:
    """Return the value of an expression in a Python that has only the archive. `c` is the contract."""
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); import pushdown_spark.contract as c; print({expression})"
    run = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=archive.parent)
    return run.stdout.strip()


def test_the_job_can_be_imported_from_the_archive_alone(tmp_path: Path, spark_python: str) -> None:
    archive = job_archive(tmp_path / "cache")
    assert evaluate_in_archive(spark_python, archive, "c.__file__").startswith(str(archive))


def test_the_same_python_version_imports_the_compiled_code(tmp_path: Path, spark_python: str) -> None:
    assert evaluate_in_archive(spark_python, job_archive(tmp_path / "cache"), "c.__file__").endswith(
        "contract/__init__.pyc"
    )


def test_another_python_version_imports_the_source(
    tmp_path: Path, spark_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.MAGIC_NUMBER", b"\x01\x02\r\n")
    archive = job_archive(tmp_path / "cache")
    assert evaluate_in_archive(spark_python, archive, "c.__file__").endswith("contract/__init__.py")


def test_tracebacks_of_compiled_code_show_source_lines(tmp_path: Path, spark_python: str) -> None:
    code = (
        f"import sys, traceback; sys.path.insert(0, {str(job_archive(tmp_path / 'cache'))!r})\n"
        "from pushdown_spark.driver import job_exchange\n"
        "try: job_exchange.read_text('--spec', 'nowhere')\n"
        "except Exception: print(traceback.format_exc())"
    )
    process = subprocess.run([spark_python, "-I", "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert 'raise BadSpecError(f"{name}: cannot read {path}: {problem}{advice}") from problem' in process.stdout


def test_the_program_of_a_job_is_a_file_of_the_package() -> None:
    assert job_program().is_file()
    assert job_program().parent == package_directory()
