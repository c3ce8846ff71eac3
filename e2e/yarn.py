"""Checks of the example DAGs on YARN and HDFS of this machine: `python -m e2e.yarn [--mode MODE] [--only DAG ...]`.

In deploy mode cluster, spec, credentials and result travel through HDFS, and the key of the credentials is in a Hadoop
credential provider.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet
from databases import HOST  # type: ignore[import-not-found]

from e2e import ROOT
from e2e.checks import check_examples, example_dags
from e2e.hadoop import HadoopCluster, server_jars
from e2e.local import SPARK_ENVIRONMENT, Local, Platform, environment, exit_code, run_product
from e2e.processes import E2eError, Programs
from pushdown_spark.contract.encryption import KEY_ALIAS, KEY_VARIABLE

MODES = ("client", "cluster")
_DEFAULTS = """\
spark.yarn.jars local:{jars}
spark.yarn.stagingDir {root}/staging
spark.hadoop.fs.defaultFS file:///
spark.hadoop.hadoop.security.credential.provider.path {provider}
spark.driver.host {host}
spark.driver.bindAddress {host}
spark.yarn.appMasterEnv.SPARK_LOCAL_IP {host}
spark.driver.memory 512m
spark.executor.memory 512m
spark.executor.instances 1
spark.sql.shuffle.partitions 2
spark.ui.enabled {ui}
"""
"""Paths of the example DAGs without a scheme are those of this machine, on which all containers run. In deploy mode
cluster, Spark ignores `spark.driver.host` and takes the address from the environment of the driver. In deploy mode
client, the start of Spark's UI failed with a `ConcurrentModificationException` once, and the example DAGs have no
retries."""


@contextmanager
def product(mode: str, dags: Path = ROOT / "dags") -> Iterator[Local]:
    """Run Airflow, YARN and HDFS during the block. The directory of the run is deleted unless the block fails.

    `mode` is the deploy mode of the connection `spark_default`. The drivers of `spark_cluster` run on YARN.
    """

    def platform(programs: Programs, run: Path) -> Platform:
        java = Path(environment()["JAVA_HOME"]) / "bin" / "java"
        cluster = HadoopCluster(programs, run, java, server_jars(SPARK_ENVIRONMENT))
        key = Fernet.generate_key().decode()

        def start() -> None:
            cluster.start()
            _configure_spark(programs, cluster, key, run / "spark", ui=mode == "cluster")

        settings = {
            "AIRFLOW_CONN_SPARK_DEFAULT": _spark_connection(cluster, mode),
            "AIRFLOW_CONN_SPARK_CLUSTER": _spark_connection(cluster, "cluster"),
            "SPARK_CONF_DIR": str(run / "spark"),
            "HADOOP_CONF_DIR": str(cluster.configuration),
            KEY_VARIABLE: key,
        }
        return Platform(cluster, start, settings, "application_")

    with run_product("run-yarn-", dags, platform) as local:
        yield local


def run_checks(mode: str, names: Sequence[str]) -> None:
    """Run DAGs in a deploy mode and check them. Raises `E2eError` if one fails or something remains."""
    start = time.monotonic()
    with product(mode) as local:
        for line in check_examples(local.deployment, names):
            print(f"  {line}", flush=True)
        if applications := local.cluster.running_applications():
            raise E2eError(f"applications still run: {sorted(applications)}")
        if files := local.cluster.exchange_files():
            raise E2eError(f"files remain in the exchange directory: {files}")
    print(f"e2e-yarn passed in deploy mode {mode}, {time.monotonic() - start:.0f} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks. Return 0 if they pass."""
    parser = argparse.ArgumentParser(prog="python -m e2e.yarn", description=__doc__)
    parser.add_argument("--mode", choices=MODES, help="check this deploy mode only")
    parser.add_argument("--only", nargs="*", metavar="DAG", help="run these example DAGs only")
    options = parser.parse_args(arguments)
    names = example_dags(ROOT / "dags") if options.only is None else options.only

    def check() -> None:
        for mode in MODES if options.mode is None else (options.mode,):
            run_checks(mode, names)

    return exit_code("e2e-yarn", check)


def store_key(programs: Programs, cluster: HadoopCluster, key: str) -> str:
    """Store a key in a credential provider on HDFS, which only its owner can read. Return the provider's path."""
    provider = f"jceks://{cluster.root.replace('://', '@')}/user/keys/exchange.jceks"
    shell = "org.apache.hadoop.security.alias.CredentialShell"
    class_path = os.pathsep.join((str(cluster.configuration), *cluster.jars))
    words = (shell, "create", KEY_ALIAS, "-value", key, "-provider", provider)
    programs.run("credentials", [str(cluster.java), "-cp", class_path, *words])
    return provider


def _configure_spark(programs: Programs, cluster: HadoopCluster, key: str, directory: Path, *, ui: bool) -> None:
    jars = next(SPARK_ENVIRONMENT.glob("lib/python3.*/site-packages/pyspark/jars"))
    directory.mkdir()
    provider = store_key(programs, cluster, key)
    defaults = _DEFAULTS.format(jars=f"{jars}/*", root=cluster.root, provider=provider, host=HOST, ui=str(ui).lower())
    (directory / "spark-defaults.conf").write_text(defaults, encoding="utf-8")


def _spark_connection(cluster: HadoopCluster, mode: str) -> str:
    extra = {"deploy-mode": mode, "exchange-dir": cluster.exchange}
    return json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra})


if __name__ == "__main__":
    sys.exit(main())
