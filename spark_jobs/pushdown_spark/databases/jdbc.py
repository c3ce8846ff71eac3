"""Carry our statements over Spark's own JDBC source, where the driver's jar is on its class path."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, reduce
from pathlib import Path
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pushdown_spark.contract import RemoteSourceSpec, Transport
from pushdown_spark.databases.address import Address
from pushdown_spark.databases.client import Client
from pushdown_spark.databases.jdbc_values import Crossing, crossed, crossings, decoded
from pushdown_spark.databases.model import Dialect, RemoteTable
from pushdown_spark.databases.render import quoted, to_sql
from pushdown_spark.databases.session_settings import MYSQL_SESSION, mysql_timeout, postgresql_options
from pushdown_spark.errors import BadSpecError, RemoteFailedError
from pushdown_spark.failures import root_message
from pushdown_spark.gateway import java_class

_POSTGRESQL_DRIVER = "org.postgresql.Driver"
_MARIADB_DRIVER = "org.mariadb.jdbc.Driver"
_MYSQL_DRIVER = "com.mysql.cj.jdbc.Driver"
DRIVERS = {
    Dialect.POSTGRES: (_POSTGRESQL_DRIVER,),
    Dialect.MARIADB: (_MARIADB_DRIVER,),
    # MariaDB's driver sends rows on as they come. MySQL's lets the server keep all of them first: only on request.
    Dialect.MYSQL: (_MARIADB_DRIVER, _MYSQL_DRIVER),
}
"""The drivers that are known to deliver our values, the better one first."""
_READS_PEM = "org.postgresql.ssl.PEMKeyManager"
"""What drivers have that read clients' keys in the form that libpq reads: PostgreSQL's since 42.7.9."""
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
"""Names of hosts and databases that mean nothing else inside a JDBC address."""
_EVERY_ROW = ["1 = 1"]
_IN_UTC = "SET TIME ZONE 'UTC'"
"""The driver asks for the zone of its JVM, and gets it whatever the options say."""
_MARIADB_TLS = {"disable": "disable", "require": "trust", "verify-ca": "verify-ca", "verify-full": "verify-full"}
_KEY_ON_DEMAND = {"allowPublicKeyRetrieval": "true"}
"""As PyMySQL does: without TLS a server of MySQL 8 sends the key under which it takes the password."""
_MYSQL_TLS = {"disable": "DISABLED", "prefer": "PREFERRED", "require": "REQUIRED"}


@dataclass(frozen=True)
class JdbcRoute:
    """How Spark's JDBC source reaches a database.

    `properties` are the driver's and Spark's own, the password among them: they travel to tasks inside the relation,
    of which plans, pages and events show the statement alone.
    """

    spark: SparkSession
    table: RemoteTable
    url: str
    properties: dict[str, str] = field(repr=False)
    statements_before: str
    address: Address

    @cached_property
    def selected(self) -> RemoteTable:
        """The table with its columns selected as they cross."""
        return crossed(self.table, self._ways)

    @cached_property
    def _ways(self) -> dict[str, Crossing]:
        return crossings(self.table)

    def refusal(self, columns: Sequence[str]) -> str | None:
        """Why some columns cannot cross; None where they can."""
        for name in columns:
            column = self.table.column(name, case_sensitive=True)
            if column is not None and name not in self._ways:
                return f"column {name} ({column.remote_type}) crosses as Arrow only"
        return None

    def statement(self, select: exp.Select) -> str:
        """The statement, its columns renamed: Spark does not quote what it finds in a name."""
        renamed = select.copy()
        inner = [node.this if isinstance(node, exp.Alias) else node for node in renamed.expressions]
        names = self._names(len(inner))
        renamed.set("expressions", [_alias(node, name) for node, name in zip(inner, names, strict=True)])
        return to_sql(renamed, self.table.dialect)

    def frame(self, statements: Sequence[str], columns: Sequence[str], snapshot: str | None) -> DataFrame:
        """The rows of some statements, each of them a task, with the values that Arrow would bring.

        Raises RemoteFailedError where Spark's source does not get as far as the statement's columns.
        """
        try:
            frames = [self._relation(statement, snapshot) for statement in statements]
        except (PySparkException, Py4JJavaError) as problem:
            text = self.address.without_secrets(root_message(problem).partition("\n")[0])
            raise RemoteFailedError(f"{self.address.place}: Spark's JDBC source cannot open it: {text}") from None
        return reduce(DataFrame.unionAll, frames).selectExpr(*self._outputs(columns)).toDF(*columns)

    def _relation(self, statement: str, snapshot: str | None) -> DataFrame:
        first = self.statements_before
        if snapshot is not None:
            shared = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'"
            first = f"{shared}; {first}"
        properties = {**self.properties, "sessionInitStatement": first}
        # By `jdbc` with predicates and not by `load`, whose options Spark keeps in a plan that explain() shows.
        return self.spark.read.jdbc(
            self.url, f"({statement}) airflow_pushdown", predicates=_EVERY_ROW, properties=properties
        )

    def _outputs(self, columns: Sequence[str]) -> list[str]:
        known = {column.name: column for column in self.table.columns}
        return [
            decoded(crossing_name, known[name], self._ways[name])
            for name, crossing_name in zip(columns, self._names(len(columns)), strict=True)
        ]

    def _names(self, number: int) -> list[str]:
        """Names that no column of the table has, so that ORDER BY means the table's."""
        prefix = "c"
        while any(column.name.lower().startswith(prefix) for column in self.table.columns):
            prefix += "_"
        return [f"{prefix}{place}" for place in range(number)]


