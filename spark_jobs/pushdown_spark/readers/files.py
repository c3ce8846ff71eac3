"""Input files, their byte ranges, and how ranges are packed into tasks."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from pushdown_spark.readers.storage import LOCAL, Storage
from pushdown_spark.runtime.filesystem import FileEntry
from pushdown_spark.runtime.jvm_gateway import java_strings


class Compression(StrEnum):
    """How a file's bytes are stored; decided by the suffix, as Hadoop does."""

    NONE = ""
    GZIP = ".gz"
    BZIP2 = ".bz2"
    ZSTD = ".zst"


_COMPRESSIONS = {str(compression): compression for compression in Compression}
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_FOREIGN_SUFFIXES = frozenset({".deflate", ".lz4", ".snappy", ".lzo", ".xz", ".br"})
_SETTING_DECIDES = frozenset({".gzip", ".zstd"})
"""Suffixes of files that Spark 4.3 decompresses unless it is set to take Hadoop's own reader of lines."""


@dataclass(frozen=True)
class InputFile:
    """A file of a scan: its URI as Spark prints it, its path in `storage`, its size in bytes, when it was changed.

    The path of a local file is bare, that of an object is its whole URI without percent-encoding. Times serve to tell
    whether a file is still the same, nothing else: their unit depends on the storage.
    """

    uri: str
    path: str
    size: int
    storage: Storage = field(default=LOCAL, compare=False)
    modified: int = field(default=0, compare=False)

    @property
    def suffix(self) -> str:
        """The last suffix in lower case, as Hadoop looks for codecs by it in any case."""
        name = self.path.rpartition("/")[2]
        dot = name.rfind(".")
        return name[dot:].lower() if 0 < dot < len(name) - 1 else ""

    @property
    def compression(self) -> Compression | None:
        """The compression, or None where only Spark can tell, or has the codec."""
        suffix = self.suffix
        if suffix in _FOREIGN_SUFFIXES or suffix in _SETTING_DECIDES:
            return None
        return _COMPRESSIONS.get(suffix, Compression.NONE)

    def split(self, start: int, end: int) -> Split:
        """The lines that begin in a byte range; of a compressed file, all lines."""
        compression = self.compression or Compression.NONE
        if compression is not Compression.NONE:
            start, end = 0, self.size
        return Split(self.path, start, end, compression, self.storage)


@dataclass(frozen=True)
class Split:
    """The lines of one file whose first byte lies in start..end; compressed files have one split."""

    path: str
    start: int
    end: int
    compression: Compression
    storage: Storage = field(default=LOCAL, compare=False)


@dataclass(frozen=True)
class Task:
    """Splits that one Spark task reads in turn; `file` is the index of the first one's file."""

    splits: tuple[Split, ...]
    file: int = 0


def input_uris(frame: DataFrame) -> tuple[str, ...]:
    """URIs of the files a frame of Spark's own reader reads: Spark's listing, globs and filters included.

    Asked of the listing itself: for a frame's `inputFiles` Spark optimises the frame as a query, six milliseconds each.
    """
    return tuple(dict.fromkeys(java_strings(frame.sparkSession, _listing(frame).inputFiles())))


def decoded(uri: str) -> str:
    """The URI without percent-encoding, as Hadoop prints paths."""
    head = _AUTHORITY.match(uri)
    start = head.end() if head else 0
    return uri[:start].removesuffix("//") + unquote(uri[start:])


def escaped(path: str) -> str:
    """The path with a backslash before each sign that would stand for others."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", path)


def is_local(uri: str) -> bool:
    """Whether Python can read the file directly."""
    return uri.startswith("file:/") or urlsplit(uri).scheme in ("", "file")


def local_files(uris: Sequence[str]) -> tuple[InputFile, ...]:
    """Local files with their sizes, largest names last as listed. Raises OSError where a file vanished."""
    found = []
    for uri in uris:
        path = decoded(uri).removeprefix("file:")
        path = "/" + path.lstrip("/")
        known = os.stat(path)  # noqa: PTH116
        found.append(InputFile(uri, path, known.st_size, modified=known.st_mtime_ns))
    return tuple(found)


def input_files(frame: DataFrame, storage: Storage, uris: Sequence[str] | None = None) -> tuple[InputFile, ...]:
    """The files a frame of Spark's own reader reads, wherever they lie; `uris` are theirs where they are known.

    Sizes of local files are looked up now, those of others come from the listing that Spark made already: asking a
    store about each object would take longer than reading them. Raises OSError where a local file vanished.
    """
    uris = input_uris(frame) if uris is None else uris
    local = local_files([uri for uri in uris if is_local(uri)])
    if len(local) == len(uris):
        return local
    entries = {entry.path: entry for entry in listed(frame)}
    remote = [(uri, entries[decoded(uri)]) for uri in uris if not is_local(uri)]
    return local + tuple(InputFile(uri, entry.path, entry.length, storage, entry.modified) for uri, entry in remote)


def listed(frame: DataFrame) -> Iterator[FileEntry]:
    """What Spark knows of a frame's files since it listed them."""
    found = _listing(frame).allFiles().iterator()
    while found.hasNext():
        status = found.next()
        yield FileEntry(str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime()))


