"""Parses Avro schemas into trees in which every name is replaced by what it names."""

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


class Kind(StrEnum):
    """Avro's types."""

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


NAMED = frozenset({Kind.FIXED, Kind.ENUM, Kind.RECORD})
_PRIMITIVES = frozenset(Kind) - NAMED - {Kind.ARRAY, Kind.MAP, Kind.UNION}
_DECIMAL = "decimal"


@dataclass(frozen=True)
class Field:
    """A record's field. `default` is JSON; it counts only with `has_default`."""

    name: str
    type: Type
    aliases: tuple[str, ...] = ()
    has_default: bool = False
    default: Json = None


@dataclass(frozen=True)
class Type:
    """A type with what its kind has: a name for fixed, enum and record, a size for fixed, and so on.

    `logical` is the annotation as written; `items` are an array's items or a map's values. Two types are equal where
    the same bytes mean the same.
    """

    kind: Kind
    name: str = ""
    logical: str = ""
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    items: Type | None = None
    fields: tuple[Field, ...] = ()
    branches: tuple[Type, ...] = ()

    @property
    def content(self) -> Type:
        """The items of an array or the values of a map."""
        assert self.items is not None
        return self.items

    def __str__(self) -> str:
        return f"{self.kind} ({self.logical})" if self.logical else str(self.kind)


def parse_schema(text: str) -> Type:
    """Parse a schema of JSON text.

    Raises BadSchemaError where it is none, and UnsafeInputError for a type that holds itself, which has no columns.
    """
    try:
        found = _Parser().type(json.loads(text), "")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as problem:
        raise BadSchemaError(f"this is no Avro schema ({problem!r}): {text[:200]}") from problem
    return found


class _Parser:
    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._open: set[str] = set()

    def type(self, node: Json, namespace: str) -> Type:
        if isinstance(node, str):
            return self._called(node, namespace)
        if isinstance(node, Mapping):
            return self._object(node, namespace)
        if isinstance(node, Sequence):
            return Type(Kind.UNION, branches=_branches([self.type(branch, namespace) for branch in node]))
        raise ValueError(f"{node!r} is no type")

    def _called(self, name: str, namespace: str) -> Type:
        if name in _PRIMITIVES:
            return Type(Kind(name))
        full = _full(name, namespace)
        for known in (full, name):
            if known in self._open:
                raise UnsafeInputError(f"the type {known} holds itself; read it with reader='spark'")
            if known in self._known:
                return self._known[known]
        raise ValueError(f"there is no type {name!r}")

    def _object(self, node: _Object, namespace: str) -> Type:
        kind = node["type"]
        if not isinstance(kind, str):
            return self.type(kind, namespace)
        if kind == "error":
            kind = Kind.RECORD
        if kind in NAMED:
            return self._named(Kind(kind), node, namespace)
        if kind == Kind.ARRAY:
            return Type(Kind.ARRAY, items=self.type(node["items"], namespace))
        if kind == Kind.MAP:
            return Type(Kind.MAP, items=self.type(node["values"], namespace))
        plain = self._called(kind, namespace)
        return plain if plain.kind in NAMED else _annotated(Type(plain.kind), node)

    def _named(self, kind: Kind, node: _Object, namespace: str) -> Type:
        space = node.get("namespace")
        full = _full(_name(node), namespace if space is None else str(space))
        if full in _PRIMITIVES:
            raise ValueError(f"a type is named {full!r}, as another that needs no definition")
        if full in self._open:
            raise ValueError(f"the type {full!r} is defined within itself")
        if kind is Kind.RECORD:
            found = self._record(full, node)
        elif kind is Kind.ENUM:
            found = Type(kind, full, symbols=_symbols(node))
        else:
            found = _annotated(Type(kind, full, size=_number(node["size"])), node)
        if self._known.setdefault(full, found) != found:
            raise ValueError(f"the type {full!r} is defined twice")
        return found

    def _record(self, full: str, node: _Object) -> Type:
        self._open.add(full)
        inner = full.rpartition(".")[0]
        fields = tuple(self._field(field, inner) for field in _objects(node["fields"]))
        self._open.discard(full)
        _check_once("field", [field.name for field in fields])
        return Type(Kind.RECORD, full, fields=fields)

    def _field(self, node: _Object, namespace: str) -> Field:
        return Field(
            _name(node),
            self.type(node["type"], namespace),
            tuple(_texts(node.get("aliases") or [])),
            "default" in node,
            node.get("default"),
        )


def _full(name: str, namespace: str) -> str:
    return f"{namespace}.{name}" if namespace and "." not in name else name


def _name(node: _Object) -> str:
    found = node["name"]
    if not isinstance(found, str):
        raise ValueError(f"{found!r} is no name")
    return found


def _symbols(node: _Object) -> tuple[str, ...]:
    found = tuple(_texts(node["symbols"]))
    _check_once("symbol", found)
    if "default" in node and node["default"] not in found:
        raise ValueError(f"{node['default']!r} is the default, but no symbol")
    return found


