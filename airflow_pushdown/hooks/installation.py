"""The files of a Spark installation: its jars, its version, and the settings of its properties file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.environment import SparkInstallation
from pushdown_spark.contract.versions import unsupported_spark

_CORE_JAR = re.compile(r"spark-core_\d+\.\d+-(?P<version>\d.*)\.jar")
_PROPERTY = re.compile(r"^\s*(?P<key>[^\s#!=:]+)\s*[\s=:]\s*(?P<value>.*?)\s*$", re.MULTILINE)


def submit_settings(
    installation: SparkInstallation,
    conf: Mapping[str, str],
    properties_file: str | None = None,
    conf_directory: str | None = None,
) -> dict[str, str]:
    """Return the settings that spark-submit will see: those of `conf` and of the properties file.

    `properties_file` is the user's. Without it, spark-submit reads that of `conf_directory` or of the installation.
    """
    if properties_file:
        files: Iterable[Path] = [Path(properties_file)]
    else:
        directories = [Path(conf_directory)] if conf_directory else (home / "conf" for home in _homes(installation))
        files = (directory / "spark-defaults.conf" for directory in directories)
    return {**_properties(next(filter(Path.is_file, files), None)), **conf}


def _properties(file: Path | None) -> dict[str, str]:
    """Return the settings of a properties file, none without a file."""
    if file is None:
        return {}
    return {match["key"]: match["value"] for match in _PROPERTY.finditer(file.read_text(encoding="utf-8"))}


def spark_version(installation: SparkInstallation) -> str | None:
    """Return the version of Spark of an installation, None if it is unknown."""
    matches = (_CORE_JAR.fullmatch(jar.name) for jar in spark_jars(installation))
    return next((match["version"] for match in matches if match), None)


def require_supported_spark(installation: SparkInstallation) -> None:
    """Raise `ConfigError` if an installation has an unsupported release of Spark."""
    version = spark_version(installation)
    if version is not None and (problem := unsupported_spark(version)):
        parameter = "spark_home" if installation.home is not None else "spark_python"
        raise config_error(f"{parameter}: {installation.binary}: {problem}")


def spark_jars(installation: SparkInstallation) -> list[Path]:
    """Return the jars of an installation, none if they are not found."""
    for home in _homes(installation):
        if (home / "jars").is_dir():
            return sorted((home / "jars").glob("*.jar"))
    return []


def jars_home(installation: SparkInstallation) -> Path | None:
    """Return Spark's home, the directory with the jars of an installation, None if they are not found."""
    jars = spark_jars(installation)
    return jars[0].parent.parent if jars else None


def _homes(installation: SparkInstallation) -> Iterator[Path]:
    """Yield the directories that spark-submit may use as Spark's home, in its order."""
    if installation.home is not None:
        yield Path(installation.home)
        return
    parents = [Path(installation.binary).parent.parent, Path(installation.binary).resolve().parent.parent]
    yield from parents
    pythons = [installation.python] if installation.python and os.sep in installation.python else []
    for environment in (*(Path(python).parent.parent for python in pythons), *parents):
        yield from sorted(environment.glob("lib*/python3*/site-packages/pyspark"))
