"""The two ways to execute bytecode."""

from __future__ import annotations

import pytest

from pushdown_spark.formats.avro import assembler, executor
from pushdown_spark.formats.avro.executor import compiled_interpreter


@pytest.fixture(params=["interpreted", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Execute bytecode by Python or by machine code."""
    if request.param == "compiled":
        compiled_interpreter()
    monkeypatch.setattr(executor, "is_compiled", lambda: request.param == "compiled")
    monkeypatch.setattr(assembler, "is_compiled", lambda: request.param == "compiled")
    return str(request.param)
