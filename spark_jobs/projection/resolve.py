"""Resolves column paths against a schema into outputs that Spark can select and columns that must be read."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from spark_jobs.errors import BadSpecError, KindMismatchError, UnknownColumnError
from spark_jobs.projection.implicit import FILE_COLUMNS, canonical_name, directory_level, has_column
from spark_jobs.projection.paths import (
    ColumnPath,
    Elements,
    Group,
    Member,
    Step,
    parse_paths,
    quote_name,
    render_steps,
)
from spark_jobs.projection.tree import ProjectionTree, merge_paths, same_name


class ColumnKind(StrEnum):
    """Where the values of an output column come from."""

    TABLE = "table"
    NULL = "null"
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result: its name, its source, and the Spark SQL that computes it.

    `expression` refers to table columns and to implicit columns (in lower case) of the frame it is selected from.
    """

    name: str
    kind: ColumnKind
    expression: str
    data_type: DataType

    @property
    def select_item(self) -> str:
        """The expression with its name, for `DataFrame.selectExpr`."""
        return f"{self.expression} AS {quote_name(self.name)}"


@dataclass(frozen=True)
class Projection:
    """What `columns` comes to for one schema.

    `table_columns` are the top-level columns that must be read, in the schema's order and spelling; `tree` says which
    parts of them. `implicit` are the implicit columns the outputs need. `notes` are remarks for the report.
    """

    outputs: tuple[OutputColumn, ...]
    table_columns: tuple[str, ...]
    implicit: tuple[str, ...]
    tree: ProjectionTree
    notes: tuple[str, ...] = ()


def resolve(
    columns: Sequence[str] | None, schema: StructType, depth: int = 0, *, case_sensitive: bool = False
) -> Projection:
    """Resolves `columns` (None means `*`) against a table's schema.

    `depth` is the number of directory levels of the deepest file below its scan root; a `dirK` beyond it is null.
    Raises `BadSpecError` for text that is no path or for two outputs of one name, `UnknownColumnError` with the
    nearest names, and `KindMismatchError` for a member of something that is no struct or a position in no array.
    """
    return _Resolver(schema, depth, case_sensitive).projection(parse_paths(["*"] if columns is None else columns))


def nearest_names(name: str, schema: StructType) -> tuple[str, ...]:
    """Up to three columns, struct members or implicit columns whose name comes closest to a wrong one."""
    spellings: dict[str, str] = {}
    for path in _member_paths(schema):
        spellings.setdefault(path.lower(), path)
        spellings.setdefault(path.rpartition(".")[2].lower(), path)
    for implicit in (*FILE_COLUMNS, "dir0"):
        spellings.setdefault(implicit, implicit)
    close = difflib.get_close_matches(name.lower(), list(spellings), n=6, cutoff=0.6)
    return tuple(dict.fromkeys(spellings[match] for match in close))[:3]


def unknown_column(name: str, where: str, schema: StructType) -> UnknownColumnError:
    """The error for a name that the source lacks; `where` names the parameter or path that asked for it."""
    near = nearest_names(name, schema)
    hint = f"did you mean {', '.join(near)}?" if near else f"the columns are {_some_names(schema)}"
    return UnknownColumnError(f"{where}: there is no column {name!r}; {hint}")


@dataclass(frozen=True)
class _Value:
    """Where a path has got to: an expression and its type."""

    expression: str
    data_type: DataType


@dataclass(frozen=True)
class _Draft:
    """An output before its name is settled."""

    path: ColumnPath
    kind: ColumnKind
    value: _Value
    name: str
    full_name: str


