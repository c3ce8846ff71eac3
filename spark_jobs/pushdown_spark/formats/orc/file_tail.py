"""A file's tail: its types, its stripes and their statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

from pyspark.sql import types as t

from pushdown_spark.char_types import DECLARED_TYPE
from pushdown_spark.errors import BadSchemaError, UnsafeInputError
from pushdown_spark.formats.orc.compression import LARGEST_BLOCK, Codec, Compression
from pushdown_spark.formats.orc.messages import (
    ColumnStatistics,
    Footer,
    Metadata,
    PostScript,
    StripeInformation,
    Type,
    parse_footer,
    parse_metadata,
    parse_post_script,
)

_GUESS = 16 << 10
"""Bytes read from the end of a file at first; enough for the tail of most."""
_MAGIC = b"ORC"
_ONLY_JAVA = {3: "LZO", 6: "Brotli"}
_NEWEST_VERSION = (0, 12)

ReadRange = Callable[[int, int], bytes]
"""Reads `length` bytes from an offset of a file."""


class Kind(IntEnum):
    """Kinds of types, by their number in the file."""

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
    """What the end of a file says. `metadata_at` is where the stripes' statistics lie: offset and length in bytes."""

    post_script: PostScript
    footer: Footer
    codec: Codec
    size: int
    metadata_at: tuple[int, int]

    @property
    def types(self) -> Sequence[Type]:
        """The type tree, parents before children; a node's number is its column id."""
        return self.footer.types

    @property
    def stripes(self) -> Sequence[StripeInformation]:
        """Where each stripe lies."""
        return self.footer.stripes

    @property
    def stride(self) -> int:
        """Rows of a row group, 0 where the file has no row index."""
        return self.footer.row_index_stride

    @property
    def statistics(self) -> Sequence[ColumnStatistics]:
        """The file's statistics by column id; empty where it has none."""
        return self.footer.statistics

    @cached_property
    def top_level(self) -> dict[str, int]:
        """Column ids of the root's members by name."""
        root = self.types[0]
        names = [name.decode("utf-8", "surrogateescape") for name in root.field_names]
        return dict(zip(names, root.subtypes, strict=True))

    def descendants(self, column: int) -> range:
        """A column's id and those of everything in it: ids are given depth first."""
        last = column
        while subtypes := self.types[last].subtypes:
            last = subtypes[-1]
        return range(column, last + 1)

    def stripe_statistics(self, read: ReadRange) -> Metadata:
        """The stripes' statistics, which a file may lack."""
        offset, length = self.metadata_at
        return parse_metadata(self.codec.unpacked(read(offset, length)) if length else b"")


def read_tail(read: ReadRange, size: int) -> FileTail:
    """Read the tail of a file of `size` bytes, in one read where it is short.

    Raises ValueError for what is no ORC file, and UnsafeInputError for one that is compressed or encrypted as only
    Spark's reader knows.
    """
    if size <= len(_MAGIC) + 1:
        raise ValueError(f"it has {size} bytes, too few for an ORC file")
    guess = min(size, _GUESS)
    end = read(size - guess, guess)
    script_length = end[-1]
    if script_length + 1 > len(end):
        raise ValueError("its postscript is cut short")
    script = parse_post_script(end[-1 - script_length : -1])
    if bytes(script.magic) != _MAGIC and read(0, len(_MAGIC)) != _MAGIC:
        raise ValueError("it has no ORC magic, neither in its postscript nor in its first bytes")
    if tuple(script.version) > _NEWEST_VERSION:
        raise UnsafeInputError(f"it is of version {'.'.join(map(str, script.version))}; read it with reader='spark'")
    codec = _codec(script)
    needed = script.footer_length + script_length + 1
    metadata_start = size - needed - script.metadata_length
    if metadata_start < 0:
        raise ValueError(f"its footer claims {script.footer_length} bytes, more than it has")
    if needed > len(end):
        end = read(size - needed, needed)
    footer = parse_footer(codec.unpacked(end[len(end) - needed : len(end) - script_length - 1]))
    _check(footer, metadata_start)
    return FileTail(script, footer, codec, size, (metadata_start, script.metadata_length))


