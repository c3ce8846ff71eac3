"""Requests for the status and the end of drivers on a cluster. There is one class for each cluster manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol
from urllib.parse import quote, urlencode

import requests
from urllib3.exceptions import HTTPError

from airflow_pushdown.exceptions import PushdownTaskError, config_error, retryable_error

if TYPE_CHECKING:
    from airflow.sdk.types import Logger
    from requests.auth import AuthBase

_TIMEOUT = (5, 30)
"""Seconds for the connection and for the response."""
_SHORT_TIMEOUT = (3, 5)
"""The same for what a killed task asks: Airflow sends SIGKILL 5 seconds after SIGTERM."""
_PATIENCE_SECONDS = 300.0
"""Seconds without a response of the cluster manager, for example during its restart, after which a task fails."""
_POLL_SECONDS = 0.2
_KUBERNETES_PROVIDER = "apache-airflow-providers-cncf-kubernetes"
RUN_LABEL = "airflow-pushdown-run"
"""The label of driver pods with the tag of their run."""


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

    def find(self, tag: str, *, are_active: bool) -> list[str]:
        """Return the ids of the drivers with the tag of a run, the newest first.

        With `are_active`, only those that have not ended. Raises `ClusterUnreachableError`.
        """

    def settings(self) -> dict[str, object]:
        """Return the arguments of the constructor, which have no credentials, as JSON values."""


class StandaloneDrivers:
    """Drivers of a Spark standalone cluster. Their ids look like `driver-20260131120000-0001`."""

    kind: ClassVar[str] = "standalone"
    min_interval: ClassVar[float] = 1.0
    _PHASES: ClassVar[Mapping[str, DriverPhase]] = {
        "FINISHED": DriverPhase.SUCCEEDED,
        "KILLED": DriverPhase.FAILED,
        "FAILED": DriverPhase.FAILED,
        "ERROR": DriverPhase.FAILED,
    }
    _NOT_ACTIVE: ClassVar[str] = "Current state is not alive"
    """The beginning of the message of a master that is not the active one."""

    def __init__(self, addresses: list[str]) -> None:
        """Set the addresses of the REST servers of all masters, of which one is active."""
        self._addresses = addresses

    def status(self, driver_id: str) -> DriverStatus:
        """Return the status of a driver. The state UNKNOWN means that the master recovers, so the driver is active."""
        response = self._request("GET", "status", driver_id)
        state = response.get("driverState")
        if state is None:
            return DriverStatus(DriverPhase.MISSING, "", "the Spark master does not know the driver")
        return DriverStatus(
            self._PHASES.get(str(state), DriverPhase.ACTIVE), str(state), str(response.get("message") or "")
        )

    def kill(self, driver_id: str) -> None:
        """Ask the master to end a driver."""
        self._request("POST", "kill", driver_id, _SHORT_TIMEOUT)

    def find(self, tag: str, *, are_active: bool) -> list[str]:
        """Return nothing, because drivers of a standalone cluster have no tags."""
        return []

    def settings(self) -> dict[str, object]:
        """Return the addresses."""
        return {"addresses": self._addresses}

    def _request(
        self, method: str, action: str, driver_id: str, timeout: tuple[float, float] = _TIMEOUT
    ) -> Mapping[str, object]:
        """Return the response of the active master."""
        problem = "there is no address of a Spark master"
        for address in self._addresses:
            try:
                response = _call(
                    method, f"{address}/v1/submissions/{action}/{quote(driver_id, safe='')}", timeout=timeout
                )
            except ClusterUnreachableError as error:
                problem = str(error)
                continue
            message = str(response.get("message") or "")
            if "success" in response and self._NOT_ACTIVE not in message:
                return response
            problem = f"{address}: {message or 'not the response of a Spark master'}"
        raise ClusterUnreachableError(problem)


class YarnDrivers:
    """Applications of YARN, through the REST API of the ResourceManager."""

    kind: ClassVar[str] = "yarn"
    min_interval: ClassVar[float] = 2.0
    _ACTIVE: ClassVar[frozenset[str]] = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})
    _NOT_FOUND: ClassVar[int] = 404
    _ERROR: ClassVar[str] = "RemoteException"
    """The name in every error of a ResourceManager."""

    def __init__(self, addresses: list[str], kerberos: bool = False, auth: AuthBase | None = None) -> None:
        """Set the addresses of all ResourceManagers, of which one is active.

        `auth` replaces the authentication that `kerberos` selects.
        """
        self._addresses = addresses
        self._kerberos = kerberos
        self._auth = auth

    def status(self, driver_id: str) -> DriverStatus:
        """Return the status of an application. A finished one has succeeded if its final status says so."""
        response = self._request("GET", f"apps/{quote(driver_id, safe='')}", "app")
        if response is None:
            return DriverStatus(DriverPhase.MISSING, "", "YARN does not know the application")
        application = response["app"]
        if not isinstance(application, Mapping) or "state" not in application:
            raise _foreign_response(self._addresses[0])
        state, final = str(application["state"]), str(application.get("finalStatus"))
        if state in self._ACTIVE:
            return DriverStatus(DriverPhase.ACTIVE, state)
        if state == "FINISHED" and final == "SUCCEEDED":
            return DriverStatus(DriverPhase.SUCCEEDED, final)
        return DriverStatus(DriverPhase.FAILED, f"{state} ({final})", str(application.get("diagnostics") or "").strip())

    def kill(self, driver_id: str) -> None:
        """Ask the ResourceManager to end an application."""
        self._request(
            "PUT", f"apps/{quote(driver_id, safe='')}/state", "state", body={"state": "KILLED"}, timeout=_SHORT_TIMEOUT
        )

    def find(self, tag: str, *, are_active: bool) -> list[str]:
        """Return the ids of the applications with a tag, the newest first."""
        states = {"states": ",".join(sorted(self._ACTIVE))} if are_active else {}
        path = f"apps?{urlencode({'applicationTags': tag, **states})}"
        response: Any = self._request("GET", path, "apps", timeout=_SHORT_TIMEOUT)
        try:
            applications = (response["apps"] or {}).get("app", ())
            newest_first = sorted(applications, key=lambda application: int(application["startedTime"]), reverse=True)
            return [str(application["id"]) for application in newest_first]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise _foreign_response(self._addresses[0]) from error

    def settings(self) -> dict[str, object]:
        """Return the addresses and whether Kerberos is used. An object for authentication cannot be passed on."""
        return {"addresses": self._addresses, "kerberos": self._kerberos}

    def _request(
        self,
        method: str,
        path: str,
        key: str,
        *,
        body: Mapping[str, str] | None = None,
        timeout: tuple[float, float] = _TIMEOUT,
    ) -> Mapping[str, object] | None:
        """Return the response of a ResourceManager, which has `key`, or None if it does not know the application.

        A standby redirects to the active one. The next request begins with the one that has responded.
        """
        problem = ClusterUnreachableError("there is no address of a ResourceManager")
        for address in self._addresses:
            response: Mapping[str, object] | None = None
            try:
                response = _call(method, f"{address}/ws/v1/cluster/{path}", body, self._authentication(), timeout)
            except ClusterUnreachableError as error:
                problem = error
                if not self._is_unknown(error):
                    continue
            if response is not None and key not in response:
                problem = _foreign_response(address)
                continue
            self._addresses = [address, *(other for other in self._addresses if other != address)]
            return response
        raise problem

    def _is_unknown(self, error: ClusterUnreachableError) -> bool:
        """Return whether a ResourceManager does not know an application. A gateway may respond with 404 as well."""
        return isinstance(error, _HttpStatusError) and error.code == self._NOT_FOUND and self._ERROR in str(error)

    def _authentication(self) -> AuthBase | None:
        if self._auth is not None or not self._kerberos:
            return self._auth
        try:
            from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found]
        except ImportError as error:
            raise config_error("conn_id: the connection uses Kerberos; install requests-kerberos") from error
        authentication: AuthBase = HTTPKerberosAuth()
        return authentication


class KubernetesDrivers:
    """Driver pods, through the client of Airflow's Kubernetes provider. Their ids are `namespace:pod`."""

    kind: ClassVar[str] = "kubernetes"
    min_interval: ClassVar[float] = 5.0
    _PHASES: ClassVar[Mapping[str, DriverPhase]] = {
        "Succeeded": DriverPhase.SUCCEEDED,
        "Failed": DriverPhase.FAILED,
    }
    _NOT_FOUND: ClassVar[int] = 404

    def __init__(self, namespace: str = "") -> None:
        """Set the namespace of the pods to find."""
        self._namespace = namespace

    def status(self, driver_id: str) -> DriverStatus:
        """Return the status of a driver pod. The phase Unknown means that its node does not respond."""
        namespace, _, name = driver_id.partition(":")
        pod = self._request(lambda client: client.read_namespaced_pod(name, namespace, _request_timeout=_TIMEOUT))
        if pod is None:
            return DriverStatus(DriverPhase.MISSING, "", "Kubernetes does not know the driver pod")
        phase = str(pod.status.phase or "Pending")  # type: ignore[attr-defined]
        reason = str(pod.status.message or "")  # type: ignore[attr-defined]
        return DriverStatus(self._PHASES.get(phase, DriverPhase.ACTIVE), phase, reason)

    def kill(self, driver_id: str) -> None:
        """Delete a driver pod, which also deletes its executors."""
        namespace, _, name = driver_id.partition(":")
        self._request(lambda client: client.delete_namespaced_pod(name, namespace, _request_timeout=_SHORT_TIMEOUT))

    def find(self, tag: str, *, are_active: bool) -> list[str]:
        """Return the ids of the driver pods with the tag of a run as their label, the newest first."""
        selector = {"label_selector": f"{RUN_LABEL}={tag}", "_request_timeout": _SHORT_TIMEOUT}
        response: Any = self._request(lambda client: client.list_namespaced_pod(self._namespace, **selector))
        if response is None:
            raise ClusterUnreachableError("Kubernetes: 404, not the response to a list of pods")
        pods = [pod for pod in response.items if not are_active or pod.status.phase not in self._PHASES]
        newest_first = sorted(pods, key=lambda pod: pod.metadata.creation_timestamp, reverse=True)
        return [f"{self._namespace}:{pod.metadata.name}" for pod in newest_first]

    def settings(self) -> dict[str, object]:
        """Return the namespace. The client is configured by its environment."""
        return {"namespace": self._namespace}

    def _request(self, call: Callable[[Any], object]) -> object | None:
        """Return the result of a call with the client, or None if the pod does not exist."""
        try:
            from airflow.providers.cncf.kubernetes import kube_client  # type: ignore[import-not-found]
            from kubernetes.config import ConfigException  # type: ignore[import-not-found]
        except ImportError as error:
            raise config_error(f"conn_id: a Kubernetes master needs {_KUBERNETES_PROVIDER}; install it") from error
        try:
            return call(kube_client.get_kube_client())
        except kube_client.ApiException as error:
            if error.status == self._NOT_FOUND:
                return None
            raise ClusterUnreachableError(f"Kubernetes: {error.status} {error.reason}") from error
        except (OSError, HTTPError) as error:
            raise ClusterUnreachableError(f"Kubernetes: {error}") from error
        except ConfigException as error:
            raise config_error(
                f"conn_id: Airflow has no access to Kubernetes ({error}); set [kubernetes_executor] in_cluster, or "
                "config_file to a kubeconfig"
            ) from error


