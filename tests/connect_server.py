"""A Spark Connect server of the tests, on a free loopback port, and its process."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.ports import free_port

TOKEN = "to/ken=of;the server"
URL_TOKEN = "to%2Fken%3Dof%3Bthe%20server"
_READY = "Spark Connect server started at"
_SECONDS = 120


@dataclass(frozen=True)
class ConnectServer:
    """A running server. The token needs the host name `localhost`, for which Spark's client needs no TLS."""

    port: int

    @property
    def url(self) -> str:
        """The URL with the token."""
        return f"sc://localhost:{self.port}/;token={URL_TOKEN}"


@contextmanager
def run_connect_server(spark_python: str, directory: Path, **settings: str) -> Iterator[ConnectServer]:
    """Run a server in a directory during the block. Raises `RuntimeError` if it does not start."""
    port = free_port()
    conf: Mapping[str, str] = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.authenticate.token": TOKEN,
        **settings,
    }
    command = [str(Path(spark_python).parent / "spark-submit"), "--master", "local[2]"]
    command += [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = directory / "server.log"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": spark_python}
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=directory, env=environment, stdout=output, stderr=output)
    try:
        end = time.monotonic() + _SECONDS
        while _READY not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the Spark Connect server did not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield ConnectServer(port)
    finally:
        process.kill()
        process.wait()
