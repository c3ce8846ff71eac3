"""Versions of local files: what changes when a file is written again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from stat import S_ISDIR
from typing import NamedTuple

_MAX_FILES = 2_000
"""Number of files up to which looking at each takes less time than Spark's listing."""
_MAX_DEPTH = 20
_WILD = frozenset("*?[]{}\\%")
"""Characters with which a path may not be the path of a file."""


class FileVersion(NamedTuple):
    """The inode of a file, its size in bytes, and the nanosecond of its last change."""

    inode: int
    size: int
    modified: int


def file_versions(paths: Sequence[str]) -> Mapping[str, FileVersion] | None:
    """Return the versions of the files and directories at and below local paths, by absolute path.

    Returns None if a path is not local, has wildcards or does not exist, or if there are too many files.
    """
    versions: dict[str, FileVersion] = {}
    try:
        for path in paths:
            local = path.removeprefix("file://").removeprefix("file:")
            if ":" in local or not _WILD.isdisjoint(local):
                return None
            _add(versions, os.path.abspath(local), 0)  # noqa: PTH100 - `Path.resolve` would follow links
    except OSError:
        return None
    return versions


def _add(versions: dict[str, FileVersion], path: str, depth: int) -> None:
    if len(versions) > _MAX_FILES or depth > _MAX_DEPTH:
        raise OSError("too many files")
    status = os.stat(path)  # noqa: PTH116 - thousands of paths
    versions[path] = FileVersion(status.st_ino, status.st_size, status.st_mtime_ns)
    if S_ISDIR(status.st_mode):
        with os.scandir(path) as entries:
            for entry in entries:
                _add(versions, entry.path, depth + 1)
