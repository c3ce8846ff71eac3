"""Resolution of column paths against a schema into outputs that Spark can select."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, StringType

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.projection.implicit_columns import ImplicitColumn
from pushdown_spark.projection.path_expressions import PathCompiler, PathContext, PathExpression
from pushdown_spark.projection.path_tree import ProjectionTree, merge_paths
from pushdown_spark.projection.paths import (
    ColumnPath,
    Elements,
    Member,
    output_names,
    parse_paths,
    quote_name,
    sql_type,
)

FIELDS_COLUMN = "columns"
"""The array of the fields of a line, in CSV files without a header and without a declared schema."""
_MAX_FIELDS = 65_536
"""The limit of positions in that array. Higher positions are errors."""


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result: its name, its type, and the Spark SQL that computes it.

    `expression` refers to table columns and implicit columns of the DataFrame that it is selected from.
    """

    name: str
    expression: str
    data_type: DataType

    @property
    def select_item(self) -> str:
        """The expression and its name, for `DataFrame.selectExpr`."""
        return f"{self.expression} AS {quote_name(self.name)}"


@dataclass(frozen=True)
class Projection:
    """The columns of a query, resolved against a schema.

    `table_columns` are the required top-level columns, in the order and spelling of the schema. `tree` has the required
    parts of them. `implicit_columns` are the required implicit columns. `notes` are lines for the report.
    """

    outputs: tuple[OutputColumn, ...]
    table_columns: tuple[str, ...]
    implicit_columns: tuple[str, ...]
    tree: ProjectionTree
    notes: tuple[str, ...] = ()

    @property
    def select_items(self) -> list[str]:
        """The outputs, for `DataFrame.selectExpr`."""
        return [output.select_item for output in self.outputs]

    @property
    def is_plain(self) -> bool:
        """Whether the outputs are table columns under their own names."""
        return self.selects_exactly([output.name for output in self.outputs])

    def selects_exactly(self, columns: Sequence[str]) -> bool:
        """Return whether the outputs are exactly these columns in this order."""
        plain = [quote_name(name) for name in columns]
        return plain == [output.expression for output in self.outputs] == [quote_name(o.name) for o in self.outputs]


def resolve(columns: Sequence[str] | None, context: PathContext) -> Projection:
    """Resolve `columns` (None means `*`) against the columns of a table.

    Raises BadSpecError for invalid paths, for duplicate output names, and if `columns[i]` is mixed with named columns;
    UnknownColumnError with the most similar names; and KindMismatchError for a step that the type does not support.
    """
    return _Resolver(context).projection(parse_paths(["*"] if columns is None else columns))


@dataclass(frozen=True)
class _Draft:
    """An output without its final name. `required_paths` are the parts of the table that it needs."""

    path: ColumnPath
    value: PathExpression
    required_paths: tuple[ColumnPath, ...] = ()
    implicit_column: str | None = None


