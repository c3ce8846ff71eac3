"""Checks of connections: the Spark master, databases, and object stores."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from airflow_pushdown.connections.credentials import OBJECT_STORE_TYPES, airflow_connection, object_store_secrets
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.connections.hdfs_connections import HDFS_TYPES, USER_VARIABLE, NameNode
from airflow_pushdown.doctor.findings import Finding, failure, note, ok
from airflow_pushdown.exceptions import PushdownTaskError
from airflow_pushdown.hooks.connection import SparkConnectionHook

_CONNECT_SECONDS = 5
_ADDRESS = re.compile(r"(?:spark://)?(?P<host>[^:,/]+|\[[^\]]+\]):(?P<port>\d+)")


def spark_master(hook: SparkConnectionHook, conn_id: str) -> Iterator[Finding]:
    """Yield whether the master is reachable, where this can be checked without Spark."""
    if hook.master.startswith("spark:"):
        addresses = [(match["host"].strip("[]"), int(match["port"])) for match in _ADDRESS.finditer(hook.master)]
        if not addresses:
            yield failure("master", f"{hook.master} has no port; set the host to spark://host:7077")
            return
        advice = f"start the master, or correct host and port of the connection {conn_id}"
        yield _reachable("master", hook.master, addresses, advice)
        if hook.is_standalone_cluster:
            servers = [(host, hook.rest_port) for host, _ in addresses]
            advice = (
                "drivers in deploy mode cluster are submitted to it; start the master with "
                f"spark.master.rest.enabled=true, or correct the extra rest-port of the connection {conn_id}"
            )
            yield _reachable("REST server", f"port {hook.rest_port} of the master", servers, advice)
    elif hook.master.startswith("yarn") and not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & os.environ.keys():
        yield failure("master", "yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR on the worker; set one of them")
    elif not hook.master.startswith("local"):
        yield note("master", f"{hook.master} was not contacted")


def _reachable(subject: str, name: str, addresses: Sequence[tuple[str, int]], advice: str) -> Finding:
    """Return whether at least one of several servers accepts connections."""
    problems = [problem for host, port in addresses if (problem := _unreachable(host, port))]
    if len(problems) == len(addresses):
        return failure(subject, f"{'; '.join(problems)}; {advice}")
    return ok(subject, f"{name} accepts connections")


def source_connection(conn_id: str) -> Finding:
    """Return the finding about a connection to a database, an object store or HDFS."""
    subject = "source"
    try:
        connection = airflow_connection("source_conn_id", conn_id)
        if connection.conn_type in OBJECT_STORE_TYPES:
            object_store_secrets(connection)
            return ok(subject, f"{conn_id}: the fields are valid; the store was not contacted")
        if connection.conn_type in HDFS_TYPES:
            node = NameNode.of(connection, {USER_VARIABLE: connection.login})
            return ok(subject, f"{conn_id}: HDFS at {node.authority}; the name node was not contacted")
        database = database_connection(connection)
    except PushdownTaskError as error:
        return failure(subject, str(error))
    if database.host is None:
        is_file = Path(database.database).is_file()
        missing = f"{conn_id}: there is no file {database.database} on this machine; correct the connection's host"
        return ok(subject, f"{conn_id}: {database.database}") if is_file else failure(subject, missing)
    problem = _unreachable(database.host, database.server_port)
    if problem:
        return failure(subject, f"{conn_id}: {problem}; start the server, or correct host and port of the connection")
    return ok(subject, f"{conn_id}: {database.kind} on {database.host}:{database.server_port} accepts connections")


def _unreachable(host: str, port: int) -> str | None:
    """Return why a server does not accept connections, or None if it does."""
    try:
        socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        return f"{host}:{port} does not accept connections ({error.strerror or error})"
    return None
