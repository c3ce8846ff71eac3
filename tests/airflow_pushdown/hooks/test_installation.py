"""The jars and the settings of a Spark installation are found as spark-submit finds them."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_pushdown.hooks.cluster_driver import Submission
from airflow_pushdown.hooks.environment import SparkInstallation
from airflow_pushdown.hooks.installation import spark_jars, spark_version, submit_settings
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from pushdown_spark.contract import JobSpec, QuerySpec, SourceSpec

OTHER = "org.example:other:1.0"


def spec() -> JobSpec:
    source = SourceSpec.model_validate({"format": "avro", "path": ["/x"], "reader": "spark"})
    return JobSpec(run_key="d/t/r/-1", sources={"s": source}, query=QuerySpec(source="s"))


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    put(tmp_path / "spark" / "bin" / "spark-submit")
    put(tmp_path / "spark" / "jars" / "spark-core_2.13-4.3.9.jar")
    put(tmp_path / "spark" / "jars" / "spark-core_2.13-4.3.9-tests.jar.part")
    return tmp_path / "spark"


@pytest.fixture
def installed(home: Path) -> SparkInstallation:
    return SparkInstallation(str(home / "bin" / "spark-submit"), None, str(home))


def test_the_version_is_that_of_the_core_jar(installed: SparkInstallation) -> None:
    assert spark_version(installed) == "4.3.9"


def test_settings_of_conf_take_precedence_over_the_user_s_properties_file(
    tmp_path: Path, installed: SparkInstallation
) -> None:
    file = put(tmp_path / "own.conf", f"# spark.jars none\nspark.jars.packages   {OTHER}\nspark.jars=/opt/a.jar\n")
    settings = submit_settings(installed, {"spark.jars": "/opt/b.jar"}, str(file))
    assert settings == {"spark.jars.packages": OTHER, "spark.jars": "/opt/b.jar"}


def test_the_installation_s_defaults_are_read_without_another_directory(
    tmp_path: Path, home: Path, installed: SparkInstallation
) -> None:
    put(home / "conf" / "spark-defaults.conf", f"spark.jars.packages: {OTHER}\n")
    put(tmp_path / "conf" / "spark-defaults.conf", "spark.jars /opt/a.jar\n")
    assert submit_settings(installed, {}) == {"spark.jars.packages": OTHER}
    assert submit_settings(installed, {}, conf_directory=str(tmp_path / "conf")) == {"spark.jars": "/opt/a.jar"}
    assert submit_settings(installed, {}, conf_directory=str(tmp_path)) == {}


def test_spark_from_pip_is_found_next_to_its_python(tmp_path: Path) -> None:
    binary = put(tmp_path / "venv" / "bin" / "spark-submit")
    put(tmp_path / "venv" / "lib" / "python3.11" / "site-packages" / "pyspark" / "jars" / "spark-core_2.13-4.9.2.jar")
    python = str(tmp_path / "venv" / "bin" / "python")
    elsewhere = put(tmp_path / "bin" / "spark-submit")
    for installation in (
        SparkInstallation(str(binary), python, None),
        SparkInstallation(str(binary), None, None),
        SparkInstallation(str(elsewhere), python, None),
    ):
        assert spark_version(installation) == "4.9.2"
    assert spark_jars(SparkInstallation(str(elsewhere), None, None)) == []


def test_avro_needs_no_package(local_spark: str, spark_python: str) -> None:
    """Spark includes its Avro source since 4.0, and jobs load it without its short name."""
    assert command(Submission(spec=spec(), spark_python=spark_python)).count("--packages") == 0


def test_packages_of_the_user_are_passed_to_spark_submit(local_spark: str, home: Path) -> None:
    (home / "bin" / "spark-submit").chmod(0o755)
    given = command(Submission(spec=spec(), spark_home=str(home)), packages=OTHER)
    assert given[given.index("--packages") + 1] == OTHER


def command(submission: Submission, **options: str) -> list[str]:
    hook = PushdownSubmitHook(submission, **options)
    try:
        return hook._build_spark_submit_command("job.py")
    finally:
        hook.release()
