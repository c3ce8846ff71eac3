"""Connections to HDFS name the name node of paths without one, and settings of the whole job are refused."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection

from airflow_pushdown.connections.hdfs_connections import USER_VARIABLE, NameNode
from airflow_pushdown.exceptions import ConfigError
from pushdown_spark.contract import SourceSpec, TableSourceSpec


def connection(conn_type: str = "hdfs", extra: object = None, **fields: object) -> Connection:
    fields = {"host": "nn", "port": 8020, **fields}
    text = None if extra is None else json.dumps(extra)
    return Connection(conn_id="lake", conn_type=conn_type, extra=text, **fields)  # type: ignore[arg-type]


def paths(source: Connection, *locations: str) -> tuple[str, ...]:
    sources = {"t": SourceSpec(format="json", path=locations), "c": TableSourceSpec(table="db.t")}
    completed = NameNode.of(source, {}).complete(sources)
    assert completed["c"] == sources["c"]
    assert isinstance(completed["t"], SourceSpec)
    return completed["t"].path


@pytest.mark.parametrize(
    ("source", "path", "completed"),
    [
        (connection(), "hdfs:///data/a", "hdfs://nn:8020/data/a"),
        (connection(), "hdfs:/data/{a,b}[0-9]?#*", "hdfs://nn:8020/data/{a,b}[0-9]?#*"),
        (connection(port=None), "hdfs:///data", "hdfs://nn/data"),
        (connection(host="hdfs://nn/"), "hdfs:///data", "hdfs://nn:8020/data"),
        (connection(), "hdfs://other:9000/data", "hdfs://other:9000/data"),
    ],
)
def test_the_connection_completes_paths_without_a_name_node(source: Connection, path: str, completed: str) -> None:
    assert paths(source, path) == (completed,)


def test_paths_of_other_file_systems_are_unchanged() -> None:
    sources = ("hdfs:///a", "/local", "file:///local", "s3a://bucket/a", "relative")
    assert paths(connection(), *sources) == ("hdfs://nn:8020/a", *sources[1:])


def test_a_connection_that_no_path_needs_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no path begins with hdfs:; write hdfs:///directory"):
        paths(connection(), "/data", "webhdfs:///data")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (connection(host=None), "needs the host of the name node"),
        (connection(host="nn1,nn2"), "several name nodes.*dfs.nameservices"),
        (connection(password="hush"), "has a password"),
        (connection(login="ana"), "login 'ana', but one user.*env_vars={'HADOOP_USER_NAME': 'ana'}"),
        (connection(extra={"hdfs_namenode_principal": "nn/_HOST@X"}), "asks for Kerberos.*principal and keytab"),
        (connection(extra={"kerberos": True}), "asks for Kerberos.*principal and keytab"),
        (connection("webhdfs", port=9870), "type webhdfs, but.*use a connection of type hdfs.*RPC port"),
        (connection(extra={"autoconfig": True}), "unknown extras: autoconfig; supported are none"),
    ],
)
def test_connection_fields_that_hadoop_does_not_support_are_errors(source: Connection, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        NameNode.of(source, {USER_VARIABLE: "bob"})
    assert str(error.value).startswith("source_conn_id: connection 'lake'")
    assert "hush" not in str(error.value)


def test_the_login_may_be_the_user_of_the_job() -> None:
    node = NameNode.of(connection(login="ana"), {USER_VARIABLE: "ana"})
    assert node == NameNode("lake", "nn:8020")
