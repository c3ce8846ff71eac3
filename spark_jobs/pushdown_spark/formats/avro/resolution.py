"""Resolves a writer's schema with a reader's by Avro's rules: which field comes from which, and which branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pushdown_spark.errors import SchemaConflictError, UnsafeInputError
from pushdown_spark.formats.avro.column_layout import Leaf, Make
from pushdown_spark.formats.avro.schema import Field, Json, Kind, Type
from pushdown_spark.name_keys import by_name_key, name_key

READ_BY_SPARK = "read it with reader='spark'"


@dataclass(frozen=True)
class Names:
    """How wanted names are matched with those of the Avro schema."""

    case_sensitive: bool

    def finder(self, fields: Sequence[Field]) -> Callable[[str], int | None]:
        """Tells where the field of a name is. It raises UnsafeInputError where there are several."""
        places = by_name_key(range(len(fields)), lambda place: fields[place].name, case_sensitive=self.case_sensitive)

        def find(name: str) -> int | None:
            found = places.get(name_key(name, case_sensitive=self.case_sensitive), [])
            if len(found) > 1:
                raise UnsafeInputError(f"column {name!r} fits {len(found)} fields; set spark.sql.caseSensitive=true")
            return found[0] if found else None

        return find


def dotted(at: str, name: str) -> str:
    """The path of a member of what is at a path."""
    return f"{at}.{name}" if at else name


def split_union(union: Type) -> tuple[int | None, list[int]]:
    """The numbers of a union's null branch and of the others."""
    nulls = [place for place, branch in enumerate(union.branches) if branch.kind is Kind.NULL]
    others = [place for place, branch in enumerate(union.branches) if branch.kind is not Kind.NULL]
    return (nulls[0] if nulls else None), others


def only_branch(writer: Type, reader: Type, at: str) -> Type:
    """The one branch of the reader's union that is not null."""
    _, others = split_union(reader)
    if len(others) != 1:
        raise UnsafeInputError(f"{at} is {writer} in the file and a union of others when read; {READ_BY_SPARK}")
    return reader.branches[others[0]]


def sources(writer: Type, reader: Type, at: str) -> dict[int, int]:
    """Which field of the writer each of the reader's comes from; those that have none have defaults.

    Raises SchemaConflictError where there is no default either, and UnsafeInputError for aliases that Avro's library
    has rules of its own for: it renames the writer's fields, and only those of a record of the same name.
    """
    if writer is reader:
        return {place: place for place in range(len(writer.fields))}
    places = {field.name: place for place, field in enumerate(writer.fields)}
    found: dict[int, int] = {}
    aliased = False
    for number, field in enumerate(reader.fields):
        known = [name for name in (field.name, *field.aliases) if name in places]
        if len(known) > 1:
            raise UnsafeInputError(f"{dotted(at, field.name)} fits several fields by its aliases; {READ_BY_SPARK}")
        if known:
            found[number] = places[known[0]]
            aliased |= known[0] != field.name
        elif not field.has_default:
            raise SchemaConflictError(
                f"the reader's schema has {dotted(at, field.name)} without default, and the file does not have it"
            )
    if aliased and (writer.name != reader.name or len(set(found.values())) < len(found)):
        raise UnsafeInputError(f"{at or 'the record'} has aliases that may mean other fields; {READ_BY_SPARK}")
    return found


_ACCEPTED: dict[Kind, type | tuple[type, ...]] = {
    Kind.BOOLEAN: bool,
    Kind.INT: int,
    Kind.LONG: int,
    Kind.FLOAT: (int, float),
    Kind.DOUBLE: (int, float),
    Kind.STRING: str,
    Kind.ENUM: str,
    Kind.BYTES: str,
    Kind.FIXED: str,
}


def default_value(field: Field, wanted: pa.DataType, at: str) -> pa.Scalar:
    """A field's default as an Arrow scalar. Raises UnsafeInputError for those that only Avro's library makes."""
    of = field.type
    if of.kind is Kind.UNION:
        of = of.branches[0]
    if of.kind is Kind.NULL and field.default is None:
        return pa.scalar(None, wanted)
    accepted = _ACCEPTED.get(of.kind)
    is_right = accepted is not None and isinstance(field.default, accepted)
    if not is_right or of.logical or (isinstance(field.default, bool) and of.kind is not Kind.BOOLEAN):
        raise UnsafeInputError(f"{at} has a default of type {of}; read it with reader='spark'")
    return pa.scalar(_plain(field.default, of.kind), wanted)


