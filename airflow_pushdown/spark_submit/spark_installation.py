"""The Spark installation that runs a job: its spark-submit, its jars and its version."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import FinalPushdownError, config_error
from pushdown_spark.contract import ErrorCode, JobError
from pushdown_spark.contract.versions import unsupported_spark

SPARK_PYTHON_VARIABLE = "AIRFLOW_PUSHDOWN_SPARK_PYTHON"
_CORE_JAR = re.compile(r"spark-core_\d+\.\d+-(?P<version>\d.*)\.jar")


class SparkSubmitNotFoundError(FinalPushdownError):
    """No spark-submit was found."""


@dataclass(frozen=True)
class SparkInstallation:
    """A spark-submit to start. `python` runs the driver. `home` is set if the installation was given by its home."""

    binary: str
    python: str | None
    home: str | None

    def homes(self) -> Iterator[Path]:
        """Yield the directories that spark-submit may use as Spark's home, in its order."""
        if self.home is not None:
            yield Path(self.home)
            return
        parents = [Path(self.binary).parent.parent, Path(self.binary).resolve().parent.parent]
        yield from parents
        pythons = [self.python] if self.python and os.sep in self.python else []
        for environment in (*(Path(python).parent.parent for python in pythons), *parents):
            yield from sorted(environment.glob("lib*/python3*/site-packages/pyspark"))

    @property
    def jars(self) -> list[Path]:
        """Spark's jars, or none if they are not found."""
        directories = (home / "jars" for home in self.homes())
        return next((sorted(directory.glob("*.jar")) for directory in directories if directory.is_dir()), [])

    @property
    def jars_home(self) -> Path | None:
        """The home that has Spark's jars, or None if they are not found."""
        return next((jar.parent.parent for jar in self.jars), None)

    @property
    def version(self) -> str | None:
        """The version of Spark, or None if it is unknown."""
        matches = (_CORE_JAR.fullmatch(jar.name) for jar in self.jars)
        return next((match["version"] for match in matches if match), None)

    def check_supported(self) -> None:
        """Raise `ConfigError` for an unsupported release of Spark."""
        version = self.version
        if version is not None and (problem := unsupported_spark(version)):
            parameter = "spark_home" if self.home is not None else "spark_python"
            raise config_error(f"{parameter}: {self.binary}: {problem}")


def find_installation(
    *, binary: str, spark_home: str | None, spark_python: str | None, environ: Mapping[str, str]
) -> SparkInstallation:
    """Return the installation of the parameters, else of the worker's environment variables, else on PATH.

    `binary` is a command name or a path, which is used as is. A home takes precedence over a Python, whose spark-submit
    is in the same directory (as pip installs it). Raises `ConfigError` for a path that does not exist, and
    `SparkSubmitNotFoundError`, which names the searched directories, if there is no spark-submit.
    """
    python = spark_python or environ.get(SPARK_PYTHON_VARIABLE) or environ.get("PYSPARK_PYTHON")
    if spark_python and not _is_executable(Path(spark_python)):
        raise config_error(
            f"spark_python: {spark_python} is not an executable file; set it to the Python of the Spark environment"
        )
    if os.sep in binary:
        if not _is_executable(Path(binary)):
            raise _not_found_error([binary])
        return SparkInstallation(binary=binary, python=python, home=spark_home)
    candidates = _candidates(spark_home, spark_python, environ)
    for directory, home in candidates:
        if _is_executable(directory / binary):
            return SparkInstallation(binary=str(directory / binary), python=python, home=home)
        if home is not None and home == spark_home:
            raise config_error(
                f"spark_home: there is no executable {directory / binary}; set it to the home of a Spark installation"
            )
    on_path = shutil.which(binary, path=environ.get("PATH", os.defpath))
    if on_path is None:
        raise _not_found_error([*(str(directory / binary) for directory, _ in candidates), f"{binary} on PATH"])
    return SparkInstallation(binary=on_path, python=python, home=None)


def _candidates(
    spark_home: str | None, spark_python: str | None, environ: Mapping[str, str]
) -> list[tuple[Path, str | None]]:
    """Return directories that may have spark-submit in order of precedence, with the Spark home of each, if any."""
    candidates: list[tuple[Path, str | None]] = []
    if spark_home:
        candidates.append((Path(spark_home) / "bin", spark_home))
    for python in (spark_python, environ.get(SPARK_PYTHON_VARIABLE)):
        if python:
            candidates.append((Path(python).parent, None))
    if home := environ.get("SPARK_HOME"):
        candidates.append((Path(home) / "bin", home))
    python = environ.get("PYSPARK_PYTHON", "")
    if os.sep in python:
        candidates.append((Path(python).parent, None))
    return candidates


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _not_found_error(paths: list[str]) -> SparkSubmitNotFoundError:
    return SparkSubmitNotFoundError(
        JobError(
            code=ErrorCode.SUBMIT_FAILED,
            message=f"spark-submit not found (searched {', '.join(paths)}); set spark_python to the Python of an "
            "environment with pyspark, or spark_home to a Spark installation",
            retryable=False,
        )
    )
