"""A stripe's directory: where each column's streams lie, and where row groups begin in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import Compression
from pushdown_spark.formats.orc.file_tail import FileTail, Kind, ReadRange
from pushdown_spark.formats.orc.messages import (
    BloomFilterIndex,
    ColumnEncoding,
    ColumnStatistics,
    RowIndex,
    StripeFooter,
    StripeInformation,
    parse_bloom_filters,
    parse_row_index,
    parse_stripe_footer,
)
from pushdown_spark.formats.orc.rle_seek import MAX_PENDING_BYTES, Coding, Start
from pushdown_spark.formats.orc.statistics import are_consistent


class StreamKind(IntEnum):
    """Kinds of streams that are used here, by their number in the file."""

    PRESENT = 0
    DATA = 1
    LENGTH = 2
    DICTIONARY_DATA = 3
    SECONDARY = 5
    ROW_INDEX = 6
    BLOOM_FILTER = 7
    BLOOM_FILTER_UTF8 = 8


_INDEX_KINDS = frozenset({StreamKind.ROW_INDEX, StreamKind.BLOOM_FILTER, StreamKind.BLOOM_FILTER_UTF8})
_DATA_KINDS = frozenset(
    {StreamKind.PRESENT, StreamKind.DATA, StreamKind.LENGTH, StreamKind.DICTIONARY_DATA, StreamKind.SECONDARY}
)
_DICTIONARY = frozenset({1, 3})
_VERSION_2 = frozenset({2, 3})

_TEXT = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
_SIGNED_DATA = frozenset({Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE})
_NUMBERS_OF_POSITIONS = {Coding.RAW: 0, Coding.BITS: 2, Coding.BYTES: 1}


@dataclass(frozen=True)
class StreamPlace:
    """One stream of a stripe: its column and kind, and where it lies in the file."""

    kind: int
    column: int
    offset: int
    length: int


@dataclass(frozen=True)
class Entry:
    """Where a row group begins in a stream: the chunk's offset, the byte in the chunk, and values to skip there.

    In files without compression `chunk` is 0 and `byte` counts from the stream's start.
    """

    chunk: int
    byte: int
    start: Start


@dataclass(frozen=True)
class StreamIndex:
    """Where the row groups of a stream begin: entries are read from the column's row index when they are asked for.

    `position` is the place of the stream's first number among the positions of an entry.
    """

    index: RowIndex
    coding: Coding
    position: int
    compressed: bool

    @property
    def numbers(self) -> int:
        """How many positions of an entry are this stream's."""
        return (2 if self.compressed else 1) + _NUMBERS_OF_POSITIONS.get(self.coding, 1)

    def entry(self, group: int) -> Entry:
        """Where a row group begins. Raises ValueError for an index that has too few positions.

        The first one begins where its stream does: some writers leave out its positions.
        """
        if group == 0:
            return Entry(0, 0, Start())
        positions = self.index.entry[group].positions
        stop = self.position + self.numbers
        if len(positions) < stop:
            raise ValueError("a row index has too few positions")
        found = positions[self.position : stop]
        if self.compressed:
            return Entry(found[0], found[1], Start(*found[2:]))
        return Entry(0, found[0], Start(*found[1:]))

    def extent(self, first: int, last: int, length: int, block: int) -> tuple[int, int]:
        """Stored bytes, from and to, that hold row groups first .. last of a stream that is `length` bytes long.

        `block` is the size of a whole uncompressed chunk.
        """
        begin = self.entry(first)
        if last + 1 >= len(self.index.entry):
            return begin.chunk if self.compressed else begin.byte, length
        end = self.entry(last + 1)
        exact = self.coding is Coding.RAW
        if not self.compressed:
            return begin.byte, min(length, end.byte + (0 if exact else MAX_PENDING_BYTES))
        if end.byte == 0 and end.start == Start():
            return begin.chunk, end.chunk
        stop = end.chunk
        for _ in range(1 if exact else 1 + (end.byte + MAX_PENDING_BYTES) // block):
            stop = self._chunk_behind(stop, last + 1, length)
        return begin.chunk, stop

    def _chunk_behind(self, chunk: int, group: int, length: int) -> int:
        """Where a chunk behind the one at an offset begins: the next one that a row group begins in, or the end."""
        for number in range(group, len(self.index.entry)):
            found = self.index.entry[number].positions[self.position]
            if found > chunk:
                return int(found)
        return length


class Stripe:
    """One stripe of a file. Its directory is read at once, indexes when they are asked for.

    Raises ValueError, as do all methods, for what cannot be right.
    """

    def __init__(self, tail: FileTail, number: int, read: ReadRange) -> None:
        self.tail = tail
        self.number = number
        self.info: StripeInformation = tail.stripes[number]
        self._read = read
        start = self.info.offset + self.info.index_length + self.info.data_length
        self.footer: StripeFooter = parse_stripe_footer(tail.codec.unpacked(read(start, self.info.footer_length)))
        if len(self.footer.columns) != len(tail.types):
            raise ValueError("the stripe's footer has not as many columns as the file")
        self._indexes: dict[int, RowIndex] = {}

    @property
    def rows(self) -> int:
        """Rows of the stripe."""
        return self.info.number_of_rows

    @property
    def groups(self) -> int:
        """Row groups of the stripe; one where the file has no row index."""
        stride = self.tail.stride
        return -(-self.rows // stride) if self.has_index else min(1, self.rows)

    @property
    def has_index(self) -> bool:
        """Whether row groups can be told apart."""
        return self.tail.stride > 0 and self.info.index_length > 0

    def rows_before(self, group: int) -> int:
        """Rows of the stripe before a row group (or before the stripe's end)."""
        return min(group * self.tail.stride, self.rows) if self.has_index else min(group, 1) * self.rows

    @cached_property
    def places(self) -> tuple[StreamPlace, ...]:
        """All streams, in file order."""
        offset = self.info.offset
        found = []
        limit = offset + self.info.index_length + self.info.data_length
        for stream in self.footer.streams:
            found.append(StreamPlace(stream.kind, stream.column, offset, stream.length))
            offset += stream.length
        if offset > limit:
            raise ValueError("the stripe's streams are longer than the stripe")
        if len({(place.kind, place.column) for place in found}) < len(found):
            raise ValueError("the stripe has two streams of one kind for a column")
        if any(
            place.kind in _DATA_KINDS and place.offset < self.info.offset + self.info.index_length for place in found
        ):
            raise ValueError("the stripe has values where its indexes are")
        return tuple(found)

    @cached_property
    def _by_column(self) -> dict[int, list[StreamPlace]]:
        found: dict[int, list[StreamPlace]] = {}
        for place in self.places:
            found.setdefault(place.column, []).append(place)
        return found

    def data_streams(self, column: int) -> list[StreamPlace]:
        """A column's own streams without its indexes, in file order."""
        return [place for place in self._by_column.get(column, ()) if place.kind not in _INDEX_KINDS]

    def load_indexes(self, columns: Iterable[int]) -> None:
        """Read the row indexes of some columns; those that lie side by side in one read."""
        wanted = {column for column in columns if column not in self._indexes}
        places = [p for p in self.places if p.kind == StreamKind.ROW_INDEX and p.column in wanted]
        for run in _adjacent(places):
            data = self._read(run[0].offset, sum(place.length for place in run))
            for place in run:
                start = place.offset - run[0].offset
                self._indexes[place.column] = self._checked(data[start : start + place.length], place.column)

    def _checked(self, data: bytes, column: int) -> RowIndex:
        index = parse_row_index(self.tail.codec.unpacked(data))
        if len(index.entry) != self.groups:
            raise ValueError(f"column {column} has {len(index.entry)} index entries for {self.groups} row groups")
        if column in self.tail.types[0].subtypes and not _may_count(index.entry[0].statistics, self.rows_before(1)):
            raise UnsafeInputError(f"column {column} has row groups of another size than the file")
        return index

    def row_index(self, column: int) -> RowIndex | None:
        """A column's row index, None where the stripe has none for it."""
        if column not in self._indexes:
            self.load_indexes((column,))
        return self._indexes.get(column)

    def has_bloom_filters(self, column: int) -> bool:
        """Whether a column has the bloom filters that are looked at."""
        return self._bloom_filters_at(column) is not None

    def bloom_filters(self, column: int) -> BloomFilterIndex | None:
        """A column's bloom filters over UTF-8 text and UTC times, None where it has none.

        The older kind (over the writer's own character set and time zone) is not looked at.
        """
        place = self._bloom_filters_at(column)
        if place is None:
            return None
        filters = parse_bloom_filters(self.tail.codec.unpacked(self._read(place.offset, place.length)))
        return filters if len(filters.bloom_filter) == self.groups else None

    def _bloom_filters_at(self, column: int) -> StreamPlace | None:
        places = self._by_column.get(column, ())
        return next((place for place in places if place.kind == StreamKind.BLOOM_FILTER_UTF8), None)

    def dictionary_size(self, column: int) -> int:
        """Entries of a column's dictionary, 0 where its values are stored as they are."""
        encoding = self.footer.columns[column]
        return encoding.dictionary_size if encoding.kind in _DICTIONARY else 0

    def stream_indexes(self, column: int) -> dict[int, StreamIndex]:
        """Entries of each of a column's streams by its kind; dictionaries have none, they are needed whole."""
        index = self.row_index(column)
        if index is None:
            raise ValueError(f"column {column} has no row index")
        streams = {place.kind for place in self.data_streams(column)}
        compressed = self.tail.codec.compression is not Compression.NONE
        found = {}
        position = 0
        for kind, coding in self.codings(column, present=StreamKind.PRESENT in streams):
            found[kind] = StreamIndex(index, coding, position, compressed)
            position += found[kind].numbers
        return found

    def lengths_coding(self, column: int) -> Coding:
        """The coding of a column's lengths: those of its values, or of its dictionary's entries."""
        return _integers(self.footer.columns[column].kind)[1]

    def codings(self, column: int, *, present: bool) -> list[tuple[int, Coding]]:
        """A column's streams that positions are kept of, in the order of the positions, with their codings."""
        encoding: ColumnEncoding = self.footer.columns[column]
        found = _codings(Kind(self.tail.types[column].kind), encoding.kind)
        return [(StreamKind.PRESENT, Coding.BITS), *found] if present else found


def _codings(kind: Kind, encoding: int) -> list[tuple[int, Coding]]:
    signed, unsigned = _integers(encoding)
    if kind in _TEXT and encoding in _DICTIONARY:
        return [(StreamKind.DATA, unsigned)]
    if kind in _TEXT or kind is Kind.BINARY:
        return [(StreamKind.DATA, Coding.RAW), (StreamKind.LENGTH, unsigned)]
    if kind in _SIGNED_DATA:
        return [(StreamKind.DATA, signed)]
    simple = {
        Kind.BOOLEAN: [(StreamKind.DATA, Coding.BITS)],
        Kind.BYTE: [(StreamKind.DATA, Coding.BYTES)],
        Kind.UNION: [(StreamKind.DATA, Coding.BYTES)],
        Kind.FLOAT: [(StreamKind.DATA, Coding.RAW)],
        Kind.DOUBLE: [(StreamKind.DATA, Coding.RAW)],
        Kind.DECIMAL: [(StreamKind.DATA, Coding.RAW), (StreamKind.SECONDARY, signed)],
        Kind.TIMESTAMP: [(StreamKind.DATA, signed), (StreamKind.SECONDARY, unsigned)],
        Kind.TIMESTAMP_INSTANT: [(StreamKind.DATA, signed), (StreamKind.SECONDARY, unsigned)],
        Kind.LIST: [(StreamKind.LENGTH, unsigned)],
        Kind.MAP: [(StreamKind.LENGTH, unsigned)],
        Kind.STRUCT: [],
    }
    return [(int(stream), coding) for stream, coding in simple[kind]]


def _integers(encoding: int) -> tuple[Coding, Coding]:
    """How a column's signed and unsigned integers are coded."""
    return (Coding.SIGNED, Coding.UNSIGNED) if encoding in _VERSION_2 else (Coding.SIGNED_V1, Coding.UNSIGNED_V1)


def _may_count(statistics: ColumnStatistics, rows: int) -> bool:
    """Whether statistics may be those of so many rows: a stride that is wrong shows where no value is null."""
    return not statistics.HasField("number_of_values") or are_consistent(statistics, rows)


def _adjacent(places: Sequence[StreamPlace]) -> list[list[StreamPlace]]:
    """Runs of streams without a gap between them."""
    runs: list[list[StreamPlace]] = []
    for place in places:
        if runs and runs[-1][-1].offset + runs[-1][-1].length == place.offset:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs
