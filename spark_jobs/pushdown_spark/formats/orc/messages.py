"""ORC's metadata messages: the protocol buffers of file tails, stripe footers, row indexes and bloom filters.

Field numbers and types are those of the ORC v1 specification (orc.apache.org/specification/ORCv1). The messages are
built from the table below at import, so that no generated code is needed; fields that no reader here looks at are left
out, and protocol buffers keep them as unknown fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "uint64": _FIELD.TYPE_UINT64,
    "uint32": _FIELD.TYPE_UINT32,
    "sint64": _FIELD.TYPE_SINT64,
    "sint32": _FIELD.TYPE_SINT32,
    "fixed64": _FIELD.TYPE_FIXED64,
    "double": _FIELD.TYPE_DOUBLE,
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
}

# Strings are declared as bytes: a bound that was cut inside a character is no UTF-8.
_TABLE = {
    "PostScript": (
        "footer_length uint64 1",
        "compression uint32 2",
        "compression_block_size uint64 3",
        "version *uint32 4",
        "metadata_length uint64 5",
        "writer_version uint32 6",
        "magic bytes 8000",
    ),
    "StripeInformation": (
        "offset uint64 1",
        "index_length uint64 2",
        "data_length uint64 3",
        "footer_length uint64 4",
        "number_of_rows uint64 5",
    ),
    "Type": (
        "kind uint32 1",
        "subtypes *uint32 2",
        "field_names +bytes 3",
        "maximum_length uint32 4",
        "precision uint32 5",
        "scale uint32 6",
        "attributes +StringPair 7",
    ),
    "StringPair": ("key bytes 1", "value bytes 2"),
    "IntegerStatistics": ("minimum sint64 1", "maximum sint64 2"),
    "DoubleStatistics": ("minimum double 1", "maximum double 2", "sum double 3"),
    "StringStatistics": (
        "minimum bytes 1",
        "maximum bytes 2",
        "sum sint64 3",
        "lower_bound bytes 4",
        "upper_bound bytes 5",
    ),
    "BucketStatistics": ("count *uint64 1",),
    "DecimalStatistics": ("minimum bytes 1", "maximum bytes 2"),
    "DateStatistics": ("minimum sint32 1", "maximum sint32 2"),
    "BinaryStatistics": ("sum sint64 1",),
    "TimestampStatistics": ("minimum sint64 1", "maximum sint64 2", "minimum_utc sint64 3", "maximum_utc sint64 4"),
    "ColumnStatistics": (
        "number_of_values uint64 1",
        "int_statistics IntegerStatistics 2",
        "double_statistics DoubleStatistics 3",
        "string_statistics StringStatistics 4",
        "bucket_statistics BucketStatistics 5",
        "decimal_statistics DecimalStatistics 6",
        "date_statistics DateStatistics 7",
        "binary_statistics BinaryStatistics 8",
        "timestamp_statistics TimestampStatistics 9",
        "has_null bool 10",
    ),
    "Footer": (
        "header_length uint64 1",
        "content_length uint64 2",
        "stripes +StripeInformation 3",
        "types +Type 4",
        "number_of_rows uint64 6",
        "statistics +ColumnStatistics 7",
        "row_index_stride uint32 8",
        "writer uint32 9",
        "encryption bytes 10",
        "calendar uint32 11",
        "software_version bytes 12",
    ),
    "StripeStatistics": ("col_stats +ColumnStatistics 1",),
    "Metadata": ("stripe_stats +StripeStatistics 1",),
    "Stream": ("kind uint32 1", "column uint32 2", "length uint64 3"),
    "ColumnEncoding": ("kind uint32 1", "dictionary_size uint32 2"),
    "StripeFooter": ("streams +Stream 1", "columns +ColumnEncoding 2", "writer_timezone bytes 3"),
    "RowIndexEntry": ("positions *uint64 1", "statistics ColumnStatistics 2"),
    "RowIndex": ("entry +RowIndexEntry 1",),
    "BloomFilter": ("num_hash_functions uint32 1", "bitset +fixed64 2", "utf8bitset bytes 3"),
    "BloomFilterIndex": ("bloom_filter +BloomFilter 1",),
}


class PostScript(Protocol):
    """The last bytes of a file: how long footer and metadata are, how everything is compressed."""

    footer_length: int
    compression: int
    compression_block_size: int
    version: list[int]
    metadata_length: int
    writer_version: int
    magic: bytes


class StripeInformation(Protocol):
    """Where a stripe lies; lengths in bytes."""

    offset: int
    index_length: int
    data_length: int
    footer_length: int
    number_of_rows: int


class StringPair(Protocol):
    """An attribute of a type."""

    key: bytes
    value: bytes


class Type(Protocol):
    """One node of the type tree."""

    kind: int
    subtypes: Sequence[int]
    field_names: Sequence[bytes]
    maximum_length: int
    precision: int
    scale: int
    attributes: Sequence[StringPair]


class Presence(Protocol):
    """A message whose optional fields can be asked for."""

    def HasField(self, name: str) -> bool:  # noqa: N802 -- protobuf's name
        """Whether an optional field is there."""


class _Bounds(Presence, Protocol):
    minimum: int
    maximum: int


class _DoubleBounds(Presence, Protocol):
    minimum: float
    maximum: float
    sum: float


class _TextBounds(Presence, Protocol):
    minimum: bytes
    maximum: bytes
    sum: int
    lower_bound: bytes
    upper_bound: bytes


class _Lengths(Protocol):
    sum: int


class _TimestampBounds(Presence, Protocol):
    minimum_utc: int
    maximum_utc: int


class _Buckets(Protocol):
    count: Sequence[int]


class ColumnStatistics(Presence, Protocol):
    """Statistics of one column in a file, a stripe or a row group."""

    number_of_values: int
    has_null: bool
    int_statistics: _Bounds
    double_statistics: _DoubleBounds
    string_statistics: _TextBounds
    bucket_statistics: _Buckets
    decimal_statistics: _TextBounds
    date_statistics: _Bounds
    binary_statistics: _Lengths
    timestamp_statistics: _TimestampBounds


class Footer(Presence, Protocol):
    """The file's footer: stripes, types, statistics."""

    header_length: int
    content_length: int
    stripes: Sequence[StripeInformation]
    types: Sequence[Type]
    number_of_rows: int
    statistics: Sequence[ColumnStatistics]
    row_index_stride: int
    writer: int
    calendar: int
    software_version: bytes


