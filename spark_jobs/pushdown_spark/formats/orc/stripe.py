"""The directory of a stripe: where the streams of each column are, and where row groups begin in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Self

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import CompressionKind
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind, ReadRange
from pushdown_spark.formats.orc.metadata import parse_message
from pushdown_spark.formats.orc.orc_proto_pb2 import BloomFilterIndex, RowIndex, StripeFooter, StripeInformation
from pushdown_spark.formats.orc.rle_seek import MAX_PENDING_BYTES, SeekPosition, StreamCoding
from pushdown_spark.formats.orc.statistics import are_consistent


class StreamKind(IntEnum):
    """Kinds of streams that the reader uses, by their number in files."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


class EncodingKind(IntEnum):
    """Encodings of columns, by their number in files. Only version 0.11 stores integers in the first two."""

    DIRECT = 0
    DICTIONARY = 1
    DIRECT_V2 = 2
    DICTIONARY_V2 = 3


_INDEX_KINDS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})
_DATA_KINDS = frozenset(
    {StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH, StreamKind.DICTIONARY_DATA, StreamKind.SECONDARY}
)
_DICTIONARY = frozenset({EncodingKind.DICTIONARY, EncodingKind.DICTIONARY_V2})
_VERSION_2 = frozenset({EncodingKind.DIRECT_V2, EncodingKind.DICTIONARY_V2})

_STRINGS = frozenset({OrcTypeKind.STRING, OrcTypeKind.CHAR, OrcTypeKind.VARCHAR})
_DATA, _LENGTH, _SECONDARY = StreamKind.DATA, StreamKind.LENGTH, StreamKind.SECONDARY
_CODINGS: dict[OrcTypeKind, tuple[tuple[StreamKind, StreamCoding], ...]] = {
    OrcTypeKind.BOOLEAN: ((_DATA, StreamCoding.BITS),),
    **dict.fromkeys((OrcTypeKind.BYTE, OrcTypeKind.UNION), ((_DATA, StreamCoding.BYTES),)),
    **dict.fromkeys(
        (OrcTypeKind.SHORT, OrcTypeKind.INT, OrcTypeKind.LONG, OrcTypeKind.DATE), ((_DATA, StreamCoding.SIGNED),)
    ),
    **dict.fromkeys((OrcTypeKind.FLOAT, OrcTypeKind.DOUBLE), ((_DATA, StreamCoding.RAW),)),
    OrcTypeKind.DECIMAL: ((_DATA, StreamCoding.RAW), (_SECONDARY, StreamCoding.SIGNED)),
    **dict.fromkeys(
        (OrcTypeKind.TIMESTAMP, OrcTypeKind.TIMESTAMP_INSTANT),
        ((_DATA, StreamCoding.SIGNED), (_SECONDARY, StreamCoding.UNSIGNED)),
    ),
    **dict.fromkeys((OrcTypeKind.BINARY, *_STRINGS), ((_DATA, StreamCoding.RAW), (_LENGTH, StreamCoding.UNSIGNED))),
    **dict.fromkeys((OrcTypeKind.LIST, OrcTypeKind.MAP), ((_LENGTH, StreamCoding.UNSIGNED),)),
    OrcTypeKind.STRUCT: (),
}
"""The kinds and codings of the indexed streams of a type except PRESENT, in the order of their positions.

Strings with a dictionary have its indexes as data instead.
"""
_POSITION_COUNTS = {StreamCoding.RAW: 0, StreamCoding.BITS: 2, StreamCoding.BYTES: 1}


@dataclass(frozen=True)
class RowGroupRange:
    """Row groups of a stripe, from `first` to `last`, inclusive."""

    first: int
    last: int


