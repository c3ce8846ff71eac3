"""The end of a connection that uses TLS is retryable. A problem of TLS itself is not."""

from __future__ import annotations

import psycopg
import pymysql
import pytest

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.clients.mysql import mysql_error
from pushdown_spark.databases.clients.postgresql import postgresql_error


@pytest.mark.parametrize(
    ("text", "is_retryable"),
    [
        ("SSL connection has been closed unexpectedly", True),
        ("SSL SYSCALL error: EOF detected", True),
        ("SSL SYSCALL error: Connection reset by peer", True),
        ("SSL error: unexpected eof while reading", True),
        ("SSL error: certificate verify failed", False),
        ("server does not support SSL, but SSL was required", False),
    ],
)
def test_postgresql(text: str, is_retryable: bool) -> None:
    address = address_of(RemoteConnection(kind="postgresql", host="db", database="shop"))
    assert postgresql_error(address, psycopg.OperationalError(text), None).code.retryable == is_retryable


@pytest.mark.parametrize(
    ("number", "text", "is_retryable"),
    [
        (2013, "Lost connection to MySQL server during query ([SSL: UNEXPECTED_EOF_WHILE_READING])", True),
        (2006, "MySQL server has gone away (SSLEOFError(8, 'EOF occurred in violation of protocol'))", True),
        (2003, "Can't connect to MySQL server on 'db' ([SSL: CERTIFICATE_VERIFY_FAILED] self-signed)", False),
        (2013, "Lost connection to MySQL server during query ([SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED])", False),
    ],
)
def test_mysql(number: int, text: str, is_retryable: bool) -> None:
    address = address_of(RemoteConnection(kind="mysql", host="db", database="shop"))
    assert mysql_error(address, pymysql.err.OperationalError(number, text)).code.retryable == is_retryable
