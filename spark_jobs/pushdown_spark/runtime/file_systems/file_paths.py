"""Qualified paths such as `hdfs://nn/a/b`: their spelling, and what the scheme says about the file system."""

from __future__ import annotations

import os
import pathlib
import re

from pushdown_spark.local_paths import local_path

_ROOT = re.compile(r"[^/]+:(//[^/]*)?")
_MOVES_DIRECTORIES = frozenset({"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "maprfs"})
"""Schemes of file systems that rename a directory in one atomic step."""


def is_root(path: str) -> bool:
    """Return whether a qualified path without a slash at its end is the root of a file system, such as `hdfs://nn`."""
    return _ROOT.fullmatch(path) is not None


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


def followed_path(path: str) -> str:
    """Return the path that a link of the local disk leads to. Other paths stay as they are.

    A commit would replace the link instead of the directory, and would not exclude runs that name the directory.
    """
    local = local_path(path)
    return path if local is None or not pathlib.Path(local).is_symlink() else real_path(path)


def real_path(path: str) -> str:
    """Return a qualified path without links of the local disk. Other paths stay as they are."""
    local = local_path(path)
    return path if local is None else f"file:{os.path.realpath(local)}"


def canonical_path(path: str) -> str:
    """Return a qualified path with one name for each store, and without links of the local disk.

    >>> canonical_path("s3://lake/raw/"), canonical_path("wasb://lake@store.blob.core.windows.net/raw")
    ('s3a://lake/raw', 'abfss://lake@store.dfs.core.windows.net/raw')
    >>> canonical_path("file:///"), canonical_path("hdfs://node:8020/")
    ('file:', 'hdfs://node')
    """
    if local_path(path) is not None:
        return real_path(path).rstrip("/")
    scheme, separator, rest = path.partition("://")
    scheme = _STORE_NAMES.get(scheme, scheme)
    authority, slash, key = rest.partition("/")
    # The port of a name node depends on the protocol.
    authority = authority.partition(":")[0] if scheme == "hdfs" else authority.replace(".blob.", ".dfs.")
    return f"{scheme}{separator}{authority}{slash}{key}".rstrip("/")
