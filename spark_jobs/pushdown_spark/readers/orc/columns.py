"""Match the columns a scan wants with those a file has, and give the file's values the wanted types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.expressions.names import by_name_key
from pushdown_spark.readers.orc.messages import Type
from pushdown_spark.readers.orc.tail import FileTail, Kind
from pushdown_spark.readers.orc.zones import UTC, Zone

_POSITIONAL = re.compile(r"_col\d+")
"""Names that Hive gave to columns before it kept their real ones; such files are read by position, as Spark does."""
_MAYBE_POSITIONAL = "_col"
"""What Spark goes by, though the ORC library below it does not."""
PADDED = b"padded"
"""Key in the metadata of a wanted field: its texts of fixed length are wanted as they are stored, with their padding.
Spark's reader takes the padding off, and adds it again only where it knows the column as char(n)."""
GREGORIAN_START = -141_427
"""1582-10-15 in days since 1970: Spark takes earlier dates for Julian ones and converts them."""

_INTEGERS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_TEXT = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR})
_TIMES = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT})


@dataclass(frozen=True)
class Matched:
    """A wanted column: its field as Spark wants it, and its column id in a file, None where the file lacks it.

    `columns` are the ids of all that is read for it: its own, and those of the members that are wanted.
    """

    field: pa.Field
    column: int | None
    columns: tuple[int, ...] = ()


def matched(
    tail: FileTail,
    wanted: Sequence[pa.Field],
    positions: Sequence[int],
    *,
    case_sensitive: bool,
    declared: int | None = None,
) -> list[Matched]:
    """Find the wanted columns in a file, by name, or by position in files without real names.

    `positions` are the columns' places in the table, and `declared` is the number of columns that the table has in its
    files, None where that is not known. Raises SchemaConflictError where a name fits two columns, and UnsafeInputError
    for files that Spark's reader may refuse and for types that only Spark's reader converts.
    """
    names = tail.top_level
    if not names:
        raise UnsafeInputError("it has no columns, and Spark takes such a file for one without rows")
    if all(map(_POSITIONAL.fullmatch, names)):
        ids = list(names.values())
        if declared is not None and len(ids) > declared:
            raise UnsafeInputError(
                f"it has {len(ids)} columns without real names and the schema has {declared}, which Spark does not read"
            )
        found = [ids[place] if place < len(ids) else None for place in positions]
    elif all(name.startswith(_MAYBE_POSITIONAL) for name in names):
        raise UnsafeInputError("all its columns' names begin with _col, which Spark reads partly by position")
    else:
        found = _by_name(names, [field.name for field in wanted], case_sensitive)
    for field, column in zip(wanted, found, strict=True):
        if column is not None:
            rules = _Rules(case_sensitive, PADDED in (field.metadata or {}))
            _check(tail.types, column, field.type, field.name, rules)
    return [
        Matched(field, column, () if column is None else tuple(_wanted_ids(tail, column, field.type, case_sensitive)))
        for field, column in zip(wanted, found, strict=True)
    ]


def _wanted_ids(tail: FileTail, column: int, wanted: pa.DataType, case_sensitive: bool) -> Iterator[int]:
    """Ids of a column and of the members in it that are wanted, ascending.

    A struct of which no wanted member is there is read with its first one: its nulls are wanted all the same.
    """
    node = tail.types[column]
    yield column
    if pa.types.is_struct(wanted):
        found = [member(node, field.name, case_sensitive=case_sensitive) for field in wanted]
        inner = [(child, field.type) for child, field in zip(found, wanted, strict=True) if child is not None]
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
    if case_sensitive:
        return [names.get(name) for name in wanted]
    spelt = by_name_key(names, str, case_sensitive=False)
    found = [spelt.get(name.lower(), []) for name in wanted]
    for name, known in zip(wanted, found, strict=True):
        if len(known) > 1:
            raise SchemaConflictError(f"column {name!r} fits {len(known)} columns; set spark.sql.caseSensitive=true")
    return [names[known[0]] if known else None for known in found]


def member(node: Type, name: str, *, case_sensitive: bool) -> int | None:
    """The column id of a struct's member, None where there is none. Raises UnsafeInputError where there are several."""
    names = [known.decode("utf-8", "replace") for known in node.field_names]
    found = _places(names, name, case_sensitive)
    return node.subtypes[found[0]] if found else None


def _places(names: Sequence[str], name: str, case_sensitive: bool) -> list[int]:
    """Where a member's name is among others: once or nowhere."""
    if case_sensitive:
        found = [place for place, known in enumerate(names) if known == name]
    else:
        found = [place for place, known in enumerate(names) if known.lower() == name.lower()]
    if len(found) > 1:
        raise UnsafeInputError(f"member {name!r} fits {len(found)} members of a struct; read it with reader='spark'")
    return found


