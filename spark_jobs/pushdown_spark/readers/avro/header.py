"""Reads the head of an Avro container file: the writer's schema, the codec, the sync marker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pushdown_spark.errors import UnreadableFileError
from pushdown_spark.readers.avro.codecs import AvroCodec
from pushdown_spark.readers.avro.faults import REMEDY, blamed
from pushdown_spark.readers.avro.stream import Stream
from pushdown_spark.relations.storage import Storage

_MAGIC = b"Obj\x01"
SYNC_SIZE = 16
_SCHEMA, _CODEC = "avro.schema", "avro.codec"
_SPARK_VERSION, _LEGACY_CALENDAR = "org.apache.spark.version", "org.apache.spark.legacyDateTime"
_FIRST_GREGORIAN = b"3.0.0"
"""The first version of Spark that writes dates in today's calendar, unless the file says that it did not."""
_MAX_KEY = 1 << 16


@dataclass(frozen=True)
class AvroHeader:
    """A file's head: the writer's schema as JSON, further metadata, and the offset of the first block."""

    schema: str
    codec: AvroCodec
    sync: bytes
    metadata: Mapping[str, bytes]
    length: int

    def takes_ancient(self, *, by_option: bool) -> bool:
        """Whether Spark takes dates and times from before the calendars agreed as they are.

        It goes by what the file says of the Spark that wrote it; only of other files the option decides.
        """
        version = self.metadata.get(_SPARK_VERSION)
        if version is None:
            return by_option
        return version >= _FIRST_GREGORIAN and _LEGACY_CALENDAR not in self.metadata


def read_header(path: str, storage: Storage) -> AvroHeader:
    """Read a file's head.

    Raises MissingPathError where there is no such file, and UnreadableFileError, which names the byte, where it is no
    Avro container file.
    """
    with blamed(path), storage.open(path, 0, _MAX_KEY) as raw:
        return parse_header(path, Stream(raw))


def parse_header(path: str, stream: Stream) -> AvroHeader:
    """The head of a file that stands at its first byte. Raises UnreadableFileError."""
    try:
        if stream.take(len(_MAGIC)) != _MAGIC:
            raise ValueError("it does not begin as Avro container files do")
        metadata = _metadata(stream)
        sync = bytes(stream.take(SYNC_SIZE))
        schema = metadata.pop(_SCHEMA, b"").decode("utf-8")
        if not schema:
            raise ValueError("its head has no schema")
        codec = metadata.pop(_CODEC, b"null").decode("utf-8", "replace")
        if codec not in set(AvroCodec):
            raise ValueError(f"its codec {codec!r} is unknown")
    except (ValueError, EOFError) as problem:
        raise UnreadableFileError(
            f"cannot read {path}, head at byte {stream.position}: {problem}; {REMEDY}"
        ) from problem
    return AvroHeader(schema, AvroCodec(codec), sync, metadata, stream.position)


def _metadata(stream: Stream) -> dict[str, bytes]:
    """A map of strings to bytes, in chunks as all Avro maps."""
    found: dict[str, bytes] = {}
    while count := stream.number():
        if count < 0:
            stream.number()
            count = -count
        for _ in range(count):
            key = bytes(stream.take(stream.number())).decode("utf-8", "replace")
            found[key] = bytes(stream.take(stream.number()))
    return found
