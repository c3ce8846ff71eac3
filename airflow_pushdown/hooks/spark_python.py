"""The Python of the driver: its packages, and the wrong installations that would make every job fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import config_error, exception_for
from airflow_pushdown.hooks.conf_directory import environment_script
from airflow_pushdown.hooks.spark_installation import SparkInstallation
from airflow_pushdown.packaging import job_archive
from pushdown_spark.contract import JobError, JobSpec, SourceSpec
from pushdown_spark.contract.versions import unsupported_spark

REQUIRED_MODULES = ("cramjam", "hyperscan", "isal", "pyarrow", "pydantic", "sqlglot")
"""Modules that a job imports before it starts Spark. PySpark is not one of them, because Spark itself may bring it."""
INSTALL_COMMAND = 'pip install "pushdown-spark[spark]"'

_DISTRIBUTIONS = ("pyspark", "pyspark-client")
_PROBE = """
import json, platform, sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
sys.path = [entry for entry in sys.path if entry]
modules, distributions = json.loads(sys.argv[1]), {}
for name in json.loads(sys.argv[2]):
    try:
        distributions[name] = version(name)
    except PackageNotFoundError:
        pass
missing = [name for name in modules if find_spec(name) is None]
print(json.dumps({"version": platform.python_version(), "distributions": distributions, "missing": missing}))
"""
"""The program that describes a Python. It imports no package, which would take longer than everything else."""
_SECONDS = 60
_LONGEST_PREDICATE = 10_000
"""Parsing a longer predicate, such as a list of thousands of values, may take longer than the start of Spark."""
_WORD = re.compile(r"\w+")
_COMPARISON = re.compile(r"""\s*(\w+)\s*(?:=|<=|>=|<|>|!=)\s*(?:'[^'\\]*'|-?\d+(?:\.\d+)?)\s*""")
_COMPARISONS = re.compile(rf"{_COMPARISON.pattern}(?:\bAND\b{_COMPARISON.pattern})*", re.IGNORECASE)
_RELEASE = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class SparkPython:
    """A Python environment for drivers.

    `distributions` are the versions of installed packages. `missing` are the modules that a job needs and the
    environment lacks.
    """

    executable: str
    version: str
    distributions: Mapping[str, str]
    missing: tuple[str, ...]


def check_driver_python(
    installation: SparkInstallation,
    settings: Mapping[str, str],
    environment: Mapping[str, str],
    spec: JobSpec,
    spec_path: Path,
    *,
    has_local_files: bool,
) -> None:
    """Raise `ConfigError`, or the error of a wrong name, if a job cannot run in the Python of a driver on this machine.

    `settings` are the user's Spark settings, and `spec_path` is the file of the job spec. Passes if it is not certain
    which Python spark-submit starts. In a file system other than this machine's, directories may be further columns,
    so that no name is certainly wrong.
    """
    home = installation.jars_home
    if home is None or environment_script(home, environment) is not None:
        return
    executable = driver_python(settings, environment)
    python = describe_python(executable, environment) if executable else None
    if python is None:
        return
    require_matching_pyspark(python, installation.binary, installation.version)
    require_libraries(python)
    if has_local_files and _needs_name_check(spec):
        error = declared_names_error(python, environment, job_archive(), spec_path)
        if error is not None:
            raise exception_for(error)


def _needs_name_check(spec: JobSpec) -> bool:
    """Return whether the query of a job may name columns that the declared schema of its only source lacks."""
    if spec.query is None or spec.query.source is None:
        return False
    source = spec.sources[spec.query.source]
    if not isinstance(source, SourceSpec) or source.schema_ddl is None:
        return False
    return may_have_wrong_names(source.schema_ddl, spec.query.columns or (), spec.query.where or "")


