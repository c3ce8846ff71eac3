"""Storage of files: local files, HDFS, and objects of S3, Azure and Google stores, with Hadoop's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import FileIO
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pushdown_spark.errors import AccessDeniedError, MissingPathError, UnreadableFileError
from pushdown_spark.sources.stores.object_store import AHEAD, Bucket, ObjectFile, StoreSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMEDY = "replace the file, or leave it out of `path`"
"""What to do about a damaged file."""
DENIED_REMEDY = "give the job credentials that may read it, or leave it out of `path`"
"""What to do about a file that the job may not read."""


@contextmanager
def name_storage_errors(path: str) -> Iterator[None]:
    """Convert errors of the storage to typed errors that name the file."""
    try:
        yield
    except FileNotFoundError as problem:
        raise MissingPathError(f"{path} vanished while it was read; run the task again") from problem
    except PermissionError as problem:
        raise AccessDeniedError(f"cannot read {path}: {problem}; {DENIED_REMEDY}") from problem
    except OSError as problem:
        raise UnreadableFileError(f"cannot read {path}: {problem}; {REMEDY}") from problem


class LocalFile(FileIO):
    """An open local file that counts the bytes read since it was opened."""

    def __init__(self, path: str, start: int) -> None:
        super().__init__(path)
        self._start = start
        self.seek(start)

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return os.fstat(self.fileno()).st_size

    @property
    def bytes_fetched(self) -> int:
        """Bytes read, if the file is read sequentially."""
        return self.tell() - self._start


RangeFile = LocalFile | ObjectFile
"""An open file: `readinto`, `read`, `seek`, `tell`, `size`, `bytes_fetched`. Use it in a `with` block."""


class Storage:
    """Opens the files of a scan in workers. It is pickled with Spark's closures, and its repr has no secrets.

    Paths are local paths, or `scheme://bucket/key` without percent-encoding. Errors are OSError: FileNotFoundError for
    a missing file, PermissionError without permission to read it.
    """

    def __init__(self, buckets: Mapping[str, StoreSettings] | None = None) -> None:
        self._buckets = {name: Bucket(name, settings) for name, settings in (buckets or {}).items()}

    def __repr__(self) -> str:
        return f"Storage({', '.join(sorted(self._buckets)) or 'local'})"

    def open(self, path: str, start: int = 0, stop: int | None = None, *, ahead: int = AHEAD) -> RangeFile:
        """Open a file for reading from `start`.

        For an object, up to `ahead` bytes are prefetched, but none after `stop` (None for the end of the object).
        Readers that seek set `ahead=0`.
        """
        bucket, key = _bucket_and_key(path)
        if not bucket:
            return LocalFile(path, start)
        store = self._buckets[bucket]
        return ObjectFile.open(store, key, start=start, stop=stop, ahead=ahead)

    def bucket_of(self, path: str) -> tuple[Bucket, str] | None:
        """Return the bucket and the key of an object, or None for a local path."""
        bucket, key = _bucket_and_key(path)
        return (self._buckets[bucket], key) if bucket else None


LOCAL = Storage()
"""Storage for local files only."""


def storage_for(spark: SparkSession, uris: Sequence[str], options: Mapping[str, str]) -> Storage:
    """Return the storage of files that Spark listed. Raises UnsupportedError if only Hadoop can open them.

    `uris` are as in `DataFrame.inputFiles`. The `options` of the source override Hadoop's settings, as in Spark. The
    reason names the key and never a secret.
    """
    examples = {
        (parts.scheme, parts.netloc): uri for uri in uris if (parts := urlsplit(uri)).scheme not in ("", "file")
    }
    if not examples:
        return LOCAL
    # Imported here, because workers do not need it.
    from pushdown_spark.sources.stores.store_settings import store_settings

    settings = {netloc: store_settings(spark, examples[scheme, netloc], options) for scheme, netloc in sorted(examples)}
    return Storage(settings)


def _bucket_and_key(path: str) -> tuple[str, str]:
    """Return bucket and key of an object, both empty for a local path."""
    scheme, separator, rest = path.partition("://")
    if not separator or "/" in scheme:
        return "", ""
    bucket, _, key = rest.partition("/")
    return bucket, key
