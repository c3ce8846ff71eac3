"""The connection settings of the stores that Python can read, from Hadoop's settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.relations import azure_settings, google_settings
from pushdown_spark.relations.object_store import StoreSettings
from pushdown_spark.relations.s3_settings import HadoopKeys
from pushdown_spark.runtime.hadoop_settings import HadoopSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3_SCHEMES = frozenset({"s3a", "s3", "s3n"})
"""Schemes that Hadoop may map to S3A."""
_CREDENTIAL_FILES = "hadoop.security.credential.provider.path"


def store_settings(spark: SparkSession, scheme: str, authority: str, options: Mapping[str, str]) -> StoreSettings:
    """Return the settings with which Spark's own reader would connect to a bucket or container.

    The `options` of the source override Hadoop's settings, as in Spark. Raises UnsupportedError, with a reason that
    names the key and never a secret, if only Hadoop can open it.
    """
    if scheme in _S3_SCHEMES:
        return HadoopKeys.of(spark, options).settings(scheme, authority)
    try:
        if scheme in ("abfs", "abfss"):
            entries = _entries(spark, scheme, azure_settings.PREFIX, azure_settings.FILE_SYSTEMS, options)
            return azure_settings.azure_settings(entries, scheme, authority)
        if scheme == "gs":
            entries = _entries(spark, scheme, google_settings.PREFIX, google_settings.FILE_SYSTEMS, options)
            return google_settings.google_settings(entries)
        if scheme in ("hdfs", "viewfs"):
            raise UnsupportedError("Python needs libhdfs to read HDFS, and neither Spark nor pyarrow includes it")
        raise UnsupportedError("only Hadoop can read this file system")
    except UnsupportedError as problem:
        raise UnsupportedError(f"{scheme}://{authority}: {problem}") from None


def _entries(
    spark: SparkSession, scheme: str, prefix: str, file_systems: frozenset[str], options: Mapping[str, str]
) -> dict[str, str]:
    """Return the entries for a store that were set, without Hadoop's defaults."""
    hadoop = HadoopSettings(spark)
    implementation = f"fs.{scheme}.impl"
    if options.get(implementation, hadoop.value(implementation)) not in file_systems:
        raise UnsupportedError(f"{implementation} is another file system")
    if options.get(_CREDENTIAL_FILES, hadoop.value(_CREDENTIAL_FILES)):
        raise UnsupportedError(f"{_CREDENTIAL_FILES} is set, and only Hadoop reads credential files")
    entries = hadoop.explicit(prefix) | {key: value for key, value in options.items() if key.startswith(prefix)}
    return {key: value.strip() for key, value in entries.items()}
