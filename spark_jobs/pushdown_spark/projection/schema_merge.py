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
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.projection.paths import member_path
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
    name_rule: NameRule
    default_type: t.DataType = field(default_factory=t.StringType)
    is_inferred: bool = False


@dataclass(frozen=True)
class _TypeUse:
    """A type of a column, the number of files that have it, and one of these files."""

    data_type: t.DataType
    files: int
    example: str


def merge_schemas(files: Sequence[FileSchema], rules: MergeRules) -> t.StructType:
    """Return the schema of the table that consists of some files.

    Columns have the order of the schema with the most columns, followed by the others in the order of the next schema.
    Raises SchemaConflictError, which names both files and types, with `error`, and with `widen` if Spark has no
    coercion either. Also raises it for a file with two columns of one name.
    """
    return _merge_structs(_distinct(_TypeUse(file.schema, 1, file.file) for file in files), "", rules)


def _merge_structs(types: Sequence[_TypeUse], path: str, rules: MergeRules) -> t.StructType:
    """Return a struct with the members of all types, in the order of the type with the most members.

    Types with equally many members are ordered by their JSON, so that the order of the files does not matter.
    """
    largest_first = sorted(types, key=lambda use: (-len(_fields(use)), use.data_type.json()))
    members: dict[str, list[_TypeUse]] = {}
    first_fields: dict[str, t.StructField] = {}
    for use in largest_first:
        own_names: dict[str, str] = {}
        for member in _fields(use):
            key = rules.name_rule.key(member.name)
            first_name = own_names.setdefault(key, member.name)
            if first_name != member.name:
                raise two_spellings_error(use.example, path, first_name, member.name)
            members.setdefault(key, []).append(_TypeUse(member.dataType, use.files, use.example))
            first_fields.setdefault(key, member)
    return t.StructType(
        [
            t.StructField(
                field.name,
                _merge_types(members[key], member_path(path, field.name), rules),
                True,
                field.metadata,
            )
            for key, field in first_fields.items()
        ]
    )


def two_spellings_error(file: str, path: str, first: str, second: str) -> SchemaConflictError:
    """Return the error for two columns of a file, or members of its struct `path`, with one name."""
    names = f"{member_path(path, first)} and {member_path(path, second)}"
    return SchemaConflictError(
        f"{file} has {names}, whose names differ only in case; set spark.sql.caseSensitive=true, or declare a schema "
        "without them"
    )


def _fields(use: _TypeUse) -> Sequence[t.StructField]:
    assert isinstance(use.data_type, t.StructType)
    return use.data_type.fields


def _merge_types(all_types: Sequence[_TypeUse], path: str, rules: MergeRules) -> t.DataType:
    """Return the type of a column or member, from its types in all files that have it."""
    types = _distinct(use for use in all_types if not isinstance(use.data_type, t.NullType))
    if not types:
        return rules.default_type
    kinds = {_nested_kind(use.data_type) for use in types}
    if len(kinds) > 1:
        if rules.on_conflict is not OnSchemaConflict.NULL:
            first = types[0]
            other = next(use for use in types if _nested_kind(use.data_type) != _nested_kind(first.data_type))
            raise _conflict(path, first, other)
        files = {kind: sum(use.files for use in types if _nested_kind(use.data_type) == kind) for kind in kinds}
        most_common = min(kinds, key=lambda kind: (-files[kind], kind))
        types = [use for use in types if _nested_kind(use.data_type) == most_common]
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


def _inner(types: Iterable[_TypeUse], attribute: str) -> list[_TypeUse]:
    return [_TypeUse(getattr(use.data_type, attribute), use.files, use.example) for use in types]


def _nested_kind(data_type: t.DataType) -> str:
    """Return the class of a nested type, an empty string for all atomic types."""
    is_nested = isinstance(data_type, t.StructType | t.ArrayType | t.MapType)
    return type(data_type).__name__ if is_nested else ""


def _distinct(types: Iterable[_TypeUse]) -> list[_TypeUse]:
    """Return each type once, with the files of all its occurrences, in an order that does not depend on the files."""
    # Many files share one schema object, so that it is converted to JSON once.
    keys: dict[int, str] = {}
    by_json: dict[str, _TypeUse] = {}
    for use in types:
        key = keys.get(id(use.data_type)) or keys.setdefault(id(use.data_type), use.data_type.json())
        before = by_json.get(key, _TypeUse(use.data_type, 0, use.example))
        by_json[key] = _TypeUse(use.data_type, before.files + use.files, min(before.example, use.example))
    return [by_json[key] for key in sorted(by_json)]


def _merge_atoms(uses: Sequence[_TypeUse], path: str, rules: MergeRules) -> t.DataType:
    types = [use.data_type for use in uses]
    common = _lossless_type(types)
    if common is None and rules.is_inferred and all(isinstance(data_type, t.NumericType) for data_type in types):
        common = t.DoubleType()
    if common is not None:
        return common
    if rules.on_conflict is OnSchemaConflict.NULL:
        return _most_common_type(uses)
    spark_type = coerced_type(types) if rules.on_conflict is OnSchemaConflict.WIDEN else None
    if spark_type is not None:
        return spark_type
    raise _conflict(path, *_conflicting_pair(uses))


def _lossless_type(types: Sequence[t.DataType]) -> t.DataType | None:
    common: t.DataType | None = types[0]
    for data_type in types[1:]:
        common = None if common is None else lossless_type(common, data_type)
    return common


def _most_common_type(uses: Sequence[_TypeUse]) -> t.DataType:
    """Return the type that holds the values of the most files without loss, the first by name of several."""
    files_by_type: dict[str, int] = {}
    types: dict[str, t.DataType] = {}
    for start in uses:
        common, files = start.data_type, start.files
        for use in uses:
            wider = lossless_type(common, use.data_type)
            if use is not start and wider is not None:
                common, files = wider, files + use.files
        name = common.simpleString()
        types[name] = common
        files_by_type[name] = max(files, files_by_type.get(name, 0))
    return types[min(types, key=lambda name: (-files_by_type[name], name))]


def _conflicting_pair(uses: Sequence[_TypeUse]) -> tuple[_TypeUse, _TypeUse]:
    """Return two types without a common lossless type."""
    for at, left in enumerate(uses):
        for right in uses[at + 1 :]:
            if lossless_type(left.data_type, right.data_type) is None:
                return left, right
    return uses[0], uses[-1]


def _conflict(path: str, left: _TypeUse, right: _TypeUse) -> SchemaConflictError:
    return SchemaConflictError(
        f"column {path} is {left.data_type.simpleString()} in {left.example} and "
        f"{right.data_type.simpleString()} in {right.example}, and no type holds both without loss; declare a schema, "
        "or use on_schema_conflict='widen' or 'null'"
    )
