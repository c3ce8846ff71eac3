"""Connections to databases, and the secrets, which travel separately from the job spec."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Self
from urllib.parse import unquote

from pydantic import Field, model_validator

from pushdown_spark.contract.message import Message
from pushdown_spark.contract.sources import ONLY_SOURCE


class DatabaseKind(StrEnum):
    """Supported databases. MySQL includes MariaDB."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    SQLITE = "sqlite"


_SERVERS = {DatabaseKind.POSTGRESQL: ("postgres", 5432), DatabaseKind.MYSQL: ("mysql", 3306)}
"""Schemes of servers in OpenLineage, and default ports."""
_TOKEN = re.compile(r";token=([^;]+)")


class TlsMode(StrEnum):
    """TLS verification, with libpq's names and meanings."""

    DISABLE = "disable"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"


class Tls(Message):
    """TLS of a connection. The files must exist at these paths on the driver and on every executor."""

    mode: TlsMode = TlsMode.PREFER
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


class RemoteConnection(Message):
    """Address and credentials of a database. It travels in the secrets file, not in the job spec.

    For SQLite, `database` is the path of the file. `options` are libpq session settings (`-c name=value`).
    `connect_timeout` is in seconds.
    """

    kind: DatabaseKind
    database: str
    host: str | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    user: str | None = None
    password: Annotated[str | None, Field(repr=False)] = None
    tls: Tls = Tls()
    options: str | None = None
    connect_timeout: Annotated[int, Field(ge=1)] = 15

    @model_validator(mode="after")
    def _check_host(self) -> Self:
        if self.kind is not DatabaseKind.SQLITE and not self.host:
            raise ValueError("host: required for a database server")
        return self

    @property
    def server_port(self) -> int:
        """The port of the database server, by default that of its kind."""
        return self.port or _SERVERS[self.kind][1]

    @property
    def server_uri(self) -> str:
        """The URI of the database server in OpenLineage."""
        return f"{_SERVERS[self.kind][0]}://{self.host}:{self.server_port}"


class SecretValues(Message):
    """Content of the secrets file. Only the driver process reads it.

    `hadoop` are Hadoop configuration entries with credentials. `remote` maps names of remote sources to connections.
    `output` is the connection of the database whose table takes the rows. `outputs` are the connections of a job with
    several scans, by their names. `spark_connect` is the `sc://` URL, with its token, of a Spark Connect server that
    runs the job. Without it, the job starts Spark.
    """

    hadoop: Annotated[dict[str, str], Field(repr=False)] = Field(default_factory=dict)
    remote: dict[str, RemoteConnection] = Field(default_factory=dict)
    output: RemoteConnection | None = None
    outputs: dict[str, RemoteConnection] = Field(default_factory=dict)
    spark_connect: Annotated[str | None, Field(repr=False)] = None

    def of_scan(self, name: str) -> Self:
        """Return the secrets of the job that runs only this scan of a job with several."""
        remote = {ONLY_SOURCE: self.remote[name]} if name in self.remote else {}
        return self.model_copy(update={"remote": remote, "output": self.outputs.get(name), "outputs": {}})

    @property
    def passwords(self) -> tuple[str, ...]:
        """The passwords of all connections, and the token of the Spark Connect server."""
        connections = (*self.remote.values(), *self.outputs.values(), self.output)
        tokens = () if self.spark_connect is None else _TOKEN.findall(self.spark_connect)
        return tuple(
            connection.password for connection in connections if connection is not None and connection.password
        ) + tuple(unquote(token) for token in tokens)

    def __bool__(self) -> bool:
        """Return whether there is a secret."""
        return self != SecretValues()
