"""Alignment of files to the schema of their table: the schema each is read with, and the conversion of its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import types as t

from pushdown_spark.contract import OnSchemaConflict
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.types import DECLARED_TYPE
from pushdown_spark.projection.path_tree import ProjectionNode, ProjectionTree
from pushdown_spark.projection.paths import member_path, quote_name, sql_type
from pushdown_spark.projection.schema_merge import FileSchema, MergeRules, two_spellings_error
from pushdown_spark.projection.type_widening import coerced_type, lossless_type

_PLACEHOLDER = t.StructType([t.StructField("_unread", t.StringType())])
"""The schema for files all of whose columns are null. It only yields their rows."""

Converts = Callable[[t.DataType, t.DataType], bool]
"""Returns whether the readers of a format convert an atomic type of a file to a type of the table, as a cast would."""


@dataclass(frozen=True)
class SchemaGroup:
    """Files that are read with the same schema. `files` are locations."""

    files: tuple[str, ...]
    schema: t.StructType


def groups_by_name(
    files: Sequence[FileSchema], table: t.StructType, rules: MergeRules, converts: Converts
) -> tuple[SchemaGroup, ...]:
    """Group files by the schema they are read with, for formats whose columns have names.

    A column is read with the table's type if the file has this type, a type that the reader converts, or no values.
    Otherwise it is read with the file's type and cast, or omitted and replaced by nulls. Raises SchemaConflictError for
    a type that the rules do not convert.
    """

    def read_schema(file: FileSchema) -> t.StructType:
        schema = _ReadTypes(rules, converts, file.file).struct(file.schema, table, "")
        return schema if schema.fields else _PLACEHOLDER

    return _group(files, read_schema)


def groups_by_position(files: Sequence[FileSchema], table: t.StructType, rules: MergeRules) -> tuple[SchemaGroup, ...]:
    """Group files by the schema they are read with, for text, whose columns go by position.

    Each file keeps its own order of columns. Columns of the table have the table's types. Other columns, and columns
    with a type that becomes null, are read as strings under placeholder names.
    """
    return _group(files, lambda file: _positional_schema(file.schema, table, rules))


def _group(files: Sequence[FileSchema], read_schema: Callable[[FileSchema], t.StructType]) -> tuple[SchemaGroup, ...]:
    """Return groups of files. `read_schema` is called once for each schema object."""
    keys: dict[int, str] = {}
    groups: dict[str, tuple[t.StructType, list[str]]] = {}
    for file in files:
        key = keys.get(id(file.schema))
        if key is None:
            schema = read_schema(file)
            key = keys[id(file.schema)] = schema.json()
            groups.setdefault(key, (schema, []))
        groups[key][1].append(file.file)
    return tuple(SchemaGroup(tuple(locations), schema) for schema, locations in groups.values())


def _positional_schema(file: t.StructType, table: t.StructType, rules: MergeRules) -> t.StructType:
    fields_left = {rules.name_rule.key(field.name): field for field in table.fields}
    fields = []
    for position, field in enumerate(file.fields):
        target = fields_left.pop(rules.name_rule.key(field.name), None)
        becomes_null = rules.on_conflict is OnSchemaConflict.NULL and target is not None and not _fits(field, target)
        placeholder = t.StructField(f"_unread_{position}", t.StringType())
        fields.append(placeholder if target is None or becomes_null else target)
    # Spark fills missing columns at the end with nulls, so the table's own schema serves as well.
    return table if fields == table.fields[: len(fields)] else t.StructType(fields)


def _fits(field: t.StructField, target: t.StructField) -> bool:
    # Files whose types were not inferred have strings only, which are parsed as the target type.
    return type(field.dataType) is t.StringType or lossless_type(field.dataType, target.dataType) == target.dataType


@dataclass(frozen=True)
class _ReadTypes:
    """The types to read the columns of one file with. `path` is the path of a column or member, for errors."""

    rules: MergeRules
    converts: Converts
    file: str

    def struct(self, file: t.StructType, table: t.StructType, path: str) -> t.StructType:
        """Return the schema to read a file or struct with, without the fields that become nulls."""
        key = self.rules.name_rule.key
        names = {key(field.name) for field in table.fields}
        file_fields: dict[str, t.StructField] = {}
        for field in file.fields:
            first = file_fields.setdefault(key(field.name), field)
            if first is not field and key(field.name) in names:
                raise two_spellings_error(self.file, path, first.name, field.name)
        fields = []
        for field in table.fields:
            file_field = file_fields.get(key(field.name))
            name = member_path(path, field.name)
            data_type = field.dataType if file_field is None else self._type(file_field.dataType, field.dataType, name)
            if data_type is not None:
                fields.append(t.StructField(field.name, data_type, True, field.metadata))
        return t.StructType(fields)

    def _type(self, file: t.DataType, table: t.DataType, path: str) -> t.DataType | None:
        """Return the type to read a column or member with, None to replace it with nulls."""
        match file, table:
            case t.NullType(), _:
                # Inference from text sees no values in an empty list, which is not null.
                return table if self.rules.is_inferred else None
            case t.StructType(), t.StructType():
                inner = self.struct(file, table, path)
                return inner if inner.fields else None
            case t.ArrayType(), t.ArrayType():
                element = self._type(file.elementType, table.elementType, f"{path}.element")
                return None if element is None else t.ArrayType(element, True)
            case t.MapType(), t.MapType():
                key = self._type(file.keyType, table.keyType, f"{path}.key")
                value = self._type(file.valueType, table.valueType, f"{path}.value")
                return None if key is None or value is None else t.MapType(key, value, True)
        return self._atom(file, table, path)

    def _atom(self, file: t.DataType, table: t.DataType, path: str) -> t.DataType | None:
        nested_types = (t.StructType, t.ArrayType, t.MapType)
        on_conflict = self.rules.on_conflict
        if not isinstance(file, nested_types) and not isinstance(table, nested_types):
            is_coerced = on_conflict is OnSchemaConflict.WIDEN and coerced_type([file, table]) == table
            if lossless_type(file, table) == table or is_coerced:
                return table if self.converts(file, table) else file
        if on_conflict is OnSchemaConflict.NULL:
            return None
        raise SchemaConflictError(
            f"column {path} is {file.simpleString()} in {self.file} and {table.simpleString()} in the declared "
            "schema; correct the schema, or use on_schema_conflict='null'"
        )


def missing_column(
    file: t.StructType, required_type: t.StructType, path: str = "", *, name_rule: NameRule
) -> str | None:
    """Return the path of the first required column or struct member that a file lacks, or None if it has all."""
    file_fields = {name_rule.key(field.name): field for field in file.fields}
    for field in required_type.fields:
        name = member_path(path, field.name)
        file_field = file_fields.get(name_rule.key(field.name))
        missing_path = (
            name if file_field is None else _missing_member(file_field.dataType, field.dataType, name, name_rule)
        )
        if missing_path is not None:
            return missing_path
    return None


def _missing_member(file: t.DataType, required_type: t.DataType, path: str, name_rule: NameRule) -> str | None:
    match file, required_type:
        case t.StructType(), t.StructType():
            return missing_column(file, required_type, path, name_rule=name_rule)
        case t.ArrayType(), t.ArrayType():
            return _missing_member(file.elementType, required_type.elementType, path, name_rule)
        case t.MapType(), t.MapType():
            return _missing_member(file.valueType, required_type.valueType, path, name_rule)
    return None


def aligned_columns(read_schema: t.StructType, table: t.StructType, *, name_rule: NameRule) -> list[str]:
    """Return select items that convert a DataFrame of the read schema to the table's columns. Missing ones are null."""
    return _Alignment(name_rule).fields(read_schema, table, "", 0)