def _branches(found: Sequence[Type]) -> tuple[Type, ...]:
    """The branches of a union, which are told apart by their names, or by their kinds where they have none."""
    if any(branch.kind is Kind.UNION for branch in found):
        raise ValueError("a union stands in a union")
    _check_once("branch", [branch.name or branch.kind for branch in found])
    return tuple(found)


def _check_once(what: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise ValueError(f"the {what} {name!r} is there twice")


def _annotated(plain: Type, node: _Object) -> Type:
    """The type with its logical type, unless it is one that Avro's library does not take."""
    logical = node.get("logicalType")
    if not isinstance(logical, str):
        return plain
    if logical != _DECIMAL:
        return replace(plain, logical=logical)
    precision, scale = node.get("precision"), node.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision:
        return plain
    return replace(plain, logical=logical, precision=precision, scale=scale) if _holds(plain, precision) else plain


def _holds(plain: Type, precision: int) -> bool:
    """Whether all decimal numbers of so many digits fit a type."""
    if plain.kind is Kind.FIXED:
        return plain.size > 0 and 0 < precision < len(str((1 << (8 * plain.size - 1)) - 1))
    return plain.kind is Kind.BYTES and precision > 0


def _number(node: Json) -> int:
    if not isinstance(node, int):
        raise ValueError(f"{node!r} is no whole number")
    return node


def _texts(node: Json) -> Iterator[str]:
    if isinstance(node, str) or not isinstance(node, Sequence):
        raise ValueError(f"{node!r} is no list")
    yield from map(str, node)


def _objects(node: Json) -> Iterator[_Object]:
    if isinstance(node, str) or not isinstance(node, Sequence):
        raise ValueError(f"{node!r} is no list")
    for item in node:
        if not isinstance(item, Mapping):
            raise ValueError(f"{item!r} is no field")
        yield item


_SIMPLE: dict[Kind, t.DataType] = {
    Kind.NULL: t.NullType(),
    Kind.BOOLEAN: t.BooleanType(),
    Kind.INT: t.IntegerType(),
    Kind.LONG: t.LongType(),
    Kind.FLOAT: t.FloatType(),
    Kind.DOUBLE: t.DoubleType(),
    Kind.BYTES: t.BinaryType(),
    Kind.FIXED: t.BinaryType(),
    Kind.STRING: t.StringType(),
    Kind.ENUM: t.StringType(),
}
_LOGICAL: dict[tuple[Kind, str], t.DataType] = {
    (Kind.INT, "date"): t.DateType(),
    (Kind.LONG, "timestamp-millis"): t.TimestampType(),
    (Kind.LONG, "timestamp-micros"): t.TimestampType(),
    (Kind.LONG, "local-timestamp-millis"): t.TimestampNTZType(),
    (Kind.LONG, "local-timestamp-micros"): t.TimestampNTZType(),
}
"""Logical types that Spark knows besides decimals; values of all others are those of the plain type."""
_WIDER: dict[frozenset[Kind], t.DataType] = {
    frozenset({Kind.INT, Kind.LONG}): t.LongType(),
    frozenset({Kind.FLOAT, Kind.DOUBLE}): t.DoubleType(),
}
"""Unions of two types that Spark reads as the wider of them."""
_UNSUPPORTED = frozenset({"time-micros", "timestamp-nanos", "local-timestamp-nanos"})
"""Logical types of longs that Spark 4.3 knows and refuses to read unless features of it are switched on."""
_MAX_PRECISION = 38


def spark_schema(schema: Type) -> t.StructType:
    """The columns of a file. Raises BadSchemaError where it holds no records, or a type that Spark does not read."""
    found = spark_type(schema)
    if not isinstance(found, t.StructType):
        raise BadSchemaError(f"the schema's top is no record but {schema}; such files have no columns")
    return found


def spark_type(schema: Type) -> t.DataType:
    """The type of a column or member; everything may be null, as in any file source of Spark's."""
    if schema.kind is Kind.RECORD:
        return t.StructType([t.StructField(field.name, spark_type(field.type)) for field in schema.fields])
    if schema.kind is Kind.ARRAY:
        return t.ArrayType(spark_type(schema.content))
    if schema.kind is Kind.MAP:
        return t.MapType(t.StringType(), spark_type(schema.content))
    if schema.kind is Kind.UNION:
        return _union(schema)
    if schema.logical == "decimal":
        if schema.precision > _MAX_PRECISION:
            raise BadSchemaError(f"a decimal of {schema.precision} digits: Spark has at most {_MAX_PRECISION}")
        return t.DecimalType(schema.precision, schema.scale)
    if schema.kind is Kind.LONG and schema.logical in _UNSUPPORTED:
        raise BadSchemaError(f"a column of {schema}: Spark does not read this type; leave the column out by a schema")
    return _LOGICAL.get((schema.kind, schema.logical), _SIMPLE[schema.kind])


def _union(schema: Type) -> t.DataType:
    branches = [branch for branch in schema.branches if branch.kind is not Kind.NULL]
    if len(branches) == 1:
        return spark_type(branches[0])
    kinds = frozenset(branch.kind for branch in branches)
    if len(branches) == 2 and kinds in _WIDER:
        return _WIDER[kinds]
    return t.StructType([t.StructField(f"member{place}", spark_type(each)) for place, each in enumerate(branches)])
