"""The connection settings of the stores that Python can read, from Hadoop's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.runtime.jvm_gateway import java_class, java_strings, scala_map
from pushdown_spark.runtime.spark_internals import session_state
from pushdown_spark.sources.stores import azure_settings, google_settings, hdfs_settings, s3_settings
from pushdown_spark.sources.stores.object_store import StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CREDENTIAL_FILES = "hadoop.security.credential.provider.path"
_USERS = "org.apache.hadoop.security.UserGroupInformation"
_DEFAULTS = "core-default.xml"
"""The file of Hadoop's own defaults."""


def store_settings(spark: SparkSession, uri: str, options: Mapping[str, str]) -> StoreSettings:
    """Return the settings that Spark's own reader would use to connect to the store of a file.

    The `options` of the source override Hadoop's settings, as in Spark. Raises UnsupportedError, with a reason that
    names the key and never a secret, if only Hadoop can open it.
    """
    parts = urlsplit(uri)
    scheme, authority = parts.scheme, parts.netloc
    public_authority = authority
    try:
        if scheme in ("s3a", "s3", "s3n"):
            # Hadoop once took a key and a secret before the @.
            public_authority = authority.rpartition("@")[2]
            hadoop = HadoopSettings(spark, options)
            entries = hadoop.entries(scheme, s3_settings.PREFIX, s3_settings.FILE_SYSTEMS)
            return s3_settings.s3_settings(entries, authority, hadoop.environment)
        if scheme in ("abfs", "abfss"):
            hadoop = HadoopSettings(spark, options)
            entries = hadoop.entries(scheme, azure_settings.PREFIX, azure_settings.FILE_SYSTEMS)
            return azure_settings.azure_settings(entries, scheme, authority)
        if scheme == "gs":
            hadoop = HadoopSettings(spark, options)
            entries = hadoop.entries(scheme, google_settings.PREFIX, google_settings.FILE_SYSTEMS)
            return google_settings.google_settings(entries)
        if scheme == "hdfs":
            hadoop = HadoopSettings(spark, options)
            hdfs = hdfs_settings.hdfs_settings(authority, hadoop.value, hadoop.user())
            hdfs_settings.check_same_file(hdfs, unquote(parts.path), hadoop.attributes(uri))
            return hdfs
        raise UnsupportedError("only Hadoop can read this file system")
    except UnsupportedError as problem:
        raise UnsupportedError(f"{scheme}://{public_authority}: {problem}") from None


class HadoopSettings:
    """The Hadoop settings of a source's reader: those of the context, the session, and the options of the source."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._spark = spark
        self._system = java_class(spark, "java.lang.System")
        self._configuration = session_state(spark).newHadoopConfWithOptions(scala_map(spark, options))

    def entries(self, scheme: str, prefix: str, file_systems: frozenset[str]) -> dict[str, str]:
        """Return the entries with a prefix whose values are not Hadoop's defaults. Their keys have the prefix.

        Raises UnsupportedError if the scheme belongs to none of the `file_systems`, or if only Hadoop can read the
        credentials.
        """
        if self.value(f"fs.{scheme}.impl") not in file_systems:
            raise UnsupportedError(f"fs.{scheme}.impl is another file system")
        if self.value(_CREDENTIAL_FILES):
            raise UnsupportedError(f"{_CREDENTIAL_FILES} is set, and only Hadoop reads credential files")
        entries = {key: str(self._configuration.get(key)) for key in self._keys(prefix)}
        return {key: value.strip() for key, value in entries.items()}

    def environment(self, name: str) -> str | None:
        """Return an environment variable of the driver's JVM, or None if it is not set."""
        value = self._system.getenv(name)
        return None if value is None else str(value)

    def value(self, key: str) -> str:
        """Return the value of a key or its default in Hadoop, or an empty string if it has none."""
        return str(self._configuration.get(key) or "").strip()

    def user(self) -> str:
        """Return the name of the user that Hadoop signs in."""
        return str(java_class(self._spark, _USERS).getCurrentUser().getShortUserName())

    def attributes(self, uri: str) -> dict[str, int]:
        """Return `length` and `modificationTime` of a file. Raises UnsupportedError if Hadoop cannot say."""
        path = java_class(self._spark, "org.apache.hadoop.fs.Path")(java_class(self._spark, "java.net.URI")(uri))
        try:
            status = path.getFileSystem(self._configuration).getFileStatus(path)
        except (Py4JJavaError, PySparkException) as problem:
            raise UnsupportedError(f"Hadoop cannot open {uri}") from problem
        return {"length": int(status.getLen()), "modificationTime": int(status.getModificationTime())}

    def _keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys with a prefix whose values are not Hadoop's defaults. The JVM compares them in one call."""
        defaults = java_class(self._spark, "org.apache.hadoop.conf.Configuration")(False)
        defaults.addResource(_DEFAULTS)
        entries = self._configuration.getPropsWithPrefix(prefix)
        entries.entrySet().removeAll(defaults.getPropsWithPrefix(prefix).entrySet())
        for name in java_strings(self._spark, entries.keySet().toArray()):
            yield f"{prefix}{name}"
