"""File operations of a job on Hadoop's file systems, and the choice of the implementation for a path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from pushdown_spark.local_paths import escape_glob, is_local, local_path
from pushdown_spark.runtime.file_systems.base_files import DRAFT, FileEntry, Files
from pushdown_spark.runtime.file_systems.file_paths import is_root, moves_directories
from pushdown_spark.runtime.file_systems.local_files import LocalFiles
from pushdown_spark.runtime.jvm_gateway import class_name, java_array, java_class, java_string
from pushdown_spark.runtime.spark_internals import reader_configuration

if TYPE_CHECKING:
    from py4j.java_gateway import JavaClass, JavaObject
    from pyspark.sql import SparkSession

_CREATE_IF_ABSENT = "fs.option.create.conditional.overwrite"
"""With this option, S3A of Hadoop 3.4.2 and later creates an object only if it does not exist."""

_READ_ATTEMPTS = 5
"""HDFS fails to read a file that another process deletes or replaces at that moment."""
_NO_FILE_CONTEXT = "UnsupportedFileSystemException"


class HadoopFiles:
    """Hadoop's `FileSystem` of a Spark session. Local paths need no scheme.

    Methods raise `Py4JJavaError` for failures of the file system, and `OSError` for those that it does not report as
    exceptions. `moves_directories` is whether the file system renames directories atomically.
    """

    def __init__(self, spark: SparkSession, *, moves_directories: bool = False) -> None:
        self.moves_directories = moves_directories
        self._spark = spark
        self._path_class = java_class(spark, "org.apache.hadoop.fs.Path")
        self._configuration = reader_configuration(spark, {})

    def qualify(self, path: str) -> str:
        """Return an absolute path with scheme and authority."""
        return str(self._system(path).makeQualified(self._path(path)).toString())

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
        """Yield all files below a directory, at any depth, except those that other processes delete in the meantime."""
        paths = set()
        try:
            # Object stores list all files at once.
            statuses = self._system(directory).listFiles(self._path(directory), True)
            while statuses.hasNext():
                entry = _file_entry(statuses.next())
                paths.add(entry.path)
                yield entry
        except Py4JJavaError:
            # This listing fails if one of the directories is deleted. The other directories can still be listed.
            yield from (entry for entry in self._walk(directory) if entry.path not in paths)

    def _walk(self, directory: str) -> Iterator[FileEntry]:
        """Yield all files below a directory with one listing for each directory."""
        for status in self._list(directory):
            if status.isDirectory():
                yield from self._walk(str(status.getPath().toString()))
            else:
                yield _file_entry(status)

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, or none if it does not exist."""
        return [str(status.getPath().getName()) for status in self._list(directory)]

    def _list(self, directory: str) -> Iterable[JavaObject]:
        """Return the entries of a directory, or none if it does not exist."""
        if not self.exists(directory):
            return ()
        try:
            return tuple(self._system(directory).listStatus(self._path(directory)))
        except Py4JJavaError:
            # Another process may delete an empty directory at any time.
            if self.exists(directory):
                raise
            return ()

    def glob(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory."""
        return self.expand(f"{escape_glob(directory)}/{pattern}")

    def expand(self, pattern: str) -> list[str]:
        """Return the qualified paths that match a glob pattern."""
        path = self._path_class(pattern)
        util = java_class(self._spark, "org.apache.spark.deploy.SparkHadoopUtil").get()
        statuses = util.globPath(path.getFileSystem(self._configuration), path)
        # One string instead of two calls for each path.
        paths = java_string(self._spark, statuses.mkString("\0"))
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

    def delete_empty_tree(self, directory: str) -> None:
        """Delete the directories of a tree that have no files, the innermost first."""
        for status in self._list(directory):
            path = str(status.getPath().toString())
            if status.isDirectory() and not _is_local_link(path):
                self.delete_empty_tree(path)
        self.delete_empty(directory)

    def create(self, path: str, text: str) -> bool:
        """Create a file with this content. Return False if another process has created it first."""
        builder = self._system(path).createFile(self._path(path)).recursive().overwrite(False)
        try:
            _write(builder.opt(_CREATE_IF_ABSENT, True).build(), text)
        except Py4JJavaError:
            # Some stores fail when the file is created, others when it is closed. The content identifies the creator.
            content = self.read_text(path)
            if content is None:
                raise
            return content == text
        return True

    def write_text(self, path: str, text: str) -> None:
        """Write a small UTF-8 file so that readers see the whole text or the previous file.

        File systems other than HDFS and object stores show no file for a moment.
        """
        parent, _, name = path.rpartition("/")
        # Object stores only show complete files.
        draft = f"{parent}/.{name}{DRAFT}" if self.moves_directories else path
        _write(self._create(draft), text)
        if draft != path:
            self._replace(draft, path)

    def _replace(self, source: str, target: str) -> None:
        """Move a file to the path of another one. HDFS does that in one step."""
        try:
            context = self._java_class("org.apache.hadoop.fs.FileContext").getFileContext(
                self._path(target).toUri(), self._configuration
            )
        except Py4JJavaError as problem:
            if class_name(problem.java_exception) != _NO_FILE_CONTEXT:
                raise
            self.delete(target)
            self.rename(source, target)
            return
        rename_option = self._java_class("org.apache.hadoop.fs.Options$Rename")
        options = java_array(rename_option, [rename_option.OVERWRITE])
        context.rename(self._path(source), self._path(target), options)

    def read_text(self, path: str) -> str | None:
        """Return the content of a small file, or None if it does not exist."""
        attempts = _READ_ATTEMPTS
        while self.exists(path):
            attempts -= 1
            try:
                return self._read(path)
            except Py4JJavaError:
                if not attempts:
                    raise
        return None

    def _read(self, path: str) -> str:
        stream = self._system(path).open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _create(self, path: str) -> JavaObject:
        """Return the stream of a new file. Directories are created as well."""
        return self._system(path).create(self._path(path), True)

    def _path(self, path: str) -> JavaObject:
        """Return Hadoop's path. `split` returns the root without the final slash, which Hadoop needs."""
        return self._path_class(f"{path}/" if is_root(path) else path)

    def _system(self, path: str) -> JavaObject:
        return self._path(path).getFileSystem(self._configuration)

    def _java_class(self, name: str) -> JavaClass:
        return java_class(self._spark, name)


def _is_local_link(path: str) -> bool:
    """Return whether a path is a symbolic link on a local disk. Hadoop's listings follow it."""
    local = local_path(path)
    return local is not None and Path(local).is_symlink()


def _file_entry(status: JavaObject) -> FileEntry:
    return FileEntry(str(status.getPath().toString()), int(status.getLen()))


def _write(stream: JavaObject, text: str) -> None:
    """Write a string to a stream and close it."""
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def open_files(spark: SparkSession, path: str) -> Files:
    """Return the file system of a qualified path."""
    if is_local(path):
        return LocalFiles()
    return HadoopFiles(spark, moves_directories=moves_directories(path))
