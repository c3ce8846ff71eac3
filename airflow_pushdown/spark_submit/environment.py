"""The environment variables of a job's processes, without credentials of the worker."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from airflow_pushdown.spark_submit.spark_installation import SparkInstallation
from pushdown_spark.secret_text import has_url_password, is_secret_name

_AIRFLOW_PREFIX = "AIRFLOW_"


def child_environment(
    environ: Mapping[str, str],
    installation: SparkInstallation,
    *,
    extra: Mapping[str, str],
    secrets: Iterable[str] = (),
) -> dict[str, str]:
    """Return the environment of spark-submit: the worker's without variables of Airflow and credentials.

    Removed are all `AIRFLOW_*` variables (connections, variables, settings), variables whose name suggests a
    credential and not its location, URLs with a password, and values that contain one of `secrets`. `extra` is the
    user's `env_vars`, added last without a check.
    """
    credentials = tuple(secret for secret in secrets if secret)
    child = {name: value for name, value in environ.items() if not _is_private(name, value, credentials)}
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
    # Roles of pods and containers need the locations of credentials, as in EKS and ECS.
    if name.startswith(_AIRFLOW_PREFIX) or is_secret_name(name) or has_url_password(value):
        return True
    return any(secret in value for secret in secrets)
