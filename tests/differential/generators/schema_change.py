"""How the schema of a file differs from the schema of its table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Change:
    """The probabilities with which a column or member of a file differs from the table.

    `foreign` is a type that does not convert to the table's, `nameless` a file with names such as `_col0`.
    """

    missing: float = 0.0
    added: float = 0.0
    moved: float = 0.0
    narrower: float = 0.0
    recased: float = 0.0
    foreign: float = 0.0
    nameless: float = 0.0


NO_CHANGE = Change()
