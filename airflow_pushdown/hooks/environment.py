"""The Spark installation of a job, and the environment variables of its processes."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import FinalPushdownError, config_error
from pushdown_spark.contract import ErrorCode, JobError

SPARK_PYTHON_VARIABLE = "AIRFLOW_PUSHDOWN_SPARK_PYTHON"

SECRET_NAME = re.compile(
    r"secret|passw(or)?d|token|credential|access[._-]?key|account[._-]?key\b|api[._-]?key|private[._-]?key",
    re.IGNORECASE,
)
"""Names that suggest a credential. Spark redacts similar names."""

_URL_WITH_PASSWORD = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
_AIRFLOW_PREFIX = "AIRFLOW_"


class SparkSubmitNotFoundError(FinalPushdownError):
    """No spark-submit was found."""


@dataclass(frozen=True)
class SparkInstallation:
    """A spark-submit to start. `python` runs the driver. `home` is set if the installation was given by its home."""

    binary: str
    python: str | None
    home: str | None


def find_installation(
    *, binary: str, spark_home: str | None, spark_python: str | None, environ: Mapping[str, str]
) -> SparkInstallation:
    """Return the installation of the parameters, else of the worker's environment variables, else on PATH.

    `binary` is a command name or a path, which is used as is. A home takes precedence over a Python, whose spark-submit
    is in the same directory (as pip installs it). Raises `ConfigError` for a path that does not exist, and
    `SparkSubmitNotFoundError`, which names the searched directories, if there is no spark-submit.
    """
    python = spark_python or environ.get(SPARK_PYTHON_VARIABLE) or environ.get("PYSPARK_PYTHON")
    if spark_python and not _executable(Path(spark_python)):
        raise config_error(f"spark_python: {spark_python} is not an executable file")
    if os.sep in binary:
        if not _executable(Path(binary)):
            raise _not_found_error([binary])
        return SparkInstallation(binary=binary, python=python, home=spark_home)
    candidates = _candidates(spark_home, spark_python, environ)
    for directory, home in candidates:
        if _executable(directory / binary):
            return SparkInstallation(binary=str(directory / binary), python=python, home=home)
        if home is not None and home == spark_home:
            raise config_error(f"spark_home: there is no executable {directory / binary}")
    on_path = shutil.which(binary, path=environ.get("PATH", os.defpath))
    if on_path is None:
        raise _not_found_error([*(str(directory / binary) for directory, _ in candidates), f"{binary} on PATH"])
    return SparkInstallation(binary=on_path, python=python, home=None)


def child_environment(
    environ: Mapping[str, str],
    installation: SparkInstallation,
    *,
    extra: Mapping[str, str],
    secrets: Iterable[str] = (),
) -> dict[str, str]:
    """Return the environment of spark-submit: the worker's without variables of Airflow and credentials.

    Removed are all `AIRFLOW_*` variables (connections, variables, settings), variables whose name suggests a
    credential, URLs with a password, and values that contain one of `secrets`. `extra` is the user's `env_vars`, added
    last without a check.
    """
    hidden = tuple(secret for secret in secrets if secret)
    child = {name: value for name, value in environ.items() if not _is_private(name, value, hidden)}
    if installation.home is not None:
        child["SPARK_HOME"] = installation.home
    elif os.sep in installation.binary:
        # An inherited SPARK_HOME would make this spark-submit start another installation.
        child.pop("SPARK_HOME", None)
    if installation.python is not None:
        child["PYSPARK_PYTHON"] = child["PYSPARK_DRIVER_PYTHON"] = installation.python
    child.update(extra)
    return child


def _is_private(name: str, value: str, secrets: tuple[str, ...]) -> bool:
    """Return whether an environment variable must not be passed to the job."""
    if name.startswith(_AIRFLOW_PREFIX) or SECRET_NAME.search(name) or _URL_WITH_PASSWORD.search(value):
        return True
    return any(secret in value for secret in secrets)


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
    if inherited := environ.get("SPARK_HOME"):
        candidates.append((Path(inherited) / "bin", inherited))
    python = environ.get("PYSPARK_PYTHON", "")
    if os.sep in python:
        candidates.append((Path(python).parent, None))
    return candidates


def _executable(path: Path) -> bool:
    """Return whether a path is an executable file."""
    return path.is_file() and os.access(path, os.X_OK)


def _not_found_error(paths: list[str]) -> SparkSubmitNotFoundError:
    """Return the error for a missing spark-submit."""
    return SparkSubmitNotFoundError(
        JobError(
            code=ErrorCode.SUBMIT_FAILED,
            message=f"spark-submit not found (searched {', '.join(paths)}); set spark_python to the Python of an "
            "environment with pyspark, or spark_home to a Spark installation",
            retryable=False,
        )
    )
