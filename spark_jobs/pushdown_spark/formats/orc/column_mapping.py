"""Mapping of the wanted columns to the columns of a file, and conversion of the values to the wanted types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.names import by_name_key, name_key
from pushdown_spark.formats.orc.file_tail import FileTail, OrcTypeKind
from pushdown_spark.formats.orc.orc_proto_pb2 import Type
from pushdown_spark.formats.orc.time_zones import UTC, Zone

_POSITIONAL = re.compile(r"_col\d+")
"""Names that old versions of Hive gave to columns. As in Spark, such files are read by position."""
_MAYBE_POSITIONAL = "_col"
"""The prefix that Spark tests. The ORC library that it uses tests the full pattern."""
PADDED = b"padded"
"""Metadata key of a wanted field: its strings of fixed length are wanted as stored, with their padding.

Spark's reader removes the padding, and adds it again only for columns declared as char(n)."""
GREGORIAN_START = -141_427
"""1582-10-15 in days since 1970. Spark converts earlier dates from the Julian calendar."""

_INTEGERS = {OrcTypeKind.BYTE: 8, OrcTypeKind.SHORT: 16, OrcTypeKind.INT: 32, OrcTypeKind.LONG: 64}
_TEXT = frozenset({OrcTypeKind.STRING, OrcTypeKind.CHAR, OrcTypeKind.VARCHAR})
_TIMES = frozenset({OrcTypeKind.TIMESTAMP, OrcTypeKind.TIMESTAMP_INSTANT})


@dataclass(frozen=True)
class MatchedColumn:
    """A wanted column: its field as Spark wants it, and its column id in a file, None if the file lacks it.

    `columns` are the ids of all columns that are read for it: its own and those of the wanted members.
    """

    field: pa.Field
    column: int | None
    columns: tuple[int, ...] = ()


def match_columns(
    tail: FileTail,
    wanted: Sequence[pa.Field],
    positions: Sequence[int],
    *,
    case_sensitive: bool,
    declared: int | None = None,
) -> list[MatchedColumn]:
    """Find the wanted columns in a file, by name, or by position in files without real names.

    `positions` are the positions of the columns in the table, and `declared` is the table's number of columns, None if
    it is unknown. Raises SchemaConflictError for an ambiguous name, and UnsafeInputError for files that Spark's reader
    may reject and for types that only Spark's reader converts.
    """
    names = tail.top_level
    if not names:
        raise UnsafeInputError("it has no columns, and Spark reads such a file as empty")
    if all(map(_POSITIONAL.fullmatch, names)):
        ids = list(names.values())
        if declared is not None and len(ids) > declared:
            raise UnsafeInputError(
                f"it has {len(ids)} columns without real names and the schema has {declared}, which Spark does not read"
            )
        columns = [ids[position] if position < len(ids) else None for position in positions]
    elif all(name.startswith(_MAYBE_POSITIONAL) for name in names):
        raise UnsafeInputError("all its columns' names begin with _col, which Spark reads partly by position")
    else:
        columns = _by_name(names, [field.name for field in wanted], case_sensitive)
    for field, column in zip(wanted, columns, strict=True):
        if column is not None:
            rules = _Rules(case_sensitive, PADDED in (field.metadata or {}))
            _check(tail.types, column, field.type, field.name, rules)
    return [
        MatchedColumn(
            field, column, () if column is None else tuple(_wanted_ids(tail, column, field.type, case_sensitive))
        )
        for field, column in zip(wanted, columns, strict=True)
    ]


def _wanted_ids(tail: FileTail, column: int, wanted: pa.DataType, case_sensitive: bool) -> Iterator[int]:
    """Return the ids of a column and of its wanted members, ascending.

    If a struct has none of its wanted members, its first member is read, because the nulls of the struct are wanted.
    """
    node = tail.types[column]
    yield column
    if pa.types.is_struct(wanted):
        members = [member(node, field.name, case_sensitive=case_sensitive) for field in wanted]
        inner = [(child, field.type) for child, field in zip(members, wanted, strict=True) if child is not None]
        inner.sort(key=itemgetter(0))
        if not inner and node.subtypes:
            yield from tail.descendants(node.subtypes[0])
    elif pa.types.is_map(wanted):
        inner = list(zip(node.subtypes, (wanted.key_type, wanted.item_type), strict=True))
    elif pa.types.is_list(wanted):
        inner = [(node.subtypes[0], wanted.value_type)]
    else:
        inner = [(child, pa.null()) for child in node.subtypes]
    for child, kind in inner:
        yield from _wanted_ids(tail, child, kind, case_sensitive)


def _by_name(names: dict[str, int], wanted: Sequence[str], case_sensitive: bool) -> list[int | None]:
    spellings = by_name_key(names, str, case_sensitive=case_sensitive)
    matches = [spellings.get(name_key(name, case_sensitive=case_sensitive), []) for name in wanted]
    for name, candidates in zip(wanted, matches, strict=True):
        if len(candidates) > 1:
            raise SchemaConflictError(
                f"column {name!r} fits {len(candidates)} columns; set spark.sql.caseSensitive=true"
            )
    return [names[candidates[0]] if candidates else None for candidates in matches]


def member(node: Type, name: str, *, case_sensitive: bool) -> int | None:
    """Return the column id of a struct's member, or None. Raises UnsafeInputError for an ambiguous name."""
    names = [field.decode("utf-8", "replace") for field in node.field_names]
    positions = _positions_of(names, name, case_sensitive)
    return node.subtypes[positions[0]] if positions else None


