"""Access to Hadoop's file systems before a Spark session exists, with the settings of spark-submit."""

from __future__ import annotations

import re

from py4j.java_gateway import JavaClass, JavaObject
from pyspark import SparkContext

from pushdown_spark.errors import PushdownError
from pushdown_spark.runtime.file_paths import moves_directories
from pushdown_spark.runtime.filesystem import HadoopFiles

_REMOTE = re.compile(r"^(?!file:)[A-Za-z][A-Za-z0-9+.-]*://")


class SubmittedFiles(HadoopFiles):
    """Hadoop's file systems in the JVM that spark-submit started, or in a new JVM without one."""

    def __init__(self, path: str) -> None:
        """Open the file system of a URI."""
        SparkContext._ensure_initialized()
        view = SparkContext._jvm
        if view is None:
            raise PushdownError("this Python has no JVM of its own; submit the job with spark-submit")
        self._client = view._gateway_client
        self._path_class = self._java_class("org.apache.hadoop.fs.Path")
        settings = self._java_class("org.apache.spark.SparkConf")()
        utilities = self._java_class("org.apache.spark.deploy.SparkHadoopUtil").get()
        self._configuration = utilities.newConfiguration(settings)
        self._moves_directories = moves_directories(path)

    def credential(self, alias: str) -> str | None:
        """Return an entry of the Hadoop credential providers, None if there is no provider or no entry."""
        characters = self._configuration.getPasswordFromCredentialProviders(alias)
        return None if characters is None else "".join(map(str, characters))

    def _create(self, path: str) -> JavaObject:
        """Return the stream of a new file. If its directory is missing, the task has ended, and this fails."""
        if not self._moves_directories:
            return super()._create(path)
        return self._system(path).createFile(self._path(path)).overwrite(True).build()

    def _java_class(self, name: str) -> JavaClass:
        return JavaClass(name, self._client)


def is_remote(path: str) -> bool:
    """Return whether a path is the URI of another file system than that of this machine."""
    return _REMOTE.match(path) is not None
