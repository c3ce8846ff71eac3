"""Checks of the product on this machine without containers: `python -m e2e.local [--only DAG ...]`.

All files are below `.e2e/`, and all services listen on loopback. They are always stopped. The directory of a failed run
is kept for its logs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from databases import HOST, NoServerError, Server, postgresql  # type: ignore[import-not-found]

from demo.java import NoJavaError, java_home
from e2e import ROOT
from e2e.checks import Deployment, check_examples, example_dags
from e2e.processes import E2eError, Programs
from e2e.remote import load_flights
from e2e.services import AirflowServices
from e2e.signals import interrupt_on_signals
from e2e.spark import SparkCluster

SPARK_ENVIRONMENT = ROOT / ".venv-spark"
DATA = ROOT / ".demo" / "data"
_DROPPED_PREFIXES = ("AIRFLOW", "SPARK_", "PYSPARK_")


class Cluster(Protocol):
    """A cluster on this machine that runs Spark's jobs."""

    @property
    def machines(self) -> list[str]:
        """The names of the programs that run drivers and executors. Each stands for a machine."""

    def start_machine(self, name: str) -> None:
        """Start one of them, again if it was killed."""

    def drivers(self) -> dict[str, str]:
        """Return the states of all drivers on the cluster, by their ids: FINISHED, FAILED, KILLED or an earlier one."""

    def running_applications(self) -> frozenset[str]:
        """Return the ids of the applications that have not ended."""

    def exchange_files(self) -> list[str]:
        """Return what jobs have left in the exchange directory."""


@dataclass(frozen=True)
class Platform:
    """A cluster, how it starts, and the settings with which Airflow uses it."""

    cluster: Cluster
    start: Callable[[], None]
    settings: Mapping[str, str]
    application_prefix: str


@dataclass(frozen=True)
class Local:
    """A running product on this machine."""

    deployment: Deployment
    cluster: Cluster
    services: AirflowServices
    programs: Programs
    database: Server


@contextmanager
def product(dags: Path = ROOT / "dags", *, worker_cores: int = 2, worker_memory: str = "2g") -> Iterator[Local]:
    """Run the product with the DAGs of a directory during the block, with workers of Spark of this size.

    The directory of the run is deleted unless the block fails.
    """

    def platform(programs: Programs, run: Path) -> Platform:
        cluster = SparkCluster(programs, run, SPARK_ENVIRONMENT, worker_cores=worker_cores, worker_memory=worker_memory)
        on_cluster = {"deploy-mode": "cluster", "rest-port": cluster.rest_port, "exchange-dir": str(cluster.exchange)}
        settings = {
            "AIRFLOW_CONN_SPARK_DEFAULT": _spark_connection(cluster, {"deploy-mode": "client"}),
            "AIRFLOW_CONN_SPARK_CLUSTER": _spark_connection(cluster, on_cluster),
            "SPARK_CONF_DIR": str(cluster.configuration),
        }
        return Platform(cluster, cluster.start, settings, "app-")

    with run_product("run-", dags, platform) as local:
        yield local


