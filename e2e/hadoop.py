"""HDFS and YARN on this machine: a name node, a data node, a resource manager and two node managers."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

import httpx
from hadoop_jars import hadoop_jars  # type: ignore[import-not-found]

from e2e.jvm import FAST_START_OPTIONS
from e2e.ports import HOST, free_port
from e2e.processes import RUN_VARIABLE, Programs, wait_for

NODES = 2
_START_SECONDS = 180.0
_HDFS = "org.apache.hadoop.hdfs.server"
_YARN = "org.apache.hadoop.yarn.server"
_ENDED = ("FINISHED", "FAILED", "KILLED")


def server_jars(spark_environment: Path) -> list[str]:
    """Return the class path of Hadoop's servers: their own jars, and those of Spark."""
    spark = next(spark_environment.glob("lib/python3.*/site-packages/pyspark/jars"))
    return [*map(str, hadoop_jars(spark_environment)), f"{spark}/*"]


@dataclass
class HadoopCluster:
    """The configuration and the processes of a cluster. `jars` are those of Hadoop's servers and of Spark."""

    programs: Programs
    run: Path
    java: Path
    jars: Sequence[str]
    _ports: dict[str, int] = field(default_factory=dict)

    @property
    def configuration(self) -> Path:
        """The HADOOP_CONF_DIR of clients."""
        return self.run / "hadoop" / "conf"

    @property
    def root(self) -> str:
        """The URI of the file system."""
        return f"hdfs://{self._address('namenode')}"

    @property
    def http(self) -> str:
        """The URL of the resource manager's pages and REST API."""
        return f"http://{self._address('resourcemanager-http')}"

    @property
    def web_hdfs(self) -> str:
        """The host and port of WebHDFS."""
        return self._address("namenode-http")

    @property
    def machines(self) -> list[str]:
        """The names of the node managers, each of which stands for a machine."""
        return [f"nodemanager-{number}" for number in range(1, NODES + 1)]

    def start(self) -> None:
        """Start all servers, and wait until they accept applications and files."""
        self.start_hdfs()
        self._start("resourcemanager", f"{_YARN}.resourcemanager.ResourceManager", self.configuration)
        for name in self.machines:
            self.start_machine(name)
        wait_for("YARN", lambda: self._count_nodes() == NODES, _START_SECONDS, self.programs.check)

    def start_hdfs(self) -> None:
        """Start the servers of HDFS, and wait until they accept files."""
        self.configuration.mkdir(parents=True)
        _write(self.configuration, "core-site.xml", self._core())
        _write(self.configuration, "hdfs-site.xml", self._hdfs())
        _write(self.configuration, "yarn-site.xml", self._yarn("client"))
        _write(self.configuration, "capacity-scheduler.xml", _SCHEDULER)
        self.programs.run(
            "namenode-format", self._java(f"{_HDFS}.namenode.NameNode", self.configuration, "-format", "-force")
        )
        self._start("namenode", f"{_HDFS}.namenode.NameNode", self.configuration)
        self._start("datanode", f"{_HDFS}.datanode.DataNode", self.configuration)
        wait_for("HDFS", self._has_data_node, _START_SECONDS, self.programs.check)

    def start_httpfs(self, jars: Sequence[Path]) -> str:
        """Start an HttpFS server, whose own jars must be given. Return its host and port."""
        home = self.run / "hadoop" / "httpfs"
        for name in ("log", "temp"):
            (home / name).mkdir(parents=True)
        for file in self.configuration.iterdir():
            (home / file.name).write_bytes(file.read_bytes())
        address = self._address("httpfs")
        _write(home, "httpfs-site.xml", {"httpfs.http.hostname": HOST, "httpfs.http.port": address.rpartition(":")[2]})
        directories = {"home": home, "config": home, "log": home / "log", "temp": home / "temp"}
        options = [f"-Dhttpfs.{name}.dir={directory}" for name, directory in directories.items()]
        # Its version of Jersey defines classes by reflection.
        options += ["-Xmx256m", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
        class_path = ":".join((str(home), *map(str, jars)))
        main_class = "org.apache.hadoop.fs.http.server.HttpFSServerWebServer"
        self.programs.start("httpfs", [str(self.java), *options, "-cp", class_path, main_class])
        url = f"http://{address}/webhdfs/v1/?op=GETFILESTATUS&user.name=root"
        wait_for("HttpFS", lambda: "FileStatus" in _get(url), _START_SECONDS, self.programs.check)
        return address

    def start_machine(self, name: str) -> None:
        """Start a node manager with its own ports and directories."""
        configuration = self.run / "hadoop" / name
        configuration.mkdir(exist_ok=True)
        for file in self.configuration.iterdir():
            (configuration / file.name).write_bytes(file.read_bytes())
        _write(configuration, "yarn-site.xml", self._yarn(name))
        self._start(name, f"{_YARN}.nodemanager.NodeManager", configuration)

    def applications(self) -> dict[str, dict[str, str]]:
        """Return the applications by id, with the fields of YARN's REST API."""
        response = _get(f"{self.http}/ws/v1/cluster/apps").get("apps") or {}
        return {app["id"]: app for app in response.get("app", ())}  # type: ignore[attr-defined]

    def node_of(self, application: str) -> str:
        """Return the name of the node manager that runs the driver of an application in deploy mode cluster."""
        port = self.applications()[application]["amHostHttpAddress"].rpartition(":")[2]
        return next(name for name in self.machines if self._address(f"{name}-http").endswith(f":{port}"))

    def logs(self) -> str:
        """Return everything that containers have logged."""
        files = (self.run / "hadoop").glob("nodemanager-*/logs/**/*")
        return "".join(file.read_text(encoding="utf-8", errors="replace") for file in files if file.is_file())

    def running_applications(self) -> frozenset[str]:
        """Return the ids of the applications that have not ended."""
        return frozenset(key for key, app in self.applications().items() if app["state"] not in _ENDED)

    def drivers(self) -> dict[str, str]:
        """Return the states of all applications by id. FINISHED means that the program has succeeded."""
        states = {key: (app["state"], app["finalStatus"]) for key, app in self.applications().items()}
        return {key: "FAILED" if pair == ("FINISHED", "FAILED") else pair[0] for key, pair in states.items()}

    @property
    def exchange(self) -> str:
        """The exchange directory of drivers on the cluster."""
        return f"{self.root}/exchange"

    def exchange_files(self) -> list[str]:
        """Return what jobs have left in the exchange directory."""
        return self.files("/exchange")

    def files(self, directory: str) -> list[str]:
        """Return the names of the files of a directory of HDFS, or none if it does not exist."""
        response = httpx.get(f"http://{self.web_hdfs}/webhdfs/v1{directory}?op=LISTSTATUS", timeout=10)
        if response.status_code == httpx.codes.NOT_FOUND:
            return []
        response.raise_for_status()
        return [entry["pathSuffix"] for entry in response.json()["FileStatuses"]["FileStatus"]]

    def _core(self) -> dict[str, str]:
        # HttpFS acts for its users.
        proxy = {f"hadoop.proxyuser.{getpass.getuser()}.{what}": "*" for what in ("hosts", "groups")}
        return {"fs.defaultFS": self.root, "hadoop.tmp.dir": str(self.run / "hadoop" / "tmp"), **proxy}

    def _hdfs(self) -> dict[str, str]:
        return {
            "dfs.namenode.http-address": self.web_hdfs,
            "dfs.namenode.name.dir": str(self.run / "hadoop" / "names"),
            "dfs.namenode.safemode.extension": "0",
            "dfs.datanode.address": self._address("datanode"),
            "dfs.datanode.http.address": self._address("datanode-http"),
            "dfs.datanode.ipc.address": self._address("datanode-ipc"),
            "dfs.datanode.hostname": HOST,
            "dfs.datanode.data.dir": str(self.run / "hadoop" / "data"),
            "dfs.replication": "1",
        }

    def _yarn(self, node: str) -> dict[str, str]:
        manager = {
            "address": "resourcemanager",
            "scheduler.address": "resourcemanager-scheduler",
            "resource-tracker.address": "resourcemanager-tracker",
            "admin.address": "resourcemanager-admin",
            "webapp.address": "resourcemanager-http",
        }
        worker = {"address": "ipc", "localizer.address": "localizer", "webapp.address": "http"}
        directory = self.run / "hadoop" / node
        return {
            "yarn.resourcemanager.hostname": HOST,
            **{f"yarn.resourcemanager.{key}": self._address(name) for key, name in manager.items()},
            **{f"yarn.nodemanager.{key}": self._address(f"{node}-{name}") for key, name in worker.items()},
            "yarn.nodemanager.collector-service.address": self._address(f"{node}-collector"),
            "yarn.nodemanager.local-dirs": str(directory / "local"),
            "yarn.nodemanager.log-dirs": str(directory / "logs"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            # The virtual memory of a JVM is a multiple of what it uses, and the disk of a test machine may be full.
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
            # Containers are in their own sessions. By the variable, they are recognized as processes of the run.
            "yarn.nodemanager.env-whitelist": f"JAVA_HOME,{RUN_VARIABLE}",
            "yarn.scheduler.minimum-allocation-mb": "128",
            # A lost node manager is noticed within a minute, not ten.
            "yarn.nm.liveness-monitor.expiry-interval-ms": "30000",
        }

    def _address(self, name: str) -> str:
        """Return the host and the port of a server, which are chosen at the first call."""
        if name not in self._ports:
            self._ports[name] = free_port()
        return f"{HOST}:{self._ports[name]}"

    def _start(self, name: str, main_class: str, configuration: Path) -> None:
        self.programs.start(name, self._java(main_class, configuration), HADOOP_CONF_DIR=str(configuration))

    def _java(self, main_class: str, configuration: Path, *arguments: str) -> list[str]:
        class_path = ":".join((str(configuration), *self.jars))
        return [str(self.java), "-Xmx256m", *FAST_START_OPTIONS.split(), "-cp", class_path, main_class, *arguments]

    def _has_data_node(self) -> bool:
        query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
        beans = _get(f"http://{self.web_hdfs}/jmx?{query}").get("beans")
        return bool(beans and beans[0]["NumLiveDataNodes"])  # type: ignore[index]

    def _count_nodes(self) -> int:
        """Return the number of node managers that are ready."""
        return int(_get(f"{self.http}/ws/v1/cluster/metrics").get("clusterMetrics", {}).get("activeNodes", 0))  # type: ignore[attr-defined]


def _write(directory: Path, name: str, settings: Mapping[str, str]) -> None:
    entries = "".join(
        f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>"
        for key, value in settings.items()
    )
    (directory / name).write_text(f"<configuration>{entries}</configuration>", encoding="utf-8")


def _get(url: str) -> dict[str, object]:
    """Return the JSON document at a URL, an empty one while the server does not answer."""
    try:
        response = httpx.get(url, timeout=10)
        document: dict[str, object] = response.json()
    except (httpx.HTTPError, json.JSONDecodeError):
        return {}
    return document


_SCHEDULER = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    # Drivers may take most of the cluster, because executors are small.
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.7",
}
