"""The tail of an ORC file: its types, its stripes and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.compression import MAX_BLOCK_SIZE, Codec, CompressionKind
from pushdown_spark.formats.orc.metadata import parse_message
from pushdown_spark.formats.orc.orc_proto_pb2 import (
    ColumnStatistics,
    Footer,
    Metadata,
    PostScript,
    StripeInformation,
    Type,
)

_GUESS = 16 << 10
"""Bytes of the first read at the end of a file. Most tails are smaller."""
_MAGIC = b"ORC"
_ONLY_JAVA = {3: "LZO", 6: "Brotli"}
_VERSION = (0, 12)
"""The version of all files since Hive 0.12."""

ReadRange = Callable[[int, int], bytes]
"""Reads bytes of a file, given an offset and a length."""


class OrcTypeKind(IntEnum):
    """Kinds of types, by their number in files."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


@dataclass(frozen=True)
class FileTail:
    """The tail of a file. `metadata_at` is the offset and the length in bytes of the stripe statistics."""

    post_script: PostScript
    footer: Footer
    codec: Codec
    metadata_at: tuple[int, int]

    @property
    def types(self) -> Sequence[Type]:
        """The type tree, parents before children. The index of a node is its column id."""
        return self.footer.types

    @property
    def stripes(self) -> Sequence[StripeInformation]:
        """The locations of the stripes."""
        return self.footer.stripes

    @property
    def stride(self) -> int:
        """Rows of a row group, 0 without row indexes."""
        return self.footer.row_index_stride

    @property
    def statistics(self) -> Sequence[ColumnStatistics]:
        """The file's statistics by column id, or none."""
        return self.footer.statistics

    @cached_property
    def top_level(self) -> dict[str, int]:
        """Column ids of the top-level columns by name."""
        root = self.types[0]
        names = [name.decode("utf-8", "surrogateescape") for name in root.field_names]
        return dict(zip(names, root.subtypes, strict=True))

    def descendants(self, column: int) -> range:
        """Return the ids of a column and of its descendants. Ids are assigned depth first."""
        last = column
        while subtypes := self.types[last].subtypes:
            last = subtypes[-1]
        return range(column, last + 1)

    def stripe_statistics(self, read: ReadRange) -> Metadata:
        """Read the stripe statistics, which may be missing."""
        offset, length = self.metadata_at
        return parse_message(Metadata, self.codec.decompress(read(offset, length)) if length else b"")


def read_tail(read: ReadRange, size: int) -> FileTail:
    """Read the tail of a file of `size` bytes, in one read if it is short.

    Raises ValueError for a file that is not an ORC file, and UnsafeInputError for a version, a compression or an
    encryption that only Spark's reader supports.
    """
    if size <= len(_MAGIC) + 1:
        raise ValueError(f"it has {size} bytes, too few for an ORC file")
    guess = min(size, _GUESS)
    end = read(size - guess, guess)
    script_length = end[-1]
    if script_length + 1 > len(end):
        raise ValueError("its postscript is truncated")
    script = parse_message(PostScript, end[-1 - script_length : -1])
    if bytes(script.magic) != _MAGIC and read(0, len(_MAGIC)) != _MAGIC:
        raise ValueError("it has no ORC magic, neither in its postscript nor in its first bytes")
    codec = _codec(script)
    tail_size = script.footer_length + script_length + 1
    metadata_start = size - tail_size - script.metadata_length
    if metadata_start < 0:
        raise ValueError(f"its footer claims {script.footer_length} bytes, more than it has")
    if tail_size > len(end):
        end = read(size - tail_size, tail_size)
    footer = parse_message(Footer, codec.decompress(end[len(end) - tail_size : len(end) - script_length - 1]))
    _check_footer(footer, metadata_start)
    if tuple(script.version) != _VERSION:
        version = ".".join(map(str, script.version or (0, 11)))
        raise UnsafeInputError(f"it is of version {version}; read it with reader='spark'")
    return FileTail(script, footer, codec, (metadata_start, script.metadata_length))


def _codec(script: PostScript) -> Codec:
    number, size = script.compression, script.compression_block_size or 1 << 18
    if number in _ONLY_JAVA:
        raise UnsafeInputError(f"it is compressed by {_ONLY_JAVA[number]}; read it with reader='spark'")
    if number not in set(CompressionKind):
        raise ValueError(f"its compression (number {number}) is unknown")
    if size > MAX_BLOCK_SIZE:
        raise ValueError(f"its blocks are of {size} bytes, more than chunks can have")
    return Codec(CompressionKind(number), size)


def _check_footer(footer: Footer, limit: int) -> None:
    """Raise ValueError for an inconsistent footer, and UnsafeInputError for an encrypted file."""
    if footer.HasField("encryption"):
        raise UnsafeInputError("it is encrypted; read it with reader='spark'")
    if not footer.types or footer.types[0].kind != OrcTypeKind.STRUCT:
        raise ValueError("its footer has no row type")
    _check_types(footer.types)
    for number, stripe in enumerate(footer.stripes):
        if stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length > limit:
            raise ValueError(f"stripe {number} would reach beyond the file's content")
    if sum(stripe.number_of_rows for stripe in footer.stripes) != footer.number_of_rows:
        raise ValueError("its stripes and its footer differ in the number of rows")


def _check_types(types: Sequence[Type]) -> None:
    """Raise ValueError unless the types are a tree whose nodes are numbered depth first."""
    count = 0
    pending = [0]
    while pending:
        number = pending.pop()
        if number != count or number >= len(types) or not _has_right_children(types[number]):
            raise ValueError(f"its type tree is broken at column {count}")
        pending.extend(reversed(types[number].subtypes))
        count += 1
    if count != len(types):
        raise ValueError(f"its type tree is broken at column {count}")


def _has_right_children(node: Type) -> bool:
    children = len(node.subtypes)
    if node.kind == OrcTypeKind.STRUCT:
        return children == len(node.field_names)
    if node.kind == OrcTypeKind.UNION:
        return True
    return children == {OrcTypeKind.LIST: 1, OrcTypeKind.MAP: 2}.get(OrcTypeKind(node.kind), 0)