def _codec(script: PostScript) -> Codec:
    number, size = script.compression, script.compression_block_size or 1 << 18
    if number in _ONLY_JAVA:
        raise UnsafeInputError(f"it is compressed by {_ONLY_JAVA[number]}; read it with reader='spark'")
    if number not in set(Compression):
        raise ValueError(f"its compression (number {number}) is not known")
    if size > LARGEST_BLOCK:
        raise ValueError(f"its blocks are of {size} bytes, more than chunks can have")
    return Codec(Compression(number), size)


def _check(footer: Footer, limit: int) -> None:
    """Raises ValueError where the footer cannot be right, before anything is read by it."""
    if footer.HasField("encryption"):
        raise UnsafeInputError("it is encrypted; read it with reader='spark'")
    if not footer.types or footer.types[0].kind != Kind.STRUCT:
        raise ValueError("its footer has no row type")
    _check_types(footer.types)
    for number, stripe in enumerate(footer.stripes):
        if stripe.offset + stripe.index_length + stripe.data_length + stripe.footer_length > limit:
            raise ValueError(f"stripe {number} would reach beyond the file's content")
    if sum(stripe.number_of_rows for stripe in footer.stripes) != footer.number_of_rows:
        raise ValueError("its stripes have not as many rows as its footer says")


def _check_types(types: Sequence[Type]) -> None:
    """Raises ValueError unless the types are a tree whose nodes are numbered depth first."""
    seen = 0
    pending = [0]
    while pending:
        number = pending.pop()
        if number != seen or number >= len(types) or not _has_right_children(types[number]):
            raise ValueError(f"its type tree is broken at column {seen}")
        pending.extend(reversed(types[number].subtypes))
        seen += 1
    if seen != len(types):
        raise ValueError(f"its type tree is broken at column {seen}")


def _has_right_children(node: Type) -> bool:
    children = len(node.subtypes)
    if node.kind == Kind.STRUCT:
        return children == len(node.field_names)
    if node.kind == Kind.UNION:
        return True
    return children == {Kind.LIST: 1, Kind.MAP: 2}.get(Kind(node.kind), 0)


_ATOMS: dict[Kind, Callable[[], t.DataType]] = {
    Kind.BOOLEAN: t.BooleanType,
    Kind.BYTE: t.ByteType,
    Kind.SHORT: t.ShortType,
    Kind.INT: t.IntegerType,
    Kind.LONG: t.LongType,
    Kind.FLOAT: t.FloatType,
    Kind.DOUBLE: t.DoubleType,
    Kind.STRING: t.StringType,
    Kind.BINARY: t.BinaryType,
    Kind.DATE: t.DateType,
    Kind.TIMESTAMP: t.TimestampType,
    Kind.TIMESTAMP_INSTANT: t.TimestampType,
}
_CATALYST_TYPE = b"spark.sql.catalyst.type"


def spark_schema(types: Sequence[Type]) -> t.StructType:
    """The schema Spark would infer. Raises BadSchemaError for types that only Spark knows."""
    found = _spark_type(types, 0)
    assert isinstance(found, t.StructType)
    return found


def _spark_type(types: Sequence[Type], column: int) -> t.DataType:
    node = types[column]
    kind = Kind(node.kind)
    if kind is Kind.STRUCT:
        names = [name.decode() for name in node.field_names]
        return t.StructType([_field(types, c, name) for name, c in zip(names, node.subtypes, strict=True)])
    if kind is Kind.LIST:
        return t.ArrayType(_spark_type(types, node.subtypes[0]))
    if kind is Kind.MAP:
        key, value = node.subtypes
        return t.MapType(_spark_type(types, key), _spark_type(types, value))
    if kind is Kind.DECIMAL:
        return t.DecimalType(node.precision, node.scale)
    if kind in (Kind.CHAR, Kind.VARCHAR):
        return t.StringType()
    declared = next((item.value.decode() for item in node.attributes if item.key == _CATALYST_TYPE), "")
    if declared == "timestamp_ntz":
        return t.TimestampNTZType()
    if kind not in _ATOMS or declared.startswith("interval"):
        raise BadSchemaError(
            f"column {column} has type {declared or kind.name.lower()}, which only Spark's reader knows"
        )
    return _ATOMS[kind]()


def _field(types: Sequence[Type], column: int, name: str) -> t.StructField:
    kind, length = Kind(types[column].kind), types[column].maximum_length
    metadata = {DECLARED_TYPE: f"{kind.name.lower()}({length})"} if kind in (Kind.CHAR, Kind.VARCHAR) else None
    return t.StructField(name, _spark_type(types, column), metadata=metadata)
