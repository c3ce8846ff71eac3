"""Parsing and serialization of ORC's metadata messages, whose classes are generated from `orc_proto.proto`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from pushdown_spark.formats.orc.orc_proto_pb2 import (
    ColumnEncoding,
    Footer,
    PostScript,
    Stream,
    StripeFooter,
    StripeInformation,
    Type,
)

M = TypeVar("M", bound=Message)

_HEADER_LENGTH = 3
"""Bytes of the magic number at the start of a file."""


def parse_message(message_type: type[M], data: bytes) -> M:
    """Parse a message. Raises ValueError for bytes that are not such a message."""
    message = message_type()
    try:
        message.ParseFromString(data)
    except DecodeError as problem:
        raise ValueError(f"no valid {message_type.__name__} message") from problem
    return message


def stripe_footer_bytes(
    streams: Sequence[tuple[int, int, int]], encodings: Sequence[ColumnEncoding], writer_timezone: bytes
) -> bytes:
    """Serialize a stripe footer. Each stream is a kind, a column and a length in bytes."""
    footer = StripeFooter(
        streams=[Stream(kind=kind, column=column, length=length) for kind, column, length in streams],
        columns=encodings,
        writer_timezone=writer_timezone,
    )
    return footer.SerializeToString()


def renumbered_type(original: Type, numbers: Mapping[int, int]) -> Type:
    """Return a copy of a type node with the new numbers of its children. A struct keeps only those in `numbers`."""
    node = Type()
    node.CopyFrom(original)
    node.ClearField("subtypes")
    node.ClearField("field_names")
    for index, child in enumerate(original.subtypes):
        if child in numbers:
            node.subtypes.append(numbers[child])
            node.field_names.extend(original.field_names[index : index + 1])
    return node


def footer_bytes(original: Footer, types: Sequence[Type], stripes: Sequence[tuple[int, int, int, int]]) -> bytes:
    """Serialize a footer for other types and stripes, without row indexes and statistics.

    Each stripe is an offset, the lengths of its data and of its footer in bytes, and a number of rows.
    """
    footer = Footer(
        header_length=_HEADER_LENGTH,
        content_length=sum(data + tail for _, data, tail, _ in stripes),
        stripes=[
            StripeInformation(offset=offset, index_length=0, data_length=data, footer_length=tail, number_of_rows=rows)
            for offset, data, tail, rows in stripes
        ],
        types=types,
        number_of_rows=sum(rows for *_, rows in stripes),
        row_index_stride=0,
        writer=original.writer,
    )
    if original.calendar:
        footer.calendar = original.calendar
    return footer.SerializeToString()


def post_script_bytes(original: PostScript, footer_length: int) -> bytes:
    """Serialize a copy of a postscript for a footer of another length and no metadata."""
    script = PostScript()
    script.CopyFrom(original)
    script.footer_length = footer_length
    script.metadata_length = 0
    return script.SerializeToString()
