"""Protects the files that a job reads from the commits of its own outputs.

A commit that replaces a directory deletes what is in it. The run may have read it: by a path below the output, by a
wildcard above it, by a link, or by a table whose directory is in it. All of these are compared as canonical paths. A
run may replace the rows that it has read only if its source names the output: the output itself, its files
(`out/*.parquet`), or its partitions (`out/day=*`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from py4j.protocol import Py4JJavaError

from pushdown_spark.errors import BadSpecError
from pushdown_spark.local_paths import is_local, local_path
from pushdown_spark.output.files.layout import LOCK, OutputPaths
from pushdown_spark.runtime.file_systems.file_paths import canonical_path
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles

_LITERAL_PART = re.compile(r"(?:[^*?\[{\\]|\\.)*")
"""The start of a path before its first glob character. A backslash makes the next character a plain one."""
OWN_SOURCE, OTHER_SOURCE, OTHER_OUTPUT = "source", "source of another scan", "output of another scan"
_ESCAPE = re.compile(r"\\(.)")
_NAME_NODES = ("hdfs://", "webhdfs://", "swebhdfs://", "viewfs://")


@dataclass(frozen=True)
class ReadPath:
    """A path that a job reads, which may have glob characters.

    `is_recursive` is whether directories are read at any depth, not only those of partitions. `owner` is what the path
    belongs to. Only the scan's own source may read what the scan replaces.
    """

    pattern: str
    is_recursive: bool = False
    owner: str = OWN_SOURCE


@dataclass(frozen=True)
class _Root:
    """One file or directory that Spark lists, by its canonical path.

    `start` is the directory that the source names without wildcards. It is None if the source does not name the root.
    """

    source: ReadPath
    path: str
    start: str | None
    is_literal: bool


class SourceProtection(Protocol):
    """The protection of the files that a job reads."""

    def check(self, name: str, partitions: Sequence[str] = ("",)) -> None:
        """Raise BadSpecError if replacing partitions of the output would delete files that a source reads.

        `name` is the output as the user gave it. Without `partitions`, the whole output is replaced.
        """


class ReadPathProtection:
    """The paths of a job's sources. They are expanded when a commit to the output could delete one of them."""

    def __init__(self, hadoop: HadoopFiles, paths: OutputPaths, sources: Iterable[ReadPath]) -> None:
        """`paths` are those of the attempt, which holds the lock of the output when it asks for a check."""
        self._hadoop = hadoop
        self._paths = paths
        self._sources = sources
        self._store = _store_of(paths.output)
        self._is_store: dict[str, bool] = {}
        """Whether names of stores lead to the store of the output."""

    def check(self, name: str, partitions: Sequence[str] = ("",)) -> None:
        """Raise BadSpecError if replacing partitions of the output would delete a source by accident."""
        for partition in partitions if self._roots else ():
            directory = self._canonical(f"{self._paths.output}/{partition}")
            for root in self._roots:
                if self._deletes_root(root, directory):
                    raise BadSpecError(
                        f"output: overwriting {f'partition {partition} of ' if partition else ''}{name} would delete "
                        f"the {root.source.owner} {root.source.pattern} ({root.path}); write to another directory"
                    )

    def _deletes_root(self, root: _Root, directory: str) -> bool:
        """Return whether a commit that deletes a directory would delete files of a root by accident."""
        names_output = root.start is not None and _is_in(root.start, self._target)
        if root.path == directory:
            return not names_output
        if _is_in(directory, root.path):
            # The root contains the directory.
            return not names_output and self._reads_beyond_partitions(root, directory)
        if not _is_in(root.path, directory):
            return False
        # The directory contains the root.
        if not names_output or not self._is_part_of_output(root.path, directory):
            return True
        # The source names some files of the output, and the commit would delete the others too.
        return root.is_literal and not self._is_read_as_a_whole

    def _reads_beyond_partitions(self, root: _Root, directory: str) -> bool:
        """Return whether Spark reads a directory far below a root that is not just one of the root's partitions."""
        steps = directory.removeprefix(f"{root.path}/").split("/")
        if root.source.is_recursive:
            return True
        if any("=" in step for step in steps):
            # Spark also reads plain directories below those of a partition.
            return not all("=" in step for step in steps)
        return bool(self._hadoop.glob(directory, "*=*"))

    def _is_part_of_output(self, path: str, output: str) -> bool:
        """Return whether a path is a file or a partition of an output: there are no other directories above it."""
        *above, last = path.removeprefix(f"{output}/").split("/")
        return all("=" in step for step in above) and ("=" in last or not self._hadoop.is_directory(path))

    def _canonical(self, path: str) -> str:
        """Return the canonical path. In the store of the output, it begins with the output's name of the store."""
        uri = self._hadoop.qualify(path)
        store = _store_of(uri)
        if store and self._leads_to_output(store):
            return self._store + uri.removeprefix(store).rstrip("/")
        return canonical_path(uri)

    def _may_share_store(self, pattern: str) -> bool:
        """Return whether a pattern may lead to the store of the output. Other stores are not asked for their files."""
        store = _store_of(pattern)
        return not store or self._leads_to_output(store)

    def _leads_to_output(self, store: str) -> bool:
        """Return whether a name of a store leads to that of the output: by its spelling, or because it has its lock.

        A name node has several names: its host, the standby node and the name service.
        """
        if store not in self._is_store:
            names = (store, self._store)
            is_same = canonical_path(store) == canonical_path(self._store)
            self._is_store[store] = is_same or (
                all(name.startswith(_NAME_NODES) for name in names) and self._share_lock(*names)
            )
        return self._is_store[store]

    def _share_lock(self, *stores: str) -> bool:
        commits = self._paths.commits.removeprefix(self._store)
        with suppress(Py4JJavaError):
            one, other = (self._locks(store + commits) for store in stores)
            return one == other != {}
        return False

    def _locks(self, commits: str) -> dict[str, str | None]:
        names = [name for name in self._hadoop.names(commits) if name.endswith(LOCK)]
        return {name: self._hadoop.read_text(f"{commits}/{name}") for name in names}

    @cached_property
    def _target(self) -> str:
        return self._canonical(self._paths.output)

    @cached_property
    def _is_read_as_a_whole(self) -> bool:
        """Whether the scan's own source is the output. A table of the catalog is its directory and its partitions."""
        return any(root.path == self._target and root.start is not None for root in self._roots)

    @cached_property
    def _roots(self) -> list[_Root]:
        """The roots in the output, and those that the output is in."""
        near = (source for source in self._sources if self._may_share_store(source.pattern))
        roots = (root for source in near for root in self._expand(source))
        return [root for root in roots if _is_in(root.path, self._target) or _is_in(self._target, root.path)]

    def _expand(self, source: ReadPath) -> Iterator[_Root]:
        """Yield the roots of a source: the paths that match its pattern, and the targets of links in them."""
        literal = _LITERAL_PART.match(source.pattern)
        assert literal is not None, "the pattern matches an empty start"
        is_literal = literal.end() == len(source.pattern)
        directory, slash, _ = (literal.group(), "", "") if is_literal else literal.group().rpartition("/")
        start = self._canonical(_ESCAPE.sub(r"\1", directory) or slash or ".")
        has_links = is_local(self._target)
        if not has_links and not _is_in(start, self._target) and not _is_in(self._target, start):
            # Listing an object store would take too long.
            return
        paths = [start] if is_literal else map(self._canonical, self._hadoop.expand(source.pattern))
        for path in paths:
            yield _Root(source, path, start if source.owner == OWN_SOURCE else None, is_literal)
            for target in _link_targets(path) if has_links else ():
                if not _is_in(target, path):
                    yield _Root(source, target, None, is_literal=True)


def _store_of(path: str) -> str:
    """Return scheme and authority of a path, or an empty string if it has none."""
    scheme, separator, rest = path.partition("://")
    authority = rest.partition("/")[0]
    return f"{scheme}://{authority}" if separator and authority else ""


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _link_targets(path: str) -> Iterator[str]:
    """Yield the targets of the links in a local directory, and of those in the targets."""
    local = local_path(path)
    pending = [] if local is None else [local]
    visited = set()
    while pending:
        # A file has no entries, and the reader reports what cannot be listed.
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if not entry.is_symlink():
                    pending += [entry.path] if entry.is_dir() else []
                elif (real := os.path.realpath(entry.path)) not in visited:
                    visited.add(real)
                    pending.append(real)
                    yield f"file:{real}"
