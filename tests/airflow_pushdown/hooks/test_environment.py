"""Choice of the Spark installation, and the environment variables of the job's processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.environment import (
    SparkInstallation,
    SparkSubmitNotFoundError,
    child_environment,
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
    with pytest.raises(SparkSubmitNotFoundError) as caught:
        find({"PATH": str(tmp_path)}, spark_python=python)
    message = str(caught.value)
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


LOCAL = SparkInstallation(binary="/env/bin/spark-submit", python="/env/bin/python", home=None)


def test_airflow_variables_and_secrets_are_not_passed_to_the_job() -> None:
    environ = {
        "AIRFLOW_CONN_SHOP": "postgres://u:p@h",
        "AIRFLOW__CORE__FERNET_KEY": "k",
        "AIRFLOW_VAR_X": "v",
        "AIRFLOW_HOME": "/home",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_ACCESS_KEY_ID": "a",
        "AZURE_STORAGE_ACCOUNT_KEY": "a",
        "GITHUB_TOKEN": "t",
        "DB_PASSWORD": "p",
        "DATABASE": "mysql://root:pw@host/db",
        "INNOCENT": "holds the-hidden-value inside",
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "PROXY": "http://host:3128",
    }
    child = child_environment(environ, LOCAL, extra={}, secrets=["the-hidden-value", ""])
    assert child == {
        "PATH": "/bin",
        "LANG": "C.UTF-8",
        "PROXY": "http://host:3128",
        "PYSPARK_PYTHON": "/env/bin/python",
        "PYSPARK_DRIVER_PYTHON": "/env/bin/python",
    }


def test_variables_of_the_user_are_passed_unchanged() -> None:
    child = child_environment({}, LOCAL, extra={"MY_TOKEN": "given", "PYSPARK_PYTHON": "/on/executors/python"})
    assert child["MY_TOKEN"] == "given"
    assert child["PYSPARK_PYTHON"] == "/on/executors/python"
    assert child["PYSPARK_DRIVER_PYTHON"] == "/env/bin/python"


def test_an_inherited_home_does_not_redirect_the_chosen_installation() -> None:
    assert "SPARK_HOME" not in child_environment({"SPARK_HOME": "/other"}, LOCAL, extra={})
    named = SparkInstallation(binary="/spark/bin/spark-submit", python=None, home="/spark")
    assert child_environment({"SPARK_HOME": "/other"}, named, extra={})["SPARK_HOME"] == "/spark"
