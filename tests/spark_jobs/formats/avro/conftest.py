"""The executors that decode encoded records."""

from __future__ import annotations

import pytest

from pushdown_spark.formats.avro import assembler, executor
from pushdown_spark.formats.avro.executor import compiled_interpreter


@pytest.fixture(params=["matched", "interpreted", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Use one of the executors. The regex decoder leaves records that it does not support to the interpreter."""
    if request.param == "compiled":
        compiled_interpreter()
    if request.param == "interpreted":
        monkeypatch.setattr(executor, "compile_segments", lambda _code: None)
    monkeypatch.setattr(executor, "is_compiled", lambda: request.param == "compiled")
    monkeypatch.setattr(assembler, "is_compiled", lambda: request.param == "compiled")
    return str(request.param)
