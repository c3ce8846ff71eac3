"""Where a scan's bytes lie and how they are opened: local files, or objects of S3 stores as Hadoop reaches them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import FileIO
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pushdown_spark.relations.object_store import AHEAD, ObjectFile, S3Bucket, S3Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S3_SCHEMES = frozenset({"s3a", "s3", "s3n"})
"""Schemes that Hadoop's S3A may be mapped to."""


class LocalFile(FileIO):
    """An open local file that counts from where it was opened."""

    def __init__(self, path: str, start: int = 0) -> None:
        super().__init__(path)
        self._start = start
        self.seek(start)

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return os.fstat(self.fileno()).st_size

    @property
    def fetched(self) -> int:
        """Bytes read, for a file that is read front to back."""
        return self.tell() - self._start


RangeFile = LocalFile | ObjectFile
"""An open file of either kind: `readinto`, `read`, `seek`, `tell`, `size`, `fetched`; use it in a `with` block."""


class Storage:
    """What a worker needs in order to open a scan's files; it travels inside Spark's closures and hides its secrets.

    Paths are local paths, or `scheme://bucket/key` without percent-encoding. Failures are OSError: FileNotFoundError
    for what is not there, PermissionError for what may not be read.
    """

    def __init__(self, buckets: Mapping[str, S3Settings] | None = None) -> None:
        self._buckets = {name: S3Bucket(name, settings) for name, settings in (buckets or {}).items()}

    def __repr__(self) -> str:
        return f"Storage({', '.join(sorted(self._buckets)) or 'local'})"

    def open(self, path: str, start: int = 0, stop: int | None = None, *, ahead: int = AHEAD) -> RangeFile:
        """Open a file for reading from `start` on.

        Of an object, up to `ahead` bytes are fetched before they are asked for, though none behind `stop` (None for the
        object's end); 0 fetches exactly what is asked for, for readers that jump.
        """
        bucket, key = _place(path)
        if not bucket:
            return LocalFile(path, start)
        store = self._buckets[bucket]
        return ObjectFile(store, key, store.open(key), start, stop, ahead)

    def size(self, path: str) -> int:
        """Bytes of a file, as stored. Asks the store; `files.input_files` knows sizes from Spark's own listing."""
        bucket, key = _place(path)
        if not bucket:
            return os.stat(path).st_size  # noqa: PTH116
        with self._buckets[bucket].open(key) as file:
            return int(file.size())


LOCAL = Storage()
"""Local files alone."""


def storage_for(spark: SparkSession, uris: Sequence[str], options: Mapping[str, str] | None = None) -> Storage | str:
    """How to open files that Spark listed, or in words why only Hadoop can.

    `uris` as `frame.inputFiles()` gives them; `options` are the source's, since Spark lets them override its Hadoop
    configuration. The reason names the key at fault and never a secret.
    """
    places = {(parts.scheme, parts.netloc) for parts in map(urlsplit, uris) if parts.scheme not in ("", "file")}
    if not places:
        return LOCAL
    for scheme, netloc in sorted(places):
        if scheme not in S3_SCHEMES:
            return _foreign(scheme, netloc)
    # Loaded here: workers have no use for it.
    from pushdown_spark.relations.s3_settings import HadoopKeys

    keys = HadoopKeys.of(spark, options or {})
    buckets: dict[str, S3Settings] = {}
    for scheme, bucket in sorted(places):
        settings = keys.settings(scheme, bucket)
        if isinstance(settings, str):
            return settings
        buckets[bucket] = settings
    return Storage(buckets)


def _foreign(scheme: str, netloc: str) -> str:
    if scheme in ("hdfs", "viewfs"):
        return f"{scheme}://{netloc}: outside the JVM HDFS is read with libhdfs, which neither Spark nor pyarrow brings"
    return f"{scheme}://{netloc}: only Hadoop reads this file system"


def _place(path: str) -> tuple[str, str]:
    """Bucket and key of an object, two times nothing for a local path."""
    scheme, found, rest = path.partition("://")
    if not found or "/" in scheme:
        return "", ""
    bucket, _, key = rest.partition("/")
    return bucket, key
