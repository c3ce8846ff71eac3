"""What a true predicate implies about single columns: the format-independent middle of pattern derivation.

A fact over-approximates: every row that Spark keeps satisfies it, other rows may. The formula of facts is an abstract
interpretation of the predicate (Cousot and Cousot's sense): AND keeps any part, OR needs a fact from every branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum

Scalar = int | Decimal | date | str | bool
"""Literals as facts hold them: integers and floats exactly, timestamps by their calendar date alone."""


class Family(StrEnum):
    """Column types by the way their values are spelt in text."""

    INTEGER = "integer"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"


@dataclass(frozen=True)
class Target:
    """The column a fact is about: its resolved path, its family, and for decimals precision and scale.

    `one_byte` marks integers of 8 bits, because JSON may spell their negative values as 128..255.
    """

    path: tuple[str, ...]
    family: Family
    precision: int = 0
    scale: int = 0
    one_byte: bool = False


@dataclass(frozen=True)
class OneOf:
    """The column equals one of these values (never null)."""

    target: Target
    values: tuple[Scalar, ...]


@dataclass(frozen=True)
class Between:
    """The column lies in a closed interval; None leaves a side open."""

    target: Target
    low: Scalar | None
    high: Scalar | None


@dataclass(frozen=True)
class Contains:
    """A string column contains every one of these runs; the first may be anchored at its start."""

    target: Target
    runs: tuple[str, ...]
    prefix: bool


@dataclass(frozen=True)
class Present:
    """The column is not null."""

    target: Target


Fact = OneOf | Between | Contains | Present


@dataclass(frozen=True)
class AnyOf:
    """At least one branch holds; each branch is a choice of facts that all hold."""

    branches: tuple[AllOf, ...]


@dataclass(frozen=True)
class AllOf:
    """All parts hold; a reader may use whichever it likes best."""

    parts: tuple[Fact | AnyOf, ...]
