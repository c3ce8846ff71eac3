"""Fixtures of the tests of outputs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest


@pytest.fixture(params=[pytest.param(3, id="every third"), pytest.param(1, id="each", marks=pytest.mark.nightly)])
def operations(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the numbers of the operations at which a test interrupts a run: nightly each, otherwise every third."""
    return count(1, request.param)
