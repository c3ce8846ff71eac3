"""Tasks whose `source_conn_id` is a connection to HDFS, on a real HDFS that only one of its users may read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.exchange.webhdfs import open_webhdfs
from airflow_pushdown.operators import PushdownJoinOperator, PushdownScanOperator
from e2e.hadoop import HadoopCluster, server_jars
from e2e.processes import Programs

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

USER = "ana"
SCHEMA = "id int, kind string"


class RunningTask:
    """The part of a running task instance that `execute` uses."""

    dag_id, task_id, run_id, map_index = "d", "scan", "r", -1

    def xcom_push(self, key: str, value: object) -> None:
        """Accept the task's values."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_python: str) -> Iterator[HadoopCluster]:
    run = tmp_path_factory.mktemp("hdfs")
    programs = Programs(run, dict(os.environ))
    try:
        java = Path(os.environ["JAVA_HOME"]) / "bin" / "java"
        cluster = HadoopCluster(programs, run, java, server_jars(Path(spark_python).parents[1]))
        cluster.start_hdfs()
        yield cluster
    finally:
        programs.stop()


@pytest.fixture(autouse=True)
def connections(cluster: HadoopCluster, local_spark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set connections with and without a login, and store lines that only the user may read."""
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)
    for kind, address in (("hdfs", cluster.root.removeprefix("hdfs://")), ("webhdfs", cluster.web_hdfs)):
        host, _, port = address.partition(":")
        connection = {"conn_type": kind, "host": host, "port": int(port)}
        monkeypatch.setenv(f"AIRFLOW_CONN_{kind.upper()}", json.dumps(connection))
        monkeypatch.setenv(f"AIRFLOW_CONN_{kind.upper()}_{USER.upper()}", json.dumps({**connection, "login": USER}))
    files = open_webhdfs(cluster.root, "webhdfs")
    lines = "".join(f'{{"id": {n}, "kind": "{"rare" if n % 100 == 7 else "common"}"}}\n' for n in range(400))
    files.pipe_file("/private/events/a.json", lines.encode())
    for path in ("/private/events/a.json", "/private/events", "/private"):
        files.chown(path, USER, USER)
        files.chmod(path, "700")


def scan(conn_id: str, spark_python: str, **parameters: object) -> PushdownScanOperator:
    arguments = {"env_vars": {"HADOOP_USER_NAME": USER}, **parameters}
    return PushdownScanOperator(
        task_id="scan",
        path="hdfs:///private/events",
        format="json",
        schema=SCHEMA,
        where="kind = 'rare'",
        reader="pushdown",
        source_conn_id=conn_id,
        spark_python=spark_python,
        **arguments,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("conn_id", ["hdfs", "hdfs_ana"])
def test_a_task_reads_the_files_of_the_user(conn_id: str, spark_python: str, tmp_path: Path) -> None:
    task = scan(conn_id, spark_python, output=str(tmp_path / "out"))
    result = task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]
    assert result["rows"] == 4
    assert result["sources"]["source"]["carrier"] == "jvm"  # type: ignore[index]
    # The output has no scheme, and stays in the default file system.
    assert list((tmp_path / "out").glob("part-*.parquet"))


def test_one_source_of_a_join_is_in_hdfs(spark_python: str, tmp_path: Path) -> None:
    kinds = tmp_path / "kinds.csv"
    kinds.write_text("rare,1\n")
    task = PushdownJoinOperator(
        task_id="join",
        sources={
            "e": {"path": "hdfs:/private/events/*.json", "format": "json", "schema": SCHEMA},
            "k": {"path": str(kinds), "format": "csv", "schema": "kind string, weight int"},
        },
        query="SELECT e.id FROM e JOIN k ON e.kind = k.kind",
        source_conn_id="hdfs_ana",
        env_vars={"HADOOP_USER_NAME": USER},
        spark_python=spark_python,
    )
    assert task.execute({"ti": RunningTask()})["rows"] == 4  # type: ignore[typeddict-item]


def test_a_login_that_is_not_the_user_of_the_job_is_an_error(spark_python: str) -> None:
    with pytest.raises(ConfigError, match=r"set env_vars=\{'HADOOP_USER_NAME': 'ana'\}"):
        scan("hdfs_ana", spark_python, env_vars=None).execute({"ti": RunningTask()})  # type: ignore[typeddict-item]


def test_another_user_is_denied_access(spark_python: str) -> None:
    task = scan("hdfs", spark_python, env_vars={"HADOOP_USER_NAME": "bob"})
    with pytest.raises(ConfigError, match="user=bob"):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]
