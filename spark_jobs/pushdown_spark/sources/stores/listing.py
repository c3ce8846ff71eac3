"""File listing: the input files of a scan, and their splits."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar
from urllib.parse import unquote

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.local_paths import is_local, local_path
from pushdown_spark.runtime.file_systems.base_files import FileEntry
from pushdown_spark.runtime.jvm_gateway import has_jvm, java_class, java_strings, scala_seq
from pushdown_spark.runtime.spark_internals import analyzed_plan, java_session, java_type, relation_dataframe
from pushdown_spark.sources.stores.storage import LOCAL, Storage

T = TypeVar("T")
FileOrSplit = TypeVar("FileOrSplit", "InputFile", "Split")
SomeFile = TypeVar("SomeFile", bound="InputFile")


class Compression(StrEnum):
    """Compression of a file, by its suffix as in Hadoop."""

    NONE = ""
    GZIP = ".gz"
    BZIP2 = ".bz2"
    ZSTD = ".zst"


_COMPRESSIONS = {str(compression): compression for compression in Compression}
CATALOG_INDEX = "org.apache.spark.sql.execution.datasources.CatalogFileIndex"
"""The file index of a table whose partitions the catalog knows."""
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_FOREIGN_SUFFIXES = frozenset({".deflate", ".lz4", ".snappy", ".lzo", ".xz", ".br"})
_SETTING_DECIDES = frozenset({".gzip", ".zstd"})
"""Suffixes that Spark 4.3 decompresses unless a setting selects Hadoop's line reader."""
_MAX_OPEN_FILES = 8
"""Number of files that are opened at the same time. Requests to an object store have a high latency."""


@dataclass(frozen=True)
class InputFile:
    """A file of a scan: its URI as Spark prints it, its path in `storage`, its size in bytes and its modification time.

    The path of an object is its URI without percent-encoding. Modification times only show whether a file has changed,
    because their unit depends on the storage. `status_changed` is the time of the last change of a local file's status,
    which programs that copy files cannot set.
    """

    uri: str
    path: str
    size: int
    storage: Storage = field(default=LOCAL, compare=False)
    modified: int = field(default=0, compare=False)
    status_changed: int = field(default=0, compare=False)

    @property
    def suffix(self) -> str:
        """The last suffix in lower case. Hadoop ignores its case."""
        name = self.path.rpartition("/")[2]
        dot = name.rfind(".")
        return name[dot:].lower() if 0 < dot < len(name) - 1 else ""

    @property
    def compression(self) -> Compression | None:
        """The compression, or None if only Spark knows it or has the codec."""
        suffix = self.suffix
        if suffix in _FOREIGN_SUFFIXES or suffix in _SETTING_DECIDES:
            return None
        return _COMPRESSIONS.get(suffix, Compression.NONE)

    def split_size(self, limit: int) -> int:
        """Return the size of the file's splits, except the last, given the maximum size."""
        return limit

    def split(self, start: int, end: int) -> Split:
        """Return the split of the lines that begin in a byte range. A compressed file has one split with all lines."""
        compression = self.compression or Compression.NONE
        if compression is not Compression.NONE:
            start, end = 0, self.size
        return Split(self.path, start, end, compression, self.storage)


class ContainerFile(InputFile):
    """A file of a format that compresses blocks or pages in the file, whatever the end of its name."""

    @classmethod
    def of(cls, file: InputFile) -> Self:
        """Return a listed file of such a format."""
        return cls(file.uri, file.path, file.size, file.storage, file.modified)

    @property
    def compression(self) -> Compression:
        """The compression of the whole file, which is none."""
        return Compression.NONE


@dataclass(frozen=True)
class Split:
    """The lines of a file that begin in the byte range start..end. A compressed file has one split."""

    path: str
    start: int
    end: int
    compression: Compression
    storage: Storage = field(default=LOCAL, compare=False)


def spread_splits(files: Sequence[InputFile], step: int, size: int) -> Iterator[Split]:
    """Yield a split of at most `size` bytes after each step of bytes through all files. Samples are taken from them."""
    offset = 0
    for file in files:
        for start in range(-offset % step, file.size, step):
            yield file.split(start, min(start + size, file.size))
        offset += file.size


