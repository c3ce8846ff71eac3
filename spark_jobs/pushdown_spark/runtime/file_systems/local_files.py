"""The local file system without Hadoop."""

from __future__ import annotations

import errno
import fnmatch
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pushdown_spark.errors import BadSpecError
from pushdown_spark.local_paths import local_path
from pushdown_spark.runtime.file_systems.base_files import DRAFT, FileEntry

T = TypeVar("T")

_WILDCARDS = frozenset("*?[")

_DELETE_ATTEMPTS, _DELETE_PAUSE_SECONDS = 10, 0.1
"""Executors end shortly after their driver and may write files during the deletion."""
_CREATE_ATTEMPTS, _CREATE_PAUSE_SECONDS = 5_000, 0.001
"""How often the creation of a directory is tried again while other processes delete it."""


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
        """Yield all files below a directory, at any depth, except those that other processes delete in the meantime."""
        for folder, _, names in os.walk(_local(directory), onerror=_raise_unless_missing):
            for name in filter(_is_not_checksum, names):
                try:
                    status = Path(folder, name).lstat()
                except FileNotFoundError:
                    continue
                yield FileEntry(f"file:{folder}/{name}", status.st_size, status.st_mtime_ns // 1_000_000)

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, or none if there is no directory."""
        try:
            return [entry.name for entry in _local(directory).iterdir() if _is_not_checksum(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def glob(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory.

        `Path.glob` fails if another process deletes a directory meanwhile, and `glob.glob` hides all errors of a disk.
        """
        step, _, rest = pattern.partition("/")
        # A name without wildcards is found in directories, too, that the process may not list.
        is_name = _WILDCARDS.isdisjoint(step)
        names = [step] if is_name else fnmatch.filter(self.names(directory), step)
        paths = [f"{directory}/{name}" for name in names]
        if rest:
            return [inner for path in paths for inner in self.glob(path, rest)]
        return list(filter(self.exists, paths)) if is_name else paths

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

    def delete_empty_tree(self, directory: str) -> None:
        """Delete the directories of a tree that have no files, the innermost first."""
        for folder, _, _ in os.walk(_local(directory), topdown=False):
            with suppress(OSError):
                Path(folder).rmdir()

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        _make_directory(_local(path))

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
                f"output: cannot move {source} to {target}, because one of them is a mount point or a link to "
                "another device; write to a directory inside it"
            ) from problem
        if _checksum(old).exists():
            _checksum(old).replace(_checksum(new))

    def create(self, path: str, text: str) -> bool:
        """Create a file with this content. Return False if another process has created it first."""
        target = _local(path)

        def create() -> bool:
            try:
                file = target.open("x", encoding="utf-8")
            except FileExistsError:
                return False
            with _deleted_on_failure(target), file:
                file.write(text)
            return True

        return _create_in(target.parent, create)

    def write_text(self, path: str, text: str) -> None:
        """Write a file so that readers see the whole text or the previous file, also after a power failure."""
        target = _local(path)
        draft = target.with_name(f".{target.name}{DRAFT}")

        def write() -> None:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())

        with _deleted_on_failure(draft):
            _create_in(target.parent, write)
            draft.replace(target)

    def read_text(self, path: str) -> str | None:
        """Return the content of a file, or None if it does not exist."""
        try:
            return _local(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None


@contextmanager
def _deleted_on_failure(file: Path) -> Iterator[None]:
    """Delete a file if the block cannot write it, for example because the disk is full."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            file.unlink()
        raise


def _raise_unless_missing(problem: OSError) -> None:
    if not isinstance(problem, FileNotFoundError | NotADirectoryError):
        raise problem


def _local(path: str) -> Path:
    local = local_path(path)
    if local is None:
        raise ValueError(f"{path} is not a local path")
    return Path(local)


def _create_in(directory: Path, create: Callable[[], T]) -> T:
    """Create a file in a directory, again while other processes delete the empty directory. Return the result."""
    while True:
        _make_directory(directory)
        with suppress(FileNotFoundError):
            return create()


def _make_directory(path: Path) -> None:
    """Create a directory and its parents, also while other processes create and delete them.

    `Path.mkdir` fails if the directory or its parent is deleted between two of its steps.
    """
    for _ in range(_CREATE_ATTEMPTS):
        try:
            path.mkdir(parents=True, exist_ok=True)
            return
        except (FileExistsError, FileNotFoundError):
            if path.is_file():
                raise
        time.sleep(_CREATE_PAUSE_SECONDS)
    path.mkdir(parents=True, exist_ok=True)


def _checksum(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _is_not_checksum(name: str) -> bool:
    return not (name.startswith(".") and name.endswith(".crc"))
