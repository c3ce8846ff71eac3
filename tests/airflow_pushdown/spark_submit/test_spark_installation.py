"""Choice of the Spark installation, and its jars and version."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.spark_submit.spark_installation import (
    SparkInstallation,
    SparkSubmitNotFoundError,
    find_installation,
)


def executable(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    for name in ("given", "variable", "pyspark"):
        executable(tmp_path / name / "bin" / "python")
        executable(tmp_path / name / "bin" / "spark-submit")
    for name in ("home", "inherited", "path"):
        executable(tmp_path / name / "bin" / "spark-submit")
    return {name: tmp_path / name for name in ("given", "variable", "pyspark", "home", "inherited", "path")}


def find(
    environ: dict[str, str],
    *,
    spark_home: Path | None = None,
    spark_python: Path | None = None,
    binary: str = "spark-submit",
) -> SparkInstallation:
    return find_installation(
        binary=binary,
        spark_home=str(spark_home) if spark_home else None,
        spark_python=str(spark_python) if spark_python else None,
        environ=environ,
    )


def test_spark_homes_are_tried_from_most_to_least_specific(places: dict[str, Path]) -> None:
    environ = {
        "AIRFLOW_PUSHDOWN_SPARK_PYTHON": str(places["variable"] / "bin" / "python"),
        "SPARK_HOME": str(places["inherited"]),
        "PYSPARK_PYTHON": str(places["pyspark"] / "bin" / "python"),
        "PATH": str(places["path"] / "bin"),
    }
    python = places["given"] / "bin" / "python"
    assert find(environ, spark_home=places["home"], spark_python=python) == SparkInstallation(
        binary=str(places["home"] / "bin" / "spark-submit"), python=str(python), home=str(places["home"])
    )
    assert find(environ, spark_python=python).binary == str(places["given"] / "bin" / "spark-submit")
    assert find(environ).binary == str(places["variable"] / "bin" / "spark-submit")
    del environ["AIRFLOW_PUSHDOWN_SPARK_PYTHON"]
    assert find(environ).home == str(places["inherited"])
    del environ["SPARK_HOME"]
    assert find(environ).binary == str(places["pyspark"] / "bin" / "spark-submit")
    del environ["PYSPARK_PYTHON"]
    assert find(environ) == SparkInstallation(
        binary=str(places["path"] / "bin" / "spark-submit"), python=None, home=None
    )


def test_a_binary_given_as_a_path_is_used_unchanged(places: dict[str, Path]) -> None:
    binary = str(places["path"] / "bin" / "spark-submit")
    assert find({"SPARK_HOME": str(places["inherited"])}, binary=binary).binary == binary


def test_the_error_for_a_missing_spark_submit_lists_the_searched_paths(tmp_path: Path) -> None:
    python = executable(tmp_path / "no-spark" / "bin" / "python")
    with pytest.raises(SparkSubmitNotFoundError) as error:
        find({"PATH": str(tmp_path)}, spark_python=python)
    message = str(error.value)
    assert "spark-submit not found" in message
    assert str(python.parent / "spark-submit") in message
    assert "PATH" in message
    assert "\n" not in message


def test_the_error_names_a_missing_python(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spark_python: .*/nowhere/python is not an executable file"):
        find({}, spark_python=tmp_path / "nowhere" / "python")


def test_the_error_names_a_spark_home_without_spark_submit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"spark_home: there is no executable .*bin/spark-submit"):
        find({}, spark_home=tmp_path)


def test_spark_from_pip_is_found_next_to_its_python(tmp_path: Path) -> None:
    binary = executable(tmp_path / "venv" / "bin" / "spark-submit")
    jars = tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars"
    jars.mkdir(parents=True)
    (jars / "spark-core_2.13-4.9.2.jar").touch()
    python = str(tmp_path / "venv" / "bin" / "python")
    elsewhere = executable(tmp_path / "bin" / "spark-submit")
    for value in ((binary, python), (binary, None), (elsewhere, python)):
        installation = SparkInstallation(str(value[0]), value[1], None)
        assert installation.version == "4.9.2"
        assert installation.jars_home == jars.parent


def test_an_installation_without_jars_has_no_version(tmp_path: Path) -> None:
    installation = SparkInstallation(str(executable(tmp_path / "bin" / "spark-submit")), None, None)
    assert (installation.jars, installation.jars_home, installation.version) == ([], None, None)
