"""What of the Spark session, and of a predicate's text, bears on the meaning of its tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SparkRules:
    """Settings of the session that decide what a predicate means.

    `trusted` tells that the tree says what Spark reads in the text (`misread`). `fold` gives Spark's value of a
    constant expression, None where there is none; without it conjuncts whose constants take Spark are unsupported.
    """

    case_sensitive: bool = False
    trusted: bool = True
    fold: Callable[[str], object] | None = None
