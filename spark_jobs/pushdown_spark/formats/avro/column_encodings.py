"""The encodings of columns in records, with the bytes that may stand next to their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.byte_patterns.avro import Locate
from pushdown_spark.expressions.byte_patterns.avro_encoding import EncodedColumn, Encoding, byte_class
from pushdown_spark.expressions.types import Path
from pushdown_spark.formats.avro.avro_schema import AvroKind, AvroType
from pushdown_spark.formats.avro.resolution import NameMatcher, split_nullable

# The patterns of a conjunct are the encoded bytes of its constants. To make them rarer, they also name the bytes that
# may stand directly before and after the column's value: the last byte of the previous field and the first byte of the
# next one. This module derives these sets of bytes from the schema.

_ANY_BYTE = frozenset(range(256))
_EVEN = frozenset(range(0, 256, 2))
_LAST_OF_VARINT = frozenset(range(128))
_ONE_BYTE_INDEXES = 64
"""Branches or symbols whose index takes one byte."""
_BOOLEANS = frozenset({0, 1})
_MILLISECONDS = frozenset({"timestamp-millis", "local-timestamp-millis"})
"""Logical types of longs that Spark converts to microseconds."""
_ENCODINGS = {
    AvroKind.INT: Encoding.NUMBER,
    AvroKind.LONG: Encoding.NUMBER,
    AvroKind.FLOAT: Encoding.FLOAT,
    AvroKind.DOUBLE: Encoding.DOUBLE,
    AvroKind.BYTES: Encoding.STRING,
    AvroKind.STRING: Encoding.STRING,
    AvroKind.FIXED: Encoding.FIXED,
    AvroKind.ENUM: Encoding.ENUM,
}
_DECIMALS = {AvroKind.BYTES: Encoding.DECIMAL, AvroKind.FIXED: Encoding.FIXED_DECIMAL}


@dataclass(frozen=True)
class _Neighbor:
    """The bytes that may stand next to a value, on one side. With `at_edge`, the value may be at the block's edge."""

    bytes: frozenset[int]
    at_edge: bool

    def expression(self, edge: str) -> str:
        """Return the expression for one such byte, or an empty one if all bytes may stand there."""
        if self.bytes == _ANY_BYTE:
            return ""
        one = byte_class(sorted(self.bytes))
        return f"(?:{edge}|{one})" if self.at_edge else one


@dataclass(frozen=True)
class _Value:
    """A column or a struct around it: its type and its neighbors."""

    type: AvroType
    before: _Neighbor
    after: _Neighbor


def locate(writer: AvroType, names: NameMatcher) -> Locate:
    """Return a function from a column's path to its encoding in records of `writer`."""
    root = _Value(writer, _neighbor([writer], _last_bytes, None), _neighbor([writer], _first_bytes, None))

    def find(path: Path) -> EncodedColumn | None:
        value: _Value | None = root
        try:
            for name in path:
                value = _member(_unwrap_union(value), name, names)
        except PushdownError:
            return None
        return _encoded_column(_unwrap_union(value))

    return find


def _unwrap_union(value: _Value | None) -> _Value | None:
    """Return a value as the only branch of its union that is not null, or None if there are several."""
    if value is None or value.type.kind is not AvroKind.UNION:
        return value
    _, others = split_nullable(value.type)
    if len(others) != 1 or others[0] >= _ONE_BYTE_INDEXES:
        return None
    return _Value(value.type.branches[others[0]], _Neighbor(frozenset({2 * others[0]}), False), value.after)


def _member(value: _Value | None, name: str, names: NameMatcher) -> _Value | None:
    if value is None or value.type.kind is not AvroKind.RECORD:
        return None
    source = names.finder(value.type.fields)(name)
    if source is None:
        return None
    types = [field.type for field in value.type.fields]
    before = _neighbor(reversed(types[:source]), _last_bytes, value.before)
    after = _neighbor(types[source + 1 :], _first_bytes, value.after)
    return _Value(types[source], before, after)


