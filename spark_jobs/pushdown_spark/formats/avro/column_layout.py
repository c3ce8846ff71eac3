"""How Arrow arrays are put together from the slots that a walk has filled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa


class Make(StrEnum):
    """What a leaf's numbers mean."""

    NUMBER = "number"
    MILLIS = "milliseconds"
    BOOLEAN = "boolean"
    FLOAT = "bits of a float"
    DOUBLE = "bits of a double"
    BYTES = "place of bytes"
    DECIMAL = "place of an unscaled value"
    SYMBOL = "number of a symbol"


@dataclass(frozen=True)
class Validity:
    """A value is there where a union's branch, kept in `slot`, is `branch`; not there where that is the null branch."""

    slot: int
    branch: int
    is_null_branch: bool


@dataclass(frozen=True)
class Leaf:
    """A column of single values, each with its own flag of validity."""

    type: pa.DataType
    slot: int
    make: Make
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Constant:
    """The same value in each row: what the reader's schema says of fields that are not in the file, mostly null."""

    type: pa.DataType
    value: pa.Scalar


@dataclass(frozen=True)
class Struct:
    """Members side by side; those that the file does not have are constants."""

    type: pa.DataType
    members: tuple[Shape, ...]
    validity: Validity | None = None


@dataclass(frozen=True)
class ListOf:
    """Items, as many in each row as `slot` says."""

    type: pa.DataType
    slot: int
    item: Shape
    validity: Validity | None = None


@dataclass(frozen=True)
class Either:
    """A value from the first alternative that has one."""

    type: pa.DataType
    slot: int
    alternatives: tuple[Shape, ...]


Shape = Leaf | Constant | Struct | ListOf | Either


def slots(shapes: Sequence[Shape]) -> Iterator[int]:
    """The slots that get one number each for each value of some shapes; those of items get more or fewer."""
    for shape in shapes:
        match shape:
            case Leaf():
                yield shape.slot
            case Struct():
                yield from slots(shape.members)
            case ListOf():
                yield shape.slot
            case Either():
                yield shape.slot
                yield from slots(shape.alternatives)
            case Constant():
                pass
        if isinstance(shape, Struct | ListOf) and shape.validity is not None and shape.validity.is_null_branch:
            yield shape.validity.slot