@dataclass(frozen=True)
class _Rules:
    """How a top-level column's members are matched, and whether texts of fixed length stay padded."""

    case_sensitive: bool
    padded: bool


def _check(types: Sequence[Type], column: int, wanted: pa.DataType, name: str, rules: _Rules) -> None:
    """Raises UnsafeInputError unless the file's values are the wanted ones, or become so without any loss."""
    node = types[column]
    kind = Kind(node.kind)
    if pa.types.is_struct(wanted) and kind is Kind.STRUCT:
        for field in wanted:
            child = member(node, field.name, case_sensitive=rules.case_sensitive)
            if child is not None:
                _check(types, child, field.type, f"{name}.{field.name}", rules)
    elif pa.types.is_list(wanted) and kind is Kind.LIST:
        _check(types, node.subtypes[0], wanted.value_type, f"{name}.element", rules)
    elif pa.types.is_map(wanted) and kind is Kind.MAP:
        _check(types, node.subtypes[0], wanted.key_type, f"{name}.key", rules)
        _check(types, node.subtypes[1], wanted.item_type, f"{name}.value", rules)
    elif not _leaf_fits(node, kind, wanted) or (kind is Kind.CHAR and not rules.padded):
        raise UnsafeInputError(
            f"column {name} is stored as {kind.name.lower()}, which only Spark turns into {wanted}; "
            "read it with reader='spark'"
        )


def _leaf_fits(node: Type, kind: Kind, wanted: pa.DataType) -> bool:
    if kind in _INTEGERS:
        # timestamp_ntz lies in a file as a number of microseconds.
        integer = pa.types.is_signed_integer(wanted) and wanted.bit_width >= _INTEGERS[kind]
        return bool(integer or (kind is Kind.LONG and wanted == pa.timestamp("us")))
    if kind is Kind.DECIMAL:
        same = pa.types.is_decimal128(wanted) and wanted.scale == node.scale
        return bool(same and wanted.precision >= node.precision)
    if kind is Kind.FLOAT:
        return bool(wanted in (pa.float32(), pa.float64()))
    if kind in _TEXT:
        return bool(pa.types.is_string(wanted) or pa.types.is_large_string(wanted))
    if kind in _TIMES:
        return bool(pa.types.is_timestamp(wanted) and wanted.tz is not None)
    exact = {Kind.BOOLEAN: pa.bool_(), Kind.DOUBLE: pa.float64(), Kind.BINARY: pa.binary(), Kind.DATE: pa.date32()}
    return bool(exact.get(kind) == wanted)


def has_times(types: Sequence[Type], columns: Iterable[int]) -> bool:
    """Whether there are timestamps without a time zone among some columns: the stripe's time zone bears on them."""
    return any(types[column].kind == Kind.TIMESTAMP for column in columns)


@dataclass(frozen=True)
class Reading:
    """How values are read: whether members are told apart by case, and the time zone of times that have none."""

    case_sensitive: bool
    zone: Zone = UTC


def conformed(values: pa.Array, wanted: pa.DataType, reading: Reading) -> pa.Array:
    """A file's values in the wanted type; members that the file lacks are null.

    Raises UnsafeInputError for dates and times that Spark reads in another calendar.
    """
    if pa.types.is_struct(wanted):
        return _conformed_struct(values, wanted, reading)
    if pa.types.is_list(wanted):
        inner = conformed(values.values, wanted.value_type, reading)
        return pa.ListArray.from_arrays(values.offsets, inner, type=wanted, mask=_mask(values))
    if pa.types.is_map(wanted):
        keys = conformed(values.keys, wanted.key_type, reading)
        items = conformed(values.items, wanted.item_type, reading)
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=wanted, mask=_mask(values))
    if pa.types.is_date32(wanted):
        earliest = pc.min(values.cast(pa.int32())).as_py()
        if earliest is not None and earliest < GREGORIAN_START:
            raise UnsafeInputError("there are dates before 1582-10-15, which Spark reads in another calendar")
    if values.type == wanted:
        return values
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(values.type):
        if values.type.tz is None:
            values = reading.zone.instants(values)
        # Spark takes the microsecond at or before a time.
        return pc.floor_temporal(values, unit="microsecond").cast(pa.timestamp("us", values.type.tz)).cast(wanted)
    return values.cast(wanted)


def _mask(values: pa.Array) -> pa.Array | None:
    return values.is_null() if values.null_count else None


def _conformed_struct(values: pa.Array, wanted: pa.DataType, reading: Reading) -> pa.Array:
    names = [field.name for field in values.type]
    members = []
    for field in wanted:
        places = _places(names, field.name, reading.case_sensitive)
        if places:
            members.append(conformed(values.field(places[0]), field.type, reading))
        else:
            members.append(pa.nulls(len(values), field.type))
    return pa.StructArray.from_arrays(members, fields=list(wanted), mask=_mask(values))
