"""The options of the driver's JVM: which jobs are short, and which options of users have precedence."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_pushdown.spark_submit.jvm_options import FAST_COMPILER, compiler_options, user_options
from pushdown_spark.contract import JobSpec


def job(*paths: str, source_format: str = "csv", sql: str | None = None) -> JobSpec:
    query = {"source": "s"} if sql is None else {"sql": sql}
    source = {"format": source_format, "path": paths}
    return JobSpec.model_validate({"run_key": "k", "sources": {"s": source}, "query": query})


def options(spec: JobSpec, value: str = "", *, has_local_files: bool = True) -> str:
    return compiler_options(spec, value, has_local_files=has_local_files)


def sparse(path: Path, megabytes: int) -> str:
    """Create a file of this size that takes no space."""
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(megabytes * 1_000_000)
    return str(path)


@pytest.mark.parametrize(
    ("name", "megabytes", "is_small"),
    [("a.csv", 90, True), ("a.csv", 110, False), ("a.csv.gz", 12, True), ("a.csv.gz", 13, False)],
)
def test_the_size_of_its_files_decides_whether_a_job_is_short(
    tmp_path: Path, name: str, megabytes: int, is_small: bool
) -> None:
    sparse(tmp_path / "in" / name, megabytes)
    for path in (tmp_path / "in", tmp_path / "*" / "a*", f"file://{tmp_path}/in"):
        assert (options(job(str(path))) == FAST_COMPILER) is is_small


def test_the_files_of_all_sources_count_together(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.csv", 60)
    assert options(job(path)) == FAST_COMPILER
    assert options(job(path, path)) != FAST_COMPILER
    assert options(job(path, source_format="orc")) != FAST_COMPILER


@pytest.mark.parametrize("path", ["s3a://bucket/a.csv", "hdfs:///a.csv", "relative.csv"])
def test_files_that_may_be_elsewhere_are_not_small(path: str) -> None:
    assert "-XX:Tier4InvocationThreshold=50000" in options(job(path))


def test_other_file_systems_joins_and_many_files_are_not_small(tmp_path: Path) -> None:
    path = sparse(tmp_path / "few" / "a.csv", 1)
    assert options(job(path), has_local_files=False) != FAST_COMPILER
    assert options(job(path, sql="SELECT * FROM s")) != FAST_COMPILER
    for number in range(1_001):
        (tmp_path / "few" / f"{number}.csv").touch()
    assert options(job(str(tmp_path / "few"))) != FAST_COMPILER


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=4"}, {}),
        ({"JAVA_TOOL_OPTIONS": "-XX:-TieredCompilation"}, {}),
        ({"JDK_JAVA_OPTIONS": "-Xint"}, {}),
        ({}, {"spark.driver.extraJavaOptions": "-XX:CICompilerCount=4"}),
        ({}, {"spark.driver.defaultJavaOptions": "-XX:Tier4InvocationThreshold=7"}),
    ],
)
def test_a_user_who_configures_the_compiler_gets_no_option(
    tmp_path: Path, environment: dict[str, str], settings: dict[str, str]
) -> None:
    assert options(job(sparse(tmp_path / "a.csv", 1)), user_options(environment, settings)) == ""
