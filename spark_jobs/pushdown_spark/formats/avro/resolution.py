"""Which of the writer's fields a column comes from, and how its values become Arrow values.

Types that only Spark converts raise UnsafeInputError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
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


def split_nullable(union: AvroType) -> tuple[int | None, list[int]]:
    """Return the index of a union's null branch, and the indexes of the other branches."""
    nulls = [index for index, branch in enumerate(union.branches) if branch.kind is AvroKind.NULL]
    others = [index for index, branch in enumerate(union.branches) if branch.kind is not AvroKind.NULL]
    return (nulls[0] if nulls else None), others


_SIZES = {AvroKind.NULL: 0, AvroKind.BOOLEAN: 1, AvroKind.FLOAT: 4, AvroKind.DOUBLE: 8}
_COMPOSITE = frozenset({AvroKind.RECORD, AvroKind.UNION, AvroKind.ARRAY, AvroKind.MAP, AvroKind.NULL})
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


def leaf_layout(writer: AvroType, target: pa.DataType, slot: int, path: str) -> LeafLayout:
    """Return how a value becomes a requested Arrow value. Raises UnsafeInputError where only Spark converts it."""
    if not _fits(writer, target):
        raise UnsafeInputError(f"{path} is stored as {writer}, which only Spark converts to {target}; {READ_BY_SPARK}")
    if pa.types.is_decimal128(target):
        return LeafLayout(target, slot, SlotContent.DECIMAL)
    if writer.logical.endswith("timestamp-millis") and pa.types.is_timestamp(target):
        return LeafLayout(target, slot, SlotContent.MILLISECONDS)
    return LeafLayout(target, slot, _SLOT_CONTENTS.get(writer.kind, SlotContent.NUMBER), writer.symbols)


def number_layout(writer: AvroType, target: pa.DataType, slot: int) -> LeafLayout:
    """Return how a number becomes a number of a wider type."""
    return LeafLayout(target, slot, _SLOT_CONTENTS.get(writer.kind, SlotContent.NUMBER))


def _fits(writer: AvroType, target: pa.DataType) -> bool:
    """Return whether the requested type is the one that Spark infers for an Avro type, or a wider integer."""
    if writer.logical == _DECIMAL and pa.types.is_decimal128(target):
        has_bytes = writer.kind in (AvroKind.BYTES, AvroKind.FIXED)
        return bool(has_bytes and (target.precision, target.scale) == (writer.precision, writer.scale))
    if writer.kind is AvroKind.INT and not writer.logical and pa.types.is_int64(target):
        # Ints and longs are encoded alike.
        return True
    return bool(target == utc_arrow_type(leaf_spark_type(writer)))
