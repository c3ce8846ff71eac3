"""The first step of a projection: what each path is as far as can be told before any file is known.

The steps (scan, file, table) and the idea that format-specific columns are recognised in the first one follow Apache
Drill's scan framework.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pushdown_spark.errors import BadSpecError, KindMismatchError
from pushdown_spark.projection.catalog import ImplicitCatalog, ImplicitColumn
from pushdown_spark.projection.paths import ColumnPath, Elements

COLUMNS = "columns"
"""The array of a line's fields, in CSV files without header and declared schema."""
MAX_FIELDS = 65_536
"""Positions from here on are refused: no line has so many fields."""


class ScanTag(StrEnum):
    """What a path is, as far as the scan alone can tell."""

    WILDCARD = "wildcard"
    FIELDS = "fields"
    IMPLICIT = "implicit"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class ScanColumn:
    """A path with its tag. `implicit` is the implicit column that it may be, unless the table has one of its name."""

    path: ColumnPath
    tag: ScanTag
    implicit: ImplicitColumn | None = None


def scan_level(paths: Sequence[ColumnPath], catalog: ImplicitCatalog, *, has_fields: bool) -> tuple[ScanColumn, ...]:
    """Tags paths. `has_fields` says that the source's lines have fields without names, so that `columns[i]` is known.

    Raises BadSpecError where `columns` is mixed with named columns or has a position that no line can have, and
    KindMismatchError for a member of it.
    """
    found = tuple(_tagged(path, catalog, has_fields) for path in paths)
    fields = [column.path for column in found if column.tag is ScanTag.FIELDS]
    named = [column.path for column in found if column.tag in (ScanTag.UNRESOLVED, ScanTag.WILDCARD)]
    if fields and named:
        raise BadSpecError(
            f"columns: {fields[0]} are a line's fields without names, {named[0]} is asked for by name; use one of them"
        )
    return found


def _tagged(path: ColumnPath, catalog: ImplicitCatalog, has_fields: bool) -> ScanColumn:
    if path.is_wildcard:
        return ScanColumn(path, ScanTag.WILDCARD)
    if has_fields and path.head.lower() == COLUMNS:
        _check_fields(path)
        return ScanColumn(path, ScanTag.FIELDS)
    implicit = catalog.find(path.head) if len(path.steps) == 1 else None
    return ScanColumn(path, ScanTag.UNRESOLVED if implicit is None else ScanTag.IMPLICIT, implicit)


def _check_fields(path: ColumnPath) -> None:
    match path.steps[1:]:
        case ():
            return
        case (Elements(positions),):
            if positions[-1] >= MAX_FIELDS:
                raise BadSpecError(f"columns: {str(path)!r}: positions end at {MAX_FIELDS - 1}")
        case _:
            raise KindMismatchError(
                f"columns: {str(path)!r}: {COLUMNS} is an array of texts, which has positions and no members"
            )
