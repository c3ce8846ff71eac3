"""The few file operations that a job needs, on Hadoop's file systems and on this machine's own."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from py4j.protocol import Py4JJavaError

from pushdown_spark.gateway import java_class

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


DRAFT = ".draft"
"""How the names of files end that are being written."""


@dataclass(frozen=True)
class FileEntry:
    """One file: its full path, its length in bytes, and when it was modified (milliseconds since 1970)."""

    path: str
    length: int
    modified: int = 0


class Files(Protocol):
    """What the commit of an output needs of a file system. Paths are qualified strings such as `hdfs://nn/a/b`."""

    @property
    def moves_directories(self) -> bool:
        """Whether a directory moves in one atomic step; object stores copy and delete object by object."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory lies at the path."""

    def files(self, directory: str) -> Iterator[FileEntry]:
        """All files below a directory, at any depth."""

    def names(self, directory: str) -> list[str]:
        """Names of the entries of a directory; none where there is no such directory."""

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Paths below a directory that match a glob pattern, which is relative to it; `*` stays within one name."""

    def is_directory(self, path: str) -> bool:
        """Whether a directory lies at the path."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content; a missing path is no error."""

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if nothing is in it."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a free path of the same file system."""

    def create(self, path: str, text: str) -> bool:
        """Create a file with a text; False if another process has created it first.

        The text may become visible after the file does.
        """

    def write_text(self, path: str, text: str) -> None:
        """Write a file such that readers see all of the text or the file of before."""

    def read_text(self, path: str) -> str | None:
        """The text of a file; None if there is no such file."""


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


_MOVES_DIRECTORIES = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "maprfs"})
"""Schemes of file systems that rename a directory in one atomic step."""

_CREATE_IF_ABSENT = "fs.option.create.conditional.overwrite"
"""With this option S3A (Hadoop 3.4.2 and later) lets the store decide who creates an object; others ignore it."""

_ROOT = re.compile(r"[^/]+:(//[^/]*)?")
_GLOB_SIGNS = re.compile(r"([\\*?\[\]{}])")