def jdbc_route(
    spark: SparkSession, client: Client, address: Address, spec: RemoteSourceSpec, table: RemoteTable
) -> JdbcRoute | str:
    """The way over JDBC, or why there is none: empty where nobody would expect one.

    Raises BadSpecError where there is none but that was asked for.
    """
    if spec.transport is Transport.ARROW:
        return ""
    driver = next((name for name in DRIVERS.get(table.dialect, ()) if has_class(spark, name)), None)
    refusal = _missing(table.dialect) if driver is None else _refusal(spark, driver, address)
    if driver == _MYSQL_DRIVER and spec.transport is Transport.AUTO:
        return refusal or f"{driver} has the server keep the whole answer first"
    if driver is not None and refusal is None:
        return _route(spark, client, address, spec, table, driver)
    if spec.transport is Transport.JDBC:
        raise BadSpecError(f"transport: 'jdbc' is not possible: {refusal}")
    return "" if driver is None else refusal or ""


def has_class(spark: SparkSession, name: str) -> bool:
    """Whether a class is on Spark's class path, jars of packages included."""
    loader = java_class(spark, "java.lang.Thread").currentThread().getContextClassLoader()
    try:
        return loader.loadClass(name) is not None
    except Py4JJavaError:
        return False


def _missing(dialect: Dialect) -> str:
    """What a session would need for JDBC."""
    drivers = DRIVERS.get(dialect)
    if drivers is None:
        return f"{dialect} is read as Arrow"
    return f"Spark has no class {' or '.join(drivers)}; submit the job with the driver's jar or package"


def _refusal(spark: SparkSession, driver: str, address: Address) -> str | None:
    """Why a driver cannot reach a database as it is reached over Arrow; None where it can."""
    if not _PLAIN.fullmatch(address.host) or not _PLAIN.fullmatch(address.database):
        return "the host or the database has a name that a JDBC address may not hold"
    if address.cert_file and (driver != _POSTGRESQL_DRIVER or not has_class(spark, _READS_PEM)):
        newer = "; PostgreSQL's does since 42.7.9" if driver == _POSTGRESQL_DRIVER else ""
        return f"{driver} reads no client certificates from the files that are given{newer}"
    if driver == _MYSQL_DRIVER and address.tls_mode not in _MYSQL_TLS:
        return f"{driver} reads no certificates of authorities from the file that is given"
    return None


