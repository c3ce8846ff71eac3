"""The metadata of the files of a DataFrame, from which implicit columns get their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from pushdown_spark.projection.file_locations import directories, location, root_of
from pushdown_spark.projection.metadata_columns import FileMetadata
from pushdown_spark.relations.listing import InputFile, Listing, is_local, listed, local_files


def listed_metadata(listing: Listing, roots: Sequence[str]) -> Mapping[str, FileMetadata]:
    """Return the metadata of the files that Spark listed. For objects it comes from the listing."""
    uris = listing.uris
    local = local_files([uri for uri in uris if is_local(uri)])
    metadata = dict(_local_metadata(local, roots))
    if len(local) < len(uris):
        entries = (entry for entry in listed(listing.frame) if location(entry.path) not in metadata)
        metadata.update({location(e.path): _metadata(e.path, e.length, e.modified, roots) for e in entries})
    return metadata


def _local_metadata(files: Iterable[InputFile], roots: Sequence[str]) -> Mapping[str, FileMetadata]:
    """Return the current metadata of local files by location. Raises OSError if a file was deleted."""
    return {location(file.path): _metadata(file.path, file.size, file.modified // 1_000_000, roots) for file in files}


def _metadata(path: str, size: int, modified: int, roots: Sequence[str]) -> FileMetadata:
    """`modified` is in milliseconds since 1970, the precision of Hadoop's listings."""
    at = datetime.fromtimestamp(modified // 1000, UTC).replace(microsecond=modified % 1000 * 1000)
    below = directories(path, root_of(path, roots) or path)
    return FileMetadata(location(path), below, size, at)
