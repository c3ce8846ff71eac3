"""`airflow-pushdown doctor` with real environments, servers and directories."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from environments import environment, libraries_of, wheel, with_spark

from airflow_pushdown.doctor import CheckStatus, Finding, Settings, diagnose
from pushdown_spark.contract.encryption import KEY_VARIABLE


@pytest.fixture
def no_spark_variables(monkeypatch: pytest.MonkeyPatch, spark_python: str) -> None:
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "AIRFLOW_PUSHDOWN_CLASS_ARCHIVES", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON", spark_python)


pytestmark = pytest.mark.usefixtures("no_spark_variables", "local_spark")


@pytest.fixture
def server() -> Iterator[int]:
    """Return the port of a server that accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as socket_server:
        yield socket_server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as socket_server:
        return socket_server.getsockname()[1]


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **parts: object) -> None:
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(parts))


def findings(**settings: object) -> dict[str, Finding]:
    return {report.subject: report for report in diagnose(Settings(**{"conn_id": "spark_default", **settings}))}  # type: ignore[arg-type]


def failure(subject: str, **settings: object) -> str:
    """Return the text of a failed check, which is one line."""
    finding = findings(**settings)[subject]
    assert finding.status is CheckStatus.FAILED, finding
    assert "\n" not in finding.text
    return finding.text


def test_an_installation_that_works_passes_every_check() -> None:
    checks = findings()
    assert [str(finding) for finding in checks.values() if finding.status is CheckStatus.FAILED] == []
    assert {"Airflow side", "connection", "spark-submit", "Spark Python", "Spark side", "Java"} <= checks.keys()
    assert "Spark 4." in checks["spark-submit"].text


@pytest.mark.nightly
def test_the_command_finds_connections_in_the_database_and_fails_with_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, closed_port: int
) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SPARK_DEFAULT")
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path}/airflow.db")
    master = ["--conn-type", "spark", "--conn-host", f"spark://127.0.0.1:{closed_port}"]
    for arguments in (["db", "migrate"], ["connections", "add", "cluster", *master]):
        subprocess.run([sys.executable, "-m", "airflow", *arguments], check=True, capture_output=True)
    command = [sys.executable, "-m", "airflow_pushdown", "doctor", "--conn-id", "cluster"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = process.stdout.splitlines()
    assert f"ok    connection        cluster: master spark://127.0.0.1:{closed_port}, deploy mode client" in lines
    assert [line for line in lines if line.startswith("FAIL")] == [
        f"FAIL  master            127.0.0.1:{closed_port} does not accept connections (Connection refused); start the "
        "master, or correct host and port of the connection cluster"
    ]
    assert lines[-1] == "Failed checks: 1"
    assert process.returncode == 1


def test_a_missing_connection_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert failure("connection", conn_id="nowhere").startswith("conn_id: there is no Airflow connection 'nowhere'")


def test_a_spark_connect_server_is_not_taken_for_a_master(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "server", conn_type="spark_connect", host="spark.example", port=15002)
    checks = findings(conn_id="server")
    assert checks["connection"].text == "server: a Spark Connect server, which is not checked here"
    assert "spark-submit" not in checks


def test_a_spark_connection_without_scheme_or_port_is_refused_with_the_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "plain", conn_type="spark", host="host.example.com")
    connect(monkeypatch, "portless", conn_type="spark", host="spark://host.example.com")
    assert "has the master 'host.example.com'; set its host to a master of Spark" in failure(
        "connection", conn_id="plain"
    )
    assert failure("master", conn_id="portless").endswith("has no port; set the host to spark://host:7077")


def test_one_master_of_several_is_enough(monkeypatch: pytest.MonkeyPatch, server: int, closed_port: int) -> None:
    connect(monkeypatch, "ha", conn_type="spark", host=f"spark://127.0.0.1:{closed_port},127.0.0.1:{server}")
    assert findings(conn_id="ha")["master"].status is CheckStatus.OK


def test_yarn_needs_the_settings_of_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "hadoop", conn_type="spark", host="yarn")
    assert "HADOOP_CONF_DIR" in failure("master", conn_id="hadoop")


def test_a_missing_spark_submit_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("AIRFLOW_PUSHDOWN_SPARK_PYTHON")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "set spark_python to the Python of an environment with pyspark" in failure("spark-submit")


def test_a_missing_and_an_old_java_are_failures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert failure("Java") == (
        "there is no Java in JAVA_HOME or on PATH; install Java 17 or newer, and set JAVA_HOME to its directory"
    )
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho '    java.home = /jdk\n    java.specification.version = 1.8' >&2\n")
    java.chmod(0o755)
    assert failure("Java").startswith(f"{java} is Java 8; install Java 17 or newer")


def test_pyspark_client_in_the_spark_environment_is_a_failure(spark_python: str, tmp_path: Path) -> None:
    client = wheel(tmp_path, "pyspark-client", "4.2.0", {"pyspark/version.py": "__version__ = '4.2.0'\n"})
    python = with_spark(environment(tmp_path / "mixed", client, libraries=libraries_of(spark_python)), spark_python)
    assert "pyspark-client 4.2.0" in failure("Spark Python", spark_python=str(python))


