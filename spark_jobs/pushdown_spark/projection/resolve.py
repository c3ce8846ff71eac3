"""The last step of a projection: paths resolved against a table's schema into outputs that Spark can select."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pyspark.sql.types import ArrayType, DataType, StringType, StructType

from pushdown_spark.errors import BadSpecError
from pushdown_spark.projection.access import Access, Table, Value, full_name, short_name
from pushdown_spark.projection.catalog import BUILT_IN, ImplicitCatalog, ImplicitColumn, ImplicitKind
from pushdown_spark.projection.paths import ColumnPath, Elements, Member, parse_paths, quote_name, sql_type
from pushdown_spark.projection.scan_level import ScanColumn, ScanTag, scan_level
from pushdown_spark.projection.tree import ProjectionTree, merge_paths


class ColumnKind(StrEnum):
    """Where the values of an output column come from."""

    TABLE = "table"
    NULL = "null"
    FILE = "file"
    DIRECTORY = "directory"


@dataclass(frozen=True)
class OutputColumn:
    """One column of the result: its name, its source, and the Spark SQL that computes it.

    `expression` refers to table columns and to implicit columns of the frame it is selected from.
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

    @property
    def select_items(self) -> list[str]:
        """What `DataFrame.selectExpr` makes the outputs of."""
        return [output.select_item for output in self.outputs]

    @property
    def is_plain(self) -> bool:
        """Whether the outputs are columns under their own names."""
        return self.is_of([output.name for output in self.outputs])

    def is_of(self, columns: Sequence[str]) -> bool:
        """Whether the outputs are just these columns, in their order."""
        plain = [quote_name(name) for name in columns]
        return plain == [output.expression for output in self.outputs] == [quote_name(o.name) for o in self.outputs]


def _nowhere(column: str) -> str:
    return ""


def resolve(
    columns: Sequence[str] | None,
    schema: StructType,
    depth: int = 0,
    *,
    case_sensitive: bool = False,
    catalog: ImplicitCatalog = BUILT_IN,
    origin: Callable[[str], str] = _nowhere,
    has_fields: bool = False,
) -> Projection:
    """Resolves `columns` (None means `*`) against a table's schema.

    `depth` is the number of directory levels of the deepest file below its scan root; a `dirK` beyond it is null.
    `catalog` holds the implicit columns; `origin` says for errors where a column's type was found; `has_fields` as in
    `scan_level`. Raises `BadSpecError` for text that is no path or for two outputs of one name, `UnknownColumnError`
    with the nearest names, and `KindMismatchError` for a step that does not fit the kind of what it meets.
    """
    table = Table(schema, case_sensitive, origin, catalog.names)
    columns_array = has_fields and "columns" not in table.columns
    scanned = scan_level(parse_paths(["*"] if columns is None else columns), catalog, has_fields=columns_array)
    return _Resolver(table, depth).projection(scanned)


@dataclass(frozen=True)
class _Draft:
    """An output before its name is settled; `reads` are the parts of the table that it needs."""

    path: ColumnPath
    kind: ColumnKind
    value: Value
    reads: tuple[ColumnPath, ...] = ()
    implicit: str | None = None


class _Resolver:
    """Resolution of the paths of one projection."""

    def __init__(self, table: Table, depth: int) -> None:
        self._table = table
        self._depth = depth
        self._notes: dict[str, None] = {}

    def projection(self, columns: Sequence[ScanColumn]) -> Projection:
        drafts: dict[str, _Draft] = {}
        for column in self._expanded(columns):
            drafts.setdefault(self._key(str(column.path)), self._draft(column))
        reads = [path for draft in drafts.values() for path in draft.reads]
        names = {path.head for path in reads}
        return Projection(
            outputs=self._named(list(drafts.values())),
            table_columns=tuple(name for name in self._table.schema.fieldNames() if name in names),
            implicit=tuple(dict.fromkeys(draft.implicit for draft in drafts.values() if draft.implicit is not None)),
            tree=merge_paths(reads, case_sensitive=self._table.case_sensitive),
            notes=tuple(self._notes),
        )

    def _expanded(self, columns: Sequence[ScanColumn]) -> Iterator[ScanColumn]:
        for column in columns:
            if column.tag is ScanTag.WILDCARD:
                paths = (ColumnPath((Member(field.name),)) for field in self._table.schema.fields)
                yield from (ScanColumn(path, ScanTag.UNRESOLVED) for path in paths)
            else:
                yield column

    def _draft(self, column: ScanColumn) -> _Draft:
        path, implicit = column.path, column.implicit
        if column.tag is ScanTag.FIELDS:
            return self._fields(path)
        if implicit is not None and path.head not in self._table.columns:
            return self._implicit(path, implicit)
        if implicit is not None:
            self._notes[f"{path.head} is a column of the table, so it is not the implicit column of that name"] = None
        value = Access(self._table, path).value()
        return _Draft(path, ColumnKind.TABLE, value, (ColumnPath(value.steps),))

    def _implicit(self, path: ColumnPath, column: ImplicitColumn) -> _Draft:
        kind = ColumnKind.DIRECTORY if column.kind is ImplicitKind.DIRECTORY else ColumnKind.FILE
        if column.level is not None and column.level >= self._depth:
            self._notes[f"{path.head} is null: no file lies {column.level + 1} directories deep"] = None
            null = f"CAST(NULL AS {sql_type(column.data_type)})"
            return _Draft(path, ColumnKind.NULL, Value(null, column.data_type, path.steps))
        value = Value(quote_name(column.name), column.data_type, path.steps)
        return _Draft(path, kind, value, implicit=column.name)

    def _fields(self, path: ColumnPath) -> _Draft:
        """A line's fields: all of them as an array, or some by position; null beyond the widest line of the scan."""
        names = self._table.schema.fieldNames()
        chosen = range(len(names))
        picked = [step for step in path.steps if isinstance(step, Elements)]
        positions = picked[0].positions if picked else tuple(chosen)
        texts = [quote_name(names[p]) if p in chosen else "CAST(NULL AS STRING)" for p in positions]
        reads = tuple(ColumnPath((Member(names[p]),)) for p in positions if p in chosen)
        single = bool(picked) and len(texts) == 1
        value = (
            Value(texts[0], StringType(), path.steps)
            if single
            else Value(f"array({', '.join(texts)})", ArrayType(StringType(), True), path.steps)
        )
        return _Draft(path, ColumnKind.TABLE if reads else ColumnKind.NULL, value, reads)

    def _named(self, drafts: Sequence[_Draft]) -> tuple[OutputColumn, ...]:
        """Names outputs as Spark would; those that clash take their whole path as name."""
        short = [short_name(draft.path) for draft in drafts]
        count = Counter(map(self._key, short))
        names = [
            name if count[self._key(name)] == 1 else full_name(draft.path)
            for name, draft in zip(short, drafts, strict=True)
        ]
        for name, times in Counter(map(self._key, names)).items():
            if times > 1:
                clashing = [str(d.path) for d, n in zip(drafts, names, strict=True) if self._key(n) == name]
                raise BadSpecError(
                    f"columns: {' and '.join(clashing)} would both be named {name!r}; ask for one of them, or use AS"
                )
        return tuple(
            OutputColumn(name, draft.kind, draft.value.expression, draft.value.data_type)
            for name, draft in zip(names, drafts, strict=True)
        )

    def _key(self, name: str) -> str:
        return name if self._table.case_sensitive else name.lower()
