"""Packages of a job: Spark's Avro source is added in the version of Spark if the installation lacks it."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

from airflow_pushdown.exceptions import config_error
from airflow_pushdown.hooks.spark_installation import SparkInstallation
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

_AVRO = "spark-avro"
_AVRO_CLASS = "org/apache/spark/sql/avro/AvroFileFormat.class"
"""Spark's Avro source. Since Spark 4.0, it is part of Spark, and spark-avro only adds the short name."""
PACKAGES_KEY, JARS_KEY, CLASS_PATH_KEY = "spark.jars.packages", "spark.jars", "spark.driver.extraClassPath"


def packages_with_avro(spec: JobSpec, installation: SparkInstallation, settings: Mapping[str, str]) -> str | None:
    """Return the packages of the settings with Spark's Avro source, None if a job needs no package for it.

    A job needs the source for `reader='spark'` and for writing. It can load it without its short name, so that Spark
    needs no package, and no repository at run time, if it has the class. Raises `ConfigError` if the version of Spark
    cannot be determined.
    """
    is_named = any(_AVRO in settings.get(key, "") for key in (PACKAGES_KEY, JARS_KEY, CLASS_PATH_KEY))
    if is_named or not _uses_spark_avro(spec) or any(_has_avro(jar) for jar in installation.jars):
        return None
    if installation.version is None:
        raise config_error(
            "packages: format 'avro' with reader='spark', or as output_format, needs org.apache.spark:spark-avro, and "
            f"the version of Spark cannot be determined from {installation.binary}; set it in packages or jars"
        )
    avro = f"org.apache.spark:{_AVRO}_{installation.scala_version}:{installation.version}"
    # Packages on the command line replace those of the configuration.
    return ",".join(filter(None, (settings.get(PACKAGES_KEY), avro)))


def _uses_spark_avro(spec: JobSpec) -> bool:
    """Return whether Spark certainly reads or writes Avro."""
    outputs = [spec.output, *(scan.output for scan in spec.scans.values())]
    if any(isinstance(output, OutputSpec) and output.format is OutputFormat.AVRO for output in outputs):
        return True
    if isinstance(spec.output, CatalogOutputSpec) and spec.output.format is TableFormat.AVRO:
        return True
    files = [source for source in spec.sources.values() if isinstance(source, SourceSpec)]
    return any(source.format is SourceFormat.AVRO and source.reader is ReaderChoice.SPARK for source in files)


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
