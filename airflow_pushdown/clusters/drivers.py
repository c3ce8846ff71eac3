"""Drivers on a cluster: their status, and how a task or a trigger waits for one and ends it.

Each module of a cluster manager has a class with the protocol `Drivers`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Protocol

import requests

from airflow_pushdown.exceptions import PushdownTaskError, retryable_error

if TYPE_CHECKING:
    from airflow.sdk.types import Logger
    from requests.auth import AuthBase

TIMEOUT = (5, 30)
"""Seconds for the connection and for the response."""
SHORT_TIMEOUT = (3, 5)
"""The same for what a killed task asks: Airflow sends SIGKILL 5 seconds after SIGTERM."""
_PATIENCE_SECONDS = 300.0
"""Seconds without a response of the cluster manager, for example during its restart, after which a task fails."""
_POLL_SECONDS = 0.2


class DriverPhase(StrEnum):
    """The phase of a driver. `MISSING` means that the cluster manager does not know the driver."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True)
class DriverStatus:
    """The phase of a driver, with the cluster manager's own name of its state and the reason of a failure."""

    phase: DriverPhase
    state: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.state or self.phase.value, self.reason)))


class ClusterUnreachableError(Exception):
    """The cluster manager did not respond, or its response has no status. The driver may still run."""


def driver_unreachable_error(driver_id: str, problem: str) -> PushdownTaskError:
    """Return the error for a driver that may still run, but whose status is not known."""
    return retryable_error(
        f"driver {driver_id} may still run, and no other was submitted: {problem}; a retry asks again, so check that "
        "workers reach the cluster manager"
    )


class Drivers(Protocol):
    """The drivers of one cluster. All methods block."""

    kind: ClassVar[str]
    min_interval: ClassVar[float]
    """The minimum number of seconds between two requests for the status."""

    def status(self, driver_id: str) -> DriverStatus:
        """Return the status of a driver. Raises `ClusterUnreachableError`."""

    def kill(self, driver_id: str) -> None:
        """Ask the cluster manager to end a driver. Raises `ClusterUnreachableError`."""

    def find(self, tag: str, *, only_active: bool) -> list[str]:
        """Return the ids of the drivers with the tag of a run, the newest first.

        With `only_active`, only those that have not ended. Raises `ClusterUnreachableError`.
        """

    def settings(self) -> dict[str, object]:
        """Return the arguments of the constructor, which have no credentials, as JSON values."""


class DriverWatch:
    """Repeated requests for the status of one driver. A cluster manager may not respond for some minutes."""

    def __init__(self, drivers: Drivers, driver_id: str, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._drivers = drivers
        self._driver_id = driver_id
        self._patience = patience_seconds
        self._unreachable_since: float | None = None
        self._state = ""

    def poll(self, log: Logger) -> DriverStatus:
        """Return the status, which is active while the cluster manager does not respond. Log changes.

        Raises `ClusterUnreachableError` if it does not respond for too long.
        """
        try:
            status = self._drivers.status(self._driver_id)
        except ClusterUnreachableError as error:
            now = time.monotonic()
            if self._unreachable_since is None:
                log.warning("Driver %s: no status (%s)", self._driver_id, error)
                self._unreachable_since = now
            if now - self._unreachable_since >= self._patience:
                raise
            return DriverStatus(DriverPhase.ACTIVE)
        self._unreachable_since = None
        if str(status) != self._state:
            self._state = str(status)
            log.info("Driver %s: %s", self._driver_id, status)
        return status


def end_driver(drivers: Drivers, driver_id: str, seconds: float) -> bool:
    """End a driver and wait for its end at most `seconds`. Return whether it has ended.

    Raises `ClusterUnreachableError`.
    """
    deadline = time.monotonic() + seconds
    drivers.kill(driver_id)
    while drivers.status(driver_id).phase is DriverPhase.ACTIVE:
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def end_driver_or_warn(drivers: Drivers, driver_id: str, seconds: float, log: Logger) -> None:
    """End a driver and wait for its end at most `seconds`. Log a warning if it may still run."""
    log.info("Ending driver %s", driver_id)
    try:
        if not end_driver(drivers, driver_id, seconds):
            log.warning("Driver %s is still ending", driver_id)
    except (ClusterUnreachableError, PushdownTaskError) as error:
        log.warning("Driver %s cannot be ended and may still run: %s", driver_id, error)


class HttpStatusError(ClusterUnreachableError):
    """A response with an error status, whose `code` says whether the driver is known."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def call_cluster(
    method: str,
    url: str,
    body: Mapping[str, str] | None = None,
    auth: AuthBase | None = None,
    timeout: tuple[float, float] = TIMEOUT,
) -> Mapping[str, object]:
    """Return the JSON object of an HTTP call. Raises `ClusterUnreachableError`."""
    try:
        response = requests.request(method, url, json=body, auth=auth, timeout=timeout)
    except requests.RequestException as error:
        raise ClusterUnreachableError(f"{url}: {error}") from error
    if not response.ok:
        raise HttpStatusError(f"{url}: {response.status_code} {response.text[:200]}", response.status_code)
    try:
        content = response.json()
    except ValueError as error:
        raise ClusterUnreachableError(f"{url}: not the response of a cluster manager") from error
    return content if isinstance(content, Mapping) else {}
