"""A share of the cases by default, the others nightly: cases of one kind differ in little, and each takes seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def third(cases: Iterable[object]) -> list[ParameterSet]:
    """Every third case, as parameters of a test, from cases or tuples of them."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if number % 3 == 0 else pytest.mark.nightly))
    return found


def somewhere(cases: Sequence[object], places: Sequence[str]) -> list[ParameterSet]:
    """Each case at one of the places in turn; a place is the first parameter."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        for turn, place in enumerate(places):
            marks = () if number % len(places) == turn else pytest.mark.nightly
            found.append(pytest.param(place, *values, marks=marks))
    return found
