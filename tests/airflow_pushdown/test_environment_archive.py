"""A Spark environment is packed once for each set of libraries, without the libraries of the executors."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from airflow_pushdown.environment_archive import NotPackedError, environment_archive


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return a small environment with a library and PySpark's jars."""
    place = tmp_path / "environment"
    venv.create(place, symlinks=True)
    (libraries,) = place.glob("lib/python3.*/site-packages")
    for name in ("library.py", "pyspark/__init__.py", "pyspark/jars/spark.jar"):
        (libraries / name).parent.mkdir(parents=True, exist_ok=True)
        (libraries / name).write_text("WHAT = 'packed'\n")
    install_library(place, "library", "1.0")
    return place


def install_library(environment: Path, name: str, version: str) -> None:
    """Write the metadata of an installed library, as pip does."""
    (libraries,) = environment.glob("lib/python3.*/site-packages")
    notes = libraries / f"{name}-{version}.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (notes / "RECORD").write_text(f"{name}.py,,\n")


def test_the_packed_environment_runs_in_another_directory(environment: Path, tmp_path: Path) -> None:
    archive = environment_archive(environment, tmp_path / "cache")
    directory = tmp_path / "worker"
    with tarfile.open(archive) as content:
        content.extractall(directory, filter="fully_trusted")
    code = "import library, sys; print(library.WHAT, sys.prefix)"
    process = subprocess.run([directory / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["packed", str(directory)]
    assert list(directory.rglob("pyspark/__init__.py"))
    assert not list(directory.rglob("*.jar"))
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [archive.name]


def test_each_set_of_libraries_is_packed_once(environment: Path, tmp_path: Path) -> None:
    first = environment_archive(environment, tmp_path)
    write_time = first.stat().st_mtime_ns
    assert environment_archive(environment, tmp_path) == first
    assert first.stat().st_mtime_ns == write_time
    install_library(environment, "another", "2.0")
    assert environment_archive(environment, tmp_path) != first
    assert environment_archive(environment, tmp_path, "/usr") not in (first, environment_archive(environment, tmp_path))


def test_an_environment_that_cannot_be_packed_raises(tmp_path: Path) -> None:
    with pytest.raises(NotPackedError, match=r"is not a virtual environment: it has no pyvenv\.cfg"):
        environment_archive(tmp_path, tmp_path / "cache")
    command = [sys.executable, "-m", "airflow_pushdown", "pack-environment", str(tmp_path), str(tmp_path / "cache")]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (1, "")
    assert "it has no pyvenv.cfg" in process.stderr
    assert not (tmp_path / "cache").exists()
