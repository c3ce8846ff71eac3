"""Avro schemas: the parser, and the Spark type of each Avro type.

The parser accepts and rejects the same schemas as Avro's Java library, which Spark uses. fastavro's parser differs: it
rejects repeated definitions of one type, nested `type` objects, invalid decimal annotations, symbols that are not ASCII
and defaults of another type, and it accepts unions in unions and repeated branches.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from pyspark.sql import types as t

from pushdown_spark.errors import BadSchemaError, UnsafeInputError

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


NAMED = frozenset({AvroKind.FIXED, AvroKind.ENUM, AvroKind.RECORD})
_PRIMITIVES = frozenset(AvroKind) - NAMED - {AvroKind.ARRAY, AvroKind.MAP, AvroKind.UNION}
_DECIMAL = "decimal"


@dataclass(frozen=True)
class AvroField:
    """A field of a record. `default` is JSON, and is valid only with `has_default`."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Json = None


@dataclass(frozen=True)
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


def parse_schema(text: str) -> AvroType:
    """Parse the JSON text of a schema.

    Raises BadSchemaError for an invalid schema, and UnsafeInputError for a recursive type, which has no columns.
    """
    try:
        return _Parser().parse(json.loads(text), "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise BadSchemaError(f"invalid Avro schema ({problem!r}): {text[:200]}") from problem


class _Parser:
    """Parses one schema, and remembers its named types."""

    def __init__(self) -> None:
        self._types: dict[str, AvroType] = {}
        self._open: set[str] = set()
        """Names of the records around the current node."""

    def parse(self, node: Json, namespace: str) -> AvroType:
        if isinstance(node, str):
            return self._resolve(node, namespace)
        if isinstance(node, Mapping):
            return self._parse_object(node, namespace)
        if isinstance(node, Sequence):
            return AvroType(AvroKind.UNION, branches=_branches([self.parse(branch, namespace) for branch in node]))
        raise ValueError(f"{node!r} is not a type")

    def _resolve(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(AvroKind(name))
        for candidate in (_full_name(name, namespace), name):
            if candidate in self._open:
                raise UnsafeInputError(f"the type {candidate} is recursive; read it with reader='spark'")
            if candidate in self._types:
                return self._types[candidate]
        raise ValueError(f"the type {name!r} is not defined")

    def _parse_object(self, node: _Object, namespace: str) -> AvroType:
        kind = node["type"]
        if not isinstance(kind, str):
            return self.parse(kind, namespace)
        if kind == "error":
            kind = AvroKind.RECORD
        if kind in NAMED:
            return self._parse_named(AvroKind(kind), node, namespace)
        if kind == AvroKind.ARRAY:
            return AvroType(AvroKind.ARRAY, items=self.parse(node["items"], namespace))
        if kind == AvroKind.MAP:
            return AvroType(AvroKind.MAP, items=self.parse(node["values"], namespace))
        plain = self._resolve(kind, namespace)
        return plain if plain.kind in NAMED else _annotate(AvroType(plain.kind), node)

    def _parse_named(self, kind: AvroKind, node: _Object, namespace: str) -> AvroType:
        own_namespace = node.get("namespace")
        full = _full_name(_name(node), namespace if own_namespace is None else str(own_namespace))
        if full in _PRIMITIVES:
            raise ValueError(f"{full!r} is the name of a primitive type")
        if full in self._open:
            raise ValueError(f"the type {full!r} is defined within itself")
        if kind is AvroKind.RECORD:
            type_ = self._parse_record(full, node)
        elif kind is AvroKind.ENUM:
            type_ = AvroType(kind, full, symbols=_symbols(node))
        else:
            type_ = _annotate(AvroType(kind, full, size=_integer(node["size"])), node)
        if self._types.setdefault(full, type_) != type_:
            raise ValueError(f"the type {full!r} is defined twice")
        return type_

    def _parse_record(self, full: str, node: _Object) -> AvroType:
        self._open.add(full)
        namespace = full.rpartition(".")[0]
        fields = tuple(self._parse_field(field, namespace) for field in _objects(node["fields"]))
        self._open.discard(full)
        _check_unique("field", [field.name for field in fields])
        return AvroType(AvroKind.RECORD, full, fields=fields)

    def _parse_field(self, node: _Object, namespace: str) -> AvroField:
        return AvroField(
            _name(node),
            self.parse(node["type"], namespace),
            tuple(_strings(node.get("aliases") or [])),
            "default" in node,
            node.get("default"),
        )


def _full_name(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _name(node: _Object) -> str:
    name = node["name"]
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not a name")
    return name


def _symbols(node: _Object) -> tuple[str, ...]:
    symbols = tuple(_strings(node["symbols"]))
    _check_unique("symbol", symbols)
    if "default" in node and node["default"] not in symbols:
        raise ValueError(f"the default {node['default']!r} is not a symbol")
    return symbols


def _branches(types: Sequence[AvroType]) -> tuple[AvroType, ...]:
    """Return the branches of a union. They must differ in their names, or in their kinds if they have no names."""
    if any(branch.kind is AvroKind.UNION for branch in types):
        raise ValueError("a union is directly in a union")
    _check_unique("branch", [branch.name or branch.kind for branch in types])
    return tuple(types)


def _check_unique(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"the {what} {name!r} is there twice")


def _annotate(plain: AvroType, node: _Object) -> AvroType:
    """Return the type with its logical type. Avro's library ignores invalid decimal annotations."""
    logical = node.get("logicalType")
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


def _integer(node: Json) -> int:
    if not isinstance(node, int):
        raise ValueError(f"{node!r} is not an integer")
    return node


def _strings(node: Json) -> Iterator[str]:
    if isinstance(node, str) or not isinstance(node, Sequence):
        raise ValueError(f"{node!r} is not a list")
    yield from map(str, node)


def _objects(node: Json) -> Iterator[_Object]:
    if isinstance(node, str) or not isinstance(node, Sequence):
        raise ValueError(f"{node!r} is not a list")
    for item in node:
        if not isinstance(item, Mapping):
            raise ValueError(f"{item!r} is not a field")
        yield item


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
_UNSUPPORTED = frozenset({"time-micros", "timestamp-nanos", "local-timestamp-nanos"})
"""Logical types of longs that Spark 4.3 rejects by default."""
_MAX_PRECISION = 38


def spark_schema(schema: AvroType) -> t.StructType:
    """Return the columns of a file, as Spark's own Avro source infers them.

    Raises BadSchemaError for a schema that is not a record, and for types that Spark does not read.
    """
    columns = spark_type(schema)
    if not isinstance(columns, t.StructType):
        raise BadSchemaError(f"the top-level type of the schema is {schema}, not a record; such files have no columns")
    return columns


def spark_type(schema: AvroType) -> t.DataType:
    """Return the type of a column or member. Everything is nullable, as in all of Spark's file sources."""
    if schema.kind is AvroKind.RECORD:
        return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in schema.fields])
    if schema.kind is AvroKind.ARRAY:
        return t.ArrayType(spark_type(schema.content))
    if schema.kind is AvroKind.MAP:
        return t.MapType(t.StringType(), spark_type(schema.content))
    if schema.kind is AvroKind.UNION:
        return _spark_type_of_union(schema)
    if schema.logical == _DECIMAL:
        if schema.precision > _MAX_PRECISION:
            raise BadSchemaError(f"a decimal of {schema.precision} digits: Spark has at most {_MAX_PRECISION}")
        return t.DecimalType(schema.precision, schema.scale)
    if schema.kind is AvroKind.LONG and schema.logical in _UNSUPPORTED:
        raise BadSchemaError(f"a column of {schema}: Spark does not read this type; declare a schema without it")
    return _LOGICAL_SPARK_TYPES.get((schema.kind, schema.logical), _SPARK_TYPES[schema.kind])


def _spark_type_of_union(schema: AvroType) -> t.DataType:
    branches = [branch for branch in schema.branches if branch.kind is not AvroKind.NULL]
    if len(branches) == 1:
        return spark_type(branches[0])
    kinds = frozenset(branch.kind for branch in branches)
    if len(branches) == 2 and kinds in _WIDER:
        return _WIDER[kinds]
    return t.StructType([t.StructField(f"member{n}", spark_type(branch)) for n, branch in enumerate(branches)])
