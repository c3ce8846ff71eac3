"""A Spark standalone cluster on this machine: a master, two workers and a history server of the PySpark wheel."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import httpx

from e2e import jvm
from e2e.ports import HOST, free_port
from e2e.processes import E2eError, Programs, wait_for

WORKERS = 2
_START_SECONDS = 180.0

_DEFAULTS = """\
spark.eventLog.enabled true
spark.eventLog.dir file:{events}
spark.eventLog.rolling.enabled false
spark.history.fs.logDirectory file:{events}
spark.history.fs.update.interval 5s
spark.history.ui.port {history_port}
spark.driver.bindAddress {host}
spark.driver.host {host}
spark.driver.memory 512m
spark.executor.memory 512m
spark.driver.extraJavaOptions {jvm}
spark.executor.extraJavaOptions {jvm}
spark.driver.extraClassPath {jars}
spark.executor.extraClassPath {jars}
spark.sql.shuffle.partitions 2
"""


@dataclass
class SparkCluster:
    """The ports and processes of a cluster."""

    programs: Programs
    run: Path
    spark_environment: Path
    port: int = field(default_factory=free_port)
    ui_port: int = field(default_factory=free_port)
    history_port: int = field(default_factory=free_port)
    rest_port: int = field(default_factory=free_port)
    worker_cores: int = 2
    worker_memory: str = "2g"

    @property
    def configuration(self) -> Path:
        """The SPARK_CONF_DIR for submissions to the cluster."""
        return self.run / "spark"

    @property
    def exchange(self) -> Path:
        """The exchange directory of drivers on the cluster."""
        return self.run / "exchange"

    @property
    def master(self) -> str:
        """The master URL for submissions."""
        return f"spark://{HOST}:{self.port}"

    @property
    def machines(self) -> list[str]:
        """The names of the workers, each of which stands for a machine."""
        return [f"spark-worker-{number}" for number in range(1, WORKERS + 1)]

    def start(self) -> None:
        """Start master, workers and history server, and wait until both workers are registered."""
        events = self.run / "events"
        events.mkdir()
        self.exchange.mkdir()
        self.configuration.mkdir()
        defaults = _DEFAULTS.format(
            events=events, history_port=self.history_port, host=HOST, jvm=self._options, jars=self._jars
        )
        (self.configuration / "spark-defaults.conf").write_text(defaults, encoding="utf-8")
        self._java(
            *("spark-master", "org.apache.spark.deploy.master.Master"),
            *("--host", HOST, "--port", str(self.port), "--webui-port", str(self.ui_port)),
            # Each application has one executor with one core, so that two tasks of Airflow use both workers.
            SPARK_MASTER_OPTS=f"{self._options} -Dspark.deploy.defaultCores=1 -Dspark.master.rest.enabled=true "
            f"-Dspark.master.rest.host={HOST} -Dspark.master.rest.port={self.rest_port}",
        )
        self._java("spark-history", "org.apache.spark.deploy.history.HistoryServer", SPARK_HISTORY_OPTS=self._options)
        wait_for("the Spark master", self._is_master_up, _START_SECONDS, self.programs.check)
        for name in self.machines:
            self.start_machine(name)
        wait_for("the Spark workers", lambda: self._count_workers() == WORKERS, _START_SECONDS, self.programs.check)

    def start_machine(self, name: str) -> None:
        """Start a worker with room for a few executors."""
        self._java(
            *(name, "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--port", str(free_port())),
            *("--webui-port", str(free_port()), "--cores", str(self.worker_cores)),
            *("--memory", self.worker_memory),
            *("--work-dir", str(self.run / name), self.master),
            SPARK_WORKER_OPTS=self._options,
        )

    def running_applications(self) -> frozenset[str]:
        """Return the ids of the applications that have not ended."""
        return frozenset(application["id"] for application in self._state()["activeapps"])

    def drivers(self) -> dict[str, str]:
        """Return the states of all drivers on the cluster, by their ids."""
        state = self._state()
        return {driver["id"]: driver["state"] for driver in (*state["activedrivers"], *state["completeddrivers"])}

    def exchange_files(self) -> list[str]:
        """Return what jobs have left in the exchange directory. It keeps the program of all jobs."""
        return [path.name for path in self.exchange.glob("[0-9a-f]" * 32)]

    def _count_workers(self) -> int:
        """Return the number of registered workers that are alive."""
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def _state(self) -> dict[str, list[dict[str, str]]]:
        response = httpx.get(f"http://{HOST}:{self.ui_port}/json/", timeout=10)
        response.raise_for_status()
        state: dict[str, list[dict[str, str]]] = response.json()
        return state

    def _is_master_up(self) -> bool:
        try:
            return bool(self._state())
        except httpx.HTTPError:
            return False

    def _java(self, name: str, main_class: str, *arguments: str, **variables: str) -> None:
        launcher = self.spark_environment / "bin" / "spark-class"
        if not launcher.is_file():
            raise E2eError(f"there is no {launcher}: run `make e2e-local`, which installs the Spark environment")
        variables |= {
            "SPARK_CONF_DIR": str(self.configuration),
            "SPARK_DAEMON_MEMORY": "384m",
            "SPARK_DAEMON_CLASSPATH": self._jars,
        }
        self.programs.start(name, [str(launcher), main_class, *arguments], **variables)

    @property
    def _options(self) -> str:
        return jvm.jvm_options(self.spark_environment)

    @property
    def _jars(self) -> str:
        """The class path of Spark's jars.

        It must precede the configuration directory, else no CDS archive is used.
        """
        directory = next(self.spark_environment.glob("lib/python3.*/site-packages/pyspark/jars"), None)
        if directory is None:
            raise E2eError(f"there are no jars of PySpark in {self.spark_environment}: run `make e2e-local`")
        return f"{directory}/*"
