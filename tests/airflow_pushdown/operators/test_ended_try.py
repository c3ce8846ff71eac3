"""A try of a task that Airflow ends: whether it leaves its driver to the next one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow_versions import stores_driver_ids

from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.task_state import is_true_in_time

OWN = {PushdownScanOperator.external_id_key: "driver-1"}
"""The values that Airflow stores for the current try of the task."""
NO_STATE = "no state"

Leaves = Callable[..., bool]


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> Leaves:
    """Return a function that asks a try whether it leaves its driver, given the answers of Airflow."""

    def ask(state: str | None, stored: dict[str, str] | None, *, map_index: int = -1, **options: object) -> bool:
        key = "t" if map_index < 0 else f"t_{map_index}"
        states = {} if state == NO_STATE else {"r": {key: state}}
        monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", lambda **given: states)
        context = {"ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=map_index)}
        if stored is not None:
            context["task_state_store"] = stored  # type: ignore[assignment]
        operator = PushdownScanOperator(task_id="t", path="/x", format="json", **options)
        return operator.durable and operator._stored_driver(context).has_next_try(operator.log)  # type: ignore[arg-type]

    return ask


@stores_driver_ids
@pytest.mark.parametrize("state", [None, "scheduled", "queued", "up_for_retry"])
@pytest.mark.parametrize("map_index", [-1, 3])
def test_a_task_that_airflow_starts_again_continues_with_the_driver(
    leaves: Leaves, state: str | None, map_index: int
) -> None:
    assert leaves(state, {}, map_index=map_index)


@stores_driver_ids
@pytest.mark.parametrize("state", ["running", "deferred"])
def test_a_try_whose_stored_values_airflow_does_not_show_was_replaced(leaves: Leaves, state: str) -> None:
    assert leaves(state, {})
    assert not leaves(state, OWN)


@pytest.mark.parametrize("state", ["failed", "success", "skipped", "removed", "restarting", NO_STATE])
def test_a_task_that_a_user_has_ended_or_cleared_ends_its_driver(leaves: Leaves, state: str) -> None:
    assert not leaves(state, {})


def test_without_stored_values_no_try_continues(leaves: Leaves) -> None:
    assert not leaves("queued", None)
    assert not leaves("queued", {}, durable=False)


def test_a_check_that_does_not_return_in_time_is_false(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_pushdown.task_state._SECONDS", 0.05)
    is_over, log = threading.Event(), logging.getLogger("test")

    def wait() -> bool:
        is_over.wait()
        return True

    def fail() -> bool:
        raise RuntimeError("Airflow is away")

    assert not is_true_in_time(wait, log)
    is_over.set()
    assert not is_true_in_time(fail, log)
    assert is_true_in_time(lambda: True, log)
