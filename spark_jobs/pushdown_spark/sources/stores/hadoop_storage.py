"""Storage of files that only Hadoop can open. The driver reads samples and headers of them through the JVM."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.runtime.jvm_gateway import java_class, scala_map
from pushdown_spark.runtime.spark_internals import session_state
from pushdown_spark.sources.stores.listing import InputFile
from pushdown_spark.sources.stores.storage import Storage, storage_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_CHUNK = 256 << 10
"""Maximum number of bytes of one call to the JVM."""


class HadoopFile(io.RawIOBase):
    """An open file of a Hadoop file system, decompressed if a codec has the suffix of its name.

    `bytes_fetched` counts the bytes read since the file was opened.
    """

    def __init__(self, stream: JavaObject) -> None:
        super().__init__()
        self._stream = stream
        self.bytes_fetched = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # any buffer will do
        """Fill the buffer or a part of it. Return the number of bytes, 0 at the end. Raises OSError."""
        try:
            content = bytes(self._stream.readNBytes(min(len(buffer), _CHUNK)))
        except Py4JJavaError as problem:
            raise OSError(str(problem.java_exception.getMessage())) from problem
        buffer[: len(content)] = content
        self.bytes_fetched += len(content)
        return len(content)

    def close(self) -> None:
        """Close the stream."""
        if not self.closed:
            self._stream.close()
        super().close()


class HadoopStorage(Storage):
    """Opens files on the driver through Hadoop. Workers cannot use it, because they have no JVM."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        """The `options` of the source override Hadoop's settings, as in Spark."""
        super().__init__()
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        state = session_state(spark)
        self._configuration = state.newHadoopConfWithOptions(scala_map(spark, options))
        codecs = java_class(spark, "org.apache.hadoop.io.compress.CompressionCodecFactory")
        self._codecs = codecs(self._configuration)

    def __repr__(self) -> str:
        return "HadoopStorage()"

    def __reduce__(self) -> str:
        raise TypeError("Python workers cannot read files through Hadoop")

    def open(  # type: ignore[override]  # the driver reads files of a file system that Python does not know
        self, path: str, start: int = 0, stop: int | None = None, *, ahead: int = 0
    ) -> HadoopFile:
        """Open a file for reading from `start`. Hadoop decompresses it if only Hadoop has its codec.

        Raises OSError, and UnsupportedError for a codec that only Spark knows.
        """
        hadoop_path = self._path_class(path if "://" in path else f"file:{path}")
        try:
            file_system = hadoop_path.getFileSystem(self._configuration)
            if InputFile(path, path, 0).compression is None:
                codec = self._codecs.getCodec(hadoop_path)
                if codec is None:
                    raise UnsupportedError(f"{hadoop_path} may have a compression that only Spark supports")
                return HadoopFile(codec.createInputStream(file_system.open(hadoop_path)))
            stream = file_system.open(hadoop_path)
            stream.seek(start)
        except Py4JJavaError as problem:
            error = FileNotFoundError if "FileNotFound" in str(problem.java_exception.getClass()) else OSError
            raise error(str(problem.java_exception.getMessage())) from problem
        return HadoopFile(stream)


def driver_storage_for(spark: SparkSession, uris: Sequence[str], options: Mapping[str, str]) -> Storage:
    """Return the storage of files for the driver: through Hadoop if only Hadoop can open them."""
    try:
        return storage_for(spark, uris, options)
    except UnsupportedError:
        return HadoopStorage(spark, options)
