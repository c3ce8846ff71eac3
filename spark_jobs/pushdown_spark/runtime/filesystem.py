"""File operations of a job, on Hadoop's file systems and on the local file system."""

from __future__ import annotations

import errno
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

from pushdown_spark.errors import BadSpecError
from pushdown_spark.runtime.jvm_gateway import java_class, java_string

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession


DRAFT = ".draft"
"""The suffix of files that are being written."""


@dataclass(frozen=True)
class FileEntry:
    """One file: its full path, its length in bytes, and its modification time in milliseconds since 1970."""

    path: str
    length: int
    modified: int = 0


class Files(Protocol):
    """The operations that the commit of an output needs. Paths are qualified strings such as `hdfs://nn/a/b`."""

    @property
    def moves_directories(self) -> bool:
        """Whether a directory is renamed in one atomic step. Object stores copy and delete single objects."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def files(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files below a directory, at any depth."""

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, none if it does not exist."""

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory. `*` matches within one name."""

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content. A missing path is not an error."""

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a path of the same file system that does not exist."""

    def create(self, path: str, text: str) -> bool:
        """Create a file with a text. Return False if another process has created it first.

        The text may become visible after the file does.
        """

    def write_text(self, path: str, text: str) -> None:
        """Write a file so that readers see the whole text or the previous file."""

    def read_text(self, path: str) -> str | None:
        """Return the text of a file, None if it does not exist."""


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


_MOVES_DIRECTORIES = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "maprfs"})
"""Schemes of file systems that rename a directory in one atomic step."""

_CREATE_IF_ABSENT = "fs.option.create.conditional.overwrite"
"""With this option, S3A of Hadoop 3.4.2 and later creates an object only if it does not exist."""

_ROOT = re.compile(r"[^/]+:(//[^/]*)?")
_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{}])")


class HadoopFiles:
    """Hadoop's `FileSystem` of a Spark session. Local paths need no scheme.

    Methods raise `Py4JJavaError` for failures of the file system, and `OSError` for those that it does not report as
    exceptions. `moves_directories` is whether the file system renames directories atomically.
    """

    def __init__(self, spark: SparkSession, *, moves_directories: bool = False) -> None:
        self._moves_directories = moves_directories
        self._spark = spark
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    @property
    def moves_directories(self) -> bool:
        """Whether a directory is renamed in one atomic step."""
        return self._moves_directories

    def qualified(self, path: str) -> str:
        """Return an absolute path with scheme and authority."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

    def canonical(self, path: str) -> str:
        """Return the one spelling of all paths that lead to a file: absolute, without links of the local disk."""
        return one_spelling(self.qualified(path))

    def split(self, path: str) -> tuple[str, str]:
        """Return the parent directory without trailing slash and the name. Both are empty for the root."""
        parent = self._path(path).getParent()
        return ("", "") if parent is None else (str(parent).rstrip("/"), str(self._path(path).getName()))

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return bool(self._system(path).exists(self._path(path)))

    def length(self, path: str) -> int:
        """Return the length of a file in bytes, as stored."""
        return int(self._system(path).getFileStatus(self._path(path)).getLen())

    def files(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files below a directory, at any depth."""
        statuses = self._system(directory).listFiles(self._path(directory), True)
        while statuses.hasNext():
            status = statuses.next()
            yield FileEntry(str(status.getPath().toString()), int(status.getLen()))

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, none if it does not exist."""
        if not self.exists(directory):
            return []
        try:
            statuses = self._system(directory).listStatus(self._path(directory))
        except Py4JJavaError:
            # Another process may delete an empty directory at any time.
            if self.exists(directory):
                raise
            return []
        return [str(status.getPath().getName()) for status in statuses]

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory."""
        literal = _GLOB_CHARACTERS.sub(r"\\\1", directory)
        return self.expanded(f"{literal}/{pattern}")

    def expanded(self, pattern: str) -> list[str]:
        """Return the qualified paths that match a glob pattern."""
        path = self._path_class(pattern)
        util = java_class(self._spark, "org.apache.spark.deploy.SparkHadoopUtil").get()
        found = util.globPath(path.getFileSystem(self._configuration), path)
        # One string instead of two calls for each path.
        paths = java_string(self._spark, found.mkString("\0"))
        return paths.split("\0") if paths else []

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""
        return self.exists(path) and bool(self._system(path).getFileStatus(self._path(path)).isDirectory())

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content. A missing path is not an error."""
        target = self._path(path)
        system = self._system(path)
        if not system.delete(target, True) and system.exists(target):
            raise OSError(f"cannot delete {path}")

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        if not self._system(path).mkdirs(self._path(path)):
            raise OSError(f"cannot create the directory {path}")

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a path of the same file system that does not exist.

        Hadoop's own method moves a source *into* an existing directory, and returns False instead of raising.
        """
        if self.exists(target):
            raise FileExistsError(f"cannot move {source} to {target}: the target already exists")
        if not self._system(source).rename(self._path(source), self._path(target)):
            raise OSError(f"cannot move {source} to {target}")

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty."""
        # File systems raise different exceptions for a directory that is not empty.
        with suppress(Py4JJavaError):
            self._system(directory).delete(self._path(directory), False)

    def create(self, path: str, text: str) -> bool:
        """Create a file with a text. Return False if another process has created it first."""
        builder = self._system(path).createFile(self._path(path)).recursive().overwrite(False)
        try:
            stream = builder.opt(_CREATE_IF_ABSENT, True).build()
            try:
                stream.write(bytearray(text.encode()))
            finally:
                stream.close()
        except Py4JJavaError:
            # Some stores fail when the file is created, others when it is closed. The content identifies the creator.
            content = self.read_text(path)
            if content is None:
                raise
            return content == text
        return True

    def write_text(self, path: str, text: str) -> None:
        """Write a small UTF-8 file so that readers see the whole text or no file."""
        parent, _, name = path.rpartition("/")
        # Object stores only show complete files.
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
        """Return the text of a small file, None if it does not exist."""
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
        """Return Hadoop's path. `split` returns the root without the final slash, which Hadoop needs."""
        return self._path_class(f"{path}/" if _ROOT.fullmatch(path) else path)

    def _system(self, path: str) -> JavaObject:
        return self._path(path).getFileSystem(self._configuration)


