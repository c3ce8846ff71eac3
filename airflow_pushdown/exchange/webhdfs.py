"""HDFS over its HTTP interface, so that a worker needs no Hadoop libraries."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_pushdown.connections.credentials import airflow_connection
from airflow_pushdown.exceptions import config_error

if TYPE_CHECKING:
    from airflow_pushdown.exchange.hdfs_files import HdfsFiles

_PORT, _TLS_PORT = 9870, 9871
_CONFIGURATIONS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")


def open_webhdfs(uri: str, conn_id: str | None) -> HdfsFiles:
    """Return the file system of an `hdfs:` URI.

    The address of the name node is taken from the Airflow connection, or else from the Hadoop configuration of this
    worker, else the default port on the host of the URI.
    """
    if conn_id is not None:
        return _file_system(_connection_options(conn_id))
    settings = hadoop_settings(os.environ)
    candidates = [_file_system(options) for options in _name_nodes(uri, settings)]
    return next((system for system in candidates if _is_active(system)), candidates[0])


def _file_system(options: Mapping[str, object]) -> HdfsFiles:
    """Return the file system of one name node. Raises `ConfigError` without the package for Kerberos."""
    from airflow_pushdown.exchange.hdfs_files import HdfsFiles

    try:
        return HdfsFiles(**options)
    except ImportError as error:
        raise config_error(f"exchange_dir: HDFS uses Kerberos ({error}); install requests-kerberos") from error


def hadoop_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Hadoop's configuration files on this worker, or none without HADOOP_CONF_DIR."""
    from xml.etree import ElementTree

    directory = next((environ[name] for name in _CONFIGURATIONS if environ.get(name)), None)
    settings: dict[str, str] = {}
    for name in _FILES if directory is not None else ():
        path = Path(str(directory)) / name
        if path.is_file():
            entries = ElementTree.parse(path).getroot().iter("property")  # noqa: S314 - the administrator's own files
            settings |= {entry.findtext("name", ""): entry.findtext("value", "") for entry in entries}
    return settings


def _connection_options(conn_id: str) -> dict[str, object]:
    """Return the options of a connection of type webhdfs, as in Airflow's Hadoop provider."""
    connection = airflow_connection("exchange_conn_id", conn_id)
    if not connection.host:
        raise config_error(f"exchange_conn_id: connection {conn_id!r} needs the host of the name node")
    extras = connection.extra_dejson
    use_tls = bool(extras.get("use_ssl"))
    options: dict[str, object] = {
        "host": connection.host,
        "port": connection.port or (_TLS_PORT if use_tls else _PORT),
        "use_https": use_tls,
        "session_verify": extras.get("verify", True),
    }
    if extras.get("kerberos"):
        return options | {"kerberos": True}
    return options | {"user": connection.login or _user(), "password": connection.password or None}


def _name_nodes(uri: str, settings: Mapping[str, str]) -> Iterator[dict[str, object]]:
    """Yield the options of each name node of a URI's name service."""
    service = urlsplit(uri).netloc or urlsplit(settings.get("fs.defaultFS", "")).netloc
    use_tls = settings.get("dfs.http.policy") == "HTTPS_ONLY"
    key = f"dfs.namenode.{'https' if use_tls else 'http'}-address"
    nodes = [node.strip() for node in settings.get(f"dfs.ha.namenodes.{service}", "").split(",") if node.strip()]
    addresses = [settings.get(f"{key}.{service}.{node}", "") for node in nodes] or [settings.get(key, "")]
    is_secure = settings.get("hadoop.security.authentication") == "kerberos"
    login: dict[str, object] = {"kerberos": True} if is_secure else {"user": _user()}
    for address in addresses:
        host, _, port = address.rpartition(":")
        if host in ("", "0.0.0.0"):  # noqa: S104 - the default of Hadoop, not an address to listen at
            host = service.partition(":")[0]
        yield {"host": host, "port": int(port or (_TLS_PORT if use_tls else _PORT)), "use_https": use_tls, **login}


def _is_active(system: HdfsFiles) -> bool:
    """Return whether a name node responds. A standby name node refuses."""
    try:
        system.info("/")
    except (OSError, RuntimeError):
        return False
    return True


def system_user() -> str:
    """Return the name of this user, or its number in a container that has no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _user() -> str:
    """Return the user as Hadoop's simple authentication finds it."""
    return os.environ.get("HADOOP_USER_NAME") or system_user()
