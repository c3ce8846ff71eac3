"""Row group slices: small ORC files, in memory, with some row groups and some columns of a stripe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import CompressionKind, spans
from pushdown_spark.formats.orc.file_tail import FileTail
from pushdown_spark.formats.orc.length_check import check_lengths
from pushdown_spark.formats.orc.metadata import footer_bytes, post_script_bytes, renumbered_type, stripe_footer_bytes
from pushdown_spark.formats.orc.orc_proto_pb2 import Type
from pushdown_spark.formats.orc.rle_seek import MAX_PENDING_BYTES, SeekPosition, StreamCoding, seek_values
from pushdown_spark.formats.orc.stripe import RowGroupRange, RowGroupStart, StreamKind, StreamLocation, Stripe
from pushdown_spark.formats.orc.time_zones import SLICE_TIME_ZONE

# pyarrow decodes whole stripes only. To decode some row groups, their streams are cut out of the stripe and written as
# a file with one stripe, which pyarrow then reads:
#
#   file         "ORC", stripe, footer, postscript. The footer has the types of the selected columns, renumbered.
#   stripe       The slices of all streams, and a stripe footer. There are no row indexes and no statistics.
#   stream       Without compression: one run-length encoded sequence. With compression: a sequence of chunks, each a
#                3-byte header and at most `block_size` decompressed bytes.
#
# A row index has, for each row group and stream, an entry (chunk, byte, values): the offset of the chunk in which the
# row group begins, the byte in this chunk, and the values to skip after this byte. A slice of a stream from one row
# group to another consists of:
#
#   1. The first chunk, decompressed. The bytes before the entry are dropped, and the run that contains the first value
#      is rewritten to begin with it (see rle_seek). The result is stored as an uncompressed chunk.
#   2. The chunks after it, copied without decompressing them.
#   3. Some bytes after the entry of the next row group. Writers buffer up to 512 values, so the last values of a row
#      group may be stored after this entry. The decoder stops after the number of rows in the footer.
#
# Dictionaries are copied whole. Streams of lengths are decompressed and checked by `length_check`.

FetchedBytes = Callable[[int, int], bytes]
"""Returns the bytes between two offsets of the file. They must have been fetched."""

_MAGIC = b"ORC"
_STREAM_START = RowGroupStart(0, 0, SeekPosition())
_ALL_BYTES = 1 << 62
"""More bytes than a stream can have."""


@dataclass(frozen=True)
class StreamSlice:
    """The slice of one stream: its stored bytes in the file, and where its row groups begin and end in them.

    `entry` is the start of the first row group. `next_entry` is the start of the row group after the last one, None at
    the end of the stream.
    """

    location: StreamLocation
    begin: int
    end: int
    coding: StreamCoding
    entry: RowGroupStart
    next_entry: RowGroupStart | None

    def required_bytes(self, start: int) -> int | None:
        """Return how many decompressed bytes of the chunk at `begin + start` are needed, or None for all of them."""
        next_entry = self.next_entry
        if next_entry is None or self.location.offset + next_entry.chunk != self.begin + start:
            return None
        return next_entry.byte + (0 if self.coding is StreamCoding.RAW else MAX_PENDING_BYTES)


def stream_slices(stripe: Stripe, columns: Iterable[int], groups: RowGroupRange) -> list[StreamSlice]:
    """Return the slices of all streams of some columns."""
    is_whole = groups.first == 0 and groups.last + 1 == stripe.group_count
    slices = []
    for column in columns:
        indexes = {} if is_whole else stripe.stream_indexes(column)
        for location in stripe.data_streams(column):
            index = indexes.get(location.kind)
            if index is None:
                whole_stream = (location.offset, location.offset + location.length)
                slices.append(StreamSlice(location, *whole_stream, StreamCoding.RAW, _STREAM_START, None))
                continue
            begin, end = index.extent(groups.first, groups.last, location.length, stripe.tail.codec.block_size)
            if not begin <= end <= location.length:
                raise ValueError(f"column {column} has index entries that lie outside its stream")
            entry = index.entry(groups.first)
            next_entry = index.entry(groups.last + 1) if groups.last + 1 < stripe.group_count else None
            slices.append(
                StreamSlice(location, location.offset + begin, location.offset + end, index.coding, entry, next_entry)
            )
    return slices


def slice_stream(stripe: Stripe, part: StreamSlice, data: bytes) -> bytes:
    """Return the content of a slice, which begins with the first value of its first row group."""
    codec, entry = stripe.tail.codec, part.entry
    if codec.compression is CompressionKind.NONE:
        return seek_values(data, part.coding, entry.start)
    head_size = _head_size(part)
    if head_size == 0 and part.next_entry is None:
        return data
    head = b""
    rest = []
    for start, stop in spans(data):
        required_bytes = part.required_bytes(start)
        is_head = len(head) < head_size
        if not is_head and required_bytes is None:
            # Complete chunks after the head are copied without decompressing them.
            rest.append(data[start:stop])
            continue
        content = codec.chunk(data, start, stop, required_bytes)
        if is_head:
            head += content
        else:
            rest.append(codec.store_uncompressed(content))
        if required_bytes is not None and len(content) >= required_bytes:
            break
    if len(head) < entry.byte:
        raise ValueError(f"column {part.location.column} has an index entry beyond its stream")
    return b"".join([codec.store_uncompressed(seek_values(head[entry.byte :], part.coding, entry.start)), *rest])


def _head_size(part: StreamSlice) -> int:
    """Return the decompressed bytes at the start of a slice that are rewritten, or `_ALL_BYTES`.

    They have the chunk with the entry, and more chunks if the run of the first value continues in them.
    """
    entry = part.entry
    if entry.byte == 0 and entry.start == SeekPosition():
        return 0
    if part.coding is StreamCoding.BITS and entry.start.bits:
        # Shifted bits are rewritten up to the end of the stream.
        return _ALL_BYTES
    return entry.byte + MAX_PENDING_BYTES


@dataclass(frozen=True)
class ColumnSelection:
    """The root and some columns of a file, in the file's order. `types` is the type tree of the selected columns."""

    columns: tuple[int, ...]
    types: tuple[Type, ...]

    @classmethod
    def of(cls, tail: FileTail, column_ids: Iterable[int]) -> ColumnSelection:
        """Select some columns. Their parents must be among them. Structs keep only the selected members."""
        columns = (0, *sorted(column_ids))
        new = {column: number for number, column in enumerate(columns)}
        return cls(columns, tuple(renumbered_type(tail.types[column], new) for column in columns))


