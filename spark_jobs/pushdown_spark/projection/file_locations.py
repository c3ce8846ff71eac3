"""Locations of files, and the directories between the path of a scan and its files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pushdown_spark.local_paths import local_path

_GLOB_CHARACTERS = re.compile(r"[*?\[{\\]")


def location(uri: str) -> str:
    """Return a file or directory as the implicit columns show it: local ones as a path, others as the whole URI.

    `uri` is a path as Hadoop prints it, without percent-encoding. A trailing slash is dropped.
    """
    path = local_path(uri)
    return (uri if path is None else path).rstrip("/") or "/"


def scan_root(path: str, *, is_file: bool = False) -> str:
    """Return the directory that contains `dir0`, for an input path that may be a glob.

    It is a directory itself, the parent of a file, or the longest leading part without glob characters.
    """
    root = location(path)
    glob = _GLOB_CHARACTERS.search(root)
    if glob is None and not is_file:
        return root
    plain_part = root if glob is None else root[: glob.start()]
    parent = plain_part.rpartition("/")[0]
    return parent or ("/" if root.startswith("/") else "")


def root_of(file_uri: str, roots: Iterable[str]) -> str | None:
    """Return the deepest scan root that contains a file, or None if none does."""
    file = location(file_uri)
    parents = [root for root in map(location, roots) if file.startswith(with_slash(root))]
    return max(parents, key=len, default=None)


def directories(file_uri: str, root: str) -> tuple[str, ...]:
    """Return the names of the directories between a root and a file, outermost first; none for a file elsewhere."""
    file, prefix = location(file_uri), with_slash(location(root))
    if not file.startswith(prefix):
        return ()
    return tuple(part for part in file[len(prefix) :].split("/")[:-1] if part)


def max_depth(file_uris: Iterable[str], roots: Sequence[str]) -> int:
    """Return the number of directories between the deepest file and its scan root."""
    return max((len(directories(file, root_of(file, roots) or file)) for file in file_uris), default=0)


def with_slash(directory: str) -> str:
    """Return a directory as a prefix of the locations below it."""
    return directory if directory.endswith("/") else f"{directory}/"
