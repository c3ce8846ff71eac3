"""Values that a reader's schema gives to fields that a file does not have."""

from __future__ import annotations

import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.readers.avro.schema import Field, Json, Kind

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
