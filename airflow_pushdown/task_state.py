"""What Airflow's database has about a task: its state, which another process may have changed, and its driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

_NEXT_TRY_FOLLOWS = frozenset({None, "scheduled", "queued", "up_for_retry"})
"""The states of a task before its next try. A task that a user clears while it runs has the state `restarting`."""
_NEXT_TRY_HAS_STARTED = frozenset({"running", "deferred"})
_ENDED = frozenset({None, "failed", "success", "skipped", "upstream_failed", "removed"})
"""The states of a deferred task after a user has ended or cleared it. With an event, it gets the state `scheduled`."""
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


def is_ended(task: RuntimeTaskInstance) -> bool:
    """Return whether a deferred task has ended or was cleared. Airflow's own exceptions are passed on."""
    try:
        return task_state(task.dag_id, task.run_id, task.task_id, task.map_index) in _ENDED
    except LookupError:
        # A user has deleted the run.
        return True


class StoredDriver:
    """The driver whose id Airflow stores for the next try of a task. Before Airflow 3.3, nothing is stored."""

    def __init__(self, context: Context, key: str) -> None:
        self._task = context["ti"]
        self._store: Any = context.get("task_state_store")
        self._key = key

    def remember(self, driver_id: str) -> None:
        """Store an id. The provider's operator stores it only after the submission."""
        if self._store is not None:
            self._store.set(self._key, driver_id)

    def recall(self) -> str | None:
        """Return the stored id, or None if there is none."""
        driver_id = None if self._store is None else self._store.get(self._key)
        return None if driver_id is None else str(driver_id)

    def forget(self) -> None:
        """Delete the id of a driver whose result was read. A cleared task would ask its cluster for it first."""
        if self._store is not None:
            self._store.delete(self._key)

    def has_next_try(self, log: Logger) -> bool:
        """Return whether Airflow ends this try and starts another one, which can continue with the driver.

        If a scheduler dies, another scheduler starts the next try of its tasks. The earlier try may be ended before,
        during or after the start of the next one.
        """
        return self._store is not None and is_true_in_time(self._next_try_follows, log)

    def _next_try_follows(self) -> bool:
        task = self._task
        try:
            state = task_state(task.dag_id, task.run_id, task.task_id, task.map_index)
        except LookupError:
            return False
        # Airflow shows the stored values of a task only to its current try.
        return state in _NEXT_TRY_FOLLOWS or (state in _NEXT_TRY_HAS_STARTED and self.recall() is None)


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
