"""How a Python worker reaches a database: plain values, so that workers need load nothing else to have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pushdown_spark.contract import RemoteConnection


@dataclass(frozen=True)
class Address:
    """A `RemoteConnection` as workers get it, inside the pickled function that Spark sends them and shows nowhere."""

    kind: str
    database: str
    host: str
    port: int | None
    user: str | None
    password: str | None = field(repr=False)
    tls_mode: str
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    options: str | None
    connect_timeout: int

    @property
    def place(self) -> str:
        """The database as messages name it."""
        if self.kind == "sqlite":
            return self.database
        port = f":{self.port}" if self.port else ""
        return f"{self.kind}://{self.host}{port}/{self.database}"

    def without_secrets(self, text: str) -> str:
        """The text in one line, with the password replaced should a driver have put it in."""
        line = " ".join(text.split())
        return line.replace(self.password, "***") if self.password else line


@dataclass(frozen=True)
class Settings:
    """How a connection behaves: rows fetched at a time, seconds a statement may take, the snapshot that it reads.

    `few` tells that only some thousand rows are expected.
    """

    fetch_size: int = 10_000
    statement_timeout: float | None = None
    snapshot: str | None = None
    few: bool = False


def address_of(connection: RemoteConnection) -> Address:
    """The address in a connection's parts."""
    tls = connection.tls
    return Address(
        connection.kind.value,
        connection.database,
        connection.host or "",
        connection.port,
        connection.user,
        connection.password,
        tls.mode.value,
        tls.ca_file,
        tls.cert_file,
        tls.key_file,
        connection.options,
        connection.connect_timeout,
    )