class HadoopFiles:
    """Hadoop's `FileSystem` of a Spark session; local paths may lack a scheme.

    Failures of the file system itself come as `Py4JJavaError`, those found here as `OSError`. `moves_directories` says
    whether directories move atomically wherever the paths of this object lie.
    """

    def __init__(self, spark: SparkSession, *, moves_directories: bool = False) -> None:
        self._moves_directories = moves_directories
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    @property
    def moves_directories(self) -> bool:
        """Whether a directory moves in one atomic step."""
        return self._moves_directories

    def qualified(self, path: str) -> str:
        """The path with scheme and authority, absolute."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

    def split(self, path: str) -> tuple[str, str]:
        """The parent directory (without trailing slash) and the name; both empty for the root of a file system."""
        parent = self._path(path).getParent()
        return ("", "") if parent is None else (str(parent).rstrip("/"), str(self._path(path).getName()))

    def exists(self, path: str) -> bool:
        """Whether a file or directory lies at the path."""
        return bool(self._system(path).exists(self._path(path)))

    def length(self, path: str) -> int:
        """Length of a file in bytes, as stored."""
        return int(self._system(path).getFileStatus(self._path(path)).getLen())

    def files(self, directory: str) -> Iterator[FileEntry]:
        """All files below a directory, at any depth."""
        found = self._system(directory).listFiles(self._path(directory), True)
        while found.hasNext():
            status = found.next()
            yield FileEntry(str(status.getPath().toString()), int(status.getLen()))

    def names(self, directory: str) -> list[str]:
        """Names of what lies directly in a directory; none where there is no such directory."""
        if not self.exists(directory):
            return []
        return [str(status.getPath().getName()) for status in self._system(directory).listStatus(self._path(directory))]

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Paths below a directory that match a glob pattern, which is relative to it."""
        literal = _GLOB_SIGNS.sub(r"\\\1", directory)
        statuses = self._system(directory).globStatus(self._path_class(f"{literal}/{pattern}"))
        return [str(status.getPath().toString()) for status in statuses or ()]

    def is_directory(self, path: str) -> bool:
        """Whether a directory lies at the path."""
        return self.exists(path) and bool(self._system(path).getFileStatus(self._path(path)).isDirectory())

    def delete(self, path: str) -> None:
        """Deletes a file, or a directory with all that is in it; nothing there is no error."""
        target = self._path(path)
        system = self._system(path)
        if not system.delete(target, True) and system.exists(target):
            raise OSError(f"cannot delete {path}")

    def make_directory(self, path: str) -> None:
        """Makes a directory and its parents."""
        if not self._system(path).mkdirs(self._path(path)):
            raise OSError(f"cannot make the directory {path}")

    def rename(self, source: str, target: str) -> None:
        """Moves a file or directory to a path where nothing lies yet, within one file system.

        Hadoop alone would move a source *into* a directory that is there already, and tells failures by a flag.
        """
        if self.exists(target):
            raise FileExistsError(f"cannot move {source} to {target}: something is there already")
        if not self._system(source).rename(self._path(source), self._path(target)):
            raise OSError(f"cannot move {source} to {target}")

    def delete_empty(self, directory: str) -> None:
        """Deletes a directory if nothing is in it."""
        # File systems differ in the exception for a directory that is not empty.
        with suppress(Py4JJavaError):
            self._system(directory).delete(self._path(directory), False)

    def create(self, path: str, text: str) -> bool:
        """Creates a file with a text; False if another process has created it first."""
        builder = self._system(path).createFile(self._path(path)).recursive().overwrite(False)
        try:
            stream = builder.opt(_CREATE_IF_ABSENT, True).build()
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Py4JJavaError:
            # Some stores refuse when the file is made, others when it is closed; the content says who made it.
            found = self.read_text(path)
            if found is None:
                raise
            return found == text
        return True

    def write_text(self, path: str, text: str) -> None:
        """Writes a small file in UTF-8 such that readers see all of it or nothing."""
        parent, _, name = path.rpartition("/")
        # Object stores show a file when it is complete.
        draft = f"{parent}/.{name}{DRAFT}" if self._moves_directories else path
        stream = self._system(path).create(self._path(draft), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if draft != path:
            self.delete(path)
            self.rename(draft, path)

    def read_text(self, path: str) -> str | None:
        """The text of a small file; None if there is no such file."""
        if not self.exists(path):
            return None
        try:
            stream = self._system(path).open(self._path(path))
        except Py4JJavaError:
            if self.exists(path):
                raise
            return None
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _path(self, path: str) -> JavaObject:
        """Hadoop's path; the root of a file system needs a slash, which the parents of paths here lack."""
        return self._path_class(f"{path}/" if _ROOT.fullmatch(path) else path)

    def _system(self, path: str) -> JavaObject:
        return self._path(path).getFileSystem(self._configuration)


_DELETE_ATTEMPTS, _DELETE_PAUSE_SECONDS = 10, 0.1
"""Executors end a moment after their driver and may put files back while they are deleted."""


class LocalFiles:
    """The file system of this machine, without Hadoop: it works when the JVM is gone, and never falls back to copies.

    Hadoop's local file system keeps a checksum `.name.crc` beside each file. Such a file moves and goes with its file,
    and no listing shows it. Paths are qualified as `file:/a/b`.
    """

    moves_directories = True

    def exists(self, path: str) -> bool:
        """Whether a file or directory lies at the path."""
        return _local(path).exists()

    def is_directory(self, path: str) -> bool:
        """Whether a directory lies at the path."""
        return _local(path).is_dir()

    def files(self, directory: str) -> Iterator[FileEntry]:
        """All files below a directory, at any depth."""
        for folder, _, names in os.walk(_local(directory)):
            for name in filter(_is_no_checksum, names):
                status = Path(folder, name).stat()
                yield FileEntry(f"file:{folder}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        """Names of the entries of a directory; none where there is no such directory."""
        try:
            return [entry.name for entry in _local(directory).iterdir() if _is_no_checksum(entry.name)]
        except FileNotFoundError:
            return []

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Paths below a directory that match a glob pattern, which is relative to it."""
        found = Path("/").glob(f"{escape(str(_local(directory)))[1:]}/{pattern}")
        return [f"file:{path}" for path in found if _is_no_checksum(path.name)]

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content; a missing path is no error."""
        target = _local(path)
        if not target.is_dir():
            target.unlink(missing_ok=True)
            _checksum(target).unlink(missing_ok=True)
            return
        for attempt in range(_DELETE_ATTEMPTS):
            last = attempt == _DELETE_ATTEMPTS - 1
            shutil.rmtree(target, ignore_errors=not last)
            if not target.exists():
                return
            time.sleep(_DELETE_PAUSE_SECONDS)

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if nothing is in it."""
        with suppress(OSError):
            _local(directory).rmdir()

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents."""
        _local(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a path where nothing lies yet, within one file system.

        The parent of the target must exist. A move to another device fails: a copy that is killed halfway could not be
        told from one that had ended.
        """
        old, new = _local(source), _local(target)
        if new.exists():
            raise FileExistsError(f"cannot move {source} to {target}: something is there already")
        old.rename(new)
        if _checksum(old).exists():
            _checksum(old).replace(_checksum(new))

    def create(self, path: str, text: str) -> bool:
        """Create a file with a text; False if another process has created it first."""
        target = _local(path)
        while True:
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                with target.open("x", encoding="utf-8") as file:
                    file.write(text)
                return True
            except FileExistsError:
                return False
            except FileNotFoundError:
                # Another process has deleted the empty directory in between.
                continue

    def write_text(self, path: str, text: str) -> None:
        """Write a file such that readers see all of the text or the file of before."""
        target = _local(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}{DRAFT}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)

    def read_text(self, path: str) -> str | None:
        """The text of a file; None if there is no such file."""
        try:
            return _local(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def open_files(spark: SparkSession, path: str) -> Files:
    """The file system of a qualified path."""
    if local_path(path) is not None:
        return LocalFiles()
    return HadoopFiles(spark, moves_directories=path.partition(":")[0] in _MOVES_DIRECTORIES)


def _local(path: str) -> Path:
    found = local_path(path)
    if found is None:
        raise ValueError(f"{path} is not a path of this machine's own file system")
    return found


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _is_no_checksum(name: str) -> bool:
    return not (name.startswith(".") and name.endswith(".crc"))


def local_path(path: str) -> Path | None:
    """Where a qualified path lies in this machine's own file system; None for any other."""
    scheme, _, rest = path.partition(":")
    return Path(f"/{rest.lstrip('/')}") if scheme == "file" else None