def test_libraries_and_package_of_another_version_are_failures(spark_python: str, tmp_path: Path) -> None:
    wheels = [wheel(tmp_path, "isal", "9.0", {}), wheel(tmp_path, "pushdown-spark", "9.1", {})]
    python = with_spark(environment(tmp_path / "other", *wheels, libraries=libraries_of(spark_python)), spark_python)
    text = failure("Spark side", spark_python=str(python))
    assert "isal is 9.0, not <2,>=1.7" in text
    assert "pushdown-spark is 9.1 here and " in text
    assert f'run {python} -m pip install "pushdown-spark[spark]==' in text


def test_the_exchange_directory_of_a_cluster_must_exist_and_its_key_must_be_valid(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    connect(monkeypatch, "far", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})
    assert "set a directory or URI that worker and driver share" in failure("exchange_dir", conn_id="far")
    missing = str(tmp_path / "missing")
    assert f"{missing} is not a directory" in failure("exchange_dir", conn_id="far", exchange_dir=missing)
    checks = findings(conn_id="far", exchange_dir=str(tmp_path))
    assert checks["exchange_dir"] == Finding(CheckStatus.OK, "exchange_dir", f"{tmp_path} is writable")
    assert checks["Spark Python"].status is CheckStatus.NOTE
    monkeypatch.setenv(KEY_VARIABLE, "short")
    assert "the key must be 32 random bytes" in failure("exchange_dir", conn_id="far", exchange_dir=str(tmp_path))
    monkeypatch.setenv(KEY_VARIABLE, urlsafe_b64encode(bytes(range(32))).decode())
    checks = findings(conn_id="far", exchange_dir=str(tmp_path))
    assert checks["exchange_dir"].text == f"{tmp_path} is writable, and credentials are encrypted with {KEY_VARIABLE}"
    assert list(tmp_path.iterdir()) == []


def test_a_standalone_cluster_needs_a_rest_server_and_a_directory(
    monkeypatch: pytest.MonkeyPatch, server: int, closed_port: int
) -> None:
    def connect_with(rest_port: int) -> None:
        extra = {"deploy-mode": "cluster", "rest-port": rest_port}
        connect(monkeypatch, "far", conn_type="spark", host=f"spark://127.0.0.1:{server}", extra=extra)

    connect_with(closed_port)
    text = failure("REST server", conn_id="far")
    assert f"127.0.0.1:{closed_port} does not accept connections" in text
    assert "start the master with spark.master.rest.enabled=true" in text
    connect_with(server)
    assert findings(conn_id="far")["REST server"].status is CheckStatus.OK
    text = failure("exchange_dir", conn_id="far", exchange_dir="s3a://airflow/exchange")
    assert "cannot start a program from s3a://airflow/exchange; give a directory that all its machines mount" in text


def test_kerberos_without_its_package_is_a_failure_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "far", conn_type="spark", host="yarn", extra={"deploy-mode": "cluster"})
    connect(monkeypatch, "node", conn_type="webhdfs", host="127.0.0.1", extra={"kerberos": True})
    text = failure("exchange_dir", conn_id="far", exchange_dir="hdfs://127.0.0.1/tmp", exchange_conn_id="node")
    assert "install requests-kerberos" in text


def test_a_class_archive_directory_that_every_user_may_write_to_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)
    tmp_path.chmod(0o777)
    assert "other users may write to" in failure("CDS archives", class_archives=str(tmp_path))


def test_jars_come_from_the_installation_or_from_packages() -> None:
    checks = findings()
    assert checks["S3"].status is CheckStatus.NOTE
    assert 'packages="org.apache.hadoop:hadoop-aws:3.' in checks["S3"].text
    assert checks["JDBC"].status is CheckStatus.NOTE
    checks = findings(packages="org.apache.hadoop:hadoop-aws:3.5.0,org.postgresql:postgresql:42.7.4")
    assert checks["S3"].status is CheckStatus.OK
    assert checks["JDBC"].text == "drivers of PostgreSQL"


def test_source_connections_that_cannot_be_reached_are_failures_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: int, closed_port: int
) -> None:
    shop = {"conn_type": "postgres", "host": "127.0.0.1", "schema": "shop", "login": "me", "password": "hush"}
    connect(monkeypatch, "shop", **shop, port=server)
    connect(monkeypatch, "down", **shop, port=closed_port)
    connect(monkeypatch, "store", conn_type="aws", login="key", password="hush")
    connect(monkeypatch, "file", conn_type="sqlite", host=str(tmp_path / "missing.db"))
    connect(monkeypatch, "http", conn_type="http", host="example.com")
    connect(monkeypatch, "hdfs", conn_type="hdfs", host="nn", login="ana")
    connect(monkeypatch, "safe", conn_type="hdfs", host="nn", extra={"kerberos": True})
    for name in ("shop", "store", "hdfs"):
        assert findings(source_conn_ids=[name])["source"].status is CheckStatus.OK, name
    assert f"127.0.0.1:{closed_port} does not accept connections" in failure("source", source_conn_ids=["down"])
    assert "asks for Kerberos" in failure("source", source_conn_ids=["safe"])
    assert "there is no file" in failure("source", source_conn_ids=["file"])
    assert "has type http" in failure("source", source_conn_ids=["http"])
    assert "there is no Airflow connection 'gone'" in failure("source", source_conn_ids=["gone"])