def partition_columns(frame: DataFrame) -> tuple[str, ...]:
    """Columns that Spark's own reader takes from the names of directories, whether the files have them or not."""
    relation = _relation(frame)
    newer = relation.nodeName() == "DataSourceV2Relation"
    schema = relation.table().fileIndex().partitionSchema() if newer else relation.relation().partitionSchema()
    return tuple(str(name) for name in schema.fieldNames())


def file_columns(frame: DataFrame) -> tuple[str, ...]:
    """Columns that Spark's own reader takes the files to have, in their order there, whether it reads them or not."""
    relation = _relation(frame)
    newer = relation.nodeName() == "DataSourceV2Relation"
    schema = relation.table().dataSchema() if newer else relation.relation().dataSchema()
    return tuple(str(name) for name in schema.fieldNames())


def _relation(frame: DataFrame) -> JavaObject:
    """The one relation below a frame of Spark's own reader, which pads columns of type CHAR above it."""
    return frame._jdf.queryExecution().analyzed().collectLeaves().head()


def _listing(frame: DataFrame) -> JavaObject:
    """Spark's listing of a frame's files."""
    relation = _relation(frame)
    is_newer = relation.nodeName() == "DataSourceV2Relation"
    return relation.table().fileIndex() if is_newer else relation.relation().location()


def has_plain_directories(path: str) -> bool:
    """Whether a local directory has sub-directories that are neither partitions nor hidden; Spark reads none."""
    directory = Path(decoded(path).removeprefix("file:"))
    if not is_local(path) or not directory.is_dir():
        return False
    return any(p.is_dir() and "=" not in p.name and p.name[0] not in "._" for p in directory.iterdir())


@dataclass(frozen=True)
class Packing:
    """Spark's own settings for cutting files into tasks; sizes in bytes."""

    max_partition_bytes: int
    open_cost: int
    parallelism: int

    def split_size(self, files: Sequence[InputFile]) -> int:
        """The size of a split: Spark's rule for file sources, with splits up to four times as large.

        Searching a byte costs a fraction of parsing it, and starting a Python task costs about 30 ms, so that Spark's
        128 MiB would make a quarter of the work overhead (measured on TPC-H lineitem).
        """
        total = sum(file.size + self.open_cost for file in files)
        return max(1, min(4 * self.max_partition_bytes, max(self.open_cost, total // (2 * max(self.parallelism, 1)))))


def pack(files: Sequence[InputFile], packing: Packing, *, groups: Sequence[Hashable] | None = None) -> tuple[Task, ...]:
    """Cut files into splits and fill tasks with them, in the files' order.

    With `groups`, one for each file, a task never mixes files of two groups: it tells what is the same for a group.
    """
    limit = packing.split_size(files) if files else 0
    tasks: list[Task] = []
    pending: list[Split] = []
    filled = first = 0
    for index, file in enumerate(files):
        for split in _splits(file, limit):
            size = split.end - split.start
            another = groups is not None and groups[index] != groups[first]
            if pending and (another or filled + size > limit):
                tasks.append(Task(tuple(pending), first))
                pending, filled = [], 0
            if not pending:
                first = index
            pending.append(split)
            filled += size + packing.open_cost
    if pending:
        tasks.append(Task(tuple(pending), first))
    return tuple(tasks)


def _splits(file: InputFile, limit: int) -> list[Split]:
    if file.size == 0:
        return []
    if file.compression not in (None, Compression.NONE):
        return [file.split(0, file.size)]
    return [file.split(start, min(start + limit, file.size)) for start in range(0, file.size, limit)]