def _encoded_column(value: _Value | None) -> EncodedColumn | None:
    if value is None:
        return None
    type_, before, after = value.type, value.before.expression("\\A"), value.after.expression("\\z")
    if type_.logical == "decimal" and type_.kind in _DECIMALS:
        encoding = _DECIMALS[type_.kind]
        # Writers may store a decimal longer than necessary, so bytes that repeat its sign may stand before it.
        return EncodedColumn(encoding, "" if encoding is Encoding.DECIMAL else before, after, type_.size, type_.scale)
    is_millis = type_.kind is AvroKind.LONG and type_.logical in _MILLISECONDS
    plain = Encoding.MILLIS if is_millis else _ENCODINGS.get(type_.kind)
    return None if plain is None else EncodedColumn(plain, before, after, type_.size, 0, type_.symbols)


_EdgeBytes = Callable[[AvroType], tuple[frozenset[int], bool]]
"""Returns the bytes at one end of an encoded value, and whether the value may be empty."""


def _neighbor(types: Iterable[AvroType], edge_bytes: _EdgeBytes, beyond: _Neighbor | None) -> _Neighbor:
    """Return the neighbor on the side where values of these types stand, the nearest first.

    `beyond` is the neighbor of the whole sequence, or None at the edge of the block.
    """
    bytes_, may_be_empty = _edge_of_sequence(types, edge_bytes)
    if not may_be_empty:
        return _Neighbor(bytes_, beyond is None)
    return _Neighbor(bytes_ | beyond.bytes, beyond.at_edge) if beyond is not None else _Neighbor(_ANY_BYTE, True)


def _edge_of_sequence(types: Iterable[AvroType], edge_bytes: _EdgeBytes) -> tuple[frozenset[int], bool]:
    """Return the edge of a sequence of values, the outermost first."""
    union: frozenset[int] = frozenset()
    for type_ in types:
        bytes_, may_be_empty = edge_bytes(type_)
        union |= bytes_
        if not may_be_empty:
            return union, False
    return union, True


def _first_bytes(type_: AvroType) -> tuple[frozenset[int], bool]:
    match type_.kind:
        case AvroKind.NULL:
            return frozenset(), True
        case AvroKind.BOOLEAN:
            return _BOOLEANS, False
        case AvroKind.STRING | AvroKind.BYTES:
            return _EVEN, False
        case AvroKind.ENUM:
            return _first_bytes_of_indexes(len(type_.symbols)), False
        case AvroKind.UNION:
            return _first_bytes_of_indexes(len(type_.branches)), False
        case AvroKind.FIXED:
            return _ANY_BYTE, type_.size == 0
        case AvroKind.RECORD:
            return _edge_of_sequence([field.type for field in type_.fields], _first_bytes)
    return _ANY_BYTE, False


def _last_bytes(type_: AvroType) -> tuple[frozenset[int], bool]:
    match type_.kind:
        case AvroKind.NULL:
            return frozenset(), True
        case AvroKind.BOOLEAN:
            return _BOOLEANS, False
        case AvroKind.INT | AvroKind.LONG | AvroKind.ENUM:
            return _LAST_OF_VARINT, False
        case AvroKind.ARRAY | AvroKind.MAP:
            return frozenset({0}), False
        case AvroKind.UNION:
            return _last_bytes_of_union(type_), False
        case AvroKind.FIXED:
            return _ANY_BYTE, type_.size == 0
        case AvroKind.RECORD:
            return _edge_of_sequence([field.type for field in reversed(type_.fields)], _last_bytes)
    return _ANY_BYTE, False


def _last_bytes_of_union(type_: AvroType) -> frozenset[int]:
    union: frozenset[int] = frozenset()
    for index, branch in enumerate(type_.branches):
        bytes_, may_be_empty = _last_bytes(branch)
        union |= bytes_
        if may_be_empty:
            union |= frozenset({2 * index}) if index < _ONE_BYTE_INDEXES else _LAST_OF_VARINT
    return union


def _first_bytes_of_indexes(count: int) -> frozenset[int]:
    """Return the first bytes of the indexes below `count`."""
    return frozenset(range(0, 2 * count, 2)) if count <= _ONE_BYTE_INDEXES else _EVEN
