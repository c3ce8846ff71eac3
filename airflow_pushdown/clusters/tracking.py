"""The driver of one run on a cluster: checks whether a retry can continue with it, waits for its end, and kills it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from airflow_pushdown.clusters.drivers import (
    ClusterUnreachableError,
    DriverPhase,
    Drivers,
    DriverStatus,
    DriverWatch,
    driver_unreachable_error,
    end_driver,
    end_driver_or_warn,
)
from airflow_pushdown.clusters.kubernetes import KubernetesDrivers
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.exchange.exchange import Exchange
from pushdown_spark.contract import JobResult, JobSpec
from pushdown_spark.contract.progress import Progress

if TYPE_CHECKING:
    from airflow.sdk.types import Logger

KILL_SECONDS = 3.0
"""The time that a killed task waits for the end of its driver. Airflow kills the task 5 seconds after its SIGTERM."""
REPLACE_SECONDS = 60.0
"""The time that a new try waits for the end of the driver that it replaces."""
_MAX_SLEEP_SECONDS = 0.5
PROGRESS_SECONDS = 10.0
"""The time between two requests for the progress of the job."""


class TrackedDriver:
    """A driver on a cluster and the exchange directory of its run."""

    def __init__(self, drivers: Drivers, driver_id: str, exchange: Exchange, log: Logger) -> None:
        self._drivers = drivers
        self._driver_id = driver_id
        self._exchange = exchange
        self._log = log

    def phase_for(self, spec: JobSpec) -> DriverPhase:
        """Return whether the job of `spec` still runs, has a result that was not read yet, or must be submitted again.

        The driver belongs to the job if the exchange directory has the spec of the same run and generation. Otherwise a
        user has cleared the task, or the result was already read. The driver is ended in this case. Raises a retryable
        error if the cluster manager does not respond, because submitting again might start a second driver.
        """
        try:
            status = self._drivers.status(self._driver_id)
            last_spec = self._exchange.read_spec()
            if last_spec is not None and (last_spec.run_key, last_spec.generation) == (spec.run_key, spec.generation):
                return self._phase_of_own(status)
        except ClusterUnreachableError as error:
            raise driver_unreachable_error(self._driver_id, str(error)) from error
        self.replace()
        return DriverPhase.MISSING

    def replace(self) -> None:
        """End the driver before another one is submitted. Raises a retryable error if it may still run."""
        try:
            if self._drivers.status(self._driver_id).phase is not DriverPhase.ACTIVE:
                return
            self._log.warning("Driver %s of an earlier try or a cleared task is ended", self._driver_id)
            if not end_driver(self._drivers, self._driver_id, REPLACE_SECONDS):
                raise driver_unreachable_error(self._driver_id, "it does not end")
        except ClusterUnreachableError as error:
            raise driver_unreachable_error(self._driver_id, str(error)) from error

    def _phase_of_own(self, status: DriverStatus) -> DriverPhase:
        self._log.info("Driver %s of an earlier try: %s", self._driver_id, status)
        if status.phase is DriverPhase.ACTIVE:
            return DriverPhase.ACTIVE
        result = self._exchange.read_result()
        if result is not None and result.error is None:
            return DriverPhase.SUCCEEDED
        return DriverPhase.FAILED

    def wait(
        self, poll_seconds: float, is_killed: Callable[[], bool], on_progress: Callable[[Progress], None]
    ) -> DriverStatus:
        """Wait until the driver has ended or `is_killed`, and return its status. Raises a retryable error."""
        watch = DriverWatch(self._drivers, self._driver_id)
        interval = max(poll_seconds, self._drivers.min_interval)
        next_progress = time.monotonic() + PROGRESS_SECONDS
        try:
            while (status := watch.poll(self._log)).phase is DriverPhase.ACTIVE:
                if time.monotonic() >= next_progress:
                    if (progress := self._exchange.read_progress()) is not None:
                        on_progress(progress)
                    next_progress = time.monotonic() + PROGRESS_SECONDS
                deadline = time.monotonic() + interval
                # After a signal handler has killed the job, this loop continues.
                while not is_killed() and (seconds_left := deadline - time.monotonic()) > 0:
                    time.sleep(min(seconds_left, _MAX_SLEEP_SECONDS))
                if is_killed():
                    break
        except ClusterUnreachableError as error:
            raise driver_unreachable_error(self._driver_id, str(error)) from error
        return status

    def kill(self) -> None:
        """End the driver, and wait a short time for its end. Log a warning if that fails."""
        end_driver_or_warn(self._drivers, self._driver_id, KILL_SECONDS, self._log)

    def delete_pod(self, result: JobResult | None) -> None:
        """Delete the pod of a driver that has succeeded, as the provider does. Failed pods keep their logs."""
        if isinstance(self._drivers, KubernetesDrivers) and result is not None and result.error is None:
            try:
                self._drivers.kill(self._driver_id)
            except (ClusterUnreachableError, PushdownTaskError) as error:
                self._log.warning("The pod %s was not deleted: %s", self._driver_id, error)
