"""HDFS for Python, over its HTTP interface WebHDFS: connection settings, and their translation from Hadoop's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.secret_text import redact_line
from pushdown_spark.sources.stores.object_store import StoreSettings
from pushdown_spark.sources.stores.webhdfs_client import WebHdfs, WebHdfsFile

_PORT = "9870"
_CHECK_SECONDS = 2
"""The time limit of the driver's first requests, where a firewall may drop them."""
_NO_HOSTS = ("", "0.0.0.0")  # noqa: S104 - Hadoop's default, not an address to listen at


@dataclass(frozen=True)
class HdfsSettings(StoreSettings):
    """The HTTP addresses of the name nodes of one HDFS, of which one is active, and the name of the user."""

    access_denied_signs: ClassVar[tuple[str, ...]] = ("AccessControlException", "HTTP 401", "HTTP 403")
    expired_signs: ClassVar[tuple[str, ...]] = ()

    name_nodes: tuple[str, ...]
    user: str

    def connect(self) -> WebHdfs:
        """Return a new client."""
        return WebHdfs(self.name_nodes, self.user)

    def object_path(self, bucket: str, key: str) -> str:
        """Return the absolute path of a file."""
        return f"/{key}"

    def redact(self, text: str) -> str:
        """Return a message on one line. The settings have no secrets."""
        return redact_line(text, ())

    def version(self, file: WebHdfsFile) -> bytes:
        """Return an identifier of the version of an open file."""
        return file.version


def hdfs_settings(authority: str, value: Callable[[str], str], user: str) -> HdfsSettings:
    """Translate Hadoop's settings of a name node (host and port) or of a name service.

    `value` returns the value of a key, or an empty string if it has none. Raises UnsupportedError, which names the key,
    if only Hadoop can use them.
    """
    if value("hadoop.security.authentication").lower() not in ("", "simple"):
        raise UnsupportedError("hadoop.security.authentication is set, and only Hadoop can sign in")
    if value("dfs.webhdfs.enabled").lower() == "false":
        raise UnsupportedError("Python reads HDFS over HTTP, but dfs.webhdfs.enabled is false")
    if value("dfs.encrypt.data.transfer").lower() == "true":
        raise UnsupportedError("dfs.encrypt.data.transfer is true, and only Hadoop encrypts what it reads")
    if value("dfs.http.policy").upper() == "HTTPS_ONLY":
        raise UnsupportedError("dfs.http.policy is HTTPS_ONLY, and only Hadoop has the certificates")
    key = "dfs.namenode.http-address"
    nodes = [node.strip() for node in value(f"dfs.ha.namenodes.{authority}").split(",") if node.strip()]
    addresses = [value(f"{key}.{authority}.{node}") for node in nodes] or [value(key)]
    if nodes and not all(addresses):
        raise UnsupportedError(f"{key} is not set for each name node of {authority}")
    return HdfsSettings(tuple(_complete(address, authority) for address in addresses), user)


def check_same_file(settings: HdfsSettings, path: str, attributes: Mapping[str, int]) -> None:
    """Raise UnsupportedError if a file cannot be read over HTTP, or is another one than Hadoop's.

    `attributes` are the `length` in bytes and the `modificationTime` in milliseconds that Hadoop knows.
    """
    try:
        client = WebHdfs(settings.name_nodes, settings.user, seconds=_CHECK_SECONDS, attempts=1)
        file = client.open_input_file(path)
        file_attributes = file.attributes
        file.readinto(memoryview(bytearray(min(file.size(), 1))))
    except OSError as problem:
        nodes = ", ".join(settings.name_nodes)
        raise UnsupportedError(f"Python reads HDFS over HTTP, but {nodes} does not serve it: {problem}") from problem
    if any(file_attributes.get(name) != value for name, value in attributes.items()):
        raise UnsupportedError(f"the HDFS at {', '.join(settings.name_nodes)} has another version of {path}")


def _complete(address: str, authority: str) -> str:
    """Return the HTTP address of a name node. Its host may be that of the file's URI."""
    host, _, port = address.rpartition(":")
    return f"{authority.rpartition('@')[2].partition(':')[0] if host in _NO_HOSTS else host}:{port or _PORT}"
