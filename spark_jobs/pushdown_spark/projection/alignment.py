"""How the files of one table are read each by itself, and turned into the table's columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import types as t

from pushdown_spark.contract import OnSchemaConflict
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.expressions.scope import DECLARED_TYPE
from pushdown_spark.projection.evolution import FileSchema, Rules
from pushdown_spark.projection.paths import quote_name, sql_type
from pushdown_spark.projection.widening import coerced, lossless

_ROWS_ALONE = t.StructType([t.StructField("_unread", t.StringType())])
"""What is read of files all of whose columns are nulls: their rows, with a column that nobody asks for."""

Direct = Callable[[t.DataType, t.DataType], bool]
"""Whether a format's readers turn a file's atomic type into a table's by themselves, as a cast would."""


@dataclass(frozen=True)
class Part:
    """Files that are read with one schema. `files` are locations."""

    files: tuple[str, ...]
    schema: t.StructType


def parts(files: Sequence[FileSchema], table: t.StructType, rules: Rules, direct: Direct) -> tuple[Part, ...]:
    """Groups files by the schema they are read with, for formats that are read by name.

    A file's schema is the table's wherever the file holds the table's type, one that a reader turns into it, or
    nothing; elsewhere it is the file's type, for a cast, or lacks the column, for nulls. Raises SchemaConflictError for
    a type that the rules do not let become the table's.
    """

    def read(file: FileSchema) -> t.StructType:
        found = _struct(file.schema, table, _Reading(rules, direct, file.file), "")
        return found if found.fields else _ROWS_ALONE

    return _grouped(files, read)


def parts_by_position(files: Sequence[FileSchema], table: t.StructType, rules: Rules) -> tuple[Part, ...]:
    """Groups files by their columns, for text that is read by position: a file's columns in its own order.

    Values are read in the table's type; columns that the table has not, or not in this type, are read as text under
    names that nobody asks for.
    """
    return _grouped(files, lambda file: _positions(file.schema, table, rules))


def _grouped(files: Sequence[FileSchema], read: Callable[[FileSchema], t.StructType]) -> tuple[Part, ...]:
    """Files by the schema that each is read with; those that share one object are asked once."""
    keys: dict[int, str] = {}
    found: dict[str, tuple[t.StructType, list[str]]] = {}
    for file in files:
        key = keys.get(id(file.schema))
        if key is None:
            schema = read(file)
            key = keys[id(file.schema)] = schema.json()
            found.setdefault(key, (schema, []))
        found[key][1].append(file.file)
    return tuple(Part(tuple(names), schema) for schema, names in found.values())


def _positions(file: t.StructType, table: t.StructType, rules: Rules) -> t.StructType:
    known = {rules.key(field.name): field for field in table.fields}
    fields = []
    for place, field in enumerate(file.fields):
        wanted = known.pop(rules.key(field.name), None)
        nulled = rules.on_conflict is OnSchemaConflict.NULL and wanted is not None and not _holds(wanted, field)
        unread = t.StructField(f"_unread_{place}", t.StringType())
        fields.append(unread if wanted is None or nulled else wanted)
    # Columns that are missing at the end are null in any case.
    return table if fields == table.fields[: len(fields)] else t.StructType(fields)


def _holds(wanted: t.StructField, found: t.StructField) -> bool:
    """Text is what files hold whose types nobody inferred."""
    return type(found.dataType) is t.StringType or lossless(found.dataType, wanted.dataType) == wanted.dataType


@dataclass(frozen=True)
class _Reading:
    rules: Rules
    direct: Direct
    file: str


def _struct(file: t.StructType, table: t.StructType, reading: _Reading, path: str) -> t.StructType:
    held = {reading.rules.key(field.name): field for field in file.fields}
    fields = []
    for field in table.fields:
        found = held.get(reading.rules.key(field.name))
        name = f"{path}.{field.name}" if path else field.name
        kind = field.dataType if found is None else _type(found.dataType, field.dataType, reading, name)
        if kind is not None:
            fields.append(t.StructField(field.name, kind, True, field.metadata))
    return t.StructType(fields)


def _type(file: t.DataType, table: t.DataType, reading: _Reading, path: str) -> t.DataType | None:
    """The type to read a place with, None for nulls."""
    match file, table:
        case t.NullType(), _:
            # Of text nothing more is known than that no value was seen: a list may be there, and empty.
            return table if reading.rules.guessed else None
        case t.StructType(), t.StructType():
            inner = _struct(file, table, reading, path)
            return inner if inner.fields else None
        case t.ArrayType(), t.ArrayType():
            element = _type(file.elementType, table.elementType, reading, f"{path}.element")
            return None if element is None else t.ArrayType(element, True)
        case t.MapType(), t.MapType():
            key = _type(file.keyType, table.keyType, reading, f"{path}.key")
            value = _type(file.valueType, table.valueType, reading, f"{path}.value")
            return None if key is None or value is None else t.MapType(key, value, True)
    return _atom(file, table, reading, path)