_KINDS: Mapping[str, Callable[..., Drivers]] = {
    StandaloneDrivers.kind: StandaloneDrivers,
    YarnDrivers.kind: YarnDrivers,
    KubernetesDrivers.kind: KubernetesDrivers,
}


def drivers_of(kind: str, settings: Mapping[str, object]) -> Drivers:
    """Return the drivers of a cluster from the values of `kind` and `settings()`."""
    return _KINDS[kind](**settings)


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


def _foreign_response(address: str) -> ClusterUnreachableError:
    return ClusterUnreachableError(f"{address}: not the response of a ResourceManager")


class _HttpStatusError(ClusterUnreachableError):
    """A response with an error status, whose `code` says whether the driver is known."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def _call(
    method: str,
    url: str,
    body: Mapping[str, str] | None = None,
    auth: AuthBase | None = None,
    timeout: tuple[float, float] = _TIMEOUT,
) -> Mapping[str, object]:
    """Return the JSON object of an HTTP call. Raises `ClusterUnreachableError`."""
    try:
        response = requests.request(method, url, json=body, auth=auth, timeout=timeout)
    except requests.RequestException as error:
        raise ClusterUnreachableError(f"{url}: {error}") from error
    if not response.ok:
        raise _HttpStatusError(f"{url}: {response.status_code} {response.text[:200]}", response.status_code)
    try:
        content = response.json()
    except ValueError as error:
        raise ClusterUnreachableError(f"{url}: not the response of a cluster manager") from error
    return content if isinstance(content, Mapping) else {}
