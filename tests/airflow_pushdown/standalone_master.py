"""A real standalone master without workers, so that each driver waits until it is killed, and hooks for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from airflow_pushdown.clusters.drivers import ClusterUnreachableError, DriverPhase
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from e2e import jvm
from e2e.ports import free_port
from e2e.processes import Programs
from pushdown_spark.contract import JobSpec, QuerySpec, SecretValues, SourceSpec

START_SECONDS = 120.0
OTHER_HOST = "127.0.0.2"
SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
    query=QuerySpec(source="s"),
)
SECRETS = SecretValues(hadoop={"fs.s3a.access.key": "known", "fs.s3a.secret.key": "hush-7"})

MakeHook = Callable[..., PushdownSubmitHook]


def start_master(programs: Programs, spark_python: str, host: str, rest_port: int, *options: str) -> str:
    """Start a Spark master with options of its JVM. Return the address of its REST server."""
    environment = Path(spark_python).parents[1]
    rest = (f"-Dspark.master.rest.{name}" for name in ("enabled=true", f"host={host}", f"port={rest_port}"))
    ports = ("--port", str(free_port()), "--webui-port", str(free_port()))
    launcher = str(environment / "bin" / "spark-class")
    programs.start(
        f"master-{host}",
        [launcher, "org.apache.spark.deploy.master.Master", "--host", host, *ports],
        PYSPARK_PYTHON=spark_python,
        SPARK_LOCAL_IP=host,
        SPARK_MASTER_OPTS=" ".join((jvm.jvm_options(environment), *rest, *options)),
    )
    return f"http://{host}:{rest_port}"


def is_active(drivers: StandaloneDrivers) -> bool:
    """Return whether a master responds and is the active one."""
    try:
        return drivers.status("none").phase is DriverPhase.MISSING
    except ClusterUnreachableError:
        return False


def is_standby(drivers: StandaloneDrivers) -> bool:
    """Return whether a master responds and is not the active one."""
    try:
        drivers.status("none")
    except ClusterUnreachableError as error:
        return "STANDBY" in str(error)
    return False


def connect(monkeypatch: pytest.MonkeyPatch, addresses: Sequence[str]) -> None:
    """Define the connection `cluster` to the masters with these REST servers."""
    parts = [urlsplit(address) for address in addresses]
    connection = {
        "conn_type": "spark",
        "host": f"spark://{':7077,'.join(str(part.hostname) for part in parts)}",
        "port": 7077,
        "extra": {"deploy-mode": "cluster", "rest-port": parts[0].port},
    }
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))


def runs(tmp_path: Path) -> list[Path]:
    """Return the exchange directories of runs, without the directory of the program."""
    return [path for path in tmp_path.iterdir() if not path.name.startswith("airflow-pushdown-")]


def scan_on_cluster(exchange: Path, spark_python: str) -> dict[str, Any]:
    """Return the parameters of a scan by a driver on the cluster."""
    return {
        "task_id": "t",
        "path": "/x",
        "format": "json",
        "conn_id": "cluster",
        "exchange_dir": str(exchange),
        "spark_python": spark_python,
    }