class StripeStatistics(Protocol):
    """Statistics of every column in one stripe."""

    col_stats: Sequence[ColumnStatistics]


class Metadata(Protocol):
    """Statistics of every stripe."""

    stripe_stats: Sequence[StripeStatistics]


class Stream(Protocol):
    """One stream of a stripe: its kind, its column, its length in bytes."""

    kind: int
    column: int
    length: int


class ColumnEncoding(Protocol):
    """How a column's values are encoded in a stripe."""

    kind: int
    dictionary_size: int


class StripeFooter(Presence, Protocol):
    """The directory of a stripe."""

    streams: Sequence[Stream]
    columns: Sequence[ColumnEncoding]
    writer_timezone: bytes


class RowIndexEntry(Protocol):
    """Where a row group begins in each stream of a column, and the column's statistics there."""

    positions: Sequence[int]
    statistics: ColumnStatistics


class RowIndex(Protocol):
    """The row groups of one column in one stripe."""

    entry: Sequence[RowIndexEntry]


class BloomFilter(Protocol):
    """One row group's bloom filter."""

    num_hash_functions: int
    bitset: Sequence[int]
    utf8bitset: bytes


class BloomFilterIndex(Protocol):
    """The bloom filters of one column in one stripe."""

    bloom_filter: Sequence[BloomFilter]


def _classes() -> dict[str, type[Message]]:
    """Message classes by name."""
    package = "airflow_pushdown.orc"
    file = descriptor_pb2.FileDescriptorProto(name="airflow_pushdown/orc.proto", package=package, syntax="proto2")
    for name, fields in _TABLE.items():
        message = file.message_type.add(name=name)
        for text in fields:
            field, kind, number = text.split()
            declared = message.field.add(name=field, number=int(number))
            repeated = kind[0] in "*+"
            declared.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
            declared.options.packed = kind[0] == "*"
            kind = kind.lstrip("*+")
            if kind in _SCALARS:
                declared.type = _SCALARS[kind]
            else:
                declared.type = _FIELD.TYPE_MESSAGE
                declared.type_name = f".{package}.{kind}"
            if not repeated or kind not in _SCALARS:
                declared.options.ClearField("packed")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in _TABLE}


