"""The schema of Parquet files from a footer that the driver reads. Spark would run a job to read the same footer."""

from __future__ import annotations

import os

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.session_settings import setting
from pushdown_spark.relations.declaration import Source
from pushdown_spark.runtime.jvm_gateway import elements, java_class, scala_object, scala_seq

_HARMLESS = frozenset({"compression", "datetimerebasemode", "int96rebasemode"})
"""Options that change neither the files to read nor their schema."""
_WILD = frozenset("*?[]{}\\")
_SUMMARIES = ("_metadata", "_common_metadata")
_MAX_OBJECTS = 100
"""Number of objects in a store from which on Spark's own inference is as fast. Each takes three calls of the JVM."""


def footer_schema(spark: SparkSession, source: Source) -> JavaObject | None:
    """Return the schema (Spark's `StructType`) that Spark would infer, None if one footer is not enough to know it.

    Spark's own code (`ParquetFileFormat`) reads the footer. If it fails, Spark infers the schema and raises the error.
    """
    if source.format is not SourceFormat.PARQUET or len(source.paths) != 1:
        return None
    if setting(spark, "spark.sql.parquet.mergeSchema", "false") != "false":
        return None
    if not _HARMLESS.issuperset(source.options) or not _WILD.isdisjoint(source.paths[0]):
        return None
    try:
        hadoop = spark._jsparkSession.sessionState().newHadoopConf()
        file = _first_file(spark, source.paths[0], hadoop)
        return None if file is None else _schema(spark, file, hadoop)
    except (Py4JError, OSError):
        return None


def _first_file(spark: SparkSession, path: str, hadoop: JavaObject) -> JavaObject | None:
    """Return the file whose footer Spark reads: the first file of a flat directory without summary files."""
    place = java_class(spark, "org.apache.hadoop.fs.Path")(path)
    system = place.getFileSystem(hadoop)
    status = system.getFileStatus(place)
    if status.isFile():
        return status if path.endswith(".parquet") else None
    names = _file_names(system, place)
    if names is None or not names.isdisjoint(_SUMMARIES):
        return None
    data = sorted(name for name in names if not name.startswith(("_", ".")))
    if not data or not all(name.endswith(".parquet") for name in data):
        return None
    return system.getFileStatus(java_class(spark, "org.apache.hadoop.fs.Path")(place, data[0]))


def _file_names(system: JavaObject, directory: JavaObject) -> set[str] | None:
    """Return the names of the files of a directory, None if it has directories or more objects than are worth it."""
    if system.getUri().getScheme() == "file":
        with os.scandir(str(directory.toUri().getPath())) as entries:
            is_file = {entry.name: entry.is_file() for entry in entries}
    else:
        statuses = system.listStatus(directory)
        if len(statuses) > _MAX_OBJECTS:
            return None
        is_file = {str(status.getPath().getName()): bool(status.isFile()) for status in statuses}
    return set(is_file) if all(is_file.values()) else None


def _schema(spark: SparkSession, file: JavaObject, hadoop: JavaObject) -> JavaObject | None:
    format_ = scala_object(spark, "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")
    footers = format_.readParquetFootersInParallel(hadoop, scala_seq(spark, [file]), False, False)
    return next(elements(format_.readSchema(footers, spark._jsparkSession)), None)
