"""Mapping of the requested columns to the columns of a file, and conversion of the values to the requested types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampNTZType, TimestampType

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.types import GREGORIAN_DAY
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind
from pushdown_spark.formats.orc.orc_proto_pb2 import Type
from pushdown_spark.formats.orc.time_zones import UTC, Zone

_POSITIONAL = re.compile(r"_col\d+")
"""Names that old versions of Hive gave to columns. As in Spark, such files are read by position."""
_MAYBE_POSITIONAL = "_col"
"""The prefix that Spark tests. The ORC library that it uses tests the full pattern."""
KEEPS_PADDING = b"padded"
"""Metadata key of a requested field: its strings of fixed length keep their padding.

Spark's reader removes the padding, and adds it again only for columns declared as char(n)."""

_INTEGERS = {OrcTypeKind.BYTE: 8, OrcTypeKind.SHORT: 16, OrcTypeKind.INT: 32, OrcTypeKind.LONG: 64}
_STRING_TYPES = frozenset({OrcTypeKind.STRING, OrcTypeKind.CHAR, OrcTypeKind.VARCHAR})
_TIMES = frozenset({OrcTypeKind.TIMESTAMP, OrcTypeKind.TIMESTAMP_INSTANT})
CATALYST_TYPE = "spark.sql.catalyst.type"
"""The attribute of a column with its type in Spark. Spark stores timestamp_ntz as a number of microseconds."""


@dataclass(frozen=True)
class ReadOptions:
    """How a file is read: how its names are compared, and the zone of its times without a time zone."""

    name_rule: NameRule
    zone: Zone = UTC


@dataclass(frozen=True)
class MatchedColumn:
    """A requested column: its field as Spark expects it, and its column id in a file, or None if the file lacks it.

    `columns` are the ids of all columns that are read for it: its own and those of the requested members.
    """

    field: pa.Field
    column: int | None
    columns: tuple[int, ...] = ()


def match_columns(
    tail: FileTail,
    fields: Sequence[pa.Field],
    positions: Sequence[int],
    options: ReadOptions,
    *,
    table: StructType | None = None,
) -> list[MatchedColumn]:
    """Find the requested columns in a file, by name, or by position in files without real names.

    `positions` are the positions of the columns in the table, and `table` has all columns of the table, None if they
    are unknown.

    Raises SchemaConflictError for an ambiguous name, and UnsafeInputError for files that Spark's reader may reject and
    for types that only Spark's reader converts.
    """
    names = tail.top_level
    if not names:
        raise UnsafeInputError("it has no columns, and Spark reads such a file as empty")
    if table is not None:
        _check_time_zones(tail.types, tail.types[0], table)
    if all(map(_POSITIONAL.fullmatch, names)):
        ids = list(names.values())
        if table is not None and len(ids) > len(table):
            raise UnsafeInputError(
                f"it has {len(ids)} columns without real names and the schema has {len(table)}; Spark does not read "
                "such a file"
            )
        columns = [ids[position] if position < len(ids) else None for position in positions]
    elif all(name.startswith(_MAYBE_POSITIONAL) for name in names):
        raise UnsafeInputError("all its columns' names begin with _col, which Spark reads partly by position")
    else:
        columns = _by_name(names, [field.name for field in fields], options)
    for field, column in zip(fields, columns, strict=True):
        if column is not None:
            check = _TypeCheck(tail.types, options, keeps_padding=KEEPS_PADDING in (field.metadata or {}))
            check(column, field.type, field.name)
    return [_match_column(tail, field, column, options) for field, column in zip(fields, columns, strict=True)]


def _check_time_zones(types: Sequence[Type], file_type: Type, table_type: DataType, name: str = "") -> None:
    """Raise UnsafeInputError if a timestamp has a time zone either in a file or in the table, but not in both.

    Spark rejects such a file even if it does not read the column. It compares columns and members by their positions
    (`OrcUtils.requestedColumnIds`).
    """
    parts: list[tuple[str, DataType]] = []
    match table_type:
        case StructType(fields=fields):
            parts = [(f"{name}.{field.name}", field.dataType) for field in fields]
        case ArrayType(elementType=element):
            parts = [(f"{name}.element", element)]
        case MapType(keyType=key, valueType=value):
            parts = [(f"{name}.key", key), (f"{name}.value", value)]
        case TimestampType() | TimestampNTZType():
            kind = _timestamp_type(file_type)
            if kind is not None and kind != table_type:
                raise UnsafeInputError(
                    f"the column at the place of {name.removeprefix('.')} is stored as {kind.simpleString()}, which "
                    f"Spark does not convert to {table_type.simpleString()}"
                )
    for column, (part, kind) in zip(file_type.subtypes, parts, strict=False):
        _check_time_zones(types, types[column], kind, part)