def _route(
    spark: SparkSession, client: Client, address: Address, spec: RemoteSourceSpec, table: RemoteTable, driver: str
) -> JdbcRoute:
    port = f":{address.port}" if address.port else ""
    place = f"{address.host}{port}/{address.database}"
    common = {
        "driver": driver,
        "fetchsize": str(spec.fetch_size),
        # What Spark itself would send of a filter is not always what it means there.
        "pushDownPredicate": "false",
        **({} if address.user is None else {"user": address.user}),
        **({} if address.password is None else {"password": address.password}),
    }
    if table.dialect is Dialect.POSTGRES:
        url = _url(f"jdbc:postgresql://{place}", _postgresql(address, spec))
        return JdbcRoute(spark, table, url, common, _IN_UTC, address)
    limit = spec.statement_timeout
    is_mariadb = table.dialect is Dialect.MARIADB
    timeout = [] if limit is None else [f"SESSION {mysql_timeout(limit, is_mariadb=is_mariadb)}"]
    read_only = "tx_read_only" if is_mariadb else "transaction_read_only"
    before = ", ".join([MYSQL_SESSION, f"SESSION {read_only} = 1", *timeout])
    if driver == _MYSQL_DRIVER:
        return JdbcRoute(spark, table, _url(f"jdbc:mysql://{place}", _mysql(address)), common, before, address)
    # Of the dialects of SQL that Spark has, MySQL's is MariaDB's. This driver knows its properties in small letters
    # too, and takes those of an address as they are, without decoding them.
    url = f"jdbc:mysql://{place}?permitMysqlScheme"
    return JdbcRoute(spark, table, url, {**common, **_mariadb(address, client)}, before, address)


def _url(place: str, properties: Mapping[str, str]) -> str:
    """An address with what the driver alone has to know: Spark would make small letters of the names of properties."""
    return f"{place}?{urlencode(properties, quote_via=quote)}"


def _postgresql(address: Address, spec: RemoteSourceSpec) -> dict[str, str]:
    # libpq verifies the server by a certificate that it is given, whether asked to or not.
    mode = "verify-ca" if address.tls_mode == "require" and address.ca_file else address.tls_mode
    return {
        "sslmode": mode,
        **({"sslrootcert": address.ca_file} if address.ca_file else {}),
        **_client_certificate(address),
        "options": postgresql_options(address.options, spec.statement_timeout),
        "ApplicationName": "airflow_pushdown",
        "connectTimeout": str(address.connect_timeout),
    }


def _client_certificate(address: Address) -> dict[str, str]:
    """What PostgreSQL's driver is told of a client's certificate: it takes every key for RSA's unless it is told."""
    if not address.cert_file or not address.key_file:
        return {}
    with suppress(OSError, ValueError, TypeError):
        key = load_pem_private_key(Path(address.key_file).read_bytes(), password=None)
        kind = "EC" if isinstance(key, EllipticCurvePrivateKey) else "RSA"
        return {"sslcert": address.cert_file, "sslkey": address.key_file, "pemKeyAlgorithm": kind}
    # Keys of another form are the driver's to judge.
    return {"sslcert": address.cert_file, "sslkey": address.key_file}


def _mysql(address: Address) -> dict[str, str]:
    return {
        "sslMode": _MYSQL_TLS[address.tls_mode],
        # By a cursor of the server's, else the driver would hold the whole answer.
        "useCursorFetch": "true",
        **_KEY_ON_DEMAND,
        "connectTimeout": str(address.connect_timeout * 1000),
    }


def _mariadb(address: Address, client: Client) -> dict[str, str]:
    mode = _MARIADB_TLS.get(address.tls_mode) or ("trust" if _is_encrypted(client) else "disable")
    return {
        "sslMode": mode,
        **_KEY_ON_DEMAND,
        **({"serverSslCert": address.ca_file} if address.ca_file and mode.startswith("verify") else {}),
        "connectTimeout": str(address.connect_timeout * 1000),
    }


def _is_encrypted(client: Client) -> bool:
    """Whether the server offers TLS: our own connection then has it. This driver insists on it or does without."""
    return any(row[1] for row in client.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))


def _alias(node: exp.Expr, name: str) -> exp.Alias:
    return exp.Alias(this=node, alias=quoted(name))
