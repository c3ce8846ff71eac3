"""Spark standalone clusters: the command that submits a Python program, and the drivers that run there."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import quote

from airflow_pushdown.clusters.drivers import (
    SHORT_TIMEOUT,
    TIMEOUT,
    ClusterUnreachableError,
    DriverPhase,
    DriverStatus,
    call_cluster,
)
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.packaging import job_archive, job_program, write_atomically
from pushdown_spark.local_paths import local_path

_RUNNER = "org.apache.spark.deploy.PythonRunner"
"""The class with which spark-submit runs Python programs."""
_OWN_HOST = frozenset({"SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_DIRS", "SPARK_PUBLIC_DNS"})
"""Variables about the machine of the Airflow worker. Spark would set them for the driver on another machine."""
_PYTHON = "spark.pyspark.python"


@dataclass(frozen=True)
class SharedProgram:
    """The program of all jobs and the archive of its package, in a directory that the driver's machine can read."""

    program: Path
    archive: Path


def shared_program(exchange_dir: str) -> SharedProgram:
    """Return the program in a directory of this user below `exchange_dir`, after copying it once for each version.

    Others can read the directory. Raises `PermissionError` if they can write to it, and `ConfigError` for a URI.
    """
    directory = local_directory(exchange_dir) / f"airflow-pushdown-{os.getuid()}"
    directory.mkdir(mode=0o755, exist_ok=True)
    archive = job_archive(directory)
    archive.chmod(0o644)
    program = archive.with_name(f"{archive.stem}.py")
    if not program.is_file():
        write_atomically(program, job_program().read_bytes(), 0o644)
    return SharedProgram(program, archive)


def local_directory(exchange_dir: str) -> Path:
    """Return the path of a directory of this machine. Raises `ConfigError` for the URI of another file system."""
    local = local_path(exchange_dir)
    if local is None:
        raise config_error(
            f"exchange_dir: a standalone cluster cannot start a program from {exchange_dir}; give a directory that all "
            "its machines mount"
        )
    return Path(local)


def rest_addresses(master: str, scheme: str, port: int) -> list[str]:
    """Return the addresses of the REST servers of a master URL, which may name several masters.

    >>> rest_addresses("spark://a:7077,b:7077", "http", 6066)
    ['http://a:6066', 'http://b:6066']
    """
    return [f"{scheme}://{host}:{port}" for host in _hosts(master)]


def standalone_command(
    words: Sequence[str], shared: SharedProgram, archive: str, port: int, python: str | None
) -> list[str]:
    """Return the words of a command that runs the program on a standalone cluster.

    spark-submit refuses Python programs there. Its REST server accepts the Java class that runs them, with the program
    as an argument. `words` are the provider's, and end with the program, `--spec` and the spec. `archive` is the path
    of the package in them. `port` is the port of the REST server. `python` runs the program.
    """
    options, spec = list(words[:-3]), words[-2:]
    at = options.index("--py-files") + 1
    py_files = options[at] = options[at].replace(archive, str(shared.archive), 1)
    files = [py_files]
    if "--files" in options:
        at = options.index("--files")
        files.append(options[at + 1])
        del options[at : at + 2]
    at = options.index("--master") + 1
    options[at] = f"spark://{','.join(f'{host}:{port}' for host in _hosts(options[at]))}"
    options += ["--files", ",".join(files), "--class", _RUNNER, "--conf", "spark.master.rest.enabled=true"]
    if python is not None and not any(word.startswith(f"{_PYTHON}=") for word in options):
        options += ["--conf", f"{_PYTHON}={python}"]
    return [*options, str(shared.archive), str(shared.program), py_files, *spec]


def standalone_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a spark-submit whose variables with the prefix SPARK_ reach the driver."""
    return {name: value for name, value in environment.items() if name not in _OWN_HOST}


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
        self._request("POST", "kill", driver_id, SHORT_TIMEOUT)

    def find(self, tag: str, *, only_active: bool) -> list[str]:
        """Return nothing, because drivers of a standalone cluster have no tags."""
        return []

    def settings(self) -> dict[str, object]:
        """Return the addresses."""
        return {"addresses": self._addresses}

    def _request(
        self, method: str, action: str, driver_id: str, timeout: tuple[float, float] = TIMEOUT
    ) -> Mapping[str, object]:
        """Return the response of the active master."""
        problem = "there is no address of a Spark master"
        for address in self._addresses:
            try:
                response = call_cluster(
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


def _hosts(master: str) -> list[str]:
    return [address.strip().rsplit(":", 1)[0] for address in master.removeprefix("spark://").split(",")]
