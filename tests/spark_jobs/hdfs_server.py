"""A real HDFS with one name node and one data node, from Hadoop's own test servers in Maven Central."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

import pyspark as installed
from hadoop_jars import hadoop_jars

PYSPARK = Path(installed.__file__).parent
_MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_CONFIGURATION = "configuration.xml"
_SECONDS = 120


@contextmanager
def run_server(directory: Path, pyspark: Path = PYSPARK) -> Iterator[str]:
    """Run the servers with their data in a directory. Yield the URI of the root of the file system.

    `pyspark` is the directory of a package whose Spark has the Hadoop of the servers.
    """
    details = directory / "details.json"
    jars = [*map(str, hadoop_jars(pyspark.parents[3])), str(pyspark / "jars" / "*")]
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"
    options = ("-Xmx512m", f"-Dtest.build.data={directory}", "-cp", os.pathsep.join(jars))
    files = ("-writeDetails", str(details), "-writeConfig", str(directory / _CONFIGURATION))
    servers = ("-nomr", "-format", "-datanodes", "1", *files)
    with (directory / "log.txt").open("w") as log:
        process = subprocess.Popen([java, *options, _MAIN, *servers], cwd=directory, stdout=log, stderr=log)
    try:
        yield f"hdfs://localhost:{_port(process, details)}"
    finally:
        process.terminate()
        process.wait(300)


def http_address(directory: Path) -> str:
    """Return the host and port of the name node's HTTP server. `directory` is that of the running servers."""
    for entry in ElementTree.parse(directory / _CONFIGURATION).getroot().iter("property"):
        if entry.findtext("name") == "dfs.namenode.http-address":
            return str(entry.findtext("value"))
    raise RuntimeError("the servers have no HTTP address")


def _port(process: subprocess.Popen[bytes], details: Path) -> int:
    """Wait for the servers and return the port of the name node."""
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        if details.exists() and (text := details.read_text()):
            return int(json.loads(text)["namenode_port"])
        time.sleep(0.2)
    raise RuntimeError(f"HDFS did not start; see {details.with_name('log.txt')}")
