"""One table schema from the schemas of many files, whatever order the files come in.

Apache Drill's "schema smoothing" takes the schema of the file read first; here the answer follows from the set of
schemas alone: how often each occurs, and what is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import types as t

from pushdown_spark.contract import OnSchemaConflict
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.projection.widening import coerced, lossless


@dataclass(frozen=True)
class FileSchema:
    """The columns of one file, without those that its directories tell. `file` is its location."""

    file: str
    schema: t.StructType


@dataclass(frozen=True)
class _Seen:
    """A type that some files have at one place: in how many, and one of them to name."""

    data_type: t.DataType
    files: int
    example: str


@dataclass(frozen=True)
class Rules:
    """How types are brought together.

    `unknown` is the type of what is null in all files: a rule of the format. `guessed` says that types were inferred
    from text, where a whole number is a number like any other.
    """

    on_conflict: OnSchemaConflict
    case_sensitive: bool
    unknown: t.DataType = field(default_factory=t.StringType)
    guessed: bool = False

    def key(self, name: str) -> str:
        """What two names have in common that are one column's."""
        return name if self.case_sensitive else name.lower()


def unified(files: Sequence[FileSchema], rules: Rules) -> t.StructType:
    """The schema of the table that some files are.

    Columns come in the order of the schema with the most columns; those that it lacks follow in the order of the next
    one. Raises SchemaConflictError naming both files and types under `error`, and
    under `widen` where not even Spark's coercion finds a type.
    """
    counted: Counter[str] = Counter()
    examples: dict[str, str] = {}
    schemas: dict[str, t.StructType] = {}
    # Many files share one object.
    distinct = {id(file.schema): file.schema for file in files}
    texts = {number: _text(schema) for number, schema in distinct.items()}
    for file in files:
        text = texts[id(file.schema)]
        counted[text] += 1
        schemas[text] = file.schema
        examples[text] = min(file.file, examples.get(text, file.file))
    seen = [_Seen(schemas[text], counted[text], examples[text]) for text in sorted(schemas)]
    return _struct(seen, "", rules)


def _text(kind: t.DataType) -> str:
    return kind.json()


def _struct(seen: Sequence[_Seen], path: str, rules: Rules) -> t.StructType:
    ordered = sorted(seen, key=lambda one: (-len(_fields(one)), _text(one.data_type)))
    members: dict[str, list[_Seen]] = {}
    spelling: dict[str, t.StructField] = {}
    for one in ordered:
        for member in _fields(one):
            key = rules.key(member.name)
            members.setdefault(key, []).append(_Seen(member.dataType, one.files, one.example))
            spelling.setdefault(key, member)
    return t.StructType(
        [
            t.StructField(
                field.name,
                _type(members[key], f"{path}.{field.name}" if path else field.name, rules),
                True,
                field.metadata,
            )
            for key, field in spelling.items()
        ]
    )


def _fields(one: _Seen) -> Sequence[t.StructField]:
    assert isinstance(one.data_type, t.StructType)
    return one.data_type.fields


def _type(seen: Sequence[_Seen], path: str, rules: Rules) -> t.DataType:
    """The type of one place, from the types that it has in all files that have it."""
    known = _distinct(one for one in seen if not isinstance(one.data_type, t.NullType))
    if not known:
        return rules.unknown
    kinds = {_kind(one.data_type) for one in known}
    if len(kinds) > 1:
        if rules.on_conflict is not OnSchemaConflict.NULL:
            first = known[0]
            other = next(one for one in known if _kind(one.data_type) != _kind(first.data_type))
            raise _conflict(path, first, other)
        weight = {kind: sum(one.files for one in known if _kind(one.data_type) == kind) for kind in kinds}
        chosen = min(kinds, key=lambda kind: (-weight[kind], kind))
        known = [one for one in known if _kind(one.data_type) == chosen]
    match known[0].data_type:
        case t.StructType():
            return _struct(known, path, rules)
        case t.ArrayType():
            return t.ArrayType(_type(_inner(known, "elementType"), f"{path}.element", rules), True)
        case t.MapType():
            key = _type(_inner(known, "keyType"), f"{path}.key", rules)
            return t.MapType(key, _type(_inner(known, "valueType"), f"{path}.value", rules), True)
        case _:
            return _atom(known, path, rules)


def _inner(seen: Iterable[_Seen], part: str) -> list[_Seen]:
    return [_Seen(getattr(one.data_type, part), one.files, one.example) for one in seen]


def _kind(kind: t.DataType) -> str:
    return type(kind).__name__ if isinstance(kind, t.StructType | t.ArrayType | t.MapType) else ""


def _distinct(seen: Iterable[_Seen]) -> list[_Seen]:
    """Equal types as one, with the files of both, in an order that does not depend on the files'."""
    found: dict[str, _Seen] = {}
    for one in seen:
        text = _text(one.data_type)
        before = found.get(text, _Seen(one.data_type, 0, one.example))
        found[text] = _Seen(one.data_type, before.files + one.files, min(before.example, one.example))
    return [found[text] for text in sorted(found)]


def _atom(seen: Sequence[_Seen], path: str, rules: Rules) -> t.DataType:
    types = [one.data_type for one in seen]
    whole = _joined(types)
    if whole is None and rules.guessed and all(isinstance(kind, t.NumericType) for kind in types):
        whole = t.DoubleType()
    if whole is not None:
        return whole
    if rules.on_conflict is OnSchemaConflict.NULL:
        return _most_held(seen)
    wide = coerced(types) if rules.on_conflict is OnSchemaConflict.WIDEN else None
    if wide is not None:
        return wide
    raise _conflict(path, *_unlike(seen))


def _joined(types: Sequence[t.DataType]) -> t.DataType | None:
    held: t.DataType | None = types[0]
    for kind in types[1:]:
        held = None if held is None else lossless(held, kind)
    return held


def _most_held(seen: Sequence[_Seen]) -> t.DataType:
    """The type that holds the values of the most files without loss; of several the first by name."""
    weights: dict[str, int] = {}
    found: dict[str, t.DataType] = {}
    for start in seen:
        held, weight = start.data_type, start.files
        for one in seen:
            wider = lossless(held, one.data_type)
            if one is not start and wider is not None:
                held, weight = wider, weight + one.files
        text = held.simpleString()
        found[text] = held
        weights[text] = max(weight, weights.get(text, 0))
    return found[min(found, key=lambda text: (-weights[text], text))]


def _unlike(seen: Sequence[_Seen]) -> tuple[_Seen, _Seen]:
    """Two types that nothing holds together."""
    for at, left in enumerate(seen):
        for right in seen[at + 1 :]:
            if lossless(left.data_type, right.data_type) is None:
                return left, right
    return seen[0], seen[-1]


def _conflict(path: str, left: _Seen, right: _Seen) -> SchemaConflictError:
    return SchemaConflictError(
        f"column {path} is {left.data_type.simpleString()} in {left.example} and "
        f"{right.data_type.simpleString()} in {right.example}, which no type holds without loss; declare a schema, or "
        "give on_schema_conflict='widen' or 'null'"
    )
