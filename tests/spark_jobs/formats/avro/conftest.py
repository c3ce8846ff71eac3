"""The two executors of bytecode."""

from __future__ import annotations

import pytest

from pushdown_spark.formats.avro import assembler, executor
from pushdown_spark.formats.avro.executor import compiled_interpreter


@pytest.fixture(params=["interpreted", "compiled"])
def interpreter(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Execute bytecode in Python or in machine code, and return the name of the way."""
    if request.param == "compiled":
        compiled_interpreter()
    monkeypatch.setattr(executor, "is_compiled", lambda: request.param == "compiled")
    monkeypatch.setattr(assembler, "is_compiled", lambda: request.param == "compiled")
    return str(request.param)
