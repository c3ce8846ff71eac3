"""How Arrow arrays are assembled from the slots that the interpreter fills.

A layout is a tree that mirrors the type of a column. Its leaves name slots: arrays of 64-bit numbers with validity
flags, one number for each value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class SlotContent(StrEnum):
    """The meaning of the numbers in a slot."""

    NUMBER = "number"
    MILLISECONDS = "milliseconds"
    BOOLEAN = "boolean"
    FLOAT = "bits of a float"
    DOUBLE = "bits of a double"
    BYTES = "offset and length of bytes"
    DECIMAL = "offset and length of an unscaled value"
    SYMBOL = "index of a symbol"


@dataclass(frozen=True)
class Validity:
    """When a value is present: if the union's branch in `slot` is `branch`, or with `is_null_branch`, if it is not."""

    slot: int
    branch: int
    is_null_branch: bool


@dataclass(frozen=True)
class LeafLayout:
    """A column of values without parts. Its slot has their validity flags."""

    type: pa.DataType
    slot: int
    content: SlotContent
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class NullLayout:
    """A column that is null in every row, because the file lacks it or has nothing but nulls."""

    type: pa.DataType


@dataclass(frozen=True)
class StructLayout:
    """A column of structs. Members that the file lacks are null."""

    type: pa.DataType
    members: tuple[ColumnLayout, ...]
    validity: Validity | None = None


@dataclass(frozen=True)
class ListLayout:
    """A column of lists. `slot` has the number of items in each row."""

    type: pa.DataType
    slot: int
    item: ColumnLayout
    validity: Validity | None = None


@dataclass(frozen=True)
class UnionLayout:
    """A column with the value of the one alternative that is present. `slot` has the number of the union's branch."""

    slot: int
    alternatives: tuple[ColumnLayout, ...]


ColumnLayout = LeafLayout | NullLayout | StructLayout | ListLayout | UnionLayout


def row_slots(layouts: Sequence[ColumnLayout]) -> Iterator[int]:
    """Return the slots that get one number for each row. Slots of list items get more or fewer."""
    for layout in layouts:
        match layout:
            case LeafLayout():
                yield layout.slot
            case StructLayout():
                yield from row_slots(layout.members)
            case ListLayout():
                yield layout.slot
            case UnionLayout():
                yield layout.slot
                yield from row_slots(layout.alternatives)
            case NullLayout():
                pass
        if isinstance(layout, StructLayout | ListLayout) and layout.validity and layout.validity.is_null_branch:
            yield layout.validity.slot