class _Alignment:
    """SQL that converts values from the types that files are read with to the types of the table.

    `lambdas` is the number of lambda functions around an expression.
    """

    def __init__(self, name_rule: NameRule) -> None:
        self._key = name_rule.key

    def fields(self, read_type: t.StructType, table: t.StructType, prefix: str, lambdas: int) -> list[str]:
        """Return select items for the fields of the table, given the prefix of the fields that were read."""
        read_fields = {self._key(field.name): field for field in read_type.fields}
        items = []
        for field in table.fields:
            read_field = read_fields.get(self._key(field.name))
            if read_field is None:
                value = f"CAST(NULL AS {sql_type(field.dataType)})"
            else:
                name = f"{prefix}{quote_name(read_field.name)}"
                value = self._convert(name, read_field.dataType, field.dataType, lambdas)
            items.append(f"{value} AS {quote_name(field.name)}")
        return items

    def _convert(self, value: str, read_type: t.DataType, table: t.DataType, lambdas: int) -> str:
        if sql_type(read_type) == sql_type(table):
            return value
        match read_type, table:
            case t.StructType(), t.StructType():
                members = self.fields(read_type, table, f"{value}.", lambdas)
                return f"if({value} IS NULL, NULL, struct({', '.join(members)}))"
            case t.ArrayType(), t.ArrayType():
                variable = f"element_{lambdas}"
                element = self._convert(variable, read_type.elementType, table.elementType, lambdas + 1)
                return f"transform({value}, {variable} -> {element})"
            case t.MapType(), t.MapType():
                key_variable, item_variable = f"key_{lambdas}", f"item_{lambdas}"
                key = self._convert(key_variable, read_type.keyType, table.keyType, lambdas + 1)
                item = self._convert(item_variable, read_type.valueType, table.valueType, lambdas + 1)
                arguments = f"({key_variable}, {item_variable})"
                return f"transform_values(transform_keys({value}, {arguments} -> {key}), {arguments} -> {item})"
        return f"CAST({value} AS {sql_type(table)})"


def select_columns(schema: t.StructType, other: t.StructType, *, name_rule: NameRule) -> t.StructType:
    """Return the columns that another schema has too, with only the struct members that it has too."""
    return ProjectionTree(_nodes(other), name_rule).prune(schema)


def _nodes(data_type: t.DataType) -> tuple[ProjectionNode, ...]:
    """Return all members of the structs in a type as required."""
    match data_type:
        case t.StructType():
            return tuple(ProjectionNode(field.name, _nodes(field.dataType)) for field in data_type.fields)
        case t.ArrayType():
            return _nodes(data_type.elementType)
        case t.MapType():
            return _nodes(data_type.valueType)
    return ()


def ddl(schema: t.StructType) -> str:
    """Return a schema as text that Spark parses to the same schema, with the lengths of char and varchar."""
    return ", ".join(
        f"{quote_name(f.name)} {f.metadata.get(DECLARED_TYPE) or sql_type(f.dataType)}" for f in schema.fields
    )
