"""YARN: the settings of an application, the addresses of the ResourceManagers, and the applications as drivers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

from airflow_pushdown.clusters.drivers import (
    SHORT_TIMEOUT,
    TIMEOUT,
    ClusterUnreachableError,
    DriverPhase,
    DriverStatus,
    HttpStatusError,
    call_cluster,
)
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.exchange.webhdfs import hadoop_settings

if TYPE_CHECKING:
    from requests.auth import AuthBase

TAGS_KEY = "spark.yarn.tags"
"""Spark's setting with the tags of an application."""
WAIT_KEY = "spark.yarn.submit.waitAppCompletion"
"""Spark's setting whether spark-submit waits for the end of an application."""


def run_tag(spec_location: str) -> str:
    """Return the tag of all drivers of a run, by which they are found although their ids are not known.

    The same DAG may run in several deployments of Airflow on one cluster. Their runs have different exchange files.
    """
    return f"airflow-pushdown-{hashlib.sha256(spec_location.encode()).hexdigest()[:32]}"


def configured_addresses() -> list[str]:
    """Return the addresses of the ResourceManagers in Hadoop's configuration on this worker."""
    settings = hadoop_settings(os.environ)
    names = [name.strip() for name in settings.get("yarn.resourcemanager.ha.rm-ids", "").split(",")]
    return [address for name in names if (address := _address(settings, f".{name}" if name else ""))]


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
            "PUT", f"apps/{quote(driver_id, safe='')}/state", "state", body={"state": "KILLED"}, timeout=SHORT_TIMEOUT
        )

    def find(self, tag: str, *, only_active: bool) -> list[str]:
        """Return the ids of the applications with a tag, the newest first."""
        states = {"states": ",".join(sorted(self._ACTIVE))} if only_active else {}
        path = f"apps?{urlencode({'applicationTags': tag, **states})}"
        response: Any = self._request("GET", path, "apps", timeout=SHORT_TIMEOUT)
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
        timeout: tuple[float, float] = TIMEOUT,
    ) -> Mapping[str, object] | None:
        """Return the response of a ResourceManager, which has `key`, or None if it does not know the application.

        A standby redirects to the active one. The next request begins with the one that has responded.
        """
        problem = ClusterUnreachableError("there is no address of a ResourceManager")
        for address in self._addresses:
            response: Mapping[str, object] | None = None
            try:
                response = call_cluster(
                    method, f"{address}/ws/v1/cluster/{path}", body, self._authentication(), timeout
                )
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
        return isinstance(error, HttpStatusError) and error.code == self._NOT_FOUND and self._ERROR in str(error)

    def _authentication(self) -> AuthBase | None:
        if self._auth is not None or not self._kerberos:
            return self._auth
        try:
            from requests_kerberos import HTTPKerberosAuth  # type: ignore[import-not-found]
        except ImportError as error:
            raise config_error("conn_id: the connection uses Kerberos; install requests-kerberos") from error
        authentication: AuthBase = HTTPKerberosAuth()
        return authentication


def _address(settings: Mapping[str, str], suffix: str) -> str | None:
    """Return the address of one ResourceManager. `suffix` is that of its own settings."""
    uses_tls = settings.get("yarn.http.policy") == "HTTPS_ONLY"
    key = f"yarn.resourcemanager.webapp.{'https.' if uses_tls else ''}address"
    host = settings.get(f"yarn.resourcemanager.hostname{suffix}") or settings.get("yarn.resourcemanager.hostname", "")
    address = settings.get(f"{key}{suffix}") or settings.get(key)
    if not address and host:
        address = f"{host}:{8090 if uses_tls else 8088}"
    if not address:
        return None
    return f"{'https' if uses_tls else 'http'}://{address.replace('${yarn.resourcemanager.hostname}', host)}"


def _foreign_response(address: str) -> ClusterUnreachableError:
    return ClusterUnreachableError(f"{address}: not the response of a ResourceManager")