def _plain(default: Json, kind: Kind) -> Json | bytes:
    """Bytes are written with one character for each."""
    if kind in (Kind.BYTES, Kind.FIXED):
        return str(default).encode("latin-1")
    return default


_SIZES = {Kind.NULL: 0, Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}
_PARTS = frozenset({Kind.RECORD, Kind.UNION, Kind.ARRAY, Kind.MAP, Kind.NULL})
_PROMOTIONS: dict[Kind, frozenset[Kind]] = {
    Kind.INT: frozenset({Kind.LONG, Kind.FLOAT, Kind.DOUBLE}),
    Kind.LONG: frozenset({Kind.FLOAT, Kind.DOUBLE}),
    Kind.FLOAT: frozenset({Kind.DOUBLE}),
    Kind.STRING: frozenset({Kind.BYTES}),
    Kind.BYTES: frozenset({Kind.STRING}),
}
_MAKE = {
    Kind.BOOLEAN: Make.BOOLEAN,
    Kind.FLOAT: Make.FLOAT,
    Kind.DOUBLE: Make.DOUBLE,
    Kind.BYTES: Make.BYTES,
    Kind.STRING: Make.BYTES,
    Kind.FIXED: Make.BYTES,
    Kind.ENUM: Make.SYMBOL,
}
_PLAIN = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.FIXED: pa.binary(),
    Kind.STRING: pa.string(),
    Kind.ENUM: pa.string(),
}
_UTC = pa.timestamp("us", "UTC")
_TIMES = {
    (Kind.INT, "date"): pa.date32(),
    (Kind.LONG, "timestamp-millis"): _UTC,
    (Kind.LONG, "timestamp-micros"): _UTC,
    (Kind.LONG, "local-timestamp-millis"): pa.timestamp("us"),
    (Kind.LONG, "local-timestamp-micros"): pa.timestamp("us"),
}
_DECIMAL = "decimal"


def is_leaf(writer: Type) -> bool:
    """Whether values of a type have no parts; null, which has not even bytes, is none."""
    return writer.kind not in _PARTS


def least_size(writer: Type) -> int:
    """How many bytes a value of a type takes at least."""
    if writer.kind is Kind.FIXED:
        return writer.size
    if writer.kind is Kind.RECORD:
        return sum(least_size(field.type) for field in writer.fields)
    return _SIZES.get(writer.kind, 1)


def leaf(writer: Type, reader: Type, wanted: pa.DataType, slot: int, at: str) -> Leaf:
    """How a value of the writer's type, read as the reader's, becomes the wanted one.

    Raises SchemaConflictError where Avro's rules do not promote the one to the other, and UnsafeInputError where only
    Spark's reader makes such a value of it.
    """
    _check_promotion(writer, reader, at)
    if not _fits(reader, wanted):
        raise UnsafeInputError(
            f"{at} is stored as {reader}, which only Spark may turn into {wanted}; read it with reader='spark'"
        )
    if pa.types.is_decimal128(wanted):
        return Leaf(wanted, slot, Make.DECIMAL)
    if reader.logical.endswith("timestamp-millis") and pa.types.is_timestamp(wanted):
        return Leaf(wanted, slot, Make.MILLIS)
    return Leaf(wanted, slot, _MAKE.get(writer.kind, Make.NUMBER), writer.symbols)


def _check_promotion(writer: Type, reader: Type, at: str) -> None:
    is_same = writer.kind is reader.kind and writer.size == reader.size
    if not is_same and reader.kind not in _PROMOTIONS.get(writer.kind, ()):
        raise SchemaConflictError(f"{at} is {writer} in the file and {reader} in the reader's schema")
    if writer.name != reader.name or not set(writer.symbols) <= set(reader.symbols):
        raise UnsafeInputError(f"{at} is another {writer.kind} in the reader's schema; read it with reader='spark'")


def _fits(reader: Type, wanted: pa.DataType) -> bool:
    """Whether the wanted type is the one that Spark gives a column of that Avro type by itself, or a wider integer."""
    if reader.logical == _DECIMAL and pa.types.is_decimal128(wanted):
        is_text = reader.kind in (Kind.BYTES, Kind.FIXED)
        return bool(is_text and (wanted.precision, wanted.scale) == (reader.precision, reader.scale))
    if reader.kind is Kind.INT and not reader.logical and pa.types.is_int64(wanted):
        # Stored in the same way: where tables have files of both, no file needs a schema of its own for this.
        return True
    time = _TIMES.get((reader.kind, reader.logical))
    return bool(wanted == (time if time is not None else _PLAIN[reader.kind]))
