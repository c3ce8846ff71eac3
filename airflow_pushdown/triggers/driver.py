"""The trigger that waits for the end of a driver on a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import ParamSpec, Self, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async
from pydantic import TypeAdapter

from airflow_pushdown.clusters.drivers import (
    ClusterUnreachableError,
    DriverPhase,
    Drivers,
    DriverStatus,
    DriverWatch,
    end_driver_or_warn,
)
from airflow_pushdown.clusters.kubernetes import KubernetesDrivers
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.clusters.yarn import YarnDrivers
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.exchange.exchange import Exchange, ExchangeLocation
from airflow_pushdown.progress_reports import ProgressReports, store_progress
from airflow_pushdown.task_state import is_ended

_CLASS_PATH = "airflow_pushdown.triggers.driver.DriverTrigger"
_PROGRESS_SECONDS = 30.0
"""The time between two requests for the progress of the job. A triggerer waits for many drivers at once."""
_KILL_SECONDS = 20.0
"""The time that a cleared task's trigger waits for the end of the driver. Airflow allows 30 seconds."""
_HAS_ON_KILL = hasattr(BaseTrigger, "on_kill")
"""Whether Airflow calls `on_kill` of triggers, as it does since 3.3. There, their threads can also store XComs."""
_DRIVERS: Mapping[str, Callable[..., Drivers]] = {
    drivers.kind: drivers for drivers in (StandaloneDrivers, YarnDrivers, KubernetesDrivers)
}
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


def drivers_of(kind: str, settings: Mapping[str, object]) -> Drivers:
    """Return the drivers of a cluster from the values of `kind` and `settings()`."""
    return _DRIVERS[kind](**settings)


@dataclass(frozen=True)
class DriverEvent:
    """The end of a wait: the status of the driver, or `is_timeout`, or the `problem` of the cluster manager."""

    driver_id: str
    status: DriverStatus | None = None
    is_timeout: bool = False
    problem: str = ""

    def payload(self) -> dict[str, object]:
        """Return the event as JSON values."""
        return asdict(self)

    @classmethod
    def from_payload(cls, payload: Mapping[str, object]) -> Self:
        """Return the event from JSON values."""
        return TypeAdapter(cls).validate_python(dict(payload))


