"""Schema resolution: which of the writer's fields a column comes from, and how its values become Arrow values.

They follow Avro's Java library. Cases that the library treats in a special way, or that only Spark converts,
raise UnsafeInputError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.formats.avro.avro_schema import AvroField, AvroKind, AvroType, leaf_spark_type
from pushdown_spark.formats.avro.column_layout import LeafLayout, SlotContent

READ_BY_SPARK = "read it with reader='spark'"


@dataclass(frozen=True)
class NameMatcher:
    """Matches the names of requested columns with those of an Avro schema."""

    name_rule: NameRule

    def finder(self, fields: Sequence[AvroField]) -> Callable[[str], int | None]:
        """Return a function from a name to the index of its field. It raises UnsafeInputError for ambiguous names."""
        indexes = self.name_rule.group(range(len(fields)), lambda index: fields[index].name)

        def find(name: str) -> int | None:
            matches = indexes.get(self.name_rule.key(name), [])
            if len(matches) > 1:
                raise UnsafeInputError(f"column {name!r} fits {len(matches)} fields; set spark.sql.caseSensitive=true")
            return matches[0] if matches else None

        return find


def child_path(path: str, name: str) -> str:
    """Return the dotted path of a member, for messages."""
    return f"{path}.{name}" if path else name


def split_nullable(union: AvroType) -> tuple[int | None, list[int]]:
    """Return the index of a union's null branch, and the indexes of the other branches."""
    nulls = [index for index, branch in enumerate(union.branches) if branch.kind is AvroKind.NULL]
    others = [index for index, branch in enumerate(union.branches) if branch.kind is not AvroKind.NULL]
    return (nulls[0] if nulls else None), others


def single_branch(writer: AvroType, reader: AvroType, path: str) -> AvroType:
    """Return the only branch of the reader's union that is not null. Raises UnsafeInputError if there are several."""
    _, others = split_nullable(reader)
    if len(others) != 1:
        raise UnsafeInputError(
            f"{path} is {writer} in the file and a union of several types in the reader's schema; {READ_BY_SPARK}"
        )
    return reader.branches[others[0]]


def source_fields(writer: AvroType, reader: AvroType, path: str) -> dict[int, int]:
    """Return the writer's field for each of the reader's fields, by index. Fields with a default may have none.

    Raises SchemaConflictError for a field that has neither a source nor a default. Raises UnsafeInputError for aliases
    that may have another meaning to Avro's library: it renames the writer's fields, and only in records of equal name.
    """
    if writer is reader:
        return {index: index for index in range(len(writer.fields))}
    indexes = {field.name: index for index, field in enumerate(writer.fields)}
    sources: dict[int, int] = {}
    uses_alias = False
    for number, field in enumerate(reader.fields):
        names = [name for name in (field.name, *field.aliases) if name in indexes]
        if len(names) > 1:
            raise UnsafeInputError(
                f"{child_path(path, field.name)} matches several fields by its aliases; {READ_BY_SPARK}"
            )
        if names:
            sources[number] = indexes[names[0]]
            uses_alias |= names[0] != field.name
        elif not field.has_default:
            raise SchemaConflictError(
                f"the reader's schema has {child_path(path, field.name)} without default, and the file does not have it"
            )
    if uses_alias and (writer.name != reader.name or len(set(sources.values())) < len(sources)):
        raise UnsafeInputError(f"{path or 'the record'} has ambiguous aliases; {READ_BY_SPARK}")
    return sources


_DEFAULT_TYPES: dict[AvroKind, type | tuple[type, ...]] = {
    AvroKind.BOOLEAN: bool,
    AvroKind.INT: int,
    AvroKind.LONG: int,
    AvroKind.FLOAT: (int, float),
    AvroKind.DOUBLE: (int, float),
    AvroKind.STRING: str,
    AvroKind.ENUM: str,
    AvroKind.BYTES: str,
    AvroKind.FIXED: str,
}


def default_value(field: AvroField, requested: pa.DataType, path: str) -> pa.Scalar:
    """Return the default of a field as an Arrow scalar. Raises UnsafeInputError for defaults of other types."""
    type_ = field.type
    if type_.kind is AvroKind.UNION:
        type_ = type_.branches[0]
    if type_.kind is AvroKind.NULL and field.default is None:
        return pa.scalar(None, requested)
    accepted = _DEFAULT_TYPES.get(type_.kind)
    is_valid = accepted is not None and isinstance(field.default, accepted)
    if not is_valid or type_.logical or (isinstance(field.default, bool) and type_.kind is not AvroKind.BOOLEAN):
        raise UnsafeInputError(f"{path} has a default of type {type_}; {READ_BY_SPARK}")
    # JSON writes each byte as one character.
    has_bytes = type_.kind in (AvroKind.BYTES, AvroKind.FIXED)
    return pa.scalar(str(field.default).encode("latin-1") if has_bytes else field.default, requested)