def _atom(file: t.DataType, table: t.DataType, reading: _Reading, path: str) -> t.DataType | None:
    nested = (t.StructType, t.ArrayType, t.MapType)
    if not isinstance(file, nested) and not isinstance(table, nested):
        if lossless(file, table) == table:
            return table if reading.direct(file, table) else file
        if reading.rules.on_conflict is OnSchemaConflict.WIDEN and coerced([file, table]) == table:
            return table if reading.direct(file, table) else file
    if reading.rules.on_conflict is OnSchemaConflict.NULL:
        return None
    raise SchemaConflictError(
        f"column {path} is {file.simpleString()} in {reading.file} and {table.simpleString()} in the declared schema; "
        "correct the schema, or give on_schema_conflict='null'"
    )


def missing(file: t.StructType, wanted: t.StructType, rules: Rules, path: str = "") -> str | None:
    """The first wanted column or struct member that a file lacks, as a path; None where it has all of them."""
    held = {rules.key(field.name): field for field in file.fields}
    for field in wanted.fields:
        name = f"{path}.{field.name}" if path else field.name
        found = held.get(rules.key(field.name))
        lacking = name if found is None else _missing_inside(found.dataType, field.dataType, rules, name)
        if lacking is not None:
            return lacking
    return None


def _missing_inside(file: t.DataType, wanted: t.DataType, rules: Rules, path: str) -> str | None:
    match file, wanted:
        case t.StructType(), t.StructType():
            return missing(file, wanted, rules, path)
        case t.ArrayType(), t.ArrayType():
            return _missing_inside(file.elementType, wanted.elementType, rules, path)
        case t.MapType(), t.MapType():
            return _missing_inside(file.valueType, wanted.valueType, rules, path)
    return None


def conforming(read: t.StructType, table: t.StructType, *, case_sensitive: bool) -> list[str]:
    """Select items that turn a frame of the read schema into the table's columns; what it lacks is null."""
    rules = Rules(OnSchemaConflict.ERROR, case_sensitive)
    held = {rules.key(field.name): field for field in read.fields}
    return [
        f"{_member(held.get(rules.key(field.name)), '', field.dataType, rules, 0)} AS {quote_name(field.name)}"
        for field in table.fields
    ]


def _member(found: t.StructField | None, parent: str, table: t.DataType, rules: Rules, lambdas: int) -> str:
    if found is None:
        return f"CAST(NULL AS {sql_type(table)})"
    return _conformed(f"{parent}{quote_name(found.name)}", found.dataType, table, rules, lambdas)


def _conformed(value: str, read: t.DataType, table: t.DataType, rules: Rules, lambdas: int) -> str:
    if sql_type(read) == sql_type(table):
        return value
    match read, table:
        case t.StructType(), t.StructType():
            return _struct_sql(value, read, table, rules, lambdas)
        case t.ArrayType(), t.ArrayType():
            name = f"element_{lambdas}"
            each = _conformed(name, read.elementType, table.elementType, rules, lambdas + 1)
            return f"transform({value}, {name} -> {each})"
        case t.MapType(), t.MapType():
            entry = (f"key_{lambdas}", f"item_{lambdas}")
            key = _conformed(entry[0], read.keyType, table.keyType, rules, lambdas + 1)
            item = _conformed(entry[1], read.valueType, table.valueType, rules, lambdas + 1)
            arguments = f"({', '.join(entry)})"
            return f"transform_values(transform_keys({value}, {arguments} -> {key}), {arguments} -> {item})"
    return f"CAST({value} AS {sql_type(table)})"


def _struct_sql(value: str, read: t.StructType, table: t.StructType, rules: Rules, lambdas: int) -> str:
    held = {rules.key(field.name): field for field in read.fields}
    members = []
    for field in table.fields:
        member = _member(held.get(rules.key(field.name)), f"{value}.", field.dataType, rules, lambdas)
        members.append(f"{member} AS {quote_name(field.name)}")
    return f"if({value} IS NULL, NULL, struct({', '.join(members)}))"


def restricted(read: t.DataType, wanted: t.DataType, rules: Rules) -> t.DataType:
    """A type without the struct members that another one has not; a struct keeps all rather than none."""
    match read, wanted:
        case t.StructType(), t.StructType():
            kept = restricted_struct(read, wanted, rules)
            return kept if kept.fields else read
        case t.ArrayType(), t.ArrayType():
            return t.ArrayType(restricted(read.elementType, wanted.elementType, rules), read.containsNull)
        case t.MapType(), t.MapType():
            value = restricted(read.valueType, wanted.valueType, rules)
            return t.MapType(read.keyType, value, read.valueContainsNull)
    return read


def restricted_struct(read: t.StructType, wanted: t.StructType, rules: Rules) -> t.StructType:
    """The columns or members that another schema has too."""
    kept = {rules.key(field.name): field for field in wanted.fields}
    fields = [
        t.StructField(f.name, restricted(f.dataType, kept[rules.key(f.name)].dataType, rules), f.nullable, f.metadata)
        for f in read.fields
        if rules.key(f.name) in kept
    ]
    return t.StructType(fields)


def ddl(schema: t.StructType) -> str:
    """A schema as text that Spark parses to the same, lengths of texts included."""
    return ", ".join(
        f"{quote_name(f.name)} {f.metadata.get(DECLARED_TYPE) or sql_type(f.dataType)}" for f in schema.fields
    )