@contextmanager
def run_product(prefix: str, dags: Path, make_platform: Callable[[Programs, Path], Platform]) -> Iterator[Local]:
    """Run Airflow, its database and a cluster during the block, in a directory whose name has a prefix."""
    (ROOT / ".e2e").mkdir(exist_ok=True)
    run = Path(tempfile.mkdtemp(prefix=prefix, dir=ROOT / ".e2e"))
    with ExitStack() as stack:
        programs = Programs(run, environment())
        stack.callback((run / "passwords.json").unlink, missing_ok=True)
        database = stack.enter_context(postgresql())
        stack.callback(programs.stop)
        link_data(run / "demo" / "data")
        platform = make_platform(programs, run)
        database.execute("CREATE DATABASE airflow")
        connection = database.connection()
        url = f"postgresql+psycopg2://{connection['user']}:{connection['password']}@{HOST}:{connection['port']}/airflow"
        settings = {
            "AIRFLOW_CONN_FLIGHTS_DB": database.airflow_connection(),
            "AIRFLOW_PUSHDOWN_DEMO_DIR": str(run / "demo"),
            "AIRFLOW_PUSHDOWN_SPARK_PYTHON": str(SPARK_ENVIRONMENT / "bin" / "python"),
            **platform.settings,
        }
        services = AirflowServices(programs, run, url, {"dags": dags}, settings)
        # The cluster starts while Airflow creates its database.
        with ThreadPoolExecutor(max_workers=1) as executor:
            preparation = executor.submit(_prepare, platform, connection, run / "demo" / "data")
            api = services.start()
            preparation.result()
        deployment = Deployment(api, run / "demo", platform.application_prefix, programs.check)
        yield Local(deployment, platform.cluster, services, programs, database)
    shutil.rmtree(run)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks. Return 0 if they pass."""
    parser = argparse.ArgumentParser(prog="python -m e2e.local", description=__doc__)
    parser.add_argument("--only", nargs="*", metavar="DAG", help="run these example DAGs only")
    options = parser.parse_args(arguments)
    names = example_dags(ROOT / "dags") if options.only is None else options.only
    return exit_code("e2e-local", lambda: run_checks(names))


def exit_code(name: str, check: Callable[[], None]) -> int:
    """Run checks until their end or a signal, and print why they failed. Return 0 if they pass."""
    interrupt_on_signals()
    try:
        check()
    except (E2eError, NoServerError, NoJavaError) as error:
        print(f"\n{name} failed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{name} was interrupted; all services were stopped", file=sys.stderr)
        return 130
    return 0


def run_checks(names: Sequence[str]) -> None:
    """Start the product, check it and stop it. Raises `E2eError` if a check fails."""
    start = time.monotonic()
    with product() as local:
        print(f"up after {time.monotonic() - start:.0f} s: {local.services.base_url}", flush=True)
        for line in check_examples(local.deployment, names):
            print(f"  {line}")
        print(f"examples checked after {time.monotonic() - start:.0f} s", flush=True)
        _check_no_connections(local.database)
    print(f"e2e-local passed, {time.monotonic() - start:.0f} s")


def _prepare(platform: Platform, database: Mapping[str, object], data: Path) -> None:
    """Start the cluster and load the table of the remote scans."""
    platform.start()
    server = {name: database[name] for name in ("host", "port", "user", "password")}
    load_flights({**server, "dbname": database["database"]}, data)


def open_connections(database: Server) -> dict[str, str]:
    """Return the state and query of each connection to the remote source, by the id of its process."""
    output = database.execute(
        "SELECT json_object_agg(pid, concat(state, ' ', query)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    )
    connections: dict[str, str] = json.loads(output.strip() or "{}")
    return connections


def _check_no_connections(database: Server) -> None:
    """Raise `E2eError` if a scan has not closed its connection to the remote source."""
    if connections := open_connections(database):
        raise E2eError(f"connections to the remote source are still open: {connections}")


def environment() -> dict[str, str]:
    """Return the environment of all programs, without settings of another Airflow or Spark."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_DROPPED_PREFIXES)}
    return {
        **environment,
        "JAVA_HOME": str(java_home(SPARK_ENVIRONMENT)),
        "PYSPARK_PYTHON": str(SPARK_ENVIRONMENT / "bin" / "python"),
        "SPARK_LOCAL_IP": HOST,
    }


def _spark_connection(cluster: SparkCluster, extra: Mapping[str, object]) -> str:
    host, _, port = cluster.master.rpartition(":")
    return json.dumps({"conn_type": "spark", "host": host, "port": int(port), "extra": extra})


def link_data(data: Path) -> None:
    """Link the demo's data to the directory in which the DAGs expect them."""
    if not (DATA / ".laid-out").is_file():
        raise E2eError(f"there are no flights in {DATA}: run `make e2e-local`, which writes them")
    data.mkdir(parents=True)
    for directory in DATA.iterdir():
        if directory.is_dir():
            (data / directory.name).symlink_to(directory)


if __name__ == "__main__":
    sys.exit(main())
