"""Fixtures of the differential tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from session_settings import searched_by


@pytest.fixture(params=["workers", "jvm"])
def carrier(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return where lines of JSON and CSV are searched: in Python workers, then inside the JVM."""
    name: str = request.param
    with searched_by(name):
        yield name
