"""The state of a task in Airflow's database, which another process may have changed while a try of it still runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

DEFERRED = "deferred"
_NEXT_TRY_FOLLOWS = frozenset({None, "scheduled", "queued", "up_for_retry"})
"""The states of a task before its next try. A task that a user clears while it runs has the state `restarting`."""
_NEXT_TRY_HAS_STARTED = frozenset({"running", DEFERRED})
_SECONDS = 1.5
"""The time to wait for a response. Airflow kills a task 5 seconds after its SIGTERM."""


def task_state(dag_id: str, run_id: str, task_id: str, map_index: int | None) -> str | None:
    """Return the state of a task, or None if it is not scheduled yet. Raises `LookupError` for an unknown task.

    Airflow's own exceptions are passed on.
    """
    states = RuntimeTaskInstance.get_task_states(
        dag_id=dag_id, map_index=map_index, task_ids=[task_id], run_ids=[run_id]
    )
    key = task_id if map_index is None or map_index < 0 else f"{task_id}_{map_index}"
    state = states[run_id][key]
    return None if state is None else str(state)


def has_next_try(state: str | None, *, is_current: bool) -> bool:
    """Return whether a task in this state has another try after one that is ended now.

    `is_current` is whether Airflow still knows the ended try as the current one.
    """
    return state in _NEXT_TRY_FOLLOWS or (state in _NEXT_TRY_HAS_STARTED and not is_current)


def is_true_in_time(condition: Callable[[], bool], log: Logger) -> bool:
    """Return whether a condition that Airflow evaluates is true, False if Airflow does not respond in time.

    A thread asks Airflow, because a signal may have interrupted this process while it waits for another response.
    """
    results: list[bool] = []

    def evaluate() -> None:
        try:
            results.append(condition())
        except Exception as error:  # the exceptions of Airflow's client have no common class
            log.warning("The state of the task is not known: %s", error)

    thread = threading.Thread(target=evaluate, name="task-state", daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return bool(results) and results[0]
