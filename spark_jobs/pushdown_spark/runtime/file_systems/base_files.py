"""The interface of file systems, with the operations that jobs need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

DRAFT = ".draft"
"""The suffix of files that are being written."""


def is_hidden(name: str) -> bool:
    """Return whether Spark ignores files and directories with this name (HadoopFSUtils.shouldFilterOutPathName)."""
    return name.startswith(".") or name.endswith("._COPYING_") or (name.startswith("_") and "=" not in name)


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
        """Yield all files below a directory, at any depth, except those that other processes delete in the meantime."""

    def names(self, directory: str) -> list[str]:
        """Return the names of the entries of a directory, or none if it does not exist."""

    def glob(self, directory: str, pattern: str) -> list[str]:
        """Return the paths that match a glob pattern relative to a directory. `*` matches within one name."""

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its content. A missing path is not an error."""

    def delete_empty(self, directory: str) -> None:
        """Delete a directory if it is empty."""

    def delete_empty_tree(self, directory: str) -> None:
        """Delete the directories of a tree that have no files, the innermost first.

        Directories that get files in the meantime stay.
        """

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""

    def rename(self, source: str, target: str) -> None:
        """Move a file or directory to a path of the same file system that does not exist."""

    def create(self, path: str, text: str) -> bool:
        """Create a file with this content. Return False if another process has created it first.

        The text may become visible after the file does.
        """

    def write_text(self, path: str, text: str) -> None:
        """Write a file so that readers see the whole text or the previous file."""

    def read_text(self, path: str) -> str | None:
        """Return the content of a file, or None if it does not exist."""