def _positions_of(names: Sequence[str], name: str, case_sensitive: bool) -> list[int]:
    """Return the positions of a member's name: one or none."""
    key = name_key(name, case_sensitive=case_sensitive)
    positions = [index for index, other in enumerate(names) if name_key(other, case_sensitive=case_sensitive) == key]
    if len(positions) > 1:
        raise UnsafeInputError(
            f"member {name!r} fits {len(positions)} members of a struct; read it with reader='spark'"
        )
    return positions


@dataclass(frozen=True)
class _Rules:
    """How the members of a top-level column are matched, and whether strings of fixed length stay padded."""

    case_sensitive: bool
    padded: bool


def _check(types: Sequence[Type], column: int, wanted: pa.DataType, name: str, rules: _Rules) -> None:
    """Raise UnsafeInputError unless the file's values convert to the wanted type without loss."""
    node = types[column]
    kind = OrcTypeKind(node.kind)
    if pa.types.is_struct(wanted) and kind is OrcTypeKind.STRUCT:
        for field in wanted:
            child = member(node, field.name, case_sensitive=rules.case_sensitive)
            if child is not None:
                _check(types, child, field.type, f"{name}.{field.name}", rules)
    elif pa.types.is_list(wanted) and kind is OrcTypeKind.LIST:
        _check(types, node.subtypes[0], wanted.value_type, f"{name}.element", rules)
    elif pa.types.is_map(wanted) and kind is OrcTypeKind.MAP:
        _check(types, node.subtypes[0], wanted.key_type, f"{name}.key", rules)
        _check(types, node.subtypes[1], wanted.item_type, f"{name}.value", rules)
    elif not _leaf_fits(node, kind, wanted) or (kind is OrcTypeKind.CHAR and not rules.padded):
        raise UnsafeInputError(
            f"column {name} is stored as {kind.name.lower()}, which only Spark converts to {wanted}; "
            "read it with reader='spark'"
        )


def _leaf_fits(node: Type, kind: OrcTypeKind, wanted: pa.DataType) -> bool:
    if kind in _INTEGERS:
        # Spark stores timestamp_ntz as a number of microseconds.
        integer = pa.types.is_signed_integer(wanted) and wanted.bit_width >= _INTEGERS[kind]
        return bool(integer or (kind is OrcTypeKind.LONG and wanted == pa.timestamp("us")))
    if kind is OrcTypeKind.DECIMAL:
        same = pa.types.is_decimal128(wanted) and wanted.scale == node.scale
        return bool(same and wanted.precision >= node.precision)
    if kind is OrcTypeKind.FLOAT:
        return bool(wanted in (pa.float32(), pa.float64()))
    if kind in _TEXT:
        return bool(pa.types.is_string(wanted) or pa.types.is_large_string(wanted))
    if kind in _TIMES:
        return bool(pa.types.is_timestamp(wanted) and wanted.tz is not None)
    exact = {
        OrcTypeKind.BOOLEAN: pa.bool_(),
        OrcTypeKind.DOUBLE: pa.float64(),
        OrcTypeKind.BINARY: pa.binary(),
        OrcTypeKind.DATE: pa.date32(),
    }
    return bool(exact.get(kind) == wanted)


def has_local_times(types: Sequence[Type], columns: Iterable[int]) -> bool:
    """Return whether some columns are timestamps without a time zone, which depend on the stripe's time zone."""
    return any(types[column].kind == OrcTypeKind.TIMESTAMP for column in columns)


@dataclass(frozen=True)
class ReadOptions:
    """How values are read: whether names of members are case-sensitive, and the zone of times without a time zone."""

    case_sensitive: bool
    zone: Zone = UTC


def to_wanted_type(values: pa.Array, wanted: pa.DataType, options: ReadOptions) -> pa.Array:
    """Convert a file's values to the wanted type. Members that the file lacks are null.

    Raises UnsafeInputError for dates and times that Spark reads in another calendar.
    """
    if pa.types.is_struct(wanted):
        return _to_wanted_struct(values, wanted, options)
    if pa.types.is_list(wanted):
        inner = to_wanted_type(values.values, wanted.value_type, options)
        return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=_mask(values))
    if pa.types.is_map(wanted):
        keys = to_wanted_type(values.keys, wanted.key_type, options)
        items = to_wanted_type(values.items, wanted.item_type, options)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=_mask(values))
    if pa.types.is_date32(wanted):
        earliest = pc.min(values.cast(pa.int32())).as_py()
        if earliest is not None and earliest < GREGORIAN_START:
            raise UnsafeInputError("there are dates before 1582-10-15, which Spark reads in another calendar")
    if values.type == wanted:
        return values
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type):
        if values.type.tz is None:
            values = options.zone.instants(values)
        # Spark rounds down to microseconds.
        return pc.floor_temporal(values, unit="microsecond").cast(pa.timestamp("us", values.type.tz)).cast(wanted)
    return values.cast(wanted)


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _to_wanted_struct(values: pa.Array, wanted: pa.DataType, options: ReadOptions) -> pa.Array:
    names = [field.name for field in values.type]
    members = []
    for field in wanted:
        positions = _positions_of(names, field.name, options.case_sensitive)
        if positions:
            members.append(to_wanted_type(values.field(positions[0]), field.type, options))
        else:
            members.append(pa.nulls(len(values), field.type))
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=_mask(values))