class DriverTrigger(BaseTrigger):
    """A trigger that waits for the end of a driver, and ends it if a user clears or marks the deferred task.

    The arguments have no credentials. A restarted triggerer continues the wait.
    """

    def __init__(
        self,
        kind: str,
        settings: Mapping[str, object],
        driver_id: str,
        exchange: Mapping[str, str | None],
        *,
        poll_seconds: float,
        end_time: float | None = None,
        stores_progress: bool = False,
    ) -> None:
        """Set what to wait for.

        `kind` and `settings` are those of `Drivers`. `exchange` has the fields of the run's `ExchangeLocation`.
        `end_time` is the end of the task's execution timeout in seconds since the epoch. With `stores_progress`, the
        report page shows the progress of the job.
        """
        super().__init__()  # type: ignore[no-untyped-call]
        self.kind = kind
        self.settings = settings
        self.driver_id = driver_id
        self.exchange = exchange
        self.poll_seconds = poll_seconds
        self.end_time = end_time
        self.stores_progress = stores_progress

    def serialize(self) -> tuple[str, dict[str, object]]:
        """Return the class path and the arguments."""
        return _CLASS_PATH, {
            "kind": self.kind,
            "settings": dict(self.settings),
            "driver_id": self.driver_id,
            "exchange": dict(self.exchange),
            "poll_seconds": self.poll_seconds,
            "end_time": self.end_time,
            "stores_progress": self.stores_progress,
        }

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the driver has ended or the time is over."""
        display = asyncio.create_task(self._show_progress())
        try:
            event = await self._wait()
        except asyncio.CancelledError:
            if not _HAS_ON_KILL:
                await self.on_kill()
            raise
        finally:
            display.cancel()
        yield TriggerEvent(event.payload())  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """End the driver and delete its spec and credentials, if the task has ended or was cleared.

        Otherwise, another triggerer or the next try of the task finds the driver.
        """
        # Airflow cancels a trigger again each second until it has ended, which must not end this.
        await asyncio.shield(asyncio.ensure_future(_in_thread(self._end_with_task)))

    async def _wait(self) -> DriverEvent:
        watch = DriverWatch(drivers_of(self.kind, self.settings), self.driver_id)
        while True:
            try:
                status = await _in_thread(watch.poll, self.log)
            except (ClusterUnreachableError, PushdownTaskError) as error:
                return DriverEvent(self.driver_id, problem=str(error))
            if status.phase is not DriverPhase.ACTIVE:
                return DriverEvent(self.driver_id, status=status)
            seconds_left = float("inf") if self.end_time is None else self.end_time - time.time()
            if seconds_left <= 0:
                return DriverEvent(self.driver_id, is_timeout=True)
            await asyncio.sleep(min(self.poll_seconds, seconds_left))

    async def _show_progress(self) -> None:
        """Show the progress of the driver until this is cancelled. No failure to show it matters, and no delay."""
        ti = self.task_instance
        store = partial(store_progress, ti) if self.stores_progress and ti is not None and _HAS_ON_KILL else None
        reports = ProgressReports(self.log.info, store)
        try:
            # Opened only once, because that may create the directory, which another process may have deleted later.
            exchange = await _in_thread(self._open_exchange)
            while True:
                await asyncio.sleep(_PROGRESS_SECONDS)
                if (progress := await _in_thread(exchange.read_progress)) is not None:
                    await _in_thread(reports, progress)
        except Exception as error:
            self.log.info("The progress of driver %s is not shown: %s", self.driver_id, error)

    def _end_with_task(self) -> None:
        if self._is_ended():
            self._end()
        else:
            self.log.info("Driver %s runs on, for another triggerer or the next try of the task", self.driver_id)

    def _end(self) -> None:
        """End the driver and delete its files, unless the next try of a cleared task has replaced them meanwhile."""
        result = self._result_location()
        end_driver_or_warn(drivers_of(self.kind, self.settings), self.driver_id, _KILL_SECONDS, self.log)
        try:
            exchange = self._open_exchange()
            # Each job has its own result. The next try may have replaced the files before this method has begun.
            if result in (None, exchange.result_location) and not self._is_taken_over(exchange):
                exchange.discard()
        except PushdownTaskError as error:
            self.log.warning("The spec of driver %s was not deleted: %s", self.driver_id, error)

    def _is_taken_over(self, exchange: Exchange) -> bool:
        ti = self.task_instance
        return ti is not None and exchange.is_taken_over(ti.try_number)

    def _result_location(self) -> str | None:
        """Return the location of the driver's result, or None if it is not known."""
        try:
            return self._open_exchange().result_location
        except PushdownTaskError:
            return None

    def _open_exchange(self) -> Exchange:
        return Exchange.open_shared(ExchangeLocation(**self.exchange))  # type: ignore[arg-type] # values of JSON

    def _is_ended(self) -> bool:
        """Return whether Airflow knows that the task has ended or was cleared.

        Airflow also cancels triggers when a triggerer stops, and when it gives them to another triggerer.
        """
        try:
            return self.task_instance is not None and is_ended(self.task_instance)
        except Exception as error:  # the exceptions of Airflow's client have no common class
            self.log.warning("The state of the task is not known: %s", error)
            return False


async def _in_thread(
    function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
) -> _Result:
    """Call a function in a thread.

    The function may ask Airflow, for example for a connection. In Airflow 3.1, a request from a thread of `asyncio` or
    `threading` fails, and the triggerer confuses the responses to all later ones.
    """
    return await sync_to_async(function, thread_sensitive=False)(*args, **kwargs)