class _Resolver:
    """Resolution of the paths of one projection."""

    def __init__(self, schema: StructType, depth: int, case_sensitive: bool) -> None:
        self._schema = schema
        self._depth = depth
        self._case_sensitive = case_sensitive
        self._notes: dict[str, None] = {}

    def projection(self, paths: Sequence[ColumnPath]) -> Projection:
        drafts: dict[str, _Draft] = {}
        for path in self._expanded(paths):
            draft = self._draft(path)
            drafts.setdefault(self._key(str(path)), draft)
        table = [draft for draft in drafts.values() if draft.kind is ColumnKind.TABLE]
        read = {self._field(self._schema, draft.path.head).name for draft in table}
        metadata = [draft for draft in drafts.values() if draft.kind in (ColumnKind.FILE, ColumnKind.DIRECTORY)]
        return Projection(
            outputs=self._named(list(drafts.values())),
            table_columns=tuple(field.name for field in self._schema.fields if field.name in read),
            implicit=tuple(dict.fromkeys(draft.path.head.lower() for draft in metadata)),
            tree=merge_paths([draft.path for draft in table], case_sensitive=self._case_sensitive),
            notes=tuple(self._notes),
        )

    def _expanded(self, paths: Sequence[ColumnPath]) -> Iterator[ColumnPath]:
        for path in paths:
            if path.is_wildcard:
                yield from (ColumnPath((Member(field.name),)) for field in self._schema.fields)
            else:
                yield path

    def _draft(self, path: ColumnPath) -> _Draft:
        implicit = canonical_name(path.head)
        if implicit and has_column(self._schema, path.head, case_sensitive=self._case_sensitive):
            self._notes[f"{path.head} is a column of the table, so it is not the implicit column of that name"] = None
        elif implicit and len(path.steps) == 1:
            return self._implicit(path, implicit)
        return _Draft(path, ColumnKind.TABLE, self._value(path), _short_name(path), _full_name(path))

    def _implicit(self, path: ColumnPath, name: str) -> _Draft:
        level = directory_level(name)
        if level is None:
            kind = ColumnKind.FILE
        elif level < self._depth:
            kind = ColumnKind.DIRECTORY
        else:
            kind = ColumnKind.NULL
            self._notes[f"{path.head} is null: no file lies {level + 1} directories deep"] = None
        expression = "CAST(NULL AS STRING)" if kind is ColumnKind.NULL else quote_name(name)
        return _Draft(path, kind, _Value(expression, StringType()), path.head, path.head)

    def _value(self, path: ColumnPath) -> _Value:
        field = self._field(self._schema, path.head, path)
        return self._walk(_Value(quote_name(field.name), field.dataType), path, path.steps[1:], lambdas=0)

    def _walk(self, value: _Value, path: ColumnPath, steps: Sequence[Step], lambdas: int) -> _Value:
        for step in steps:
            match step:
                case Member(name):
                    value = self._member(value, name, path)
                case Elements(positions):
                    value = self._elements(value, positions, path)
                case Group(members):
                    value = self._group(value, members, path, lambdas)
                case _:
                    raise BadSpecError(f"columns: `*` stands alone, not inside {str(path)!r}")
        return value

    def _member(self, value: _Value, name: str, path: ColumnPath) -> _Value:
        """A struct member; of an array of structs, the array of that member, as Spark reads it."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType) and isinstance(data_type.elementType, StructType):
            field = self._field(data_type.elementType, name, path)
            nullable = data_type.containsNull or field.nullable
            return _Value(f"{value.expression}.{quote_name(field.name)}", ArrayType(field.dataType, nullable))
        if isinstance(data_type, StructType):
            field = self._field(data_type, name, path)
            return _Value(f"{value.expression}.{quote_name(field.name)}", field.dataType)
        raise KindMismatchError(
            f"columns: {str(path)!r} asks for member {name!r} of a {data_type.simpleString()}; "
            "only a struct has members"
        )

    def _elements(self, value: _Value, positions: tuple[int, ...], path: ColumnPath) -> _Value:
        """One element, or an array of several; `get` gives null beyond the end whatever the ANSI setting."""
        data_type = value.data_type
        if not isinstance(data_type, ArrayType):
            raise KindMismatchError(
                f"columns: {str(path)!r} asks for position {positions[0]} of a {data_type.simpleString()}; "
                "only an array has positions"
            )
        picked = [f"get({value.expression}, {position})" for position in positions]
        if len(picked) == 1:
            return _Value(picked[0], data_type.elementType)
        several = f"if({value.expression} IS NULL, NULL, array({', '.join(picked)}))"
        return _Value(several, ArrayType(data_type.elementType, True))

    def _group(self, value: _Value, members: Sequence[ColumnPath], path: ColumnPath, lambdas: int) -> _Value:
        """A struct with just these members, null where the whole is null; element by element for an array."""
        data_type = value.data_type
        if isinstance(data_type, ArrayType):
            variable = f"element_{lambdas}"
            each = self._group(_Value(variable, data_type.elementType), members, path, lambdas + 1)
            array = ArrayType(each.data_type, data_type.containsNull)
            return _Value(f"transform({value.expression}, {variable} -> {each.expression})", array)
        if not isinstance(data_type, StructType):
            raise KindMismatchError(
                f"columns: {str(path)!r} asks for members of a {data_type.simpleString()}; only a struct has members"
            )
        fields, items = [], []
        for member in members:
            inner = self._walk(value, path, member.steps, lambdas)
            name = _short_name(member)
            fields.append(StructField(name, inner.data_type, True))
            items.append(f"{inner.expression} AS {quote_name(name)}")
        self._reject_twins(fields, path)
        return _Value(f"if({value.expression} IS NULL, NULL, struct({', '.join(items)}))", StructType(fields))

    def _reject_twins(self, fields: Sequence[StructField], path: ColumnPath) -> None:
        twins = [name for name, count in Counter(self._key(field.name) for field in fields).items() if count > 1]
        if twins:
            raise BadSpecError(f"columns: {str(path)!r} would hold two members named {twins[0]!r}")

    def _field(self, struct: StructType, name: str, path: ColumnPath | None = None) -> StructField:
        exact = [field for field in struct.fields if field.name == name]
        loose = [f for f in struct.fields if same_name(f.name, name, case_sensitive=self._case_sensitive)]
        found = exact or loose
        if not found:
            where = f"columns {str(path)!r}" if path is not None and len(path.steps) > 1 else "columns"
            raise unknown_column(name, where, struct)
        return found[0]

    def _named(self, drafts: Sequence[_Draft]) -> tuple[OutputColumn, ...]:
        """Names outputs as Spark would; those that clash take their whole path as name."""
        count = Counter(self._key(draft.name) for draft in drafts)
        names = [draft.name if count[self._key(draft.name)] == 1 else draft.full_name for draft in drafts]
        for name, times in Counter(map(self._key, names)).items():
            if times > 1:
                clashing = [str(d.path) for d, n in zip(drafts, names, strict=True) if self._key(n) == name]
                raise BadSpecError(
                    f"columns: {' and '.join(clashing)} would both be named {name!r}; ask for one of them"
                )
        return tuple(
            OutputColumn(name, draft.kind, draft.value.expression, draft.value.data_type)
            for name, draft in zip(names, drafts, strict=True)
        )

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()


def _short_name(path: ColumnPath) -> str:
    """The name Spark would give: the last member, with the positions picked from it."""
    last = max(at for at, step in enumerate(path.steps) if isinstance(step, Member))
    return _full_name(ColumnPath(path.steps[last:]))


def _full_name(path: ColumnPath) -> str:
    text = ""
    for step in path.steps:
        if isinstance(step, Member):
            text += f".{step.name}" if text else step.name
        elif isinstance(step, Elements):
            text += render_steps([step])
    return text


def _member_paths(struct: StructType, prefix: str = "") -> Iterator[str]:
    for field in struct.fields:
        yield prefix + field.name
        inner = field.dataType.elementType if isinstance(field.dataType, ArrayType) else field.dataType
        if isinstance(inner, StructType):
            yield from _member_paths(inner, f"{prefix}{field.name}.")


def _some_names(struct: StructType, limit: int = 10) -> str:
    names = [field.name for field in struct.fields]
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")
