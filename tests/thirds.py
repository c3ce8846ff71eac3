"""Selection of a third of the cases for default runs. Nightly runs have all, because each takes seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet


def third(cases: Iterable[object]) -> list[ParameterSet]:
    """Return cases as test parameters. Every third case runs by default, the others nightly."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        found.append(pytest.param(*values, marks=() if number % 3 == 0 else pytest.mark.nightly))
    return found


def somewhere(cases: Sequence[object], places: Sequence[str]) -> list[ParameterSet]:
    """Return each case with every place, which is the first parameter. One place in turn runs by default."""
    found = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        for turn, place in enumerate(places):
            marks = () if number % len(places) == turn else pytest.mark.nightly
            found.append(pytest.param(place, *values, marks=marks))
    return found
