"""Opens declared sources of any kind as relations."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from stat import S_ISDIR
from typing import NamedTuple, TypeGuard

from py4j.java_gateway import JavaObject
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from pushdown_spark.contract import FORMATS_WITHOUT_FILES, SourceFormat
from pushdown_spark.local_paths import local_path
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.file_relation import FileRelation
from pushdown_spark.relations.tables import open_table
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import hadoop_configuration, session_state
from pushdown_spark.sources.declaration import AnySource, Source
from pushdown_spark.sources.stores.listing import decode_uri

_MAX_THREADS = 4
"""File relations that are opened at the same time. Opening mostly waits for listings, footers and small Spark jobs."""
_CACHED_FORMATS = frozenset({SourceFormat.JSON, SourceFormat.CSV, SourceFormat.ORC, SourceFormat.PARQUET})
"""Formats whose relations are cached. The schema of Avro files may be in another file, which may change."""
_MAX_FILES = 2_000
"""Maximum number of files to check one by one. Spark's listing is faster for more."""
_MAX_DEPTH = 20
_WILD = frozenset("*?[]{}\\%")
"""A path with one of these characters may not be the path of a file."""


def open_relation(spark: SparkSession, source: AnySource) -> Relation:
    """Open a declared source of any kind. Raises typed errors that name the parameter."""
    if isinstance(source, Source) and source.format in FORMATS_WITHOUT_FILES:
        return open_table(spark, source)
    if isinstance(source, Source):
        return FileRelation.open(spark, source)
    # The drivers of databases are loaded only if a source needs them.
    from pushdown_spark.relations.database_relation import DatabaseRelation

    return DatabaseRelation.open(spark, source)


class RelationCache:
    """Opens the sources of a session, and caches relations of local files while files and settings are the same.

    Opening a source lists its files and may infer their schema, which takes longer than a short query. The relations of
    the first query are not cached: most jobs have one query, and need not look at the versions of their files.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._names: set[str] = set()
        self._cache: dict[str, tuple[_Version, Relation]] = {}
        self._last_settings: _Settings | None = None

    def open(self, source: AnySource) -> Relation:
        """Open a source. Raises typed errors that name the parameter."""
        return self._open(source, self._settings([source]))

    def open_all(self, sources: Iterable[AnySource]) -> dict[str, Relation]:
        """Open several sources, those whose files have to be listed at the same time, and return them by name.

        Raises the first error in the order of the sources, those whose files are listed coming last.
        """
        all_sources = list(sources)
        open_one = partial(self._open, settings=self._settings(all_sources))
        files = [source for source in all_sources if isinstance(source, Source) and source.name not in self._cache]
        if len(files) < 2:
            return {source.name: open_one(source) for source in all_sources}
        open_in_thread = inheritable_thread_target(self._spark)(open_one)
        with ThreadPoolExecutor(min(len(files), _MAX_THREADS)) as threads:
            futures = {source.name: threads.submit(open_in_thread, source) for source in files}
            # A database connection stays in the thread that opened it.
            others = {source.name: open_one(source) for source in all_sources if source.name not in futures}
            return others | {name: relation.result() for name, relation in futures.items()}

    def _open(self, source: AnySource, settings: _Settings | None) -> Relation:
        if settings is None or source.name not in self._names:
            self._names.add(source.name)
            return open_relation(self._spark, source)
        # Before the files are listed, so that a change in the meantime shows in the next version.
        version = _version(source, settings)
        entry = self._cache.pop(source.name, None)
        relation = entry[1] if entry is not None and entry[0] == version else open_relation(self._spark, source)
        if version is not None and isinstance(relation, FileRelation) and version.has_files(relation.uris):
            self._cache[source.name] = (version, relation)
        return relation

    def _settings(self, sources: Sequence[AnySource]) -> _Settings | None:
        """Return copies of the settings, or None if none of the sources may be in the cache or enter it.

        Returns the copies of the last query if they are equal, because Python compares an object with itself at once.
        """
        if not any(source.name in self._names and _may_cache(source) for source in sources):
            return None
        session = java_class(self._spark, "java.util.HashMap")(self._session_settings)
        settings = _Settings(session, hadoop_configuration(self._spark).getPropsWithPrefix(""))
        if settings != self._last_settings:
            self._last_settings = settings
        return self._last_settings

    @cached_property
    def _session_settings(self) -> JavaObject:
        """The session's settings, which change in place."""
        return session_state(self._spark).conf().settings()


@dataclass(frozen=True)
class _Settings:
    """Copies of the session's settings and of Hadoop's."""

    session: JavaObject
    hadoop: JavaObject


@dataclass(frozen=True)
class _Version:
    """A source, the settings of its relation, and the files below its paths."""

    source: Source
    settings: _Settings
    files: Mapping[str, _FileVersion]

    def has_files(self, uris: Sequence[str]) -> bool:
        """Return whether all files that Spark has listed are among those of the version."""
        return all(local_path(decode_uri(uri)) in self.files for uri in uris)


class _FileVersion(NamedTuple):
    """The inode of a file, its size in bytes, and the nanoseconds of the last changes of its content and its status.

    Programs that copy files may set the first of these times, but not the second.
    """

    inode: int
    size: int
    modified: int
    status_changed: int


def _may_cache(source: AnySource) -> TypeGuard[Source]:
    return isinstance(source, Source) and source.format in _CACHED_FORMATS


def _version(source: AnySource, settings: _Settings) -> _Version | None:
    """Return the state of the files that a relation depends on, or None if it is unknown."""
    if not _may_cache(source):
        return None
    files = file_versions(source.paths)
    return None if files is None else _Version(source, settings, files)


def file_versions(paths: Sequence[str]) -> Mapping[str, _FileVersion] | None:
    """Return the versions of the files and directories at and below local paths, by absolute path.

    Returns None if a path is not local, has wildcards or does not exist, or if there are too many files.
    """
    versions: dict[str, _FileVersion] = {}
    try:
        for path in paths:
            local = local_path(path)
            if local is None or not _WILD.isdisjoint(local):
                return None
            _add_versions(versions, os.path.abspath(local), 0)  # noqa: PTH100 - `Path.resolve` would follow links
    except OSError:
        return None
    return versions


def _add_versions(versions: dict[str, _FileVersion], path: str, depth: int) -> None:
    if len(versions) > _MAX_FILES or depth > _MAX_DEPTH:
        raise OSError("too many files")
    status = os.stat(path)  # noqa: PTH116 - thousands of paths
    versions[path] = _FileVersion(status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    if S_ISDIR(status.st_mode):
        with os.scandir(path) as entries:
            for entry in entries:
                _add_versions(versions, entry.path, depth + 1)
