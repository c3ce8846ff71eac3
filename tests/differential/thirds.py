"""Every third case by default, the others nightly: cases of one kind differ in little, and each takes seconds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def third(cases: Iterable[object]) -> list[ParameterSet]:
    """Parameters of a test, from cases or tuples of them."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if number % 3 == 0 else pytest.mark.nightly))
    return found
