"""Name nodes of HDFS from Airflow connections of type hdfs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from airflow.sdk import Connection

from airflow_pushdown.connections.credentials import supported_extras
from airflow_pushdown.exceptions import config_error
from pushdown_spark.contract import AnySourceSpec, SourceSpec

HDFS_TYPES = frozenset({"hdfs", "webhdfs"})
"""The types of connections to HDFS, as Airflow names them."""
USER_VARIABLE = "HADOOP_USER_NAME"
_WITHOUT_NAME_NODE = re.compile(r"hdfs:(?:///|/(?!/))(.*)", re.DOTALL)
_KERBEROS_EXTRAS = frozenset({"kerberos", "hdfs_namenode_principal"})


@dataclass(frozen=True)
class NameNode:
    """A name node, or a name service of Hadoop's configuration, with an optional port."""

    conn_id: str
    authority: str

    @classmethod
    def of(cls, connection: Connection, env_vars: Mapping[str, object]) -> NameNode:
        """Return the name node of a connection. `env_vars` are those of the job.

        Raises `ConfigError` for a connection that a source alone cannot follow. Hadoop's client takes the user and
        Kerberos from the settings of the whole job.
        """
        this = f"source_conn_id: connection {connection.conn_id!r}"
        if connection.conn_type == "webhdfs":
            raise config_error(
                f"{this} has type webhdfs, but Spark reads HDFS with Hadoop's own protocol; use a connection of type "
                "hdfs with the host and the RPC port (mostly 8020) of the name node"
            )
        if _KERBEROS_EXTRAS & {key for key, value in connection.extra_dejson.items() if value}:
            raise config_error(
                f"{this} asks for Kerberos, which is a setting of the whole job; set principal and keytab of the Spark "
                "connection, and remove the extra"
            )
        supported_extras(connection, ())
        host = (connection.host or "").rpartition("://")[2].strip("/")
        if not host:
            raise config_error(f"{this} needs the host of the name node")
        if "," in host:
            raise config_error(
                f"{this} names several name nodes, whose addresses belong in Hadoop's configuration; set the host "
                "to their name service (dfs.nameservices)"
            )
        if connection.password:
            raise config_error(f"{this} has a password, which Hadoop's client does not send; remove it")
        if connection.login and env_vars.get(USER_VARIABLE) != connection.login:
            raise config_error(
                f"{this} has the login {connection.login!r}, but one user reads and writes all files of a job; set "
                f"env_vars={{'{USER_VARIABLE}': '{connection.login}'}}, or remove the login"
            )
        return cls(str(connection.conn_id), f"{host}:{connection.port}" if connection.port else host)

    def complete(self, sources: Mapping[str, AnySourceSpec]) -> dict[str, AnySourceSpec]:
        """Return the sources with this name node in paths without one.

        Raises `ConfigError` if no source has a path in HDFS.
        """
        paths = [path for source in sources.values() if isinstance(source, SourceSpec) for path in source.path]
        if not any(path.startswith("hdfs:") for path in paths):
            raise config_error(
                f"source_conn_id: connection {self.conn_id!r} is for HDFS, but no path begins with hdfs:; write "
                "hdfs:///directory, or remove source_conn_id"
            )
        return {
            name: source.model_copy(update={"path": tuple(map(self._complete, source.path))})
            if isinstance(source, SourceSpec)
            else source
            for name, source in sources.items()
        }

    def _complete(self, path: str) -> str:
        match = _WITHOUT_NAME_NODE.fullmatch(path)
        return path if match is None else f"hdfs://{self.authority}/{match[1]}"
