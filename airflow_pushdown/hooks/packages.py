"""Adds Spark's Avro source to a job's packages, in the version of the Spark that runs the job, where it lacks one."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.environment import SparkInstallation
from pushdown_spark.contract import JobSpec, ReaderChoice, SourceFormat, SourceSpec
from pushdown_spark.contract.versions import unsupported_spark

_AVRO = "spark-avro"
_AVRO_CLASS = "org/apache/spark/sql/avro/AvroFileFormat.class"
"""Spark's Avro source. Since Spark 4.0 it is in Spark's own jars, and spark-avro only gives it its short name."""
_PACKAGES = "spark.jars.packages"
_JAR_SETTINGS = (_PACKAGES, "spark.jars", "spark.driver.extraClassPath")
_CORE_JAR = re.compile(r"spark-core_(?P<scala>\d+\.\d+)-(?P<spark>\d.*)\.jar")
_PROPERTY = re.compile(r"^\s*(?P<key>[^\s#!=:]+)\s*[\s=:]\s*(?P<value>.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class GivenJars:
    """Where a user may have given jars: parameters of the operator, and settings in `conf` and properties files."""

    packages: str | None
    jars: str | None
    driver_class_path: str | None
    conf: Mapping[str, str]
    properties_file: str | None


def packages_for(spec: JobSpec, given: GivenJars, installation: SparkInstallation) -> str | None:
    """What to give spark-submit as `--packages`: the user's, and the Avro source where Spark's is used and not there.

    It is used with `reader='spark'`, and for writing. The job finds it without its short name as well, so that a Spark
    that holds it needs no package, and no repository at run time. Raises `ConfigError` where the version of Spark
    cannot be told.
    """
    settings = {**_defaults(given.properties_file, installation), **given.conf}
    named = [given.packages, given.jars, given.driver_class_path, *(settings.get(key) for key in _JAR_SETTINGS)]
    if not _uses_spark_s_avro(spec) or any(_AVRO in text for text in named if text):
        return given.packages
    jars = spark_jars(installation)
    if any(_holds_avro(jar) for jar in jars):
        return given.packages
    release = _release(jars)
    if release is None:
        raise config_error(
            "packages: format 'avro' with reader='spark', or as output_format, needs org.apache.spark:spark-avro, and "
            f"the version of Spark cannot be told from {installation.binary}; give it in packages or jars"
        )
    avro = f"org.apache.spark:{_AVRO}_{release['scala']}:{release['spark']}"
    # On the command line packages take the place of configured ones.
    return ",".join(filter(None, (given.packages or settings.get(_PACKAGES), avro)))


def require_supported_spark(installation: SparkInstallation) -> None:
    """Raise `ConfigError` if an installation's jars are of a release of Spark that jobs do not run on."""
    release = _release(spark_jars(installation))
    if release is not None and (problem := unsupported_spark(release["spark"])):
        parameter = "spark_home" if installation.home is not None else "spark_python"
        raise config_error(f"{parameter}: {installation.binary}: {problem}")


def _release(jars: Iterable[Path]) -> re.Match[str] | None:
    """The versions of Scala and Spark that the jars of an installation are of, None where they do not tell."""
    return next((match for jar in jars if (match := _CORE_JAR.fullmatch(jar.name))), None)


def _uses_spark_s_avro(spec: JobSpec) -> bool:
    """Whether it is settled that Spark reads or writes Avro."""
    if spec.output is not None and spec.output.format.lower() == SourceFormat.AVRO:
        return True
    files = [source for source in spec.sources.values() if isinstance(source, SourceSpec)]
    return any(source.format is SourceFormat.AVRO and source.reader is ReaderChoice.SPARK for source in files)


def spark_jars(installation: SparkInstallation) -> list[Path]:
    """The jars of the Spark that an installation's spark-submit starts; empty where they are not found."""
    for home in _homes(installation):
        if (home / "jars").is_dir():
            return sorted((home / "jars").glob("*.jar"))
    return []


def _holds_avro(jar: Path) -> bool:
    """Whether a jar of Spark's holds its Avro source."""
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
    """Directories that spark-submit may take for Spark's home, in its own order."""
    if installation.home is not None:
        yield Path(installation.home)
        return
    beside = [Path(installation.binary).parent.parent, Path(installation.binary).resolve().parent.parent]
    yield from beside
    pythons = [installation.python] if installation.python and os.sep in installation.python else []
    for environment in (*(Path(python).parent.parent for python in pythons), *beside):
        yield from sorted(environment.glob("lib*/python3*/site-packages/pyspark"))


def _defaults(properties_file: str | None, installation: SparkInstallation) -> dict[str, str]:
    """Settings of the properties file that spark-submit reads: the user's, else the installation's own."""
    places = [Path(properties_file)] if properties_file else _default_files(installation)
    for place in places:
        if place.is_file():
            return {match["key"]: match["value"] for match in _PROPERTY.finditer(place.read_text(encoding="utf-8"))}
    return {}


def _default_files(installation: SparkInstallation) -> Iterable[Path]:
    return (home / "conf" / "spark-defaults.conf" for home in _homes(installation))