class _Resolver:
    """A resolver of the paths of one projection."""

    def __init__(self, context: PathContext) -> None:
        self._context = context
        self._has_array = context.has_unnamed_fields and FIELDS_COLUMN not in context.columns
        self._notes: dict[str, None] = {}

    def projection(self, paths: Sequence[ColumnPath]) -> Projection:
        self._check_fields(paths)
        drafts: dict[str, _Draft] = {}
        for path in paths:
            for draft in self._drafts(path):
                drafts.setdefault(self._context.name_rule.key(str(draft.path)), draft)
        required_paths = [path for draft in drafts.values() for path in draft.required_paths]
        names = {path.head for path in required_paths}
        return Projection(
            outputs=self._assign_names(list(drafts.values())),
            table_columns=tuple(name for name in self._context.schema.fieldNames() if name in names),
            implicit_columns=tuple(
                dict.fromkeys(draft.implicit_column for draft in drafts.values() if draft.implicit_column)
            ),
            tree=merge_paths(required_paths, name_rule=self._context.name_rule),
            notes=tuple(self._notes),
        )

    def _check_fields(self, paths: Sequence[ColumnPath]) -> None:
        """Raise BadSpecError if fields are selected both by position and by name, or beyond the last position."""
        by_position = [path for path in paths if self._is_fields(path)]
        for path in by_position:
            match path.steps[1:]:
                case ():
                    pass
                case (Elements(positions),):
                    if positions[-1] >= _MAX_FIELDS:
                        raise BadSpecError(
                            f"columns: {str(path)!r}: positions end at {_MAX_FIELDS - 1}; give a smaller one"
                        )
                case _:
                    raise KindMismatchError(
                        f"columns: {str(path)!r}: {FIELDS_COLUMN} is an array of strings, so it has no members; "
                        f"give a position, such as `{FIELDS_COLUMN}[0]`"
                    )
        by_name = [path for path in paths if not self._is_fields(path) and self._find_implicit(path) is None]
        if by_position and by_name:
            raise BadSpecError(
                f"columns: {by_position[0]} selects fields by position and {by_name[0]} by name; use one of them"
            )

    def _is_fields(self, path: ColumnPath) -> bool:
        """Return whether a path selects fields of a line by position."""
        return self._has_array and path.head.lower() == FIELDS_COLUMN

    def _find_implicit(self, path: ColumnPath) -> ImplicitColumn | None:
        return self._context.implicit_catalog.find(path.head) if len(path.steps) == 1 else None

    def _drafts(self, path: ColumnPath) -> Iterator[_Draft]:
        """Yield the output of a path, or one for each column of a wildcard."""
        if path.is_wildcard:
            yield from (self._table_draft(ColumnPath((Member(field.name),))) for field in self._context.schema.fields)
            return
        if self._is_fields(path):
            yield self._fields_draft(path)
            return
        implicit_column = self._find_implicit(path)
        if implicit_column is not None and path.head not in self._context.columns:
            yield self._implicit_draft(path, implicit_column)
            return
        if implicit_column is not None:
            self._notes[f"{path.head} is a column of the table, so it is not the implicit column of that name"] = None
        yield self._table_draft(path)

    def _table_draft(self, path: ColumnPath) -> _Draft:
        value = PathCompiler(self._context, path).compile()
        return _Draft(path, value, (ColumnPath(value.steps),))

    def _implicit_draft(self, path: ColumnPath, column: ImplicitColumn) -> _Draft:
        depth = self._context.depth
        if column.level is not None and depth is not None and column.level >= depth():
            self._notes[f"{path.head} is null: no file lies {column.level + 1} directories deep"] = None
            null = f"CAST(NULL AS {sql_type(column.data_type)})"
            return _Draft(path, PathExpression(null, column.data_type, path.steps))
        value = PathExpression(quote_name(column.name), column.data_type, path.steps)
        return _Draft(path, value, implicit_column=column.name)

    def _fields_draft(self, path: ColumnPath) -> _Draft:
        """Return the fields of a line: all as an array, or some by position. Missing fields are null."""
        names = self._context.schema.fieldNames()
        valid = range(len(names))
        selectors = [step for step in path.steps if isinstance(step, Elements)]
        positions = selectors[0].positions if selectors else tuple(valid)
        fields = [quote_name(names[p]) if p in valid else "CAST(NULL AS STRING)" for p in positions]
        required_paths = tuple(ColumnPath((Member(names[p]),)) for p in positions if p in valid)
        value = (
            PathExpression(fields[0], StringType(), path.steps)
            if selectors and len(fields) == 1
            else PathExpression(f"array({', '.join(fields)})", ArrayType(StringType(), True), path.steps)
        )
        return _Draft(path, value, required_paths)

    def _assign_names(self, drafts: Sequence[_Draft]) -> tuple[OutputColumn, ...]:
        """Name the outputs. Raises BadSpecError if two have one name."""
        key = self._context.name_rule.key
        names = output_names([draft.path for draft in drafts], key)
        for name, count in Counter(map(key, names)).items():
            if count > 1:
                duplicates = [str(d.path) for d, n in zip(drafts, names, strict=True) if key(n) == name]
                raise BadSpecError(
                    f"columns: {' and '.join(duplicates)} would both be named {name!r}; remove one of them, or use AS"
                )
        return tuple(
            OutputColumn(name, draft.value.expression, draft.value.data_type)
            for name, draft in zip(names, drafts, strict=True)
        )
