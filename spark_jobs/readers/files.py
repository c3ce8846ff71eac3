"""Input files, their byte ranges, and how ranges are packed into tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame


class Compression(StrEnum):
    """How a file's bytes are stored; decided by the suffix, as Hadoop does."""

    NONE = ""
    GZIP = ".gz"
    BZIP2 = ".bz2"
    ZSTD = ".zst"


_FOREIGN_SUFFIXES = frozenset({".deflate", ".lz4", ".snappy", ".lzo", ".xz", ".br"})


@dataclass(frozen=True)
class InputFile:
    """A local file of a scan: its URI as Spark prints it, its path, its size in bytes."""

    uri: str
    path: str
    size: int

    @property
    def suffix(self) -> str:
        """The last suffix; Hadoop tells upper from lower case in it."""
        return PurePosixPath(self.path).suffix

    @property
    def compression(self) -> Compression | None:
        """The compression, or None where only Hadoop has the codec."""
        if self.suffix in _FOREIGN_SUFFIXES:
            return None
        return Compression(self.suffix) if self.suffix in set(Compression) else Compression.NONE


@dataclass(frozen=True)
class Split:
    """The lines of one file whose first byte lies in start..end; compressed files have one split."""

    path: str
    start: int
    end: int
    compression: Compression


@dataclass(frozen=True)
class Task:
    """Splits that one Spark task reads in turn; `file` is the file's index where all of them are of one file."""

    splits: tuple[Split, ...]
    file: int = 0


def input_uris(frame: DataFrame) -> tuple[str, ...]:
    """URIs of the files a frame of Spark's own reader reads: Spark's listing, globs and filters included."""
    return tuple(frame.inputFiles())


def decoded(uri: str) -> str:
    """The URI without percent-encoding, as Hadoop prints paths."""
    parts = urlsplit(uri)
    prefix = f"{parts.scheme}://{parts.netloc}" if parts.netloc else f"{parts.scheme}:" if parts.scheme else ""
    return prefix + unquote(uri[uri.index(parts.path) :] if parts.path else "")


def is_local(uri: str) -> bool:
    """Whether Python can read the file directly."""
    return urlsplit(uri).scheme in ("", "file")


def local_files(uris: Sequence[str]) -> tuple[InputFile, ...]:
    """Local files with their sizes, largest names last as listed. Raises OSError where a file vanished."""
    found = []
    for uri in uris:
        path = decoded(uri).removeprefix("file:")
        path = "/" + path.lstrip("/")
        found.append(InputFile(uri, path, os.stat(path).st_size))  # noqa: PTH116
    return tuple(found)


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
        return min(4 * self.max_partition_bytes, max(self.open_cost, total // (2 * max(self.parallelism, 1))))


def pack(files: Sequence[InputFile], packing: Packing, *, one_file_per_task: bool = False) -> tuple[Task, ...]:
    """Cut files into splits and fill tasks with them, in the files' order.

    With `one_file_per_task` a task never mixes files, so that a task's number tells the file its rows came from.
    """
    limit = packing.split_size(files) if files else 0
    tasks: list[Task] = []
    pending: list[Split] = []
    filled = 0
    for index, file in enumerate(files):
        for split in _splits(file, limit):
            size = split.end - split.start
            if one_file_per_task:
                tasks.append(Task((split,), index))
                continue
            if pending and filled + size > limit:
                tasks.append(Task(tuple(pending)))
                pending, filled = [], 0
            pending.append(split)
            filled += size + packing.open_cost
    if pending:
        tasks.append(Task(tuple(pending)))
    return tuple(tasks)


def _splits(file: InputFile, limit: int) -> list[Split]:
    compression = file.compression or Compression.NONE
    if file.size == 0:
        return []
    if compression is not Compression.NONE:
        return [Split(file.path, 0, file.size, compression)]
    return [Split(file.path, start, min(start + limit, file.size), compression) for start in range(0, file.size, limit)]
