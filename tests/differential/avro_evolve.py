"""Random reader schemas for a writer's schema: added, removed, moved and renamed fields, wider types, other unions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import cast

Json = object
Object = Mapping[str, Json]

_WIDER = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_DEFAULTS: Sequence[tuple[Json, Json]] = (
    ("int", -7),
    ("long", 1 << 40),
    ("double", 1.5),
    ("float", 2),
    ("boolean", True),
    ("string", "né"),
    ("bytes", "\u00ff\u0001"),
    (["null", "string"], None),
    (["string", "null"], "there"),
    (["long", "int"], 3),
    ({"type": "int", "logicalType": "date"}, 12_000),
    ({"type": "long", "logicalType": "timestamp-millis"}, 1_000_000_000_000),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "string"}, {}),
    ({"type": "enum", "name": "tests.added_enum", "symbols": ["x", "y"]}, "y"),
)
_KEPT = 0.75
"""How likely a type stays as it is, so that most of a schema resolves."""


def evolve_schema(rng: random.Random, schema: Object, rough: float) -> Object:
    """Return a schema to read files of another schema. `rough` is the probability of changes that do not resolve."""
    return _record(rng, schema, rough, top=True)


def _type(rng: random.Random, kind: Json, rough: float) -> Json:
    if rng.random() < rough:
        return rng.choice(("boolean", "string", "long", ["null", "int"]))
    if isinstance(kind, Sequence) and not isinstance(kind, str):
        return _union(rng, list(kind), rough)
    if isinstance(kind, str):
        changed: Json = rng.choice(_WIDER[kind]) if kind in _WIDER and rng.random() > _KEPT else kind
    else:
        changed = _object(rng, cast(Object, kind), rough)
    return rng.choice((["null", changed], [changed, "null"], [changed])) if rng.random() > _KEPT else changed


def _object(rng: random.Random, kind: Object, rough: float) -> Object:
    if kind["type"] == "record":
        return _record(rng, kind, rough)
    if kind["type"] == "array":
        return {**kind, "items": _type(rng, kind["items"], rough)}
    if kind["type"] == "map":
        return {**kind, "values": _type(rng, kind["values"], rough)}
    if kind["type"] == "enum":
        more = rng.choice(([], [], ["more"]))
        symbols = [*cast(Sequence[str], kind["symbols"]), *more]
        rng.shuffle(symbols)
        return {**kind, "symbols": symbols}
    if "logicalType" in kind and rng.random() < rough:
        return {key: value for key, value in kind.items() if key != "logicalType"}
    return kind


def _union(rng: random.Random, branches: list[Json], rough: float) -> Json:
    """Return the branches in another order, with a wider or a missing branch."""
    if rng.random() < _KEPT:
        return branches
    if rng.random() < 0.5:
        rng.shuffle(branches)
    kinds = [branch for branch in branches if branch != "null"]
    if len(kinds) == 1 and len(branches) == 2:
        inner = kinds[0] if isinstance(kinds[0], Sequence) and not isinstance(kinds[0], str) else None
        wider = _type(rng, kinds[0], rough) if inner is None else kinds[0]
        is_union = isinstance(wider, Sequence) and not isinstance(wider, str)
        if rng.random() < rough:
            return wider
        return wider if is_union else ["null" if branch == "null" else wider for branch in branches]
    return branches


def _record(rng: random.Random, schema: Object, rough: float, *, top: bool = False) -> Object:
    fields = []
    for number, field in enumerate(cast(Sequence[Object], schema["fields"])):
        is_row = top and number == 0
        if not is_row and rng.random() < 0.1:
            continue
        fields.append(field if is_row else _field(rng, field, rough))
    for number in range(rng.choice((0, 0, 1, 2))):
        kind, default = rng.choice([pair for pair in _DEFAULTS if top or "name" not in str(pair[0])])
        if any(field["type"] == kind for field in fields):
            continue
        default = {} if rng.random() < rough else {"default": default}
        fields.append({"name": f"added{number}", "type": kind, **default})
    if rng.random() < 0.4:
        rng.shuffle(fields)
    name = {"name": f"{schema['name']}_renamed"} if rng.random() < 0.1 else {}
    return {**schema, **name, "fields": fields}


def _field(rng: random.Random, field: Object, rough: float) -> Object:
    found = {**field, "type": _type(rng, field["type"], rough)}
    if rng.random() < 0.15:
        return {**found, "name": f"{field['name']}_new", "aliases": ["elsewhere", field["name"]]}
    return found