def driver_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the Python that spark-submit starts for a driver on this machine, None if it is not found."""
    # The order is that of Spark's PythonRunner.
    named = (
        settings.get("spark.pyspark.driver.python")
        or settings.get("spark.pyspark.python")
        or environment.get("PYSPARK_DRIVER_PYTHON")
        or environment.get("PYSPARK_PYTHON")
        or "python3"
    )
    return shutil.which(named, path=environment.get("PATH", os.defpath))


def describe_python(
    executable: str, environment: Mapping[str, str], distributions: Iterable[str] = ()
) -> SparkPython | None:
    """Run a Python to get its version and packages. Return None if it does not run.

    `distributions` are names of packages in addition to PySpark's. Without them, this takes a tenth of a second.
    """
    names = [*_DISTRIBUTIONS, *distributions]
    command = [executable, "-c", _PROBE, json.dumps(REQUIRED_MODULES), json.dumps(names)]
    try:
        run = subprocess.run(  # noqa: S603 - runs the Python of the user
            command, env=dict(environment), capture_output=True, text=True, check=True, timeout=_SECONDS
        )
        answer = json.loads(run.stdout)
        return SparkPython(executable, answer["version"], answer["distributions"], tuple(answer["missing"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None


def require_matching_pyspark(python: SparkPython, spark_submit: str, spark: str | None) -> None:
    """Raise `ConfigError` if PySpark is damaged, unsupported, or of another release than Spark.

    `spark` is the version that `spark_submit` starts, None if it is unknown. PySpark is not a package of an environment
    that uses the one of a Spark installation.
    """
    pyspark, client = python.distributions.get("pyspark"), python.distributions.get("pyspark-client")
    if pyspark is None:
        return
    if client is not None:
        raise config_error(
            f"spark_python: {python.executable} has pyspark-client {client}, which overwrites files of pyspark; run "
            f"{python.executable} -m pip uninstall --yes pyspark-client pyspark, then "
            f"{python.executable} -m {INSTALL_COMMAND}"
        )
    if problem := unsupported_spark(pyspark):
        raise config_error(f"spark_python: {python.executable}: {problem}")
    if spark is not None and _release(pyspark) != _release(spark):
        raise config_error(
            f"spark_python: {python.executable} has pyspark {pyspark}, but {spark_submit} starts Spark {spark}; "
            "set spark_home and spark_python to the same version of Spark"
        )


def require_libraries(python: SparkPython) -> None:
    """Raise `ConfigError` if an environment lacks libraries of the job."""
    if python.missing:
        raise config_error(
            f"spark_python: {python.executable} lacks libraries of the job ({', '.join(python.missing)}); run "
            f"{python.executable} -m {INSTALL_COMMAND}, or set spark_python to an environment that has them"
        )


def may_have_wrong_names(ddl: str, columns: Iterable[str], where: str) -> bool:
    """Return whether a query has more than comparisons of words of the schema, so that its names are worth a check.

    >>> may_have_wrong_names("id int, kind string", ["id"], "kind = 'x' AND id > 3")
    False
    >>> may_have_wrong_names("id int, kind string", ["id"], "knd = 'x'")
    True
    """
    if len(where) > _LONGEST_PREDICATE:
        return False
    if where and not _COMPARISONS.fullmatch(where):
        return True
    words = set(_WORD.findall(ddl.lower()))
    names = [*columns, *(match[1] for match in _COMPARISON.finditer(where))]
    return any(name.lower() not in words for name in names)


def declared_names_error(
    python: SparkPython, environment: Mapping[str, str], code: Path, spec: Path
) -> JobError | None:
    """Return the error of a name that the declared schema of a job certainly lacks, None if there is none.

    `code` is the archive of `pushdown_spark`, and `spec` the file of the job spec. The check belongs to the Spark side,
    whose libraries Airflow's environment lacks. It takes about a third of a second.
    """
    path = os.pathsep.join(filter(None, (str(code), environment.get("PYTHONPATH"))))
    command = [python.executable, "-m", "pushdown_spark.projection.declared_names", str(spec)]
    try:
        run = subprocess.run(  # noqa: S603 - runs the Python of the user
            command, env={**environment, "PYTHONPATH": path}, capture_output=True, check=True, timeout=_SECONDS
        )
        return JobError.from_json(run.stdout)
    except (OSError, subprocess.SubprocessError):
        # The job itself checks every name and reports its own errors.
        return None


def _release(version: str) -> str:
    """Return the major and the minor version."""
    match = _RELEASE.match(version)
    return match[0] if match else version
