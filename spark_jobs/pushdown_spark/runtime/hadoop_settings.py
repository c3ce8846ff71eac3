"""The Hadoop settings of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pushdown_spark.runtime.jvm_gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HadoopSettings:
    """The Hadoop configuration of a session's readers: that of the context and the settings of the session."""

    def __init__(self, spark: SparkSession) -> None:
        self._system = java_class(spark, "java.lang.System")
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def value(self, key: str) -> str:
        """Return the value of a key or its default in Hadoop, empty if it has none."""
        return str(self._configuration.get(key) or "")

    def explicit(self, prefix: str) -> dict[str, str]:
        """Return the settings whose keys start with a prefix, without Hadoop's defaults."""
        settings = self._configuration.getPropsWithPrefix(prefix)
        return {prefix + rest: str(settings[rest]) for rest in settings if self._is_explicit(prefix + rest)}

    def environment(self, name: str) -> str | None:
        """Return an environment variable of the driver's JVM."""
        value = self._system.getenv(name)
        return None if value is None else str(value)

    def _is_explicit(self, key: str) -> bool:
        sources = self._configuration.getPropertySources(key)
        return sources is None or list(sources) != ["core-default.xml"]
