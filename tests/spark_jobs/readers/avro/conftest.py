"""All ways of walking encoded records."""

from __future__ import annotations

import pytest

from pushdown_spark.readers.avro import gather, machine
from pushdown_spark.readers.avro.compiled import compiled_walk


@pytest.fixture(params=["matched", "interpreted", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Walks the records in one of the ways; by expressions only those that these can walk, others are interpreted."""
    if request.param == "compiled":
        compiled_walk()
    if request.param == "interpreted":
        monkeypatch.setattr(machine, "stretches", lambda _code: None)
    monkeypatch.setattr(machine, "is_loaded", lambda: request.param == "compiled")
    monkeypatch.setattr(gather, "is_loaded", lambda: request.param == "compiled")
    return str(request.param)
