"""The rules that merge the schemas of many files into the schema of a table.

The result depends on the set of schemas and on how many files have each, never on the order of the files. Apache
Drill's "schema smoothing", in contrast, starts from the file that is read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import types as t

from pushdown_spark.contract import OnSchemaConflict
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.expressions.names import name_key
from pushdown_spark.projection.type_widening import coerced_type, lossless_type


@dataclass(frozen=True)
class FileSchema:
    """The columns of one file without its partition columns. `file` is its location."""

    file: str
    schema: t.StructType


@dataclass(frozen=True)
class MergeRules:
    """The rules for merging types.

    `default_type` is the type of columns that are null in all files; it depends on the format. `is_inferred` is whether
    types were inferred from text, so that integers and fractions become doubles.
    """

    on_conflict: OnSchemaConflict
    case_sensitive: bool
    default_type: t.DataType = field(default_factory=t.StringType)
    is_inferred: bool = False

    def key(self, name: str) -> str:
        """Return a key that all names of one column share."""
        return name_key(name, case_sensitive=self.case_sensitive)


@dataclass(frozen=True)
class _TypeCount:
    """A type of a column, the number of files that have it, and one of these files."""

    data_type: t.DataType
    files: int
    example: str


def merge_schemas(files: Sequence[FileSchema], rules: MergeRules) -> t.StructType:
    """Return the schema of the table that consists of some files.

    Columns have the order of the schema with the most columns, followed by the others in the order of the next schema.
    Raises SchemaConflictError, which names both files and types, with `error`, and with `widen` if Spark has no
    coercion either.
    """
    return _merge_structs(_distinct(_TypeCount(file.schema, 1, file.file) for file in files), "", rules)


def _merge_structs(types: Sequence[_TypeCount], path: str, rules: MergeRules) -> t.StructType:
    """Return a struct with the members of all types, in the order of the type with the most members.

    Types with equally many members are ordered by their JSON, so that the order of the files does not matter.
    """
    ordered = sorted(types, key=lambda count: (-len(_fields(count)), count.data_type.json()))
    members: dict[str, list[_TypeCount]] = {}
    first_fields: dict[str, t.StructField] = {}
    for count in ordered:
        for member in _fields(count):
            key = rules.key(member.name)
            members.setdefault(key, []).append(_TypeCount(member.dataType, count.files, count.example))
            first_fields.setdefault(key, member)
    return t.StructType(
        [
            t.StructField(
                field.name,
                _merge_types(members[key], f"{path}.{field.name}" if path else field.name, rules),
                True,
                field.metadata,
            )
            for key, field in first_fields.items()
        ]
    )


def _fields(count: _TypeCount) -> Sequence[t.StructField]:
    assert isinstance(count.data_type, t.StructType)
    return count.data_type.fields


def _merge_types(all_types: Sequence[_TypeCount], path: str, rules: MergeRules) -> t.DataType:
    """Return the type of a column or member, from its types in all files that have it."""
    types = _distinct(count for count in all_types if not isinstance(count.data_type, t.NullType))
    if not types:
        return rules.default_type
    kinds = {_nested_kind(count.data_type) for count in types}
    if len(kinds) > 1:
        if rules.on_conflict is not OnSchemaConflict.NULL:
            first = types[0]
            other = next(count for count in types if _nested_kind(count.data_type) != _nested_kind(first.data_type))
            raise _conflict(path, first, other)
        files = {kind: sum(count.files for count in types if _nested_kind(count.data_type) == kind) for kind in kinds}
        most_common = min(kinds, key=lambda kind: (-files[kind], kind))
        types = [count for count in types if _nested_kind(count.data_type) == most_common]
    match types[0].data_type:
        case t.StructType():
            return _merge_structs(types, path, rules)
        case t.ArrayType():
            return t.ArrayType(_merge_types(_inner(types, "elementType"), f"{path}.element", rules), True)
        case t.MapType():
            key = _merge_types(_inner(types, "keyType"), f"{path}.key", rules)
            return t.MapType(key, _merge_types(_inner(types, "valueType"), f"{path}.value", rules), True)
        case _:
            return _merge_atoms(types, path, rules)


def _inner(types: Iterable[_TypeCount], attribute: str) -> list[_TypeCount]:
    return [_TypeCount(getattr(count.data_type, attribute), count.files, count.example) for count in types]


def _nested_kind(data_type: t.DataType) -> str:
    """Return the class of a nested type, an empty string for all atomic types."""
    is_nested = isinstance(data_type, t.StructType | t.ArrayType | t.MapType)
    return type(data_type).__name__ if is_nested else ""


def _distinct(types: Iterable[_TypeCount]) -> list[_TypeCount]:
    """Return each type once, with the files of all its occurrences, in an order that does not depend on the files."""
    # Many files share one schema object, so that it is converted to JSON once.
    keys: dict[int, str] = {}
    by_json: dict[str, _TypeCount] = {}
    for count in types:
        key = keys.get(id(count.data_type)) or keys.setdefault(id(count.data_type), count.data_type.json())
        before = by_json.get(key, _TypeCount(count.data_type, 0, count.example))
        by_json[key] = _TypeCount(count.data_type, before.files + count.files, min(before.example, count.example))
    return [by_json[key] for key in sorted(by_json)]


def _merge_atoms(counts: Sequence[_TypeCount], path: str, rules: MergeRules) -> t.DataType:
    types = [count.data_type for count in counts]
    common = _lossless_type(types)
    if common is None and rules.is_inferred and all(isinstance(data_type, t.NumericType) for data_type in types):
        common = t.DoubleType()
    if common is not None:
        return common
    if rules.on_conflict is OnSchemaConflict.NULL:
        return _most_common_type(counts)
    coerced = coerced_type(types) if rules.on_conflict is OnSchemaConflict.WIDEN else None
    if coerced is not None:
        return coerced
    raise _conflict(path, *_conflicting_pair(counts))


def _lossless_type(types: Sequence[t.DataType]) -> t.DataType | None:
    common: t.DataType | None = types[0]
    for data_type in types[1:]:
        common = None if common is None else lossless_type(common, data_type)
    return common


def _most_common_type(counts: Sequence[_TypeCount]) -> t.DataType:
    """Return the type that holds the values of the most files without loss, the first by name of several."""
    files_by_type: dict[str, int] = {}
    types: dict[str, t.DataType] = {}
    for start in counts:
        common, files = start.data_type, start.files
        for count in counts:
            wider = lossless_type(common, count.data_type)
            if count is not start and wider is not None:
                common, files = wider, files + count.files
        name = common.simpleString()
        types[name] = common
        files_by_type[name] = max(files, files_by_type.get(name, 0))
    return types[min(types, key=lambda name: (-files_by_type[name], name))]


def _conflicting_pair(counts: Sequence[_TypeCount]) -> tuple[_TypeCount, _TypeCount]:
    """Return two types without a common lossless type."""
    for at, left in enumerate(counts):
        for right in counts[at + 1 :]:
            if lossless_type(left.data_type, right.data_type) is None:
                return left, right
    return counts[0], counts[-1]


def _conflict(path: str, left: _TypeCount, right: _TypeCount) -> SchemaConflictError:
    return SchemaConflictError(
        f"column {path} is {left.data_type.simpleString()} in {left.example} and "
        f"{right.data_type.simpleString()} in {right.example}, and no type holds both without loss; declare a schema, "
        "or use on_schema_conflict='widen' or 'null'"
    )