_DELETE_ATTEMPTS, _DELETE_PAUSE_SECONDS = 10, 0.1
"""Executors end shortly after their driver and may write files during the deletion."""


class LocalFiles:
    """The local file system without Hadoop. It works after the JVM has ended, and does not fall back to copies.

    Hadoop's local file system writes a checksum `.name.crc` next to each file. Checksums are moved and deleted with
    their files, and listings omit them. Paths are qualified as `file:/a/b`.
    """

    moves_directories = True

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return _local(path).exists()

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""
        return _local(path).is_dir()

    def files(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files below a directory, at any depth."""
        for folder, _, names in os.walk(_local(directory)):
            for name in filter(_is_not_checksum, names):
                status = Path(folder, name).stat()
                yield FileEntry(f"file:{folder}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, none if it does not exist."""
        try:
            return [entry.name for entry in _local(directory).iterdir() if _is_not_checksum(entry.name)]
        except FileNotFoundError:
            return []

    def matching(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory."""
        paths = Path("/").glob(f"{escape(str(_local(directory)))[1:]}/{pattern}")
        return [f"file:{path}" for path in paths if _is_not_checksum(path.name)]

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content. A missing path is not an error."""
        target = _local(path)
        if not target.is_dir():
            target.unlink(missing_ok=True)
            _checksum(target).unlink(missing_ok=True)
            return
        for attempt in range(_DELETE_ATTEMPTS):
            is_last = attempt == _DELETE_ATTEMPTS - 1
            shutil.rmtree(target, ignore_errors=not is_last)
            if not target.exists():
                return
            time.sleep(_DELETE_PAUSE_SECONDS)

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty."""
        with suppress(OSError):
            _local(directory).rmdir()

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        _local(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a path of the same file system that does not exist.

        The parent of the target must exist. Raises BadSpecError for a move to another device: an interrupted copy would
        look like a complete one.
        """
        old, new = _local(source), _local(target)
        if new.exists():
            raise FileExistsError(f"cannot move {source} to {target}: the target already exists")
        try:
            old.rename(new)
        except OSError as problem:
            if problem.errno not in (errno.EXDEV, errno.EBUSY):
                raise
            raise BadSpecError(
                f"output.path: cannot move {source} to {target}, because one of them is a mount point or a link to "
                "another device; write to a directory inside it"
            ) from problem
        if _checksum(old).exists():
            _checksum(old).replace(_checksum(new))

    def create(self, path: str, text: str) -> bool:
        """Create a file with a text. Return False if another process has created it first."""
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
                # Another process has deleted the empty directory in the meantime.
                continue

    def write_text(self, path: str, text: str) -> None:
        """Write a file so that readers see the whole text or the previous file."""
        target = _local(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}{DRAFT}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(target)

    def read_text(self, path: str) -> str | None:
        """Return the text of a file, None if it does not exist."""
        try:
            return _local(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


def open_files(spark: SparkSession, path: str) -> Files:
    """Return the file system of a qualified path."""
    if local_path(path) is not None:
        return LocalFiles()
    return HadoopFiles(spark, moves_directories=moves_directories(path))


def moves_directories(path: str) -> bool:
    """Return whether the file system of a qualified path renames a directory in one atomic step."""
    return path.partition(":")[0] in _MOVES_DIRECTORIES


_STORE_NAMES = {
    "s3": "s3a",
    "s3n": "s3a",
    "abfs": "abfss",
    "wasb": "abfss",
    "wasbs": "abfss",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
}
"""Schemes that lead to the same files as another one."""


def one_spelling(path: str) -> str:
    """Return a qualified path with one name for each store, and without links of the local disk.

    >>> one_spelling("s3://lake/raw/"), one_spelling("wasb://lake@store.blob.core.windows.net/raw")
    ('s3a://lake/raw', 'abfss://lake@store.dfs.core.windows.net/raw')
    >>> one_spelling("file:///"), one_spelling("hdfs://node:8020/")
    ('file:', 'hdfs://node')
    """
    local = local_path(path)
    if local is not None:
        return f"file:{os.path.realpath(local)}".rstrip("/")
    scheme, separator, rest = path.partition("://")
    scheme = _STORE_NAMES.get(scheme, scheme)
    authority, slash, key = rest.partition("/")
    # The port of a name node depends on the protocol.
    authority = authority.partition(":")[0] if scheme == "hdfs" else authority.replace(".blob.", ".dfs.")
    return f"{scheme}{separator}{authority}{slash}{key}".rstrip("/")


def _local(path: str) -> Path:
    local = local_path(path)
    if local is None:
        raise ValueError(f"{path} is not a local path")
    return local


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _is_not_checksum(name: str) -> bool:
    return not (name.startswith(".") and name.endswith(".crc"))


def local_path(path: str) -> Path | None:
    """Return a qualified path as a local path, None for another file system."""
    scheme, _, rest = path.partition(":")
    return Path(f"/{rest.lstrip('/')}") if scheme == "file" else None
