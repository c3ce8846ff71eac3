"""Spark SQL for the steps of a column path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql.types import ArrayType, DataType, IntegralType, MapType, StringType, StructField, StructType

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.projection.field_names import FieldIndex, unknown_column
from pushdown_spark.projection.implicit_columns import BUILT_IN, ImplicitCatalog
from pushdown_spark.projection.paths import (
    ColumnPath,
    Elements,
    Entry,
    Group,
    Member,
    Step,
    quote_name,
    short_name,
    sql_text,
)


@dataclass(frozen=True)
class PathExpression:
    """The expression of a path, its type, and its normalized steps.

    Steps into maps are `Entry` and steps into structs are `Member`, even if the path spells them differently.
    """

    expression: str
    data_type: DataType
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class PathContext:
    """The columns that paths are resolved against: those of a table, and of its files."""

    schema: StructType
    name_rule: NameRule = ANY_CASE
    origin: Callable[[str], str] = lambda _: ""
    """Returns where the type of a top-level column comes from (a file, the declared schema), for errors."""
    implicit_catalog: ImplicitCatalog = BUILT_IN
    depth: Callable[[], int] | None = None
    """Returns the number of directories between the deepest file and its scan root, beyond which a `dirK` is null. It
    is only called for a `dirK`. Without it, no `dirK` is null."""
    has_unnamed_fields: bool = False
    """Whether lines have fields without names, so that `columns[i]` exists."""

    @cached_property
    def columns(self) -> FieldIndex:
        """The columns of the table by name."""
        return self.members(self.schema)

    def members(self, struct: StructType) -> FieldIndex:
        """Return the members of a struct by name."""
        return FieldIndex(struct, name_rule=self.name_rule)


class PathCompiler:
    """A compiler of one path. Raises KindMismatchError and UnknownColumnError, which name the path."""

    def __init__(self, context: PathContext, path: ColumnPath) -> None:
        self._context = context
        self._path = path

    def compile(self) -> PathExpression:
        """Return the expression of the whole path."""
        field = self._field(self._context.schema, self._path.head, is_top_level=True)
        start = PathExpression(quote_name(field.name), field.dataType, (Member(field.name),))
        return self._apply(start, self._path.steps[1:])

    def _apply(self, value: PathExpression, steps: Sequence[Step], lambdas: int = 0) -> PathExpression:
        """Return the expression after more steps. `lambdas` is the number of lambda functions around the expression."""
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
                    raise BadSpecError(f"columns: `*` must be an entry of its own, not a part of {str(self._path)!r}")
        return value

    def _member(self, value: PathExpression, name: str) -> PathExpression:
        """Return a struct member or a map value; for an array of structs, the array of the member, as in Spark."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType) and isinstance(data_type.elementType, StructType):
            field = self._field(data_type.elementType, name)
            nullable = data_type.containsNull or field.nullable
            return _member_of(value, field.name, ArrayType(field.dataType, nullable))
        if isinstance(data_type, StructType):
            field = self._field(data_type, name)
            return _member_of(value, field.name, field.dataType)
        if isinstance(data_type, MapType) and isinstance(data_type.keyType, StringType):
            return self._entries(value, (name,))
        raise self._mismatch(
            f"asks for member {name!r} of a {data_type.simpleString()}",
            "only a struct, an array of structs or a map with string keys has members",
        )

    def _elements(self, value: PathExpression, positions: tuple[int, ...]) -> PathExpression:
        """Return one element or an array of several. `get` returns null beyond the end under every ANSI setting."""
        data_type = value.data_type
        if isinstance(data_type, MapType) and isinstance(data_type.keyType, IntegralType):
            return self._entries(value, tuple(map(str, positions)))
        if not isinstance(data_type, ArrayType):
            raise self._mismatch(
                f"asks for position {positions[0]} of a {data_type.simpleString()}", "only an array has positions"
            )
        elements = [f"get({value.expression}, {position})" for position in positions]
        result = data_type.elementType if len(elements) == 1 else ArrayType(data_type.elementType, True)
        return PathExpression(_one_or_array(value.expression, elements), result, (*value.steps, Elements(positions)))

    def _entries(self, value: PathExpression, keys: tuple[str, ...]) -> PathExpression:
        """Return the value for one key, or an array of the values for several; null for a key that a map lacks."""
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
        values = [f"{value.expression}[{literal}]" for literal in literals]
        result = data_type.valueType if len(values) == 1 else ArrayType(data_type.valueType, True)
        return PathExpression(_one_or_array(value.expression, values), result, (*value.steps, Entry(keys)))

    def _group(self, value: PathExpression, members: Sequence[ColumnPath], lambdas: int) -> PathExpression:
        """Return a struct with only these members, null if the original is null. Arrays are converted by element."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType):
            variable = f"element_{lambdas}"
            element = self._group(PathExpression(variable, data_type.elementType, value.steps), members, lambdas + 1)
            array = ArrayType(element.data_type, data_type.containsNull)
            sql = f"transform({value.expression}, {variable} -> {element.expression})"
            return PathExpression(sql, array, element.steps)
        if not isinstance(data_type, StructType):
            raise self._mismatch(f"asks for members of a {data_type.simpleString()}", "only a struct has members")
        expressions = [self._apply(replace(value, steps=()), member.steps, lambdas) for member in members]
        names = [short_name(member) for member in members]
        self._check_unique(names)
        named_members = list(zip(names, expressions, strict=True))
        fields = [StructField(name, member.data_type, True) for name, member in named_members]
        items = [f"{member.expression} AS {quote_name(name)}" for name, member in named_members]
        group = Group(tuple(ColumnPath(member.steps) for member in expressions))
        sql = f"if({value.expression} IS NULL, NULL, struct({', '.join(items)}))"
        return PathExpression(sql, StructType(fields), (*value.steps, group))

    def _check_unique(self, names: Iterable[str]) -> None:
        counts = Counter(self._context.name_rule.key(name) for name in names)
        duplicates = [name for name, count in counts.items() if count > 1]
        if duplicates:
            raise BadSpecError(f"columns: {str(self._path)!r} has two members named {duplicates[0]!r}; use AS")

    def _field(self, struct: StructType, name: str, *, is_top_level: bool = False) -> StructField:
        field = (self._context.columns if is_top_level else self._context.members(struct)).find(name)
        if field is None:
            where = "columns" if is_top_level and len(self._path.steps) == 1 else f"columns {str(self._path)!r}"
            raise unknown_column(name, where, struct, self._context.implicit_catalog.names)
        return field

    def _mismatch(self, problem: str, rule: str) -> KindMismatchError:
        origin = self._context.origin(self._path.head)
        return KindMismatchError(f"columns: {str(self._path)!r} {problem}{origin and f' ({origin})'}; {rule}")


def _member_of(value: PathExpression, name: str, data_type: DataType) -> PathExpression:
    return PathExpression(f"{value.expression}.{quote_name(name)}", data_type, (*value.steps, Member(name)))


def _one_or_array(collection: str, values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"if({collection} IS NULL, NULL, array({', '.join(values)}))"
