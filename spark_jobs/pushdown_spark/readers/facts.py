"""What is known of a scan's files without opening them, for the implicit columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pyspark.sql import DataFrame

from pushdown_spark.projection.file_locations import directories, location, root_of
from pushdown_spark.projection.metadata_columns import FileMetadata
from pushdown_spark.readers.files import InputFile, input_uris, is_local, listed, local_files


def facts_of(files: Iterable[InputFile], roots: Sequence[str]) -> Mapping[str, FileMetadata]:
    """Facts of local files by location, looked up now. Raises OSError where a file vanished."""
    return {
        location(file.path): _facts(file.path, file.size, os.stat(file.path).st_mtime_ns // 1_000_000, roots)  # noqa: PTH116
        for file in files
    }


def listed_facts(frame: DataFrame, roots: Sequence[str]) -> Mapping[str, FileMetadata]:
    """Facts of the files that a frame of Spark's own reader reads; of those that are not local, from its listing."""
    uris = input_uris(frame)
    local = local_files([uri for uri in uris if is_local(uri)])
    found = dict(facts_of(local, roots))
    if len(local) < len(uris):
        entries = (entry for entry in listed(frame) if location(entry.path) not in found)
        found.update({location(e.path): _facts(e.path, e.length, e.modified, roots) for e in entries})
    return found


def _facts(path: str, size: int, modified: int, roots: Sequence[str]) -> FileMetadata:
    """`modified` is in milliseconds since 1970, which is as precise as Hadoop's listings are."""
    at = datetime.fromtimestamp(modified // 1000, UTC).replace(microsecond=modified % 1000 * 1000)
    below = directories(path, root_of(path, roots) or path)
    return FileMetadata(location(path), below, size, at)
