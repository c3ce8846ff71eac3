"""Packages for Avro jobs, chosen by the files of the Spark installation that runs the job."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.cluster_driver import Submission
from airflow_pushdown.hooks.conf_directory import submit_settings
from airflow_pushdown.hooks.packages import packages_with_avro
from airflow_pushdown.hooks.spark_installation import SparkInstallation
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from pushdown_spark.contract import JobSpec, OutputSpec, QuerySpec, SourceSpec

AVRO = "org.apache.spark:spark-avro_2.13:4.3.9"
OTHER = "org.example:other:1.0"


def spec(source_format: str = "avro", reader: str = "spark") -> JobSpec:
    source = SourceSpec.model_validate({"format": source_format, "path": ["/x"], "reader": reader})
    return JobSpec(run_key="d/t/r/-1", sources={"s": source}, query=QuerySpec(source="s"))


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def archive(path: Path, *names: str) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name in names:
            jar.writestr(name, "")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    put(tmp_path / "spark" / "bin" / "spark-submit").chmod(0o755)
    put(tmp_path / "spark" / "jars" / "spark-core_2.13-4.3.9.jar")
    put(tmp_path / "spark" / "jars" / "spark-core_2.13-4.3.9-tests.jar.part")
    archive(tmp_path / "spark" / "jars" / "spark-sql_2.13-4.3.9.jar", "org/apache/spark/sql/SparkSession.class")
    return tmp_path / "spark"


@pytest.fixture
def installed(home: Path) -> SparkInstallation:
    return SparkInstallation(str(home / "bin" / "spark-submit"), None, str(home))


def added(
    job: JobSpec, installation: SparkInstallation, conf: Mapping[str, str] = MappingProxyType({}), **options: str
) -> str | None:
    """Return the packages of a job that needs a package for Avro."""
    return packages_with_avro(job, installation, submit_settings(installation, conf, **options))


def test_spark_s_reader_gets_the_source_in_the_version_of_spark(installed: SparkInstallation) -> None:
    assert added(spec(), installed) == AVRO


def test_writing_avro_needs_the_source_as_well(installed: SparkInstallation) -> None:
    job = spec("json").model_copy(update={"output": OutputSpec(path="/out", format="avro")})
    assert added(job, installed) == AVRO


@pytest.mark.parametrize(("source_format", "reader"), [("json", "spark"), ("avro", "pushdown"), ("avro", "auto")])
def test_no_package_is_added_if_none_is_needed(installed: SparkInstallation, source_format: str, reader: str) -> None:
    assert added(spec(source_format, reader), installed) is None


@pytest.mark.parametrize(
    "conf",
    [
        {"spark.jars": "/opt/spark-avro_2.13-4.3.9.jar"},
        {"spark.jars.packages": AVRO},
        {"spark.driver.extraClassPath": "/opt/spark-avro_2.13-4.3.9.jar"},
    ],
)
def test_no_package_is_added_if_a_jar_is_configured(installed: SparkInstallation, conf: dict[str, str]) -> None:
    assert added(spec(), installed, conf) is None


@pytest.mark.parametrize(
    "options",
    [
        {"packages": f"{OTHER},org.apache.spark:spark-avro_2.13:4.9.0"},
        {"jars": "/opt/spark-avro_2.13-4.3.9.jar", "packages": OTHER},
        {"driver_class_path": "/opt/*:/opt/spark-avro_2.13-4.3.9.jar", "packages": OTHER},
    ],
)
def test_no_package_is_added_if_a_parameter_names_a_jar(local_spark: str, home: Path, options: dict[str, str]) -> None:
    given = command(Submission(spec=spec(), spark_home=str(home)), **options)
    assert given[given.index("--packages") + 1] == options["packages"]


def test_a_parameter_replaces_the_setting_with_a_jar(local_spark: str, home: Path) -> None:
    put(home / "conf" / "spark-defaults.conf", "spark.jars /opt/spark-avro_2.13-4.3.9.jar\n")
    given = command(Submission(spec=spec(), spark_home=str(home)), jars="/opt/other.jar")
    assert given[given.index("--packages") + 1] == AVRO


def test_no_package_is_added_if_the_installation_has_the_jar(home: Path, installed: SparkInstallation) -> None:
    put(home / "jars" / "spark-avro_2.13-4.3.9.jar")
    assert added(spec(), installed) is None


def test_no_package_is_added_if_spark_includes_the_source(home: Path, installed: SparkInstallation) -> None:
    archive(home / "jars" / "spark-sql_2.13-4.3.9.jar", "org/apache/spark/sql/avro/AvroFileFormat.class")
    assert added(spec(), installed) is None


def test_an_unreadable_jar_counts_as_empty(home: Path, installed: SparkInstallation) -> None:
    put(home / "jars" / "spark-sql_2.13-4.3.9.jar", "no archive")
    assert added(spec(), installed) == AVRO


def test_other_packages_are_kept(installed: SparkInstallation) -> None:
    assert added(spec(), installed, {"spark.jars.packages": OTHER}) == f"{OTHER},{AVRO}"


def test_the_user_s_properties_file_is_read(tmp_path: Path, installed: SparkInstallation) -> None:
    file = put(tmp_path / "own.conf", f"# spark.jars.packages none\nspark.jars.packages   {OTHER}\n")
    assert added(spec(), installed, properties_file=str(file)) == f"{OTHER},{AVRO}"
    file.write_text("spark.jars=/opt/spark-avro_2.13-4.3.9.jar\n")
    assert added(spec(), installed, properties_file=str(file)) is None


def test_the_installation_s_defaults_are_read(home: Path, installed: SparkInstallation) -> None:
    put(home / "conf" / "spark-defaults.conf", "spark.jars.packages: org.apache.spark:spark-avro_2.13:4.3.9\n")
    assert added(spec(), installed) is None


def test_the_error_for_an_unknown_version_names_the_parameter_to_set(tmp_path: Path) -> None:
    binary = put(tmp_path / "bin" / "spark-submit")
    with pytest.raises(
        ConfigError,
        match=r"packages: format 'avro' with reader='spark', or as output_format.*set it in packages or jars",
    ):
        added(spec(), SparkInstallation(str(binary), None, None))


def test_the_hook_uses_the_version_of_the_spark_that_runs(local_spark: str, spark_python: str) -> None:
    """The real Spark environment includes the source."""
    assert command(Submission(spec=spec(), spark_python=spark_python)).count("--packages") == 0


def test_the_hook_passes_the_package_to_spark_submit(local_spark: str, home: Path) -> None:
    given = command(Submission(spec=spec(), spark_home=str(home)), packages=OTHER)
    assert given[given.index("--packages") + 1] == f"{OTHER},{AVRO}"


def command(submission: Submission, **options: str) -> list[str]:
    hook = PushdownSubmitHook(submission, **options)
    try:
        return hook._build_spark_submit_command("job.py")
    finally:
        hook.release()
