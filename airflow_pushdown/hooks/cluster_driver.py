"""The hook for drivers on a cluster: it waits for a driver, takes over the driver of an earlier try, or ends it."""

from __future__ import annotations

from airflow_pushdown.clusters.drivers import (
    ClusterUnreachableError,
    DriverPhase,
    DriverStatus,
    driver_unreachable_error,
)
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.clusters.tracking import TrackedDriver
from airflow_pushdown.exceptions import PushdownTaskError, retryable_error
from airflow_pushdown.exchange.exchange import Exchange
from airflow_pushdown.hooks.connection import SparkConnectionHook
from airflow_pushdown.hooks.job_runner import notify
from airflow_pushdown.hooks.submission import Submission
from pushdown_spark.contract.driver_claim import REPLACED, claim
from pushdown_spark.contract.progress import Progress

_CONTINUABLE = (DriverPhase.ACTIVE, DriverPhase.SUCCEEDED)


class ClusterDriverHook(SparkConnectionHook):
    """A hook that follows the driver of its job on a cluster. Subclasses submit the job."""

    _submission: Submission
    exchange: Exchange
    """The files through which the task and the job exchange the spec and the result."""
    _is_killed = False
    _status: DriverStatus | None = None
    """The status of a driver that has ended."""
    _is_left = False
    """Whether this try was killed and has left its driver and files to the next one."""

    def tracked_driver(self) -> TrackedDriver | None:
        """Return the driver on the cluster, or None if there is none, or if spark-submit itself waits for it."""
        drivers, driver_id = self.drivers(), self.driver_id
        if drivers is None or driver_id is None:
            return None
        return TrackedDriver(drivers, driver_id, self.exchange, self.log)

    def phase_of(self, driver_id: str) -> DriverPhase:
        """Return whether this submission can continue with the driver of an earlier try."""
        self._check_latest_try()
        self.attach(driver_id)
        driver = self.tracked_driver()
        phase = DriverPhase.MISSING if driver is None else driver.phase_for(self._submission.spec)
        if phase in _CONTINUABLE:
            self.exchange.take_over(self._submission.try_number)
        return phase

    def earlier_driver(self) -> str | None:
        """Return the driver that an earlier try submitted without storing its id, if this try can continue with it.

        A driver that has not started yet can no longer start.
        """
        self._check_latest_try()
        driver_id = self._find_earlier_driver()
        if driver_id is None or self.phase_of(driver_id) not in _CONTINUABLE:
            return None
        return driver_id

    def wait_for_driver(self, driver_id: str) -> None:
        """Wait until a driver has ended. `collect` returns its result."""
        self.attach(driver_id)
        driver = self.tracked_driver()
        if driver is None:
            return
        try:
            self._status = driver.wait(self.poll_interval, lambda: self._is_killed, self._report_progress)
        finally:
            self.run_post_submit_commands()

    def take_status(self, driver_id: str, status: DriverStatus) -> None:
        """Take the status of a driver that a trigger has waited for."""
        self.attach(driver_id)
        self._status = status
        self.run_post_submit_commands()

    def _report_progress(self, progress: Progress) -> None:
        notify(self._submission.on_progress, progress)

    def end_applications(self) -> None:
        """End the run's drivers on YARN or Kubernetes, unless a later try waits for one of them."""
        if not self._is_taken_over():
            super().end_applications()

    def _kill_driver(self) -> bool:
        """End the driver of a killed task. Return False if there is none, or if spark-submit itself waits for it."""
        driver = self.tracked_driver()
        if driver is not None:
            # YARN assigns the id of an application before spark-submit submits it.
            self.end_submission()
            driver.kill()
            self.run_post_submit_commands()
        return driver is not None

    def _leave_driver(self) -> bool:
        """Leave the driver and the files of a killed try to the next one, if there is one. Return whether there is."""
        leaves_driver = self._submission.leaves_driver if self.driver_id is not None else None
        self._is_left = self._is_taken_over() or (leaves_driver is not None and leaves_driver())
        return self._is_left

    def _is_taken_over(self) -> bool:
        """Return whether a later try uses the driver and the files of this try, or will use them.

        If a scheduler dies, Airflow starts the next try and ends the earlier try independently of each other.
        """
        if self._is_left:
            return True
        try:
            return self.is_cluster and self.exchange.is_taken_over(self._submission.try_number)
        except PushdownTaskError as error:
            self.log.warning("A later try may use the driver, but the exchange directory could not be read: %s", error)
            return False

    def _check_latest_try(self) -> None:
        """Raise if a later try of the same run has begun, because this try would replace its driver and its files.

        A deleted DAG run with the same id may have left the number of a later try.
        """
        if not self.is_cluster or not self.exchange.is_taken_over(self._submission.try_number):
            return
        last_spec = self.exchange.read_spec()
        if last_spec is not None and last_spec.generation == self._submission.spec.generation:
            raise retryable_error("the next try of this task has begun, so this one submits nothing")

    def _find_earlier_driver(self) -> str | None:
        """Return the id of the last driver of the run, or None without one.

        On YARN and Kubernetes, a driver has the tag of its run. On a standalone cluster, it has written its id to a
        file. Raises a retryable error if the cluster manager does not respond, because submitting again might start a
        second driver.
        """
        if not self.is_standalone_cluster:
            try:
                return next(iter(self.tagged_drivers(only_active=False)), None)
            except ClusterUnreachableError as error:
                raise driver_unreachable_error("of an earlier try", str(error)) from error
        if self.exchange.read_spec() is None:
            return None
        owner = claim(self.exchange.result_location, REPLACED)
        return owner if owner not in ("", REPLACED) else None

    def _end_earlier_driver(self) -> None:
        """End the drivers of earlier tries. Raises if one of them may still run."""
        self._check_latest_try()
        if self.is_standalone_cluster:
            self._attach_to_earlier_driver()
            if (driver := self.tracked_driver()) is not None:
                driver.replace()
        elif (drivers := self.reachable_drivers()) is not None:
            for driver_id in self._tagged_earlier_drivers():
                TrackedDriver(drivers, driver_id, self.exchange, self.log).replace()

    def _tagged_earlier_drivers(self) -> list[str]:
        """Return the drivers of earlier tries that have not ended. Raises if the cluster manager does not respond."""
        try:
            return self.tagged_drivers(only_active=True)
        except ClusterUnreachableError as error:
            if self._submission.try_number > 1 or self.exchange.read_spec() is not None:
                raise driver_unreachable_error("of an earlier try", str(error)) from error
            self.log.warning(
                "The drivers of this run could not be listed. This is the first try, so there are none: %s", error
            )
            return []

    def _attach_to_earlier_driver(self) -> None:
        if (driver_id := self._find_earlier_driver()) is not None:
            self.attach(driver_id)

    def _check_rest_server(self) -> None:
        """Raise if a standalone master has no REST server, because spark-submit would try its other port instead."""
        drivers = self.drivers()
        if not isinstance(drivers, StandaloneDrivers):
            return
        try:
            drivers.status("none")
        except ClusterUnreachableError as error:
            raise retryable_error(
                f"deploy mode cluster needs the REST server of the Spark master: {error}; set "
                "spark.master.rest.enabled=true for the master, and the extra 'rest-port' of the connection"
            ) from error
