"""The Python of the driver: its packages, and the wrong installations that would make every job fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.spark_submit.conf_directory import environment_script
from airflow_pushdown.spark_submit.spark_installation import SparkInstallation
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
_TIMEOUT_SECONDS = 60
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


def usable_driver_python(
    installation: SparkInstallation, settings: Mapping[str, str], environment: Mapping[str, str]
) -> SparkPython | None:
    """Return the Python of a driver on this machine, or None if it is not certain which one spark-submit starts.

    `settings` are the user's Spark settings. Raises `ConfigError` if a job cannot run in it.
    """
    home = installation.jars_home
    if home is None or environment_script(home, environment) is not None:
        return None
    executable = driver_python(settings, environment)
    python = describe_python(executable, environment) if executable else None
    if python is not None:
        check_pyspark(python, installation.binary, installation.version)
        check_libraries(python)
    return python


def driver_python(settings: Mapping[str, str], environment: Mapping[str, str]) -> str | None:
    """Return the Python that spark-submit starts for a driver on this machine, or None if it is not found."""
    # The same order as in Spark's PythonRunner.
    program = (
        settings.get("spark.pyspark.driver.python")
        or settings.get("spark.pyspark.python")
        or environment.get("PYSPARK_DRIVER_PYTHON")
        or environment.get("PYSPARK_PYTHON")
        or "python3"
    )
    return shutil.which(program, path=environment.get("PATH", os.defpath))


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
            command, env=dict(environment), capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS
        )
        description = json.loads(run.stdout)
        return SparkPython(
            executable, description["version"], description["distributions"], tuple(description["missing"])
        )
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None


def check_pyspark(python: SparkPython, spark_submit: str, spark: str | None) -> None:
    """Raise `ConfigError` if PySpark is damaged, unsupported, or of another release than Spark.

    `spark` is the version that `spark_submit` starts, or None if it is unknown. PySpark is not a package of an
    environment that uses the one of a Spark installation.
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


def check_libraries(python: SparkPython) -> None:
    """Raise `ConfigError` if an environment lacks libraries of the job."""
    if python.missing:
        raise config_error(
            f"spark_python: {python.executable} lacks libraries of the job ({', '.join(python.missing)}); run "
            f"{python.executable} -m {INSTALL_COMMAND}, or set spark_python to an environment that has them"
        )


def _release(version: str) -> str:
    """Return the major and the minor version."""
    match = _RELEASE.match(version)
    return match[0] if match else version