_SIZES = {AvroKind.NULL: 0, AvroKind.BOOLEAN: 1, AvroKind.FLOAT: 4, AvroKind.DOUBLE: 8}
_COMPOSITE = frozenset({AvroKind.RECORD, AvroKind.UNION, AvroKind.ARRAY, AvroKind.MAP, AvroKind.NULL})
_PROMOTIONS: dict[AvroKind, frozenset[AvroKind]] = {
    AvroKind.INT: frozenset({AvroKind.LONG, AvroKind.FLOAT, AvroKind.DOUBLE}),
    AvroKind.LONG: frozenset({AvroKind.FLOAT, AvroKind.DOUBLE}),
    AvroKind.FLOAT: frozenset({AvroKind.DOUBLE}),
    AvroKind.STRING: frozenset({AvroKind.BYTES}),
    AvroKind.BYTES: frozenset({AvroKind.STRING}),
}
_SLOT_CONTENTS = {
    AvroKind.BOOLEAN: SlotContent.BOOLEAN,
    AvroKind.FLOAT: SlotContent.FLOAT,
    AvroKind.DOUBLE: SlotContent.DOUBLE,
    AvroKind.BYTES: SlotContent.BYTES,
    AvroKind.STRING: SlotContent.BYTES,
    AvroKind.FIXED: SlotContent.BYTES,
    AvroKind.ENUM: SlotContent.SYMBOL,
}
_DECIMAL = "decimal"


def is_leaf(writer: AvroType) -> bool:
    """Return whether values of a type have bytes and no parts."""
    return writer.kind not in _COMPOSITE


def minimum_size(writer: AvroType) -> int:
    """Return the smallest number of bytes that a value of a type takes."""
    if writer.kind is AvroKind.FIXED:
        return writer.size
    if writer.kind is AvroKind.RECORD:
        return sum(minimum_size(field.type) for field in writer.fields)
    return _SIZES.get(writer.kind, 1)


def leaf_layout(writer: AvroType, reader: AvroType, requested: pa.DataType, slot: int, path: str) -> LeafLayout:
    """Return how a value of the writer's type becomes a requested Arrow value, read as the reader's type.

    Raises SchemaConflictError where Avro's rules do not promote the one type to the other, and UnsafeInputError where
    only Spark's reader converts the value.
    """
    _check_promotion(writer, reader, path)
    if not _fits(reader, requested):
        raise UnsafeInputError(
            f"{path} is stored as {reader}, which only Spark converts to {requested}; {READ_BY_SPARK}"
        )
    if pa.types.is_decimal128(requested):
        return LeafLayout(requested, slot, SlotContent.DECIMAL)
    if reader.logical.endswith("timestamp-millis") and pa.types.is_timestamp(requested):
        return LeafLayout(requested, slot, SlotContent.MILLISECONDS)
    return LeafLayout(requested, slot, _SLOT_CONTENTS.get(writer.kind, SlotContent.NUMBER), writer.symbols)


def _check_promotion(writer: AvroType, reader: AvroType, path: str) -> None:
    is_same = writer.kind is reader.kind and writer.size == reader.size
    if not is_same and reader.kind not in _PROMOTIONS.get(writer.kind, ()):
        raise SchemaConflictError(f"{path} is {writer} in the file and {reader} in the reader's schema")
    if writer.name != reader.name or not set(writer.symbols) <= set(reader.symbols):
        raise UnsafeInputError(f"{path} is another {writer.kind} in the reader's schema; {READ_BY_SPARK}")


def _fits(reader: AvroType, requested: pa.DataType) -> bool:
    """Return whether the requested type is the one that Spark infers for an Avro type, or a wider integer."""
    if reader.logical == _DECIMAL and pa.types.is_decimal128(requested):
        has_bytes = reader.kind in (AvroKind.BYTES, AvroKind.FIXED)
        return bool(has_bytes and (requested.precision, requested.scale) == (reader.precision, reader.scale))
    if reader.kind is AvroKind.INT and not reader.logical and pa.types.is_int64(requested):
        # Ints and longs are encoded alike, so tables that have files of both need no reader's schema.
        return True
    return bool(requested == utc_arrow_type(leaf_spark_type(reader)))
