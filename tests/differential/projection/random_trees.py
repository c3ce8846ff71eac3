"""Random nested schemas, rows of them, and random paths with Spark's expressions for the same values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import types as t

ROW = "row"
"""The column that numbers the rows."""
_DEEPEST = 3
_KEYS = ("k", "key two", "it's", "K")
_NAMES = ("a", "b", "Cc", "d_1")
_ATOMS: Mapping[type[t.DataType], Callable[[random.Random], object]] = {
    t.IntegerType: lambda rng: rng.choice((0, 1, -5, 2**31 - 1)),
    t.LongType: lambda rng: rng.choice((0, 7, -(2**62))),
    t.DoubleType: lambda rng: rng.choice((0.5, -1.25, 1e300)),
    t.BooleanType: lambda rng: rng.random() < 0.5,
    t.StringType: lambda rng: rng.choice(("", "x", "it's", "Ångström", "null")),
}


@dataclass(frozen=True)
class Asked:
    """A requested path, Spark's expression for the same value, and its type."""

    path: str
    expression: str
    kind: t.DataType


def random_schema(rng: random.Random) -> t.StructType:
    """Return row numbers, and columns that nest structs, arrays and maps."""
    return t.StructType([t.StructField(ROW, t.LongType()), *_struct(rng, 0).fields])


def _struct(rng: random.Random, depth: int) -> t.StructType:
    names = rng.sample(_NAMES, rng.randint(1, len(_NAMES)))
    return t.StructType([t.StructField(name, _kind(rng, depth + 1)) for name in names])


def _kind(rng: random.Random, depth: int) -> t.DataType:
    choice = "atom" if depth > _DEEPEST else rng.choice(("atom", "struct", "struct", "array", "array", "map"))
    if choice == "struct":
        return _struct(rng, depth)
    if choice == "array":
        return t.ArrayType(_kind(rng, depth + 1))
    if choice == "map":
        return t.MapType(t.StringType(), _kind(rng, depth + 1))
    return rng.choice(list(_ATOMS))()


def random_row(rng: random.Random, schema: t.StructType, number: int) -> tuple[object, ...]:
    """Return a row with nulls at every depth. Structs are dictionaries."""
    return (number, *(_value(rng, field.dataType) for field in schema.fields[1:]))


def _value(rng: random.Random, kind: t.DataType) -> object:
    if rng.random() < 0.2:
        return None
    match kind:
        case t.StructType():
            return {field.name: _value(rng, field.dataType) for field in kind.fields}
        case t.ArrayType():
            return [_value(rng, kind.elementType) for _ in range(rng.randint(0, 3))]
        case t.MapType():
            return {key: _value(rng, kind.valueType) for key in rng.sample(_KEYS, rng.randint(0, 3))}
    return _ATOMS[type(kind)](rng)


def random_path(rng: random.Random, schema: t.StructType) -> Asked:
    field = rng.choice(schema.fields)
    start = Asked(_change_case(rng, field.name), f"`{field.name}`", field.dataType)
    return _descend(rng, start, 0)


def _descend(rng: random.Random, at: Asked, lambdas: int) -> Asked:
    while rng.random() < 0.75:
        further = _step(rng, at, lambdas)
        if further is None:
            return at
        at = further
        if at.path.endswith(")"):
            return at
    return at


def _step(rng: random.Random, at: Asked, lambdas: int) -> Asked | None:
    match at.kind:
        case t.StructType():
            return _group(rng, at, lambdas) if rng.random() < 0.3 else _member(rng, at)
        case t.ArrayType(elementType=t.StructType()) if rng.random() < 0.5:
            return _each_group(rng, at, lambdas) if rng.random() < 0.4 else _each_member(rng, at, lambdas)
        case t.ArrayType() if not at.path.endswith("]"):
            return _elements(rng, at)
        case t.MapType():
            key = rng.choice(_KEYS)
            text = key.replace("'", "''")
            return Asked(f"{at.path}['{text}']", f'{at.expression}["{key}"]', at.kind.valueType)
    return None


def _member(rng: random.Random, at: Asked) -> Asked:
    assert isinstance(at.kind, t.StructType)
    field = rng.choice(at.kind.fields)
    return Asked(f"{at.path}.{_change_case(rng, field.name)}", f"{at.expression}.`{field.name}`", field.dataType)


def _each_member(rng: random.Random, at: Asked, lambdas: int) -> Asked:
    """Return a member of all elements."""
    assert isinstance(at.kind, t.ArrayType)
    assert isinstance(at.kind.elementType, t.StructType)
    field = rng.choice(at.kind.elementType.fields)
    each = f"transform({at.expression}, v{lambdas} -> v{lambdas}.`{field.name}`)"
    return Asked(f"{at.path}.{field.name}", each, t.ArrayType(field.dataType))


def _elements(rng: random.Random, at: Asked) -> Asked:
    assert isinstance(at.kind, t.ArrayType)
    positions = sorted(rng.sample(range(4), rng.choice((1, 1, 1, 2, 3))))
    elements = [f"get({at.expression}, {position})" for position in positions]
    path = f"{at.path}[{', '.join(map(str, positions))}]"
    if len(elements) == 1:
        return Asked(path, elements[0], at.kind.elementType)
    several = f"CASE WHEN {at.expression} IS NOT NULL THEN array({', '.join(elements)}) END"
    return Asked(path, several, t.ArrayType(at.kind.elementType))


def _group(rng: random.Random, at: Asked, lambdas: int) -> Asked:
    """Return a struct of some members, each with a new name."""
    assert isinstance(at.kind, t.StructType)
    inside = []
    for field in rng.sample(at.kind.fields, rng.randint(1, len(at.kind.fields))):
        start = Asked(field.name, f"{at.expression}.`{field.name}`", field.dataType)
        inside.append(_descend(rng, start, lambdas))
    paths = ", ".join(f"{one.path} AS m{number}" for number, one in enumerate(inside))
    items = ", ".join(f"'m{number}', {one.expression}" for number, one in enumerate(inside))
    kind = t.StructType([t.StructField(f"m{number}", one.kind) for number, one in enumerate(inside)])
    whole = f"CASE WHEN {at.expression} IS NOT NULL THEN named_struct({items}) END"
    return Asked(f"{at.path}({paths})", whole, kind)


def _each_group(rng: random.Random, at: Asked, lambdas: int) -> Asked:
    """Return a struct of some members for each element."""
    assert isinstance(at.kind, t.ArrayType)
    each = _group(rng, Asked("", f"v{lambdas}", at.kind.elementType), lambdas + 1)
    whole = f"transform({at.expression}, v{lambdas} -> {each.expression})"
    return Asked(f"{at.path}{each.path}", whole, t.ArrayType(each.kind))


def _change_case(rng: random.Random, name: str) -> str:
    return name.swapcase() if rng.random() < 0.2 else name