@dataclass(frozen=True)
class StreamLocation:
    """A stream of a stripe: its kind, its column, and its offset and length in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True)
class RowGroupStart:
    """Where a row group begins in a stream: the offset of a chunk, a byte of its content, and values to skip.

    In files without compression, `chunk` is 0 and `byte` counts from the start of the stream.
    """

    chunk: int
    byte: int
    start: SeekPosition


@dataclass(frozen=True)
class StreamIndex:
    """Where the row groups of a stream begin, from the row index of its column.

    An entry of a row index has the positions of all streams of the column, one after another. `first_position` is the
    index of this stream's first position.
    """

    index: RowIndex
    coding: StreamCoding
    first_position: int
    is_compressed: bool

    @property
    def position_count(self) -> int:
        """The number of positions of this stream in an entry."""
        return (2 if self.is_compressed else 1) + _POSITION_COUNTS.get(self.coding, 1)

    def entry(self, group: int) -> RowGroupStart:
        """Return where a row group begins. Raises ValueError for an index with too few positions.

        The first row group begins at the start of the stream. Some writers omit its positions.
        """
        if group == 0:
            return RowGroupStart(0, 0, SeekPosition())
        positions = self.index.entry[group].positions
        stop = self.first_position + self.position_count
        if len(positions) < stop:
            raise ValueError("a row index has too few positions")
        chunk, byte, *start = [*([] if self.is_compressed else [0]), *positions[self.first_position : stop]]
        return RowGroupStart(chunk, byte, SeekPosition(*start))

    def extent(self, first: int, last: int, length: int, chunk_size: int) -> tuple[int, int]:
        """Return the start and the end of the stored bytes of some row groups, in a stream of `length` bytes.

        `chunk_size` is the decompressed size of a full chunk.
        """
        begin = self.entry(first)
        if last + 1 >= len(self.index.entry):
            return begin.chunk if self.is_compressed else begin.byte, length
        end = self.entry(last + 1)
        is_raw = self.coding is StreamCoding.RAW
        if not self.is_compressed:
            return begin.byte, min(length, end.byte + (0 if is_raw else MAX_PENDING_BYTES))
        if end.byte == 0 and end.start == SeekPosition():
            return begin.chunk, end.chunk
        # The last values may be in the chunk in which the next row group begins, and, after its entry, in later chunks.
        stop = end.chunk
        for _ in range(1 if is_raw else 1 + (end.byte + MAX_PENDING_BYTES) // chunk_size):
            stop = self._next_chunk(stop, last + 1, length)
        return begin.chunk, stop

    def _next_chunk(self, chunk: int, group: int, length: int) -> int:
        """Return the offset of a later chunk: the next one in which a row group begins, or the end of the stream."""
        for number in range(group, len(self.index.entry)):
            start = self.index.entry[number].positions[self.first_position]
            if start > chunk:
                return int(start)
        return length


class Stripe:
    """One stripe of a file, which reads indexes on demand. Methods raise ValueError for inconsistent metadata."""

    def __init__(self, tail: FileTail, info: StripeInformation, footer: StripeFooter, read: ReadRange) -> None:
        self.tail = tail
        self.info = info
        self.footer = footer
        self._read = read
        self._indexes: dict[int, RowIndex] = {}

    @classmethod
    def open(cls, tail: FileTail, number: int, read: ReadRange) -> Self:
        """Read the footer of a stripe."""
        info = tail.stripes[number]
        start = info.offset + info.index_length + info.data_length
        footer = parse_message(StripeFooter, tail.codec.decompress(read(start, info.footer_length)))
        if len(footer.columns) != len(tail.types):
            raise ValueError("the footer of the stripe and the file differ in the number of columns")
        for column, (node, encoding) in enumerate(zip(tail.types, footer.columns, strict=True)):
            if _has_integers(OrcTypeKind(node.kind)) and encoding.kind not in _VERSION_2:
                raise ValueError(f"column {column} has integers in an encoding of version 0.11")
        return cls(tail, info, footer, read)

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self.info.number_of_rows

    @property
    def group_count(self) -> int:
        """The number of row groups. Without a row index, the whole stripe is one."""
        stride = self.tail.stride
        return -(-self.row_count // stride) if self.has_index else min(1, self.row_count)

    @property
    def has_index(self) -> bool:
        """Whether the stripe has row indexes."""
        return self.tail.stride > 0 and self.info.index_length > 0

    def rows_before(self, group: int) -> int:
        """Return the number of rows before a row group, which may be the one after the last."""
        return min(group * self.tail.stride, self.row_count) if self.has_index else min(group, 1) * self.row_count

    @cached_property
    def locations(self) -> tuple[StreamLocation, ...]:
        """All streams, in file order."""
        offset = self.info.offset
        locations = []
        limit = offset + self.info.index_length + self.info.data_length
        for stream in self.footer.streams:
            # All writers store these fields. After damage, their defaults would name another column.
            if not all(map(stream.HasField, ("kind", "column", "length"))):
                raise ValueError("the stripe has a stream without kind, column or length")
            locations.append(StreamLocation(stream.kind, stream.column, offset, stream.length))
            offset += stream.length
        if offset > limit:
            raise ValueError("the stripe's streams are longer than the stripe")
        if len({(stream.kind, stream.column) for stream in locations}) < len(locations):
            raise ValueError("the stripe has two streams of one kind for a column")
        if any(
            location.kind in _DATA_KINDS and location.offset < self.info.offset + self.info.index_length
            for location in locations
        ):
            raise ValueError("the stripe has data streams among its indexes")
        return tuple(locations)

    @cached_property
    def _by_column(self) -> dict[int, list[StreamLocation]]:
        by_column: dict[int, list[StreamLocation]] = {}
        for location in self.locations:
            by_column.setdefault(location.column, []).append(location)
        return by_column

    def data_streams(self, column: int) -> list[StreamLocation]:
        """Return the streams of a column except its indexes, in file order."""
        return [location for location in self._by_column.get(column, ()) if location.kind not in _INDEX_KINDS]

    def load_indexes(self, columns: Iterable[int]) -> None:
        """Read the row indexes of some columns. Adjacent indexes are read at once."""
        new_columns = {column for column in columns if column not in self._indexes}
        locations = [p for p in self.locations if p.kind == StreamKind.ROW_INDEX and p.column in new_columns]
        for run in _adjacent(locations):
            data = self._read(run[0].offset, sum(location.length for location in run))
            for location in run:
                start = location.offset - run[0].offset
                self._indexes[location.column] = self._parse_index(
                    data[start : start + location.length], location.column
                )

    def _parse_index(self, data: bytes, column: int) -> RowIndex:
        index = parse_message(RowIndex, self.tail.codec.decompress(data))
        if len(index.entry) != self.group_count:
            raise ValueError(f"column {column} has {len(index.entry)} index entries for {self.group_count} row groups")
        # A wrong stride shows in the statistics of columns without nulls.
        statistics = index.entry[0].statistics
        has_count = column in self.tail.types[0].subtypes and statistics.HasField("number_of_values")
        if has_count and not are_consistent(statistics, self.rows_before(1)):
            raise UnsafeInputError(f"column {column} has row groups of another size than the file")
        return index

    def row_index(self, column: int) -> RowIndex | None:
        """Return the row index of a column, or None."""
        if column not in self._indexes:
            self.load_indexes((column,))
        return self._indexes.get(column)

    def has_bloom_filters(self, column: int) -> bool:
        """Return whether a column has bloom filters of the newer kind."""
        return self._bloom_filters_at(column) is not None

    def bloom_filters(self, column: int) -> BloomFilterIndex | None:
        """Return the bloom filters of a column, or None.

        They hash UTF-8 strings and UTC times. The older kind, which hashes strings in the writer's character set and
        times in its time zone, is ignored.
        """
        location = self._bloom_filters_at(column)
        if location is None:
            return None
        filters = parse_message(
            BloomFilterIndex, self.tail.codec.decompress(self._read(location.offset, location.length))
        )
        return filters if len(filters.bloom_filter) == self.group_count else None

    def _bloom_filters_at(self, column: int) -> StreamLocation | None:
        locations = self._by_column.get(column, ())
        return next((location for location in locations if location.kind == StreamKind.BLOOM_FILTER_UTF8), None)

    def dictionary_size(self, column: int) -> int:
        """Return the number of entries of a column's dictionary, or 0 without a dictionary."""
        encoding = self.footer.columns[column]
        return encoding.dictionary_size if encoding.kind in _DICTIONARY else 0

    def stream_indexes(self, column: int) -> dict[int, StreamIndex]:
        """Return the index of each stream of a column by its kind. Dictionaries are read whole and have none."""
        index = self.row_index(column)
        if index is None:
            raise ValueError(f"column {column} has no row index")
        kind = OrcTypeKind(self.tail.types[column].kind)
        has_dictionary = kind in _STRINGS and self.footer.columns[column].kind in _DICTIONARY
        codings = ((_DATA, StreamCoding.UNSIGNED),) if has_dictionary else _CODINGS[kind]
        if any(location.kind == StreamKind.PRESENT for location in self.data_streams(column)):
            codings = ((StreamKind.PRESENT, StreamCoding.BITS), *codings)
        is_compressed = self.tail.codec.compression is not CompressionKind.NONE
        indexes: dict[int, StreamIndex] = {}
        position = 0
        for stream, coding in codings:
            indexes[stream] = StreamIndex(index, coding, position, is_compressed)
            position += indexes[stream].position_count
        return indexes


def _has_integers(kind: OrcTypeKind) -> bool:
    return any(coding in (StreamCoding.SIGNED, StreamCoding.UNSIGNED) for _, coding in _CODINGS[kind])


def _adjacent(locations: Sequence[StreamLocation]) -> list[list[StreamLocation]]:
    """Group streams without a gap between them."""
    runs: list[list[StreamLocation]] = []
    for location in locations:
        if runs and runs[-1][-1].offset + runs[-1][-1].length == location.offset:
            runs[-1].append(location)
        else:
            runs.append([location])
    return runs
