"""A configuration directory leaves the class path only if spark-submit gets its settings in another way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_pushdown.spark_submit.conf_directory import submit_settings, unmovable_file, without_directory
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation

PRINT = """
from pyspark import SparkConf, SparkContext
SparkContext._ensure_initialized()
print("value", SparkConf().get("spark.mine", "none"))
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home" / "conf").mkdir(parents=True)
    return tmp_path / "home"


def test_only_defaults_and_templates_may_leave_the_class_path(home: Path) -> None:
    assert unmovable_file(home, {}) is None
    assert unmovable_file(home / "nowhere", {}) is None
    (home / "conf" / "spark-defaults.conf").write_text("")
    (home / "conf" / "spark-env.sh.template").write_text("")
    assert unmovable_file(home, {}) is None
    (home / "conf" / "spark-env.sh").write_text("")
    assert unmovable_file(home, {}) == home / "conf" / "spark-env.sh"


def test_settings_are_those_that_java_reads(home: Path) -> None:
    text = "# a comment\n! another\n\nspark.empty\nspark.a 1\n spark.b = x=y \r\nspark.c:z\nspark.d\t 2 3\n"
    (home / "conf" / "spark-defaults.conf").write_text(text)
    expected = {"spark.empty": "", "spark.a": "1", "spark.b": "x=y", "spark.c": "z", "spark.d": "2 3"}
    installation = SparkInstallation(str(home / "bin" / "spark-submit"), python=None, home=str(home))
    assert submit_settings(installation, {}) == expected


@pytest.mark.parametrize("variable", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_files_in_configuration_directories_of_the_environment_must_stay(
    home: Path, variable: str, tmp_path: Path
) -> None:
    (tmp_path / "core-site.xml").write_text("")
    assert unmovable_file(home, {variable: str(tmp_path)}) == tmp_path / "core-site.xml"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ([], "default"),
        pytest.param(["--properties-file", "{own}"], "own", marks=pytest.mark.nightly),
        pytest.param(["--properties-file", "{other}"], "none", marks=pytest.mark.nightly),
        pytest.param(["--properties-file", "{other}", "--load-spark-defaults"], "default", marks=pytest.mark.nightly),
    ],
)
def test_spark_reads_the_same_settings_without_the_configuration_directory(
    home: Path, tmp_path: Path, spark_python: str, argument: list[str], value: str
) -> None:
    (home / "conf" / "spark-defaults.conf").write_text("spark.mine default\n")
    files = {"own": tmp_path / "own", "other": tmp_path / "other"}
    files["own"].write_text("spark.mine own\n")
    files["other"].write_text("spark.other 1\n")
    program = tmp_path / "program.py"
    program.write_text(PRINT)
    (tmp_path / "empty").mkdir()
    words = [word.format(**{name: str(file) for name, file in files.items()}) for word in argument]
    command = [str(Path(spark_python).with_name("spark-submit")), *words, str(program)]
    environment = {"PATH": "/usr/bin:/bin", "PYSPARK_PYTHON": spark_python, "PYSPARK_DRIVER_PYTHON": spark_python}
    environment["SPARK_CONF_DIR"] = str(home / "conf")
    changed, variables = without_directory(command, environment, home, tmp_path / "empty")
    for one, other in ((command, environment), (changed, variables)):
        process = subprocess.run(one, env=other, capture_output=True, text=True, check=True)
        assert f"value {value}" in process.stdout
    assert (variables["SPARK_CONF_DIR"] == str(tmp_path / "empty")) is ("--load-spark-defaults" not in argument)
