"""The encodings of columns in records, with the bytes that stand next to their values."""

from __future__ import annotations

from dataclasses import dataclass

from pushdown_spark.errors import PushdownError
from pushdown_spark.expressions.byte_patterns.avro import Locate
from pushdown_spark.expressions.byte_patterns.avro_encoding import EncodedColumn, Encoding, byte_class
from pushdown_spark.expressions.types import Path
from pushdown_spark.formats.avro.avro_schema import AvroKind, AvroType
from pushdown_spark.formats.avro.resolution import NameMatcher, split_nullable

# The patterns of a conjunct are the encoded bytes of its constants. To make them rarer, they also name the byte before
# a value in a union, which is the index of its branch, and the byte after a value if the next field is a union.

_ONE_BYTE_INDEXES = 64
"""Branches whose index takes one byte."""
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
class _Value:
    """A column or a struct around it: its type, and expressions for the bytes next to it where they are known."""

    type: AvroType
    before: str = ""
    after: str = ""


def locate(writer: AvroType, names: NameMatcher) -> Locate:
    """Return a function from a column's path to its encoding in records of `writer`."""

    def find(path: Path) -> EncodedColumn | None:
        value: _Value | None = _Value(writer)
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
    return _Value(value.type.branches[others[0]], byte_class([2 * others[0]]), value.after)


def _member(value: _Value | None, name: str, names: NameMatcher) -> _Value | None:
    if value is None or value.type.kind is not AvroKind.RECORD:
        return None
    source = names.finder(value.type.fields)(name)
    if source is None:
        return None
    next_fields = value.type.fields[source + 1 :]
    return _Value(value.type.fields[source].type, after=_indexes(next_fields[0].type) if next_fields else "")


def _indexes(type_: AvroType) -> str:
    """Return an expression for the first byte of a union, or an empty one for another type."""
    count = len(type_.branches)
    return byte_class([2 * index for index in range(count)]) if 0 < count <= _ONE_BYTE_INDEXES else ""


def _encoded_column(value: _Value | None) -> EncodedColumn | None:
    if value is None:
        return None
    type_, before, after = value.type, value.before, value.after
    if type_.logical == "decimal" and type_.kind in _DECIMALS:
        decimal = _DECIMALS[type_.kind]
        # Writers may store a decimal longer than necessary, so bytes that repeat its sign may stand before it.
        return EncodedColumn(decimal, "" if decimal is Encoding.DECIMAL else before, after, type_.size, type_.scale)
    is_millis = type_.kind is AvroKind.LONG and type_.logical in _MILLISECONDS
    encoding = Encoding.MILLIS if is_millis else _ENCODINGS.get(type_.kind)
    return None if encoding is None else EncodedColumn(encoding, before, after, type_.size, 0, type_.symbols)
