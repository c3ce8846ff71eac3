"""Classification of requested columns before the schema is known.

The first of the steps scan, file and table of Apache Drill's scan framework: it recognizes columns that are specific to
a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.projection.metadata_columns import ImplicitCatalog, ImplicitColumn
from pushdown_spark.projection.paths import ColumnPath, Elements

FIELDS_COLUMN = "columns"
"""The array of the fields of a line, in CSV files without a header and without a declared schema."""
_MAX_FIELDS = 65_536
"""The limit of positions in that array. Higher positions are errors."""


class ScanTag(StrEnum):
    """The class of a requested column."""

    WILDCARD = "wildcard"
    FIELDS = "fields"
    IMPLICIT = "implicit"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class ScanColumn:
    """A path and its class. `implicit` is the implicit column of this name; a table column takes precedence."""

    path: ColumnPath
    tag: ScanTag
    implicit: ImplicitColumn | None = None


def scan_columns(
    paths: Sequence[ColumnPath], catalog: ImplicitCatalog, *, has_unnamed_fields: bool
) -> tuple[ScanColumn, ...]:
    """Classify paths. `has_unnamed_fields` is whether lines have fields without names, so that `columns[i]` exists.

    Raises BadSpecError if `columns` is mixed with named columns or has a position above the limit, and
    KindMismatchError for a member of `columns`.
    """
    columns = tuple(_classify(path, catalog, has_unnamed_fields) for path in paths)
    fields = [column.path for column in columns if column.tag is ScanTag.FIELDS]
    named = [column.path for column in columns if column.tag in (ScanTag.UNRESOLVED, ScanTag.WILDCARD)]
    if fields and named:
        raise BadSpecError(f"columns: {fields[0]} selects fields by position and {named[0]} by name; use one of them")
    return columns


def _classify(path: ColumnPath, catalog: ImplicitCatalog, has_unnamed_fields: bool) -> ScanColumn:
    if path.is_wildcard:
        return ScanColumn(path, ScanTag.WILDCARD)
    if has_unnamed_fields and path.head.lower() == FIELDS_COLUMN:
        _check_fields(path)
        return ScanColumn(path, ScanTag.FIELDS)
    implicit = catalog.find(path.head) if len(path.steps) == 1 else None
    return ScanColumn(path, ScanTag.UNRESOLVED if implicit is None else ScanTag.IMPLICIT, implicit)


def _check_fields(path: ColumnPath) -> None:
    match path.steps[1:]:
        case ():
            return
        case (Elements(positions),):
            if positions[-1] >= _MAX_FIELDS:
                raise BadSpecError(f"columns: {str(path)!r}: positions end at {_MAX_FIELDS - 1}")
        case _:
            raise KindMismatchError(
                f"columns: {str(path)!r}: {FIELDS_COLUMN} is an array of strings, which has positions and no members"
            )
