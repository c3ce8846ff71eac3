"""The addresses of HDFS's HTTP interface, from Airflow connections and from Hadoop's configuration."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.exchange.webhdfs import hadoop_settings, open_webhdfs


@pytest.fixture(autouse=True)
def no_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "HADOOP_USER_NAME"):
        monkeypatch.delenv(name, raising=False)


def configure(monkeypatch: pytest.MonkeyPatch, directory: Path, settings: Mapping[str, str]) -> None:
    entries = "".join(f"<property><name>{k}</name><value>{v}</value></property>" for k, v in settings.items())
    (directory / "hdfs-site.xml").write_text(f"<configuration>{entries}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(directory))


def connect(monkeypatch: pytest.MonkeyPatch, **fields: object) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_HDFS", json.dumps({"conn_type": "webhdfs", **fields}))


def test_the_connection_names_host_port_and_user(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host="nn", port=14000, login="airflow")
    system = open_webhdfs("hdfs://nn:8020/x", "hdfs")
    assert system.url == "http://nn:14000/webhdfs/v1"
    assert system.pars == {"user.name": "airflow"}


def test_a_connection_with_tls_uses_https(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, host="nn", extra={"use_ssl": True, "verify": "/etc/ca.pem"})
    system = open_webhdfs("hdfs://nn:8020/x", "hdfs")
    assert (system.url, system.session.verify) == ("https://nn:9871/webhdfs/v1", "/etc/ca.pem")
    assert system.pars == {"user.name": getpass.getuser()}


def test_a_connection_without_a_host_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch)
    with pytest.raises(ConfigError, match="exchange_conn_id: connection 'hdfs' needs the host"):
        open_webhdfs("hdfs://nn:8020/x", "hdfs")


def test_hadoops_configuration_names_the_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(monkeypatch, tmp_path, {"dfs.namenode.http-address": "0.0.0.0:50070"})
    monkeypatch.setenv("HADOOP_USER_NAME", "spark")
    system = open_webhdfs("hdfs://127.0.0.1:8020/x", None)
    assert (system.url, system.user) == ("http://127.0.0.1:50070/webhdfs/v1", "spark")


def test_the_default_port_is_used_without_a_configuration() -> None:
    assert open_webhdfs("hdfs://127.0.0.1:8020/x", None).url == "http://127.0.0.1:9870/webhdfs/v1"


def test_the_user_id_replaces_a_missing_user_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 1_000_660_000)
    assert open_webhdfs("hdfs://127.0.0.1:8020/x", None).user == "1000660000"


def test_a_missing_configuration_has_no_settings() -> None:
    assert hadoop_settings({}) == {}
