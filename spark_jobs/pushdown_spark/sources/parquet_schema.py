"""The schema of Parquet files from a footer that the driver reads. Spark would run a job to read the same footer."""

from __future__ import annotations

import os
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.expressions.session_settings import setting
from pushdown_spark.runtime.jvm_gateway import elements, java_class, scala_object, scala_seq
from pushdown_spark.runtime.spark_internals import java_session, session_state
from pushdown_spark.sources.declaration import Source

_IRRELEVANT_OPTIONS = frozenset({"compression", "datetimerebasemode", "int96rebasemode"})
"""Options that change neither the files to read nor their schema."""
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
_SUMMARY_FILES = ("_metadata", "_common_metadata")
_MAX_OBJECTS = 100
"""Maximum number of objects in a store. For more, Spark's own inference is as fast."""


@dataclass(frozen=True)
class FooterSchema:
    """The schema (Spark's `StructType`) in the footer of a file. Hadoop prints its path as `path`."""

    path: str
    schema: JavaObject


def footer_schema(spark: SparkSession, source: Source) -> FooterSchema | None:
    """Return the schema that Spark would infer, or None if one footer is not enough to know it.

    Spark's own code (`ParquetFileFormat`) reads the footer. If it fails, Spark infers the schema and raises the error.
    """
    if source.format is not SourceFormat.PARQUET or len(source.paths) != 1:
        return None
    if setting(spark, "spark.sql.parquet.mergeSchema", "false") != "false":
        return None
    if not _IRRELEVANT_OPTIONS.issuperset(source.options) or not _GLOB_CHARACTERS.isdisjoint(source.paths[0]):
        return None
    try:
        hadoop = session_state(spark).newHadoopConf()
        file = _first_file(spark, source.paths[0], hadoop)
        if file is None:
            return None
        parquet = scala_object(spark, "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat")
        footers = parquet.readParquetFootersInParallel(hadoop, scala_seq(spark, [file]), False, False)
        schema = next(elements(parquet.readSchema(footers, java_session(spark))), None)
        return None if schema is None else FooterSchema(str(file.getPath().toString()), schema)
    except (Py4JError, OSError):
        return None


def _first_file(spark: SparkSession, path: str, hadoop: JavaObject) -> JavaObject | None:
    """Return the file whose footer Spark reads: the first file of a flat directory without summary files."""
    hadoop_path = java_class(spark, "org.apache.hadoop.fs.Path")(path)
    file_system = hadoop_path.getFileSystem(hadoop)
    status = file_system.getFileStatus(hadoop_path)
    if status.isFile():
        return status if path.endswith(".parquet") else None
    names = _file_names(file_system, hadoop_path)
    if names is None or not names.isdisjoint(_SUMMARY_FILES):
        return None
    visible = sorted(name for name in names if not name.startswith(("_", ".")))
    if not visible or not all(name.endswith(".parquet") for name in visible):
        return None
    return file_system.getFileStatus(java_class(spark, "org.apache.hadoop.fs.Path")(hadoop_path, visible[0]))


def _file_names(file_system: JavaObject, directory: JavaObject) -> set[str] | None:
    """Return the names of the files of a directory, or None if it has directories or too many objects of a store."""
    if file_system.getUri().getScheme() == "file":
        with os.scandir(str(directory.toUri().getPath())) as entries:
            is_file = {entry.name: entry.is_file() for entry in entries}
    else:
        statuses = file_system.listStatus(directory)
        if len(statuses) > _MAX_OBJECTS:
            return None
        is_file = {str(status.getPath().getName()): bool(status.isFile()) for status in statuses}
    return set(is_file) if all(is_file.values()) else None
