"""Turns the steps of a path into Spark SQL, step by step along the types that it meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.projection.names import FieldIndex, unknown_column
from pushdown_spark.projection.paths import (
    ColumnPath,
    Elements,
    Entry,
    Group,
    Member,
    Step,
    quote_name,
    render_steps,
    sql_text,
)


@dataclass(frozen=True)
class Value:
    """Where a path has got to: an expression, its type, and the steps that led here.

    Of the steps, those into maps are `Entry` and those into structs `Member`, however the path spelled them.
    """

    expression: str
    data_type: DataType
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Table:
    """What paths are resolved against.

    `origin` says of a top-level column where its type comes from (a file, the declared schema), for errors. `implicit`
    are names that an error may suggest besides the table's own.
    """

    schema: StructType
    case_sensitive: bool
    origin: Callable[[str], str]
    implicit: tuple[str, ...]

    @cached_property
    def columns(self) -> FieldIndex:
        """The table's columns by name."""
        return self.members(self.schema)

    def members(self, struct: StructType) -> FieldIndex:
        """The members of a struct by name."""
        return FieldIndex(struct, case_sensitive=self.case_sensitive)


class Access:
    """Resolution of one path. Raises KindMismatchError and UnknownColumnError that name it."""

    def __init__(self, table: Table, path: ColumnPath) -> None:
        self._table = table
        self._path = path

    def value(self) -> Value:
        """The path's value, from the table's column on."""
        field = self._field(self._table.schema, self._path.head, top=True)
        start = Value(quote_name(field.name), field.dataType, (Member(field.name),))
        return self.walk(start, self._path.steps[1:])

    def walk(self, value: Value, steps: Sequence[Step], lambdas: int = 0) -> Value:
        """The value that some more steps lead to. `lambdas` counts the lambda functions around the expression."""
        for step in steps:
            match step:
                case Member(name):
                    value = self._member(value, name)
                case Elements(positions):
                    value = self._elements(value, positions)
                case Entry(keys):
                    value = self._entries(value, keys)
                case Group(members):
                    value = self._group(value, members, lambdas)
                case _:
                    raise BadSpecError(f"columns: `*` stands alone, not inside {str(self._path)!r}")
        return value

    def _member(self, value: Value, name: str) -> Value:
        """A struct member, or a map's value; of an array of structs, the array of that member, as Spark reads it."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType) and isinstance(data_type.elementType, StructType):
            field = self._field(data_type.elementType, name)
            nullable = data_type.containsNull or field.nullable
            return self._inside(value, field.name, ArrayType(field.dataType, nullable))
        if isinstance(data_type, StructType):
            field = self._field(data_type, name)
            return self._inside(value, field.name, field.dataType)
        if isinstance(data_type, MapType) and isinstance(data_type.keyType, StringType):
            return self._entries(value, (name,))
        raise self._mismatch(
            f"asks for member {name!r} of a {data_type.simpleString()}",
            "only a struct, an array of structs or a map with text keys has members",
        )

    def _inside(self, value: Value, name: str, data_type: DataType) -> Value:
        return Value(f"{value.expression}.{quote_name(name)}", data_type, (*value.steps, Member(name)))

    def _elements(self, value: Value, positions: tuple[int, ...]) -> Value:
        """One element, or an array of several; `get` gives null beyond the end whatever the ANSI setting."""
        data_type = value.data_type
        if isinstance(data_type, MapType) and isinstance(data_type.keyType, IntegralType):
            return self._entries(value, tuple(map(str, positions)))
        if not isinstance(data_type, ArrayType):
            raise self._mismatch(
                f"asks for position {positions[0]} of a {data_type.simpleString()}", "only an array has positions"
            )
        picked = [f"get({value.expression}, {position})" for position in positions]
        several = ArrayType(data_type.elementType, True)
        kind = data_type.elementType if len(picked) == 1 else several
        return Value(_picked(value.expression, picked), kind, (*value.steps, Elements(positions)))

    def _entries(self, value: Value, keys: tuple[str, ...]) -> Value:
        """The value for one key, or an array of those for several; null for a key that a map lacks."""
        data_type = value.data_type
        if not isinstance(data_type, MapType):
            raise self._mismatch(f"asks for key {keys[0]!r} of a {data_type.simpleString()}", "only a map has keys")
        if isinstance(data_type.keyType, StringType):
            literals = [sql_text(key) for key in keys]
        elif isinstance(data_type.keyType, IntegralType) and all(key.lstrip("-").isdecimal() for key in keys):
            literals = [f"CAST({key} AS {data_type.keyType.simpleString()})" for key in keys]
        else:
            raise self._mismatch(
                f"asks for key {keys[0]!r} of a {data_type.simpleString()}", "its keys cannot be written in a path"
            )
        picked = [f"{value.expression}[{literal}]" for literal in literals]
        kind = data_type.valueType if len(picked) == 1 else ArrayType(data_type.valueType, True)
        return Value(_picked(value.expression, picked), kind, (*value.steps, Entry(keys)))

    def _group(self, value: Value, members: Sequence[ColumnPath], lambdas: int) -> Value:
        """A struct with just these members, null where the whole is null; element by element for an array."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType):
            variable = f"element_{lambdas}"
            each = self._group(Value(variable, data_type.elementType, value.steps), members, lambdas + 1)
            array = ArrayType(each.data_type, data_type.containsNull)
            return Value(f"transform({value.expression}, {variable} -> {each.expression})", array, each.steps)
        if not isinstance(data_type, StructType):
            raise self._mismatch(f"asks for members of a {data_type.simpleString()}", "only a struct has members")
        inner = [replace(value, steps=()) for _ in members]
        found = [self.walk(start, m.steps, lambdas) for start, m in zip(inner, members, strict=True)]
        names = [short_name(member) for member in members]
        self._reject_twins(names)
        fields = [StructField(name, each.data_type, True) for name, each in zip(names, found, strict=True)]
        items = [f"{each.expression} AS {quote_name(name)}" for name, each in zip(names, found, strict=True)]
        kept = Group(tuple(ColumnPath(each.steps) for each in found))
        rebuilt = f"if({value.expression} IS NULL, NULL, struct({', '.join(items)}))"
        return Value(rebuilt, StructType(fields), (*value.steps, kept))

    def _reject_twins(self, names: Iterable[str]) -> None:
        same = Counter(name if self._table.case_sensitive else name.lower() for name in names)
        twins = [name for name, count in same.items() if count > 1]
        if twins:
            raise BadSpecError(f"columns: {str(self._path)!r} would hold two members named {twins[0]!r}; use AS")

    def _field(self, struct: StructType, name: str, *, top: bool = False) -> StructField:
        found = (self._table.columns if top else self._table.members(struct)).find(name)
        if found is None:
            where = "columns" if top and len(self._path.steps) == 1 else f"columns {str(self._path)!r}"
            raise unknown_column(name, where, struct, self._table.implicit)
        return found

    def _mismatch(self, problem: str, rule: str) -> KindMismatchError:
        origin = self._table.origin(self._path.head)
        return KindMismatchError(f"columns: {str(self._path)!r} {problem}{origin and f' ({origin})'}; {rule}")


def _picked(whole: str, picked: Sequence[str]) -> str:
    return picked[0] if len(picked) == 1 else f"if({whole} IS NULL, NULL, array({', '.join(picked)}))"


def short_name(path: ColumnPath) -> str:
    """The output's name: the one asked for, else as Spark would, the last member with what is picked from it."""
    if path.alias is not None:
        return path.alias
    last = max(at for at, step in enumerate(path.steps) if isinstance(step, Member))
    return full_name(ColumnPath(path.steps[last:]))


def full_name(path: ColumnPath) -> str:
    """The name that tells outputs apart whose short names are the same."""
    if path.alias is not None:
        return path.alias
    text = ""
    for step in path.steps:
        if isinstance(step, Member):
            text += f".{step.name}" if text else step.name
        elif isinstance(step, Elements | Entry):
            text += render_steps([step])
    return text
