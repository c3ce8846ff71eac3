"""Packages of a job: Spark's Avro source is added in the version of Spark if the installation lacks it."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.environment import SparkInstallation
from pushdown_spark.contract import (
    CatalogOutputSpec,
    JobSpec,
    OutputFormat,
    OutputSpec,
    ReaderChoice,
    SourceFormat,
    SourceSpec,
    TableFormat,
)
from pushdown_spark.contract.versions import unsupported_spark

_AVRO = "spark-avro"
_AVRO_CLASS = "org/apache/spark/sql/avro/AvroFileFormat.class"
"""Spark's Avro source. Since Spark 4.0, it is part of Spark, and spark-avro only adds the short name."""
_PACKAGES = "spark.jars.packages"
_JAR_SETTINGS = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")
_CORE_JAR = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>\d.*)\.jar")
_PROPERTY = re.compile(r"^\s*(?P<key>[^\s#!=:]+)\s*[\s=:]\s*(?P<value>.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class GivenJars:
    """The jars of the user: parameters of the operator, and settings in `conf` and properties files."""

    packages: str | None
    jars: str | None
    driver_class_path: str | None
    conf: Mapping[str, str]
    properties_file: str | None
    conf_directory: str | None = None


def packages_for(spec: JobSpec, given: GivenJars, installation: SparkInstallation) -> str | None:
    """Return the value of `--packages`: the user's packages, and Spark's Avro source if it is needed and missing.

    It is needed for `reader='spark'` and for writing. The job can load it without its short name, so that Spark needs
    no package, and no repository at run time, if it has the class. Raises `ConfigError` if the version of Spark cannot
    be determined.
    """
    settings = submit_settings(given, installation)
    named = [given.packages, given.jars, given.driver_class_path, *(settings.get(key) for key in _JAR_SETTINGS)]
    if not _uses_spark_avro(spec) or any(_AVRO in text for text in named if text):
        return given.packages
    jars = spark_jars(installation)
    if any(_has_avro(jar) for jar in jars):
        return given.packages
    release = _release(jars)
    if release is None:
        raise config_error(
            "packages: format 'avro' with reader='spark', or as output_format, needs org.apache.spark:spark-avro, and "
            f"the version of Spark cannot be determined from {installation.binary}; set it in packages or jars"
        )
    avro = f"org.apache.spark:{_AVRO}_{release['scala']}:{release['spark']}"
    # Packages on the command line replace those of the configuration.
    return ",".join(filter(None, (given.packages or settings.get(_PACKAGES), avro)))


def submit_settings(given: GivenJars, installation: SparkInstallation) -> dict[str, str]:
    """Return the settings that spark-submit will see: those of `conf` and of the properties file."""
    return {**_defaults(given, installation), **given.conf}


def spark_version(installation: SparkInstallation) -> str | None:
    """Return the version of Spark of an installation, None if it is unknown."""
    release = _release(spark_jars(installation))
    return release["spark"] if release is not None else None


def require_supported_spark(installation: SparkInstallation) -> None:
    """Raise `ConfigError` if an installation has an unsupported release of Spark."""
    version = spark_version(installation)
    if version is not None and (problem := unsupported_spark(version)):
        parameter = "spark_home" if installation.home is not None else "spark_python"
        raise config_error(f"{parameter}: {installation.binary}: {problem}")


def _release(jars: Iterable[Path]) -> re.Match[str] | None:
    """Return the versions of Scala and Spark of an installation's jars, None if they are unknown."""
    return next((match for jar in jars if (match := _CORE_JAR.fullmatch(jar.name))), None)


def _uses_spark_avro(spec: JobSpec) -> bool:
    """Return whether Spark certainly reads or writes Avro."""
    outputs = [spec.output, *(scan.output for scan in spec.scans.values())]
    if any(isinstance(output, OutputSpec) and output.format is OutputFormat.AVRO for output in outputs):
        return True
    if isinstance(spec.output, CatalogOutputSpec) and spec.output.format is TableFormat.AVRO:
        return True
    files = [source for source in spec.sources.values() if isinstance(source, SourceSpec)]
    return any(source.format is SourceFormat.AVRO and source.reader is ReaderChoice.SPARK for source in files)


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


def _has_avro(jar: Path) -> bool:
    """Return whether a jar has Spark's Avro source."""
    if jar.name.startswith(_AVRO):
        return True
    if not jar.name.startswith("spark-sql_"):
        return False
    try:
        with zipfile.ZipFile(jar) as archive:
            return _AVRO_CLASS in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


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


def _defaults(given: GivenJars, installation: SparkInstallation) -> dict[str, str]:
    """Return the settings of the properties file that spark-submit reads: the user's or that of the installation."""
    files = [Path(given.properties_file)] if given.properties_file else _default_files(given, installation)
    for file in files:
        if file.is_file():
            return {match["key"]: match["value"] for match in _PROPERTY.finditer(file.read_text(encoding="utf-8"))}
    return {}


def _default_files(given: GivenJars, installation: SparkInstallation) -> Iterable[Path]:
    if given.conf_directory:
        return [Path(given.conf_directory) / "spark-defaults.conf"]
    return (home / "conf" / "spark-defaults.conf" for home in _homes(installation))
