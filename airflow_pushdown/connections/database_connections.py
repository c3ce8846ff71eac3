"""Conversion of Airflow connections to databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from airflow.sdk import Connection
from airflow.sdk.log import mask_secret
from pydantic import ValidationError

from airflow_pushdown.exceptions import config_error
from pushdown_spark.contract import DatabaseKind, RemoteConnection, Tls, TlsMode
from pushdown_spark.contract.message import problems_of

_POSTGRES_MODES = {**{mode.value: mode for mode in TlsMode}, "allow": TlsMode.PREFER}
_POSTGRES = frozenset({"sslmode", "sslrootcert", "sslcert", "sslkey", "options", "connect_timeout"})
_POSTGRES_UNUSED = frozenset(
    {"cursor", "application_name", "client_encoding", "keepalives", "keepalives_idle", "keepalives_interval"}
)
_MYSQL_MODES = {
    "disabled": TlsMode.DISABLE,
    "preferred": TlsMode.PREFER,
    "required": TlsMode.REQUIRE,
    "verify_ca": TlsMode.VERIFY_CA,
    "verify_identity": TlsMode.VERIFY_FULL,
}
_MYSQL = frozenset({"ssl", "ssl_mode", "ssl_disabled", "ssl_ca", "ssl_cert", "ssl_key", "connect_timeout"})
_MYSQL_UNUSED = frozenset({"charset", "client", "cursor", "local_infile", "allow_local_infile"})
_MYSQL_TLS = frozenset({"ca", "cert", "key", "check_hostname"})
_SQLITE_UNUSED = frozenset({"mode", "cache", "immutable", "timeout"})
"""Extras that do not apply to jobs, which only read, and set encoding and cursors themselves."""

_Extras = Mapping[str, object]


class _ConnectionError(Exception):
    """An Airflow connection that no job can use. The message says what to change."""


def database_connection(connection: Connection, parameter: str = "source_conn_id") -> RemoteConnection:
    """Return a connection of type postgres, mysql or sqlite for the job. Its password is masked in all logs.

    The extras are the same as in Airflow's own hooks. Unknown extras raise, because they may set permissions or
    encryption. Raises `ConfigError`, which names the parameter and shows no value, for other types, unknown extras and
    missing parts.
    """
    about = f"{parameter}: connection {connection.conn_id!r}"
    reader = _READERS.get(str(connection.conn_type))
    if reader is None:
        raise config_error(f"{about} has type {connection.conn_type}; supported types are {', '.join(_READERS)}")
    if connection.password:
        mask_secret(connection.password)
    try:
        return RemoteConnection.model_validate(reader(connection))
    except _ConnectionError as error:
        raise config_error(f"{about}: {error}") from None
    except ValidationError as error:
        # Not chained, because the cause would show values of the connection.
        raise config_error(f"{about}: {'; '.join(problems_of(error))}") from None


def _postgres(connection: Connection) -> dict[str, object]:
    extras = _supported_extras(connection, _POSTGRES, _POSTGRES_UNUSED)
    mode = str(extras.get("sslmode", TlsMode.PREFER))
    if mode not in _POSTGRES_MODES:
        raise _ConnectionError(f"sslmode {mode!r} must be one of {', '.join(_POSTGRES_MODES)}")
    files = {"ca_file": extras.get("sslrootcert"), "cert_file": extras.get("sslcert"), "key_file": extras.get("sslkey")}
    return {
        **_server(connection, DatabaseKind.POSTGRESQL, extras),
        "tls": Tls.model_validate({"mode": _POSTGRES_MODES[mode], **files}),
        "options": extras.get("options"),
    }


def _mysql(connection: Connection) -> dict[str, object]:
    extras = _supported_extras(connection, _MYSQL, _MYSQL_UNUSED)
    file_extras = _mysql_files(extras.get("ssl") or {})
    files = {f"{name}_file": file_extras.get(name) or extras.get(f"ssl_{name}") for name in ("ca", "cert", "key")}
    return {
        **_server(connection, DatabaseKind.MYSQL, extras),
        "tls": Tls.model_validate({"mode": _mysql_mode(extras, file_extras, files), **files}),
    }


def _mysql_files(value: object) -> _Extras:
    """Return the extra `ssl`, which may be a JSON string."""
    try:
        files = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        files = None
    if not isinstance(files, Mapping) or set(files) - _MYSQL_TLS:
        raise _ConnectionError(f"ssl must be JSON with the keys {', '.join(sorted(_MYSQL_TLS))}")
    return files


def _mysql_mode(extras: _Extras, file_extras: _Extras, files: _Extras) -> TlsMode:
    """Return the given mode, otherwise the mode that MySQL's own clients would choose for the files."""
    if mode := extras.get("ssl_mode"):
        if str(mode).lower() not in _MYSQL_MODES:
            raise _ConnectionError(f"ssl_mode {mode!r} must be one of {', '.join(_MYSQL_MODES).upper()}")
        return _MYSQL_MODES[str(mode).lower()]
    if str(extras.get("ssl_disabled", "")).lower() == "true":
        return TlsMode.DISABLE
    if file_extras.get("check_hostname"):
        return TlsMode.VERIFY_FULL
    if files["ca_file"]:
        return TlsMode.VERIFY_CA
    return TlsMode.REQUIRE if any(files.values()) else TlsMode.PREFER


def _sqlite(connection: Connection) -> dict[str, object]:
    _supported_extras(connection, frozenset(), _SQLITE_UNUSED)
    path = connection.host or connection.schema
    if not path:
        raise _ConnectionError("set the path of the file as host")
    return {"kind": DatabaseKind.SQLITE, "database": path}


_READERS: Mapping[str, Callable[[Connection], dict[str, object]]] = {
    "postgres": _postgres,
    "mysql": _mysql,
    "sqlite": _sqlite,
}


def _server(connection: Connection, kind: DatabaseKind, extras: _Extras) -> dict[str, object]:
    """Return the fields that all servers share."""
    if kind is DatabaseKind.POSTGRESQL and not connection.schema:
        raise _ConnectionError("set the name of the database as schema")
    parts: dict[str, object] = {
        "kind": kind,
        "host": connection.host,
        "port": connection.port,
        "database": connection.schema or "",
        "user": connection.login,
        "password": connection.password,
    }
    return {**parts, "connect_timeout": extras["connect_timeout"]} if "connect_timeout" in extras else parts


def _supported_extras(connection: Connection, names: frozenset[str], other_names: frozenset[str]) -> _Extras:
    extras = connection.extra_dejson
    unknown = sorted(set(extras) - names - other_names)
    if unknown:
        raise _ConnectionError(
            f"unknown extras: {', '.join(unknown)}; supported are {', '.join(sorted(names | other_names))}"
        )
    return extras