class Listing:
    """The files that Spark's own reader has listed for a DataFrame. Each property asks the JVM once."""

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame

    @cached_property
    def uris(self) -> tuple[str, ...]:
        """URIs of the files that Spark's own reader reads, after globs and filters.

        A file that several paths of the source name is in it several times if Spark reads it several times. The URIs
        come from the listing, because `DataFrame.inputFiles` has each file once, and optimizes the DataFrame first,
        which takes milliseconds. Over Spark Connect, there is no other way.
        """
        spark = self.frame.sparkSession
        return tuple(java_strings(spark, self.index.inputFiles()) if has_jvm(spark) else self.frame.inputFiles())

    @cached_property
    def index(self) -> JavaObject:
        """Spark's file index, of all partitions."""
        table, is_v2 = self._table
        return all_partitions(self.frame.sparkSession, table.fileIndex() if is_v2 else table.location())

    @cached_property
    def partition_columns(self) -> tuple[str, ...]:
        """The partition columns, which Spark takes from directory names."""
        return tuple(field.name for field in self._partition_fields)

    @cached_property
    def data_columns(self) -> tuple[str, ...]:
        """The columns of the files in their order, as Spark's own reader knows them."""
        return tuple(field.name for field in self._data_fields)

    @cached_property
    def local_files(self) -> tuple[InputFile, ...]:
        """The local files with their sizes. Raises OSError if a file was deleted."""
        return local_files([uri for uri in self.uris if is_local(uri)])

    def files(self, storage: Storage) -> tuple[InputFile, ...]:
        """Return the files with their sizes.

        Sizes of objects come from Spark's listing, because a request for each object would take longer than reading it.
        Raises OSError if a local file was deleted.
        """
        local = self.local_files
        if len(local) == len(self.uris):
            return local
        entries = {entry.path: entry for entry in self.entries()}
        remote = [(uri, entries[decode_uri(uri)]) for uri in self.uris if not is_local(uri)]
        return local + tuple(InputFile(uri, entry.path, entry.length, storage, entry.modified) for uri, entry in remote)

    def entries(self) -> Iterator[FileEntry]:
        """Yield the entries of Spark's listing."""
        statuses = self.index.allFiles().iterator()
        while statuses.hasNext():
            status = statuses.next()
            yield FileEntry(str(status.getPath().toString()), int(status.getLen()), int(status.getModificationTime()))

    def total_bytes(self) -> int:
        """Return the total size in bytes of the files when Spark listed them."""
        return int(self.index.sizeInBytes())

    def with_partition_types(self) -> Listing:
        """Return the listing of a DataFrame whose types of partition columns do not depend on the files.

        A column that the files have, too, takes its values from the directories. Where Spark 4.3 reads only some
        members of structs or of `_metadata`, it reads these values as the type in the files, which returns other
        values.
        """
        table, is_v2 = self._table
        if is_v2 or not self._partition_fields:
            return self
        spark = self.frame.sparkSession
        key = session_name_rule(spark).key
        types = {key(field.name): field.dataType for field in self._partition_fields}
        after = [
            StructField(field.name, types.get(key(field.name), field.dataType), field.nullable, field.metadata)
            for field in self._data_fields
        ]
        if [field.dataType for field in self._data_fields] == [field.dataType for field in after]:
            return self
        relation = java_class(spark, "org.apache.spark.sql.execution.datasources.HadoopFsRelation")(
            table.location(),
            table.partitionSchema(),
            java_type(spark, StructType(after)),
            table.bucketSpec(),
            table.fileFormat(),
            table.options(),
            java_session(spark),
        )
        return Listing(relation_dataframe(spark, relation))

    @cached_property
    def _partition_fields(self) -> list[StructField]:
        table, is_v2 = self._table
        return _fields(table.fileIndex().partitionSchema() if is_v2 else table.partitionSchema())

    @cached_property
    def _data_fields(self) -> list[StructField]:
        table, _ = self._table
        return _fields(table.dataSchema())

    @cached_property
    def _table(self) -> tuple[JavaObject, bool]:
        """Spark's description of the files, and whether it is a data source of version 2."""
        # Spark pads CHAR columns in a node above the only leaf.
        relation = analyzed_plan(self.frame).collectLeaves().head()
        is_v2 = relation.nodeName() == "DataSourceV2Relation"
        return (relation.table() if is_v2 else relation.relation()), is_v2


def decode_uri(uri: str) -> str:
    """Return a URI without percent-encoding, as Hadoop prints paths."""
    head = _AUTHORITY.match(uri)
    start = head.end() if head else 0
    return uri[:start].removesuffix("//") + unquote(uri[start:])


def local_files(uris: Sequence[str]) -> tuple[InputFile, ...]:
    """Return local files with their sizes, in order. Raises OSError if a file was deleted."""
    files = []
    for uri in uris:
        path = local_path(decode_uri(uri))
        assert path is not None
        status = os.stat(path)  # noqa: PTH116
        files.append(
            InputFile(uri, path, status.st_size, modified=status.st_mtime_ns, status_changed=status.st_ctime_ns)
        )
    return tuple(files)


def files_with_content(files: Iterable[SomeFile]) -> list[SomeFile]:
    """Return the files that are not empty. Empty files of any format have no rows and no schema."""
    return [file for file in files if file.size]


def map_files(read: Callable[[FileOrSplit], T], files: Sequence[FileOrSplit]) -> list[T]:
    """Return the result of `read` for each file or split. It runs in threads if they are not local."""
    if all(is_local(file.path) for file in files):
        return [read(file) for file in files]
    # Imported here, because workers do not need it.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_MAX_OPEN_FILES) as pool:
        return list(pool.map(read, files))


def _fields(schema: JavaObject) -> list[StructField]:
    return StructType.fromJson(json.loads(str(schema.json()))).fields


def all_partitions(spark: SparkSession, index: JavaObject) -> JavaObject:
    """Return the file index of all partitions, given one that asks the catalog for those that a query selects."""
    is_lazy = index.getClass().getName() == CATALOG_INDEX
    return index.filterPartitions(scala_seq(spark, [])) if is_lazy else index


def has_plain_directories(path: str) -> bool:
    """Return whether a local directory has sub-directories that Spark skips: neither partitions nor hidden."""
    directory = local_path(decode_uri(path))
    if directory is None or not Path(directory).is_dir():
        return False
    with os.scandir(directory) as entries:
        return any(entry.is_dir() and "=" not in entry.name and entry.name[0] not in "._" for entry in entries)
