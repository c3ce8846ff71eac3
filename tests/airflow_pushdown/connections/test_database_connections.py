"""Conversion of an Airflow connection to the connection of a remote table."""

from __future__ import annotations

import json

import pytest
from airflow.sdk import Connection
from airflow.sdk.log import redact

from airflow_pushdown.connections.credentials import confidential
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.exceptions import ConfigError
from pushdown_spark.contract import DatabaseKind, RemoteConnection, SecretValues, Tls, TlsMode


def connection(conn_type: str, extra: object = None, **fields: object) -> Connection:
    text = json.dumps(extra) if extra is not None else None
    return Connection(conn_id="shop", conn_type=conn_type, extra=text, **fields)  # type: ignore[arg-type]


def server(conn_type: str, extra: object = None) -> Connection:
    return connection(conn_type, extra, host="db", port=99, login="me", password="hush-hush", schema="shop")


def test_extras_of_libpq_become_options_of_postgres() -> None:
    extra = {
        **{"sslmode": "verify-full", "sslrootcert": "/ca", "sslcert": "/cert", "sslkey": "/key"},
        **{"connect_timeout": 3, "options": "-c search_path=sales", "cursor": "dictcursor"},
    }
    assert database_connection(server("postgres", extra)) == RemoteConnection(
        kind=DatabaseKind.POSTGRESQL,
        database="shop",
        host="db",
        port=99,
        user="me",
        password="hush-hush",
        tls=Tls(mode=TlsMode.VERIFY_FULL, ca_file="/ca", cert_file="/cert", key_file="/key"),
        options="-c search_path=sales",
        connect_timeout=3,
    )


@pytest.mark.parametrize(
    ("extra", "tls"),
    [
        (None, Tls()),
        ({"charset": "utf8mb4", "client": "mysqlclient"}, Tls()),
        ({"ssl_mode": "REQUIRED"}, Tls(mode=TlsMode.REQUIRE)),
        ({"ssl_mode": "VERIFY_IDENTITY", "ssl": {"ca": "/ca"}}, Tls(mode=TlsMode.VERIFY_FULL, ca_file="/ca")),
        ({"ssl": {"ca": "/ca"}}, Tls(mode=TlsMode.VERIFY_CA, ca_file="/ca")),
        ({"ssl": '{"ca": "/ca", "check_hostname": true}'}, Tls(mode=TlsMode.VERIFY_FULL, ca_file="/ca")),
        ({"ssl_cert": "/c", "ssl_key": "/k"}, Tls(mode=TlsMode.REQUIRE, cert_file="/c", key_file="/k")),
        ({"ssl_disabled": True}, Tls(mode=TlsMode.DISABLE)),
    ],
)
def test_extras_of_mysql_clients_become_its_tls_options(extra: object, tls: Tls) -> None:
    connection = database_connection(server("mysql", extra))
    assert connection.kind is DatabaseKind.MYSQL
    assert connection.tls == tls


def test_the_host_of_a_sqlite_connection_is_its_database_file() -> None:
    database = database_connection(connection("sqlite", {"mode": "ro"}, host="/data/shop.db"))
    assert database == RemoteConnection(kind=DatabaseKind.SQLITE, database="/data/shop.db")


def test_the_password_is_masked_and_confidential() -> None:
    connection = database_connection(server("postgres"))
    assert redact("hush-hush at db") == "*** at db"
    assert confidential(SecretValues(remote={"source": connection})) == ("hush-hush",)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (server("oracle"), "has type oracle; supported types are postgres, mysql, sqlite"),
        (server("postgres", {"iam": True}), "unknown extras: iam"),
        (server("postgres", {"sslmode": "maybe"}), "sslmode 'maybe' must be one of"),
        (connection("postgres", host="db"), "set the name of the database as schema"),
        (connection("postgres", schema="shop"), "host: required for a database server"),
        (server("mysql", {"unix_socket": "/run/mysqld.sock"}), "unknown extras: unix_socket"),
        (server("mysql", {"ssl_mode": "perhaps"}), "ssl_mode 'perhaps' must be one of DISABLED"),
        (server("mysql", {"ssl": {"cipher": "x"}}), "ssl must be JSON with the keys"),
        (server("mysql", {"ssl": "not json"}), "ssl must be JSON with the keys"),
        (server("mysql", {"connect_timeout": "soon"}), "connect_timeout: "),
        (connection("sqlite"), "set the path of the file as host"),
    ],
)
def test_unknown_connection_extras_are_rejected_without_their_values(wrong: Connection, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        database_connection(wrong)
    assert "source_conn_id: connection 'shop'" in str(error.value)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "hush-hush" not in str(error.value)
    assert error.value.__cause__ is None
