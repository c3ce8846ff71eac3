"""Errors of databases, encrypted connections, and where passwords must not appear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from databases import CERTIFIED, HOST, Server
from pyspark.sql import SparkSession
from remote_scans import ENCRYPTED, KINDS, SERVERS, Connection, count, numbers, quote_of, rows_of, scanner

from pushdown_spark.contract import ErrorCode
from pushdown_spark.errors import PushdownError
from pushdown_spark.runtime.error_classification import classify


@pytest.mark.parametrize(
    ("kind", "slow"),
    [
        ("postgresql", "SELECT pg_sleep(20)::text AS slept"),
        ("mariadb", "SELECT sleep(20) AS slept"),
        ("mysql", "SELECT sleep(20) AS slept"),
        ("sqlite", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"),
    ],
)
def test_a_statement_beyond_the_timeout_is_cancelled(
    kind: str, slow: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill("SELECT 1")
    with pytest.raises(Exception) as problem:  # noqa: PT011 -- what Spark makes of a worker's error is not ours
        count(scanner(spark, connection, query=slow, statement_timeout=0.5, fetch_size=1000)())
    error = classify(problem.value)
    assert error.code is ErrorCode.REMOTE_FAILED, error.message
    assert error.retryable


REFUSED = [
    ("postgresql", {"password": "not-the-password"}, "password"),
    ("mariadb", {"password": "not-the-password"}, "Access denied"),
    ("mysql", {"password": "not-the-password"}, "Access denied"),
    ("postgresql", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, "certificate"),
    ("mariadb", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, ""),
    ("mysql", {"tls": {"mode": "verify-ca", "ca_file": "/etc/hostname"}}, ""),
    ("postgresql", {"database": "no_such"}, "no_such"),
    ("mariadb", {"database": "no_such"}, "no_such"),
    ("mysql", {"database": "no_such"}, "no_such"),
    ("sqlite", {"database": "/no/such.db"}, "/no/such.db"),
]


@pytest.mark.parametrize(("kind", "change", "message"), REFUSED)
def test_errors_of_databases_are_one_line_without_secrets(
    kind: str, change: Connection, message: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = {**fill("SELECT 1"), **change}
    with pytest.raises(PushdownError) as error:
        scanner(spark, connection, table="numbers")()
    assert error.value.code is ErrorCode.REMOTE_REFUSED
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert str(connection.get("password", "\n")) not in str(error.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_an_unreachable_server_raises_a_retryable_error(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    with pytest.raises(PushdownError) as error:
        scanner(spark, {**fill("SELECT 1"), "port": 1}, table="numbers")()
    assert error.value.code is ErrorCode.REMOTE_FAILED
    assert f"{HOST}:1" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_names_a_missing_table(kind: str, fill: Callable[..., Connection], spark: SparkSession) -> None:
    with pytest.raises(PushdownError, match="no_such_table") as error:
        scanner(spark, fill("SELECT 1"), table="no_such_table")()
    assert error.value.code is ErrorCode.REMOTE_REFUSED


@pytest.mark.parametrize("kind", SERVERS)
def test_certificates_are_verified(
    kind: str, server: Server, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    tls = {"mode": "verify-full", "ca_file": str(server.ca_file)}
    (row,) = rows_of(scanner(spark, {**fill("SELECT 1"), "tls": tls}, query=ENCRYPTED[kind])())
    assert row["used"] in (True, 1)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("mode", ["prefer", "verify-full"])
def test_a_client_certificate_is_accepted(
    kind: str, mode: str, server: Server, fill: Callable[..., Connection], spark: SparkSession, tmp_path: Path
) -> None:
    certificate, key = server.client_certificate(tmp_path)
    ca_file = str(server.ca_file) if mode == "verify-full" else None
    tls = {"mode": mode, "ca_file": ca_file}
    connection = {**fill("SELECT 1"), "user": CERTIFIED}
    arguments = {**tls, "cert_file": str(certificate), "key_file": str(key)}
    for count_of in (count, lambda result: result.df.count()):
        assert count_of(scanner(spark, {**connection, "tls": arguments}, query="SELECT 1 AS one")()) == 1
    with pytest.raises(PushdownError) as error:
        scanner(spark, {**connection, "tls": tls}, query="SELECT 1 AS one")()
    assert error.value.code is ErrorCode.REMOTE_REFUSED
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", SERVERS)
def test_no_password_is_in_plan_report_or_settings(
    kind: str, fill: Callable[..., Connection], spark: SparkSession
) -> None:
    connection = fill(*numbers(quote_of(kind)))
    result = scanner(spark, connection, table="numbers")(where="k > 7 AND upper(s) = 'S9'")
    assert count(result) == 1
    plan = result.df._jdf.queryExecution().toString()
    texts = [plan, result.explain(), repr(result.report()), str(spark.sparkContext.getConf().getAll())]
    assert not [text for text in texts if str(connection["password"]) in text]