_CLASSES = _classes()


def _parse(name: str, data: bytes) -> Message:
    message = _CLASSES[name]()
    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise ValueError(f"no valid {name} message") from problem
    return message


def parse_post_script(data: bytes) -> PostScript:
    """Raises ValueError for bytes that are no such message, as all parsers here do."""
    return cast(PostScript, _parse("PostScript", data))


def parse_footer(data: bytes) -> Footer:
    """The file footer."""
    return cast(Footer, _parse("Footer", data))


def parse_metadata(data: bytes) -> Metadata:
    """The stripes' statistics."""
    return cast(Metadata, _parse("Metadata", data))


def parse_stripe_footer(data: bytes) -> StripeFooter:
    """A stripe's directory."""
    return cast(StripeFooter, _parse("StripeFooter", data))


def parse_row_index(data: bytes) -> RowIndex:
    """One column's row groups."""
    return cast(RowIndex, _parse("RowIndex", data))


def parse_bloom_filters(data: bytes) -> BloomFilterIndex:
    """One column's bloom filters."""
    return cast(BloomFilterIndex, _parse("BloomFilterIndex", data))


def stripe_footer_bytes(
    streams: Sequence[tuple[int, int, int]], encodings: Sequence[ColumnEncoding], writer_timezone: bytes
) -> bytes:
    """A stripe footer of streams (kind, column, length in bytes)."""
    footer = _CLASSES["StripeFooter"]()
    for kind, column, length in streams:
        footer.streams.add(kind=kind, column=column, length=length)  # type: ignore[attr-defined]
    footer.columns.extend(encodings)  # type: ignore[attr-defined]
    footer.writer_timezone = writer_timezone  # type: ignore[attr-defined]
    return footer.SerializeToString()


def type_like(original: Type, subtypes: Sequence[int], field_names: Sequence[bytes]) -> Type:
    """A node like another with other children."""
    node = _CLASSES["Type"]()
    node.CopyFrom(cast(Message, original))
    node.ClearField("subtypes")
    node.ClearField("field_names")
    node.subtypes.extend(subtypes)  # type: ignore[attr-defined]
    node.field_names.extend(field_names)  # type: ignore[attr-defined]
    return cast(Type, node)


def footer_bytes(original: Footer, types: Sequence[Type], stripes: Sequence[tuple[int, int, int, int]]) -> bytes:
    """A footer like another, over stripes (offset, data length, footer length, rows), without index or statistics."""
    footer = _CLASSES["Footer"]()
    footer.header_length = 3  # type: ignore[attr-defined]
    footer.types.extend(types)  # type: ignore[attr-defined]
    for offset, data, tail, rows in stripes:
        footer.stripes.add(  # type: ignore[attr-defined]
            offset=offset, index_length=0, data_length=data, footer_length=tail, number_of_rows=rows
        )
    footer.number_of_rows = sum(rows for *_, rows in stripes)  # type: ignore[attr-defined]
    footer.content_length = sum(data + tail for _, data, tail, _ in stripes)  # type: ignore[attr-defined]
    footer.row_index_stride = 0  # type: ignore[attr-defined]
    footer.writer = original.writer  # type: ignore[attr-defined]
    if original.calendar:
        footer.calendar = original.calendar  # type: ignore[attr-defined]
    return footer.SerializeToString()


def post_script_bytes(original: PostScript, footer_length: int) -> bytes:
    """A post script like another, for a footer of this length and no metadata."""
    script = _CLASSES["PostScript"]()
    script.CopyFrom(cast(Message, original))
    script.footer_length = footer_length  # type: ignore[attr-defined]
    script.metadata_length = 0  # type: ignore[attr-defined]
    return script.SerializeToString()
