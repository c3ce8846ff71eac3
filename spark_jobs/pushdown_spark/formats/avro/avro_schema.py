"""Avro schemas, parsed by fastavro, and the Spark type of each Avro type.

Spark uses Avro's Java library. What only fastavro accepts, such as unions in unions, is rejected here. fastavro also
rejects schemas that the library accepts: repeated definitions of one type, and symbols that are not ASCII. Spark's
reader reads such files.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError, UnsafeInputError
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
_Object = Mapping[str, Json]


class AvroKind(StrEnum):
    """Avro's types, without their parameters."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BYTES = "bytes"
    STRING = "string"
    FIXED = "fixed"
    ENUM = "enum"
    ARRAY = "array"
    MAP = "map"
    RECORD = "record"
    UNION = "union"


NAMED_KINDS = frozenset({AvroKind.FIXED, AvroKind.ENUM, AvroKind.RECORD})
_PRIMITIVES = frozenset(AvroKind) - NAMED_KINDS - {AvroKind.ARRAY, AvroKind.MAP, AvroKind.UNION}
_DECIMAL = "decimal"
INTERVAL_MARK = "spark.sql.catalyst.type"
"""A property by which Spark marks numbers that are intervals."""


@dataclass(frozen=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType


@dataclass(frozen=True, kw_only=True)
class AvroType:
    """A type and its parameters. References to named types are replaced by the types.

    `logical` is the logical type as written. `items` is the type of an array's items or a map's values. Two types are
    equal if the same bytes have the same meaning for both.
    """

    kind: AvroKind
    name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    items: AvroType | None = None
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()

    @property
    def content(self) -> AvroType:
        """The items of an array or the values of a map."""
        assert self.items is not None
        return self.items

    def __str__(self) -> str:
        return f"{self.kind} ({self.logical})" if self.logical else str(self.kind)


def count_values(kind: AvroType) -> int:
    """Return the number of values in a datum whose arrays and maps have one item each, not counting NULL.

    >>> count_values(parse_schema('["null", {"type": "array", "items": "int"}]'))
    1
    """
    parts = (*(field.type for field in kind.fields), *kind.branches, *((kind.items,) if kind.items else ()))
    return sum(map(count_values, parts)) if parts else int(kind.kind is not AvroKind.NULL)


def parse_schema(text: str) -> AvroType:
    """Parse the JSON text of a schema.

    Raises BadSchemaError for a schema that fastavro or Avro's Java library rejects. Raises UnsafeInputError for a
    recursive type, which has no columns.
    """
    # Imported here because sessions load this module whatever the format of their sources is.
    from fastavro.schema import SchemaParseException
    from fastavro.schema import parse_schema as parse

    try:
        # In a list, because fastavro believes a schema that claims to be parsed.
        schemas = parse([json.loads(text, object_hook=_rename_keys)], expand=True)
        return _avro_type(_list(schemas)[0])
    except (SchemaParseException, ValueError, TypeError, KeyError, RecursionError) as problem:
        raise BadSchemaError(f"invalid Avro schema ({problem!r}): {text[:200]}") from problem


_DEFAULT, _LOGICAL = "default as written", "logicalType as written"


def _rename_keys(node: _Object) -> _Object:
    """Return an object of a schema, with other names for keys that only fastavro checks.

    Avro's Java library ignores invalid decimals and namespaces, and reads files with field defaults of another type.
    """
    if not isinstance(node.get("name", ""), str):
        raise ValueError(f"{node['name']!r} is not a name")
    if node.get("type") in ("record", "error") and not isinstance(node.get("fields"), list):
        raise ValueError("a record has no list of fields")
    names = {"logicalType": _LOGICAL} if "symbols" in node else {"logicalType": _LOGICAL, "default": _DEFAULT}
    return {names.get(key, key): value for key, value in node.items() if key != "namespace" or isinstance(value, str)}


def _avro_type(node: Json) -> AvroType:
    """Convert a schema that fastavro parsed and expanded. Raises ValueError for what only fastavro accepts."""
    if isinstance(node, str):
        if node not in _PRIMITIVES:
            raise UnsafeInputError(f"the type {node} is recursive; read it with reader='spark'")
        return AvroType(kind=AvroKind(node))
    if not isinstance(node, Mapping):
        return _union([_avro_type(branch) for branch in _list(node)])
    kind = AvroKind.RECORD if node["type"] == "error" else AvroKind(str(node["type"]))
    name = str(node["name"]) if kind in NAMED_KINDS else ""
    if name in _PRIMITIVES:
        raise ValueError(f"{name!r} is the name of a primitive type")
    match kind:
        case AvroKind.RECORD:
            fields = tuple(map(_field, _list(node["fields"])))
            _check_unique("field", [field.name for field in fields])
            return AvroType(kind=kind, name=name, fields=fields)
        case AvroKind.ENUM:
            return AvroType(kind=kind, name=name, symbols=tuple(map(str, _list(node["symbols"]))))
        case AvroKind.ARRAY | AvroKind.MAP:
            return AvroType(kind=kind, items=_avro_type(node["items" if kind is AvroKind.ARRAY else "values"]))
        case AvroKind.FIXED:
            size = node["size"]
            if not isinstance(size, int) or size < 0:
                raise ValueError(f"{size!r} is not a size")
            return _annotate(AvroType(kind=kind, name=name, size=size), node)
    return _annotate(AvroType(kind=kind), node)


def _field(node: Json) -> AvroField:
    assert isinstance(node, Mapping)
    return AvroField(str(node["name"]), _avro_type(node["type"]))


def _union(branches: Sequence[AvroType]) -> AvroType:
    """Return a union. Its branches must differ in their names, or in their kinds if they have no names."""
    if any(branch.kind is AvroKind.UNION for branch in branches):
        raise ValueError("a union is directly in a union")
    _check_unique("branch", [branch.name or branch.kind for branch in branches])
    return AvroType(kind=AvroKind.UNION, branches=tuple(branches))


def _check_unique(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"the {what} {name!r} is there twice")


def _list(node: Json) -> Sequence[Json]:
    if not isinstance(node, list):
        raise ValueError(f"{node!r} is not a list")
    return node


def _annotate(plain: AvroType, node: _Object) -> AvroType:
    """Return the type with its logical type. Avro's library ignores invalid decimal annotations."""
    logical = node.get(_LOGICAL)
    if not isinstance(logical, str):
        return plain
    if logical != _DECIMAL:
        return replace(plain, logical=logical)
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return plain
    fits = _fits_precision(plain, precision)
    return replace(plain, logical=logical, precision=precision, scale=scale) if fits else plain


def _fits_precision(plain: AvroType, precision: int) -> bool:
    """Return whether a type can hold all decimals of a precision."""
    if plain.kind is AvroKind.FIXED:
        return plain.size > 0 and 0 < precision < len(str((1 << (8 * plain.size - 1)) - 1))
    return plain.kind is AvroKind.BYTES and precision > 0


_SPARK_TYPES: dict[AvroKind, t.DataType] = {
    AvroKind.NULL: t.NullType(),
    AvroKind.BOOLEAN: t.BooleanType(),
    AvroKind.INT: t.IntegerType(),
    AvroKind.LONG: t.LongType(),
    AvroKind.FLOAT: t.FloatType(),
    AvroKind.DOUBLE: t.DoubleType(),
    AvroKind.BYTES: t.BinaryType(),
    AvroKind.FIXED: t.BinaryType(),
    AvroKind.STRING: t.StringType(),
    AvroKind.ENUM: t.StringType(),
}
_LOGICAL_SPARK_TYPES: dict[tuple[AvroKind, str], t.DataType] = {
    (AvroKind.INT, "date"): t.DateType(),
    (AvroKind.LONG, "timestamp-millis"): t.TimestampType(),
    (AvroKind.LONG, "timestamp-micros"): t.TimestampType(),
    (AvroKind.LONG, "local-timestamp-millis"): t.TimestampNTZType(),
    (AvroKind.LONG, "local-timestamp-micros"): t.TimestampNTZType(),
}
"""Logical types that Spark supports, except decimals. Spark ignores all others."""
_WIDER: dict[frozenset[AvroKind], t.DataType] = {
    frozenset({AvroKind.INT, AvroKind.LONG}): t.LongType(),
    frozenset({AvroKind.FLOAT, AvroKind.DOUBLE}): t.DoubleType(),
}
"""Unions of two types that Spark reads as the wider type."""
_UNSUPPORTED_LOGICAL_TYPES = frozenset({"time-micros", "timestamp-nanos", "local-timestamp-nanos"})
"""Logical types of longs that Spark 4.3 rejects by default."""


def spark_schema(schema: AvroType) -> t.StructType:
    """Return the columns of a file, as Spark's own Avro source infers them.

    Raises BadSchemaError for a schema that is not a record, and for types that Spark does not read.
    """
    columns = spark_type(schema)
    if not isinstance(columns, t.StructType):
        raise BadSchemaError(f"the top-level type of the schema is {schema}, not a record; such files have no columns")
    return columns


def spark_type(schema: AvroType, path: str = "") -> t.DataType:
    """Return the type of a column or member. Everything is nullable, as in all of Spark's file sources."""
    if schema.kind is AvroKind.RECORD:
        prefix = f"{path}." if path else ""
        fields = schema.fields
        return t.StructType([t.StructField(f.name, spark_type(f.type, f"{prefix}{f.name}")) for f in fields])
    if schema.kind is AvroKind.ARRAY:
        return t.ArrayType(spark_type(schema.content, path))
    if schema.kind is AvroKind.MAP:
        return t.MapType(t.StringType(), spark_type(schema.content, path))
    if schema.kind is AvroKind.UNION:
        return _spark_type_of_union(schema, path)
    if schema.logical == _DECIMAL:
        if schema.precision > MAX_DECIMAL_DIGITS:
            raise BadSchemaError(
                f"column {path} is a decimal of {schema.precision} digits: Spark has at most {MAX_DECIMAL_DIGITS}; "
                "declare a schema without it"
            )
        return t.DecimalType(schema.precision, schema.scale)
    if schema.kind is AvroKind.LONG and schema.logical in _UNSUPPORTED_LOGICAL_TYPES:
        raise BadSchemaError(f"column {path} is a {schema}: Spark does not read this type; declare a schema without it")
    return leaf_spark_type(schema)


def leaf_spark_type(schema: AvroType) -> t.DataType:
    """Return the Spark type of a value that is neither composite nor a decimal."""
    return _LOGICAL_SPARK_TYPES.get((schema.kind, schema.logical), _SPARK_TYPES[schema.kind])


def _spark_type_of_union(schema: AvroType, path: str) -> t.DataType:
    branches = [branch for branch in schema.branches if branch.kind is not AvroKind.NULL]
    if len(branches) == 1:
        return spark_type(branches[0], path)
    kinds = frozenset(branch.kind for branch in branches)
    if len(branches) == 2 and kinds in _WIDER:
        return _WIDER[kinds]
    return t.StructType([t.StructField(f"member{n}", spark_type(branch, path)) for n, branch in enumerate(branches)])