def _timestamp_type(node: Type) -> DataType | None:
    """Return Spark's type of a timestamp, or None for other columns."""
    names = {pair.key.decode(): pair.value.decode() for pair in node.attributes}
    if CATALYST_TYPE in names:
        return {"timestamp": TimestampType(), "timestamp_ntz": TimestampNTZType()}.get(names[CATALYST_TYPE])
    return TimestampType() if node.kind in _TIMES else None


def with_type(tail: FileTail, whole: MatchedColumn, kind: pa.DataType, options: ReadOptions) -> MatchedColumn:
    """Return a requested column with another requested type, which has some of its struct members."""
    return _match_column(tail, whole.field.with_type(kind), whole.column, options)


def _match_column(tail: FileTail, field: pa.Field, column: int | None, options: ReadOptions) -> MatchedColumn:
    ids = () if column is None else tuple(_requested_ids(tail, column, field.type, options))
    return MatchedColumn(field, column, ids)


def _requested_ids(tail: FileTail, column: int, target: pa.DataType, options: ReadOptions) -> Iterator[int]:
    """Yield the ids of a column and of its requested members, ascending.

    If a struct has none of its requested members, its first member is read for the nulls of the struct.
    """
    node = tail.types[column]
    yield column
    if pa.types.is_struct(target):
        members = [member(node, field.name, options) for field in target]
        inner = [(child, field.type) for child, field in zip(members, target, strict=True) if child is not None]
        inner.sort(key=itemgetter(0))
        if not inner and node.subtypes:
            yield from tail.descendants(node.subtypes[0])
    elif pa.types.is_map(target):
        inner = list(zip(node.subtypes, (target.key_type, target.item_type), strict=True))
    elif pa.types.is_list(target):
        inner = [(node.subtypes[0], target.value_type)]
    else:
        inner = [(child, pa.null()) for child in node.subtypes]
    for child, kind in inner:
        yield from _requested_ids(tail, child, kind, options)


def _by_name(names: dict[str, int], field_names: Sequence[str], options: ReadOptions) -> list[int | None]:
    spellings = options.name_rule.group(names, str)
    matches = [spellings.get(options.name_rule.key(name), []) for name in field_names]
    for name, candidates in zip(field_names, matches, strict=True):
        if len(candidates) > 1:
            raise SchemaConflictError(
                f"column {name!r} fits {len(candidates)} columns; set spark.sql.caseSensitive=true"
            )
    return [names[candidates[0]] if candidates else None for candidates in matches]


def member(node: Type, name: str, options: ReadOptions) -> int | None:
    """Return the column id of a struct's member, or None. Raises UnsafeInputError for an ambiguous name."""
    names = [field.decode("utf-8", "replace") for field in node.field_names]
    positions = _positions_of(names, name, options)
    return node.subtypes[positions[0]] if positions else None


def _positions_of(names: Sequence[str], name: str, options: ReadOptions) -> list[int]:
    """Return the positions of a member's name: one or none."""
    key = options.name_rule.key(name)
    positions = [index for index, other in enumerate(names) if options.name_rule.key(other) == key]
    if len(positions) > 1:
        raise UnsafeInputError(
            f"member {name!r} fits {len(positions)} members of a struct; read it with reader='spark'"
        )
    return positions


