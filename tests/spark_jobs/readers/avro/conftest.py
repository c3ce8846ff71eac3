"""Both ways of walking encoded records."""

from __future__ import annotations

import pytest

from spark_jobs.readers.avro import gather, machine
from spark_jobs.readers.avro.compiled import compiled_walk


@pytest.fixture(params=["interpreted", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Walks the records in one of the two ways."""
    if request.param == "compiled":
        compiled_walk()
    monkeypatch.setattr(machine, "is_loaded", lambda: request.param == "compiled")
    monkeypatch.setattr(gather, "is_loaded", lambda: request.param == "compiled")
    return str(request.param)
