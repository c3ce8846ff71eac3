"""Cut row groups out of a stripe: a small ORC file, in memory, of just those rows and columns.

A decoder that reads whole stripes then decodes just these row groups. Streams are copied as they are stored; only the
chunk in which a row group begins is unpacked, and the run in which it begins is written anew from its first value.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import orc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import Compression, spans
from pushdown_spark.formats.orc.file_tail import FileTail
from pushdown_spark.formats.orc.length_guard import check_lengths
from pushdown_spark.formats.orc.messages import Type, footer_bytes, post_script_bytes, stripe_footer_bytes, type_like
from pushdown_spark.formats.orc.rle_seek import MAX_PENDING_BYTES, Coding, Start, realigned
from pushdown_spark.formats.orc.stripe import Entry, StreamKind, StreamPlace, Stripe
from pushdown_spark.formats.orc.time_zones import DECODED_IN

Pieces = Callable[[int, int], bytes]
"""Gives the bytes from one offset of the file to another; they must have been fetched."""

_BEGINNING = Entry(0, 0, Start())


@dataclass(frozen=True)
class Groups:
    """Row groups first .. last of a stripe."""

    first: int
    last: int


@dataclass(frozen=True)
class Cutting:
    """A stream's share in a cut: which stored bytes of the file, and what to do about their beginning and end.

    `entry` is where the first row group begins, `next_entry` where the one behind the last does, None at the stream's
    end.
    """

    place: StreamPlace
    begin: int
    end: int
    coding: Coding
    entry: Entry
    next_entry: Entry | None

    def needed(self, start: int) -> int | None:
        """How many bytes are needed of the content of the chunk stored at `begin + start`; None for all of them."""
        behind = self.next_entry
        if behind is None or self.place.offset + behind.chunk != self.begin + start:
            return None
        return behind.byte + (0 if self.coding is Coding.RAW else MAX_PENDING_BYTES)


def cuttings(stripe: Stripe, columns: Iterable[int], groups: Groups) -> list[Cutting]:
    """What a cut needs of each stream of some columns."""
    whole = groups.first == 0 and groups.last + 1 == stripe.groups
    found = []
    for column in columns:
        indexes = {} if whole else stripe.stream_indexes(column)
        for place in stripe.data_streams(column):
            index = indexes.get(place.kind)
            if index is None:
                whole_stream = (place.offset, place.offset + place.length)
                found.append(Cutting(place, *whole_stream, Coding.RAW, _BEGINNING, None))
                continue
            begin, end = index.extent(groups.first, groups.last, place.length, stripe.tail.codec.block_size)
            if not begin <= end <= place.length:
                raise ValueError(f"column {column} has index entries that lie outside its stream")
            entry = index.entry(groups.first)
            behind = index.entry(groups.last + 1) if groups.last + 1 < stripe.groups else None
            found.append(Cutting(place, place.offset + begin, place.offset + end, index.coding, entry, behind))
    return found


def cut_stream(stripe: Stripe, cutting: Cutting, stored: bytes) -> bytes:
    """A stream that begins with its row group's first value, from the stored bytes of a cutting."""
    codec, entry = stripe.tail.codec, cutting.entry
    if codec.compression is Compression.NONE:
        return realigned(stored, cutting.coding, entry.start)
    aligned = entry.byte == 0 and entry.start == Start()
    if aligned and cutting.next_entry is None:
        return stored
    # Bits are shifted to the end of the stream; a run may go on in the next chunk.
    shifted = cutting.coding is Coding.BITS and entry.start.bits
    enough = 0 if aligned else None if shifted else entry.byte + MAX_PENDING_BYTES
    head = b""
    rest = []
    for start, stop in spans(stored):
        needed = cutting.needed(start)
        if needed is None and enough is not None and len(head) >= enough:
            rest.append(stored[start:stop])
            continue
        content = codec.chunk(stored, start, stop, needed)
        if enough is None or len(head) < enough:
            head += content
        else:
            rest.append(codec.packed(content))
        if needed is not None and len(content) >= needed:
            break
    if len(head) < entry.byte:
        raise ValueError(f"column {cutting.place.column} has an index entry beyond its stream")
    return b"".join([codec.packed(realigned(head[entry.byte :], cutting.coding, entry.start)), *rest])


@dataclass(frozen=True)
class Selection:
    """Some columns of a file and the root, in the file's order; `types` is their own, smaller type tree."""

    columns: tuple[int, ...]
    types: tuple[Type, ...]

    @classmethod
    def of(cls, tail: FileTail, top_level: Iterable[int]) -> Selection:
        """Some top-level columns, whole."""
        return cls.of_parts(tail, [column for root in top_level for column in tail.descendants(root)])

    @classmethod
    def of_parts(cls, tail: FileTail, wanted: Iterable[int]) -> Selection:
        """Some columns; whatever holds one of them must be among them. Structs are left with the members given."""
        columns = (0, *sorted(wanted))
        new = {column: number for number, column in enumerate(columns)}
        return cls(columns, tuple(_with_children(tail.types[column], new) for column in columns))


def _with_children(node: Type, new: Mapping[int, int]) -> Type:
    """A type under its new numbers, a struct with just the members that have one."""
    kept = [place for place, child in enumerate(node.subtypes) if child in new]
    names = [node.field_names[place] for place in kept] if node.field_names else node.field_names
    return type_like(node, [new[node.subtypes[place]] for place in kept], names)


class CutFile:
    """An ORC file of some columns, in memory, put together stripe by stripe."""

    def __init__(self, stripe: Stripe, selection: Selection) -> None:
        self._stripe = stripe
        self._selection = selection
        self._numbers = {column: number for number, column in enumerate(selection.columns)}
        self._out = io.BytesIO()
        self._out.write(b"ORC")
        self._stripes: list[tuple[int, int, int, int]] = []

    def add(self, groups: Groups, cut: Sequence[Cutting], pieces: Pieces) -> None:
        """Add some row groups as a stripe."""
        stripe = self._stripe
        offset = self._out.tell()
        streams = []
        for cutting in cut:
            data = cut_stream(stripe, cutting, pieces(cutting.begin, cutting.end))
            if cutting.place.kind == StreamKind.LENGTH:
                data = self._checked(cutting.place.column, data)
            self._out.write(data)
            streams.append((cutting.place.kind, self._numbers[cutting.place.column], len(data)))
        length = self._out.tell() - offset
        encodings = [stripe.footer.columns[column] for column in self._selection.columns]
        footer = stripe_footer_bytes(streams, encodings, DECODED_IN)
        footer = stripe.tail.codec.packed(footer)
        self._out.write(footer)
        rows = stripe.rows_before(groups.last + 1) - stripe.rows_before(groups.first)
        self._stripes.append((offset, length, len(footer), rows))

    def _checked(self, column: int, data: bytes) -> bytes:
        """Lengths that were looked at, uncompressed as that has them."""
        content = self._stripe.tail.codec.unpacked(data)
        try:
            check_lengths(content, self._stripe.lengths_coding(column), self._stripe.dictionary_size(column))
        except (ValueError, UnsafeInputError) as problem:
            raise type(problem)(f"column {column}: {problem}") from problem
        return self._stripe.tail.codec.packed(content)

    def opened(self) -> orc.ORCFile:
        """The file, ready to be read by pyarrow."""
        tail = self._stripe.tail
        footer = tail.codec.packed(footer_bytes(tail.footer, self._selection.types, self._stripes))
        script = post_script_bytes(tail.post_script, len(footer))
        self._out.write(footer + script + bytes([len(script)]))
        return orc.ORCFile(pa.BufferReader(self._out.getbuffer()))
