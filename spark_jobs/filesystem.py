"""The few file operations the job needs, on whatever file system Hadoop finds behind a path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.gateway import java_class

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class FileEntry:
    """One file: its full path, its length in bytes, and when it was modified (milliseconds since 1970)."""

    path: str
    length: int
    modified: int = 0


class HadoopSettings:
    """The Hadoop configuration that a Spark session's readers get: the context's, and what the session sets on top."""

    def __init__(self, spark: SparkSession) -> None:
        self._system = java_class(spark, "java.lang.System")
        self._configuration = spark._jsparkSession.sessionState().newHadoopConf()

    def value(self, key: str) -> str:
        """The value of a key, Hadoop's default included; empty where it has none."""
        return str(self._configuration.get(key) or "")

    def explicit(self, prefix: str) -> dict[str, str]:
        """All entries whose keys begin with the prefix and that somebody set: Hadoop's defaults are left out."""
        below = self._configuration.getPropsWithPrefix(prefix)
        return {prefix + rest: str(below[rest]) for rest in below if self._is_explicit(prefix + rest)}

    def environment(self, name: str) -> str | None:
        """A variable of the environment that the driver's JVM runs in."""
        found = self._system.getenv(name)
        return None if found is None else str(found)

    def _is_explicit(self, key: str) -> bool:
        sources = self._configuration.getPropertySources(key)
        return sources is None or list(sources) != ["core-default.xml"]


class HadoopFiles:
    """Hadoop's `FileSystem` of a Spark session; paths are plain texts, local ones may lack a scheme.

    Failures of the file system itself come as `Py4JJavaError`, those found here as `OSError`.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    def qualified(self, path: str) -> str:
        """The path with scheme and authority, absolute."""
        return str(self._system(path).makeQualified(self._path_class(path)).toString())

    def split(self, path: str) -> tuple[str, str]:
        """The parent directory (without trailing slash) and the name; both empty for the root of a file system."""
        parent = self._path_class(path).getParent()
        return ("", "") if parent is None else (str(parent).rstrip("/"), str(self._path_class(path).getName()))

    def exists(self, path: str) -> bool:
        """Whether a file or directory lies at the path."""
        return bool(self._system(path).exists(self._path_class(path)))

    def length(self, path: str) -> int:
        """Length of a file in bytes, as stored."""
        return int(self._system(path).getFileStatus(self._path_class(path)).getLen())

    def files(self, directory: str) -> Iterator[FileEntry]:
        """All files below a directory, at any depth."""
        found = self._system(directory).listFiles(self._path_class(directory), True)
        while found.hasNext():
            status = found.next()
            yield FileEntry(str(status.getPath().toString()), int(status.getLen()))

    def names(self, directory: str) -> list[str]:
        """Names of what lies directly in a directory; none where there is no such directory."""
        if not self.exists(directory):
            return []
        return [
            str(status.getPath().getName())
            for status in self._system(directory).listStatus(self._path_class(directory))
        ]

    def delete(self, path: str) -> None:
        """Deletes a file, or a directory with all that is in it; nothing there is no error."""
        target = self._path_class(path)
        system = self._system(path)
        if not system.delete(target, True) and system.exists(target):
            raise OSError(f"cannot delete {path}")

    def make_directory(self, path: str) -> None:
        """Makes a directory and its parents."""
        if not self._system(path).mkdirs(self._path_class(path)):
            raise OSError(f"cannot make the directory {path}")

    def rename(self, source: str, target: str) -> None:
        """Moves a file or directory to a path where nothing lies yet, within one file system.

        Hadoop alone would move a source *into* a directory that is there already, and tells failures by a flag.
        """
        if self.exists(target):
            raise FileExistsError(f"cannot move {source} to {target}: something is there already")
        if not self._system(source).rename(self._path_class(source), self._path_class(target)):
            raise OSError(f"cannot move {source} to {target}")

    def write_text(self, path: str, text: str) -> None:
        """Writes a small file in UTF-8 such that readers see all of it or nothing."""
        parent, _, name = path.rpartition("/")
        draft = f"{parent}/.{name}.draft"
        stream = self._system(path).create(self._path_class(draft), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        self.delete(path)
        self.rename(draft, path)

    def _system(self, path: str) -> JavaObject:
        return self._path_class(path).getFileSystem(self._configuration)


def local_path(path: str) -> Path | None:
    """Where a qualified path lies in this machine's own file system; None for any other."""
    scheme, _, rest = path.partition(":")
    return Path(f"/{rest.lstrip('/')}") if scheme == "file" else None
