"""Paths of this machine, with and without the scheme `file`, and globs that mean one path."""

from __future__ import annotations

import re

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?:/+|\Z)")
_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{}])")


def local_path(path: str) -> str | None:
    """Return a path or a URI of the scheme `file` as a path of this machine, or None for a URI of another file system.

    Percent-encoding stays.

    >>> local_path("file:///lake/a%20b"), local_path("lake/x"), local_path("hdfs://nn/x")
    ('/lake/a%20b', 'lake/x', None)
    """
    uri = _URI.match(path)
    if uri is None:
        return path
    return f"/{path[uri.end() :]}" if uri["scheme"] == "file" else None


def is_local(path: str) -> bool:
    """Return whether a path or URI is of this machine."""
    return local_path(path) is not None


def escape_glob(path: str) -> str:
    r"""Return a path with its glob characters escaped, as Hadoop reads them.

    >>> print(escape_glob("/lake/[1]"))
    /lake/\[1\]
    """
    return _GLOB_CHARACTERS.sub(r"\\\1", path)