def slice_file(
    stripe: Stripe, selection: ColumnSelection, rows: int, slices: Sequence[StreamSlice], stripe_bytes: FetchedBytes
) -> orc.ORCFile:
    """Return an ORC file in memory with slices of the selected columns, which have `rows` rows."""
    numbers = {column: number for number, column in enumerate(selection.columns)}
    codec = stripe.tail.codec
    slice_contents = [_slice_content(stripe, part, stripe_bytes) for part in slices]
    streams = [
        (part.location.kind, numbers[part.location.column], len(content))
        for part, content in zip(slices, slice_contents, strict=True)
    ]
    encodings = [stripe.footer.columns[column] for column in selection.columns]
    directory = codec.store_uncompressed(stripe_footer_bytes(streams, encodings, SLICE_TIME_ZONE))
    extent = (len(_MAGIC), sum(map(len, slice_contents)), len(directory), rows)
    footer = codec.store_uncompressed(footer_bytes(stripe.tail.footer, selection.types, [extent]))
    post_script = post_script_bytes(stripe.tail.post_script, len(footer))
    content = b"".join([_MAGIC, *slice_contents, directory, footer, post_script, bytes([len(post_script)])])
    return orc.ORCFile(pa.BufferReader(content))


def _slice_content(stripe: Stripe, part: StreamSlice, stripe_bytes: FetchedBytes) -> bytes:
    """Return the content of a slice. A stream of lengths is decompressed and checked."""
    data = slice_stream(stripe, part, stripe_bytes(part.begin, part.end))
    if part.location.kind != StreamKind.LENGTH:
        return data
    column, codec = part.location.column, stripe.tail.codec
    lengths = codec.decompress(data)
    try:
        check_lengths(lengths, stripe.dictionary_size(column))
    except (ValueError, UnsafeInputError) as problem:
        raise type(problem)(f"column {column}: {problem}") from problem
    return codec.store_uncompressed(lengths)
