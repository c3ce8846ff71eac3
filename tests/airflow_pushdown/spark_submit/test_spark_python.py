"""Mix-ups of packages in the Spark environment: each fails for good, in one line, before a JVM starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from environments import environment, libraries_of, wheel, with_spark

from airflow_pushdown.exceptions import ColumnError, ConfigError, PredicateError, SubmitFailedError
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.spark_submit.spark_python import REQUIRED_MODULES, check_pyspark, describe_python, driver_python
from pushdown_spark.contract import JobSpec, QuerySpec, SourceSpec

SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
    query=QuerySpec(source="s"),
)

Start = Callable[..., None]
MixUp = Callable[..., str]


@pytest.fixture
def start(local_spark: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    """Return a function that submits a job, which must fail before Java starts.

    A Java that leaves a trace is the only one, so that the test notices the start of a JVM.
    """
    marker = tmp_path / "jvm-started"
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {marker}\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    hooks: list[PushdownSubmitHook] = []

    def run(spec: JobSpec, python: str, spark_home: str | None = None) -> None:
        hooks.append(PushdownSubmitHook.open(Submission(spec=spec, spark_python=python, spark_home=spark_home)))
        hooks[-1].submit()

    yield run
    for hook in hooks:
        hook.release()
    assert not marker.exists()


@pytest.fixture
def mix_up(start: Start) -> MixUp:
    """Return a function that submits a job in a Python, and returns the one line of its final error."""

    def run(python: Path, spark_home: str | None = None) -> str:
        with pytest.raises(ConfigError) as error:
            start(SPEC, str(python), spark_home)
        line = str(error.value)
        assert "\n" not in line
        assert line.startswith(f"spark_python: {python}")
        return line

    return run


def test_files_of_pyspark_that_pyspark_client_overwrites_are_an_error(
    mix_up: MixUp, spark_python: str, tmp_path: Path
) -> None:
    client = wheel(tmp_path, "pyspark-client", "4.2.0", {"pyspark/version.py": "__version__ = '4.2.0'\n"})
    python = with_spark(environment(tmp_path / "mixed", client, libraries=libraries_of(spark_python)), spark_python)
    line = mix_up(python)
    assert "has pyspark-client 4.2.0, which overwrites files of pyspark" in line
    assert f"{python} -m pip uninstall --yes pyspark-client pyspark" in line
    assert line.endswith(f'{python} -m pip install "pushdown-spark[spark]"')


def test_pyspark_overwritten_by_another_release_is_an_error_with_both_versions(
    mix_up: MixUp, spark_python: str, tmp_path: Path
) -> None:
    other = wheel(tmp_path, "pyspark", "4.9.1", {"pyspark/__init__.py": "__version__ = '4.9.1'\n"})
    python = environment(tmp_path / "other", other, libraries=libraries_of(spark_python))
    line = mix_up(python, spark_home=str(libraries_of(spark_python) / "pyspark"))
    assert line.startswith(f"spark_python: {python}: jobs need Spark ")
    assert "this is Spark 4.9.1" in line


def test_pyspark_of_another_release_than_spark_submit_is_an_error(spark_python: str) -> None:
    description = describe_python(spark_python, os.environ)
    assert description is not None
    release = description.distributions["pyspark"].rpartition(".")[0]
    for version in (f"{release}.9", None):
        check_pyspark(description, "/spark/bin/spark-submit", version)
    with pytest.raises(ConfigError) as error:
        check_pyspark(description, "/spark/bin/spark-submit", "3.5.1")
    assert str(error.value) == (
        f"spark_python: {spark_python} has pyspark {description.distributions['pyspark']}, "
        "but /spark/bin/spark-submit starts Spark 3.5.1; set spark_home and spark_python to the same version of Spark"
    )


def test_missing_libraries_of_jobs_are_an_error(mix_up: MixUp, spark_python: str, tmp_path: Path) -> None:
    python = environment(tmp_path / "bare")
    (site,) = (tmp_path / "bare").glob("lib/python3*/site-packages")
    for name in ("pyspark", "py4j"):
        (site / name).symlink_to(libraries_of(spark_python) / name)
    line = mix_up(with_spark(python, spark_python))
    assert f"lacks libraries of the job ({', '.join(REQUIRED_MODULES)})" in line
    assert f'run {python} -m pip install "pushdown-spark[spark]"' in line


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ({"columns": ("id", "knd")}, ColumnError, "columns: there is no column 'knd'; did you mean kind?"),
        ({"where": "knd = 'x'"}, ColumnError, "where: there is no column 'knd'; did you mean kind?"),
        ({"where": "id = = 1"}, PredicateError, "where: '=' has no right side (character 6, at '= 1')"),
    ],
)
def test_a_name_that_the_declared_schema_lacks_is_an_error_before_the_submission(
    start: Start, spark_python: str, tmp_path: Path, query: dict[str, object], error: type[Exception], message: str
) -> None:
    source = SourceSpec.model_validate({"format": "json", "path": [str(tmp_path)], "schema": "id bigint, kind string"})
    spec = JobSpec(run_key="d/t/r/-1", sources={"s": source}, query=QuerySpec.model_validate({"source": "s", **query}))
    with pytest.raises(error) as problem:
        start(spec, spark_python)
    assert str(problem.value) == message


def test_a_python_that_spark_env_sh_replaces_is_not_checked(
    local_spark: str, spark_python: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without the script, the library check would fail for this Python."""
    python = environment(tmp_path / "bare")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").write_text(f"export PYSPARK_PYTHON={spark_python}\n")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    home = str(libraries_of(spark_python) / "pyspark")
    hook = PushdownSubmitHook.open(Submission(spec=SPEC, spark_python=str(python), spark_home=home))
    with pytest.raises(SubmitFailedError, match="no-java"):
        hook.submit()
    hook.release()


def test_libraries_in_a_directory_on_the_path_are_found(spark_python: str, tmp_path: Path) -> None:
    python = environment(tmp_path / "bare")
    description = describe_python(str(python), {"PYTHONPATH": str(libraries_of(spark_python))})
    assert description is not None
    assert description.missing == ()


def test_a_complete_environment_is_accepted(spark_python: str) -> None:
    description = describe_python(spark_python, os.environ)
    assert description is not None
    assert description.missing == ()
    assert "pyspark" in description.distributions
    assert "pyspark-client" not in description.distributions


def test_a_program_that_is_not_python_is_not_described(tmp_path: Path) -> None:
    assert describe_python("/bin/false", {}) is None
    assert describe_python("/bin/echo", {}) is None
    assert describe_python(str(tmp_path / "nowhere"), {}) is None


def test_the_drivers_python_is_found_in_the_order_of_spark() -> None:
    environ = {"PATH": "/bin:/usr/bin", "PYSPARK_PYTHON": "true", "PYSPARK_DRIVER_PYTHON": sys.executable}
    assert driver_python({}, environ) == sys.executable
    assert driver_python({"spark.pyspark.python": "false"}, environ) in ("/bin/false", "/usr/bin/false")
    driver = {"spark.pyspark.python": "false", "spark.pyspark.driver.python": "/bin/sh"}
    assert driver_python(driver, environ) == "/bin/sh"
    assert driver_python({}, {"PATH": "/nowhere"}) is None


def test_required_modules_are_those_that_a_job_imports(project: Path, spark_python: str) -> None:
    modules = "pushdown_spark.job, pushdown_spark.query_run"
    code = f"import sys, {modules}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    variables = {**os.environ, "PYTHONPATH": str(project / "spark_jobs")}
    run = subprocess.run([spark_python, "-c", code], env=variables, capture_output=True, text=True, check=True)
    lines = (project / "spark_jobs" / "pushdown_spark" / "requirements.txt").read_text().splitlines()
    libraries = {line.partition("=")[0].partition(">")[0].partition("[")[0] for line in lines} - {"pyspark"}
    assert set(REQUIRED_MODULES) == libraries & set(run.stdout.split())