@dataclass(frozen=True)
class _TypeCheck:
    """The check of a top-level column's type in a file. `keeps_padding` is for its strings of fixed length."""

    types: Sequence[Type]
    options: ReadOptions
    keeps_padding: bool

    def __call__(self, column: int, target: pa.DataType, name: str) -> None:
        """Raise UnsafeInputError unless the values of a column convert to the requested type without loss."""
        node = self.types[column]
        kind = OrcTypeKind(node.kind)
        if pa.types.is_struct(target) and kind is OrcTypeKind.STRUCT:
            for field in target:
                child = member(node, field.name, self.options)
                if child is not None:
                    self(child, field.type, f"{name}.{field.name}")
        elif pa.types.is_list(target) and kind is OrcTypeKind.LIST:
            self(node.subtypes[0], target.value_type, f"{name}.element")
        elif pa.types.is_map(target) and kind is OrcTypeKind.MAP:
            self(node.subtypes[0], target.key_type, f"{name}.key")
            self(node.subtypes[1], target.item_type, f"{name}.value")
        elif not _leaf_fits(node, kind, target) or (kind is OrcTypeKind.CHAR and not self.keeps_padding):
            raise UnsafeInputError(
                f"column {name} is stored as {kind.name.lower()}, which only Spark converts to {target}; "
                "read it with reader='spark'"
            )


def _leaf_fits(node: Type, kind: OrcTypeKind, target: pa.DataType) -> bool:
    if kind in _INTEGERS:
        integer = pa.types.is_signed_integer(target) and target.bit_width >= _INTEGERS[kind]
        return bool(integer or (kind is OrcTypeKind.LONG and target == pa.timestamp("us")))
    if kind is OrcTypeKind.DECIMAL:
        same = pa.types.is_decimal128(target) and target.scale == node.scale
        return bool(same and target.precision >= node.precision)
    if kind is OrcTypeKind.FLOAT:
        return bool(target in (pa.float32(), pa.float64()))
    if kind in _STRING_TYPES:
        return bool(pa.types.is_string(target) or pa.types.is_large_string(target))
    if kind in _TIMES:
        return bool(pa.types.is_timestamp(target) and target.tz is not None)
    exact = {
        OrcTypeKind.BOOLEAN: pa.bool_(),
        OrcTypeKind.DOUBLE: pa.float64(),
        OrcTypeKind.BINARY: pa.binary(),
        OrcTypeKind.DATE: pa.date32(),
    }
    return bool(exact.get(kind) == target)


def has_local_times(types: Sequence[Type], columns: Iterable[int]) -> bool:
    """Return whether some columns are timestamps without a time zone, which depend on the stripe's time zone."""
    return any(types[column].kind == OrcTypeKind.TIMESTAMP for column in columns)


def to_requested_type(values: pa.Array, target: pa.DataType, options: ReadOptions) -> pa.Array:
    """Convert a file's values to the requested type. Members that the file lacks are null.

    Raises UnsafeInputError for dates and times that Spark reads in another calendar.
    """
    if pa.types.is_struct(target):
        return _to_requested_struct(values, target, options)
    if pa.types.is_list(target):
        inner = to_requested_type(values.values, target.value_type, options)
        return pa.ListArray.from_arrays(values.offsets, inner, type=target, mask=_mask(values))
    if pa.types.is_map(target):
        keys = to_requested_type(values.keys, target.key_type, options)
        items = to_requested_type(values.items, target.item_type, options)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=target, mask=_mask(values))
    if pa.types.is_date32(target):
        earliest = pc.min(values.cast(pa.int32())).as_py()
        if earliest is not None and earliest < GREGORIAN_DAY:
            raise UnsafeInputError("there are dates before 1582-10-15, which Spark reads in another calendar")
    if values.type == target:
        return values
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(values.type):
        if values.type.tz is None:
            values = options.zone.instants(values)
        # Spark rounds down to microseconds.
        return pc.floor_temporal(values, unit="microsecond").cast(pa.timestamp("us", values.type.tz)).cast(target)
    return values.cast(target)


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _to_requested_struct(values: pa.Array, target: pa.DataType, options: ReadOptions) -> pa.Array:
    names = [field.name for field in values.type]
    members = []
    for field in target:
        positions = _positions_of(names, field.name, options)
        if positions:
            members.append(to_requested_type(values.field(positions[0]), field.type, options))
        else:
            members.append(pa.nulls(len(values), field.type))
    return pa.StructArray.from_arrays(members, fields=list(target), mask=_mask(values))
