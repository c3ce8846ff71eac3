"""The transport of statements over Spark's JDBC source, if the jar of a driver is on Spark's class path.

Columns have the values that they have over Arrow. If Spark or a driver would deliver another value, the statement
selects a string or a simpler number, and Spark converts it to the column's type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.contract import RemoteSourceSpec, Transport
from pushdown_spark.databases.client import MYSQL_SESSION, Client, DatabaseAddress, mysql_timeout, postgresql_options
from pushdown_spark.databases.sql.builder import call, cast, to_sql
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteColumn, RemoteTable, quote_identifier
from pushdown_spark.errors import BadSpecError, RemoteFailedError, SchemaConflictError, UnsupportedError
from pushdown_spark.expressions.names import EXACT_NAMES
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS
from pushdown_spark.projection.paths import sql_text, sql_type
from pushdown_spark.runtime.exception_chain import root_message
from pushdown_spark.runtime.jvm_gateway import has_class

_POSTGRESQL_DRIVER = "org.postgresql.Driver"
_MARIADB_DRIVER = "org.mariadb.jdbc.Driver"
_MYSQL_DRIVER = "com.mysql.cj.jdbc.Driver"
DRIVERS = {
    Dialect.POSTGRES: (_POSTGRESQL_DRIVER,),
    Dialect.MARIADB: (_MARIADB_DRIVER,),
    # MariaDB's driver streams rows. MySQL's driver makes the server buffer the whole result, so it is used on request.
    Dialect.MYSQL: (_MARIADB_DRIVER, _MYSQL_DRIVER),
}
"""The tested drivers, the preferred one first."""
_PEM_KEY_CLASS = "org.postgresql.ssl.PEMKeyManager"
"""A class of the drivers that read client keys in libpq's format: PostgreSQL's since 42.7.9."""
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+")
"""Names of hosts and databases without a special meaning in a JDBC URL."""
_ALL_ROWS = ["1 = 1"]
_SET_UTC = "SET TIME ZONE 'UTC'"
"""The driver sets the time zone of its JVM, which overrides the connection options."""
_MARIADB_TLS = {"disable": "disable", "require": "trust", "verify-ca": "verify-ca", "verify-full": "verify-full"}
_ALLOW_KEY_RETRIEVAL = {"allowPublicKeyRetrieval": "true"}
"""PyMySQL allows this too: without TLS, MySQL 8 sends the public key that encrypts the password."""
_MYSQL_TLS = {"disable": "DISABLED", "prefer": "PREFERRED", "require": "REQUIRED"}
_LONG_DIGITS = 18
_DATE_LENGTH = 10
_UNCONVERTED_MYSQL_TYPES = ("smallint", "mediumint", "int", "bigint", "double", "decimal")
"""Types of MySQL and MariaDB that drivers and Spark read without a conversion, unless they are unsigned."""
_MYSQL_STRING_TYPES = ("varchar", "text", "tinytext", "mediumtext", "longtext")
_SENT_AS_TEXT = (t.DecimalType, t.DateType, t.TimestampNTZType, t.TimestampType)
"""Types whose values arrive as strings that Spark parses and checks, unless the bare column is selected."""
_MAX_SHOWN_CHARACTERS = 60


@dataclass(frozen=True)
class JdbcTransport:
    """The parameters with which Spark's JDBC source connects to a database.

    `properties` are the properties of the driver and of Spark, and include the password. Spark sends them to tasks
    inside the relation. Plans, pages and events show only the statement. `init_sql` runs when a connection opens.
    """

    spark: SparkSession
    table: RemoteTable
    url: str
    properties: dict[str, str] = field(repr=False)
    init_sql: str
    address: DatabaseAddress

    @cached_property
    def jdbc_table(self) -> RemoteTable:
        """The table with the columns that JDBC can read, and the SELECT expressions that it needs."""
        return _jdbc_table(self.table)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Raise UnsupportedError if a column cannot be read over JDBC."""
        for name in columns:
            column = self.table.column(name, name_rule=EXACT_NAMES)
            if column is not None and self.jdbc_table.column(name, name_rule=EXACT_NAMES) is None:
                raise UnsupportedError(f"column {name} ({column.remote_type}) can only be read as Arrow")

    def statement(self, select: exp.Select) -> str:
        """Return the statement with generated column names, because Spark does not escape quotes in names."""
        select_with_aliases = select.copy()
        outputs = [node.this if isinstance(node, exp.Alias) else node for node in select_with_aliases.expressions]
        aliases = [exp.Alias(this=node, alias=quote_identifier(f"c{index}")) for index, node in enumerate(outputs)]
        select_with_aliases.set("expressions", aliases)
        return to_sql(select_with_aliases, self.table.dialect)

    def frame(self, statements: Sequence[str], columns: Sequence[str], snapshot: str | None) -> DataFrame:
        """Return the rows of some statements, each read by a task, with the values that Arrow would deliver.

        Raises RemoteFailedError if Spark's JDBC source cannot read the columns of a statement.
        """
        try:
            frames = [self._relation(statement, snapshot) for statement in statements]
        except (PySparkException, Py4JJavaError) as problem:
            text = self.address.without_secrets(root_message(problem).partition("\n")[0])
            raise RemoteFailedError(
                f"{self.address.display_name}: Spark's JDBC source cannot open it: {text}"
            ) from None
        by_name = {column.name: column for column in self.jdbc_table.columns}
        outputs = [_decode_sql(f"c{index}", by_name[name]) for index, name in enumerate(columns)]
        return reduce(DataFrame.unionAll, frames).selectExpr(*outputs).toDF(*columns)

    def _relation(self, statement: str, snapshot: str | None) -> DataFrame:
        init_sql = self.init_sql
        if snapshot is not None:
            isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
            init_sql = f"{isolation}; SET TRANSACTION SNAPSHOT '{snapshot}'; {init_sql}"
        properties = {**self.properties, "sessionInitStatement": init_sql}
        # `load` would show its options, which include the password, in explain(). `jdbc` does not.
        return self.spark.read.jdbc(
            self.url, f"({statement}) airflow_pushdown", predicates=_ALL_ROWS, properties=properties
        )


@dataclass(frozen=True)
class TransportChoice:
    """The transport of a scan: JDBC, or Arrow if `jdbc` is None.

    `reason` is why the rows arrive as Arrow, or an empty string if the user does not expect JDBC.
    """

    jdbc: JdbcTransport | None = None
    reason: str = ""


ARROW = TransportChoice()
"""Arrow, where the user does not expect JDBC."""


def choose_transport(
    spark: SparkSession, client: Client, address: DatabaseAddress, spec: RemoteSourceSpec, table: RemoteTable
) -> TransportChoice:
    """Return the transport of a source. Raises BadSpecError if the source requires JDBC and has no driver for it."""
    if spec.transport is Transport.ARROW:
        return ARROW
    driver = next((name for name in DRIVERS.get(table.dialect, ()) if has_class(spark, name)), None)
    try:
        if driver is None:
            raise UnsupportedError(_missing_driver(table.dialect))
        _check_driver(spark, driver, address)
    except UnsupportedError as problem:
        if spec.transport is Transport.JDBC:
            raise BadSpecError(
                f"transport: 'jdbc' is not possible: {problem}; without it, rows are read as Arrow"
            ) from problem
        # Without a driver, the user does not expect JDBC.
        return TransportChoice(reason="" if driver is None else str(problem))
    if driver == _MYSQL_DRIVER and spec.transport is Transport.AUTO:
        return TransportChoice(reason=f"{driver} makes the server buffer the whole result")
    return TransportChoice(_create(spark, client, address, spec, table=table, driver=driver))


def _missing_driver(dialect: Dialect) -> str:
    """Return what the session lacks for JDBC."""
    drivers = DRIVERS.get(dialect)
    if drivers is None:
        return f"{dialect} is read as Arrow"
    return f"Spark has no class {' or '.join(drivers)}; submit the job with the driver's jar or package"


def _check_driver(spark: SparkSession, driver: str, address: DatabaseAddress) -> None:
    """Raise UnsupportedError if a driver cannot connect as the Arrow clients do."""
    if not _PLAIN_NAME.fullmatch(address.host) or not _PLAIN_NAME.fullmatch(address.database):
        raise UnsupportedError("the name of the host or of the database has characters with a meaning in JDBC URLs")
    if address.cert_file and (driver != _POSTGRESQL_DRIVER or not has_class(spark, _PEM_KEY_CLASS)):
        hint = "; use version 42.7.9 or later" if driver == _POSTGRESQL_DRIVER else ""
        raise UnsupportedError(f"{driver} does not support the given client certificate files{hint}")
    if driver == _MYSQL_DRIVER and address.tls_mode not in _MYSQL_TLS:
        raise UnsupportedError(f"{driver} does not support the given file of CA certificates")


def _create(
    spark: SparkSession,
    client: Client,
    address: DatabaseAddress,
    spec: RemoteSourceSpec,
    *,
    table: RemoteTable,
    driver: str,
) -> JdbcTransport:
    """Return the transport: the database's URL, the driver's properties, and the SQL that begins a session."""
    port = f":{address.port}" if address.port else ""
    target = f"{address.host}{port}/{address.database}"
    common = {
        "driver": driver,
        "fetchsize": str(spec.fetch_size),
        # Spark would push filters whose meaning differs in the database.
        "pushDownPredicate": "false",
        **({} if address.user is None else {"user": address.user}),
        **({} if address.password is None else {"password": address.password}),
    }
    if table.dialect is Dialect.POSTGRES:
        url = _url(f"jdbc:postgresql://{target}", _postgresql(address, spec))
        return JdbcTransport(spark, table, url, common, _SET_UTC, address)
    limit = spec.statement_timeout
    is_mariadb = table.dialect is Dialect.MARIADB
    timeout = [] if limit is None else [f"SESSION {mysql_timeout(limit, is_mariadb=is_mariadb)}"]
    read_only = "tx_read_only" if is_mariadb else "transaction_read_only"
    init_sql = ", ".join([MYSQL_SESSION, f"SESSION {read_only} = 1", *timeout])
    if driver == _MYSQL_DRIVER:
        return JdbcTransport(spark, table, _url(f"jdbc:mysql://{target}", _mysql(address)), common, init_sql, address)
    # Spark uses its MySQL dialect for MariaDB by the scheme. This driver accepts properties in lower case, and does not
    # decode the parameters of a URL.
    url = f"jdbc:mysql://{target}?permitMysqlScheme"
    return JdbcTransport(spark, table, url, {**common, **_mariadb(address, client)}, init_sql, address)


def _url(base: str, properties: Mapping[str, str]) -> str:
    """Return a URL with the driver's properties. Spark would convert the names of properties to lower case."""
    return f"{base}?{urlencode(properties, quote_via=quote)}"


def _postgresql(address: DatabaseAddress, spec: RemoteSourceSpec) -> dict[str, str]:
    # libpq verifies the server if it has a CA certificate, even in the mode "require".
    mode = "verify-ca" if address.tls_mode == "require" and address.ca_file else address.tls_mode
    return {
        "sslmode": mode,
        **({"sslrootcert": address.ca_file} if address.ca_file else {}),
        **_client_certificate(address),
        "options": postgresql_options(address.options, spec.statement_timeout),
        "ApplicationName": "airflow_pushdown",
        "connectTimeout": str(address.connect_timeout),
    }


def _client_certificate(address: DatabaseAddress) -> dict[str, str]:
    """Return the properties for a client certificate. PostgreSQL's driver assumes an RSA key by default."""
    if not address.cert_file or not address.key_file:
        return {}
    with suppress(OSError, ValueError, TypeError):
        key = load_pem_private_key(Path(address.key_file).read_bytes(), password=None)
        algorithm = "EC" if isinstance(key, EllipticCurvePrivateKey) else "RSA"
        return {"sslcert": address.cert_file, "sslkey": address.key_file, "pemKeyAlgorithm": algorithm}
    # The driver may support keys in other formats.
    return {"sslcert": address.cert_file, "sslkey": address.key_file}


def _mysql(address: DatabaseAddress) -> dict[str, str]:
    return {
        "sslMode": _MYSQL_TLS[address.tls_mode],
        # Without a server-side cursor, the driver would hold the whole result in memory.
        "useCursorFetch": "true",
        **_ALLOW_KEY_RETRIEVAL,
        "connectTimeout": str(address.connect_timeout * 1000),
    }


def _mariadb(address: DatabaseAddress, client: Client) -> dict[str, str]:
    mode = _MARIADB_TLS.get(address.tls_mode) or ("trust" if _is_encrypted(client) else "disable")
    return {
        "sslMode": mode,
        **_ALLOW_KEY_RETRIEVAL,
        **({"serverSslCert": address.ca_file} if address.ca_file and mode.startswith("verify") else {}),
        "connectTimeout": str(address.connect_timeout * 1000),
    }


def _is_encrypted(client: Client) -> bool:
    """Return whether the server offers TLS. The client uses it if so, while this driver needs a fixed mode."""
    return any(row[1] for row in client.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))


def _jdbc_table(table: RemoteTable) -> RemoteTable:
    """Return the table with the columns that JDBC can read, and their SELECT expressions for JDBC."""
    if table.dialect is Dialect.POSTGRES:
        readable = [column for column in table.columns if not isinstance(column.spark_type, t.ArrayType)]
        columns = [replace(column, rendering=_from_postgresql(column)) for column in readable]
    else:
        columns = [replace(column, rendering=_from_mysql(column, table)) for column in table.columns]
    return replace(table, columns=tuple(columns))


def _decode_sql(generated_name: str, column: RemoteColumn) -> str:
    """Return Spark's SQL for the value of a column of `_jdbc_table` that arrived under a generated name.

    Building a Column would take ten calls to the JVM. The cast also removes the metadata of char(n) columns.
    """
    is_text = column.rendering is not None and isinstance(column.spark_type, _SENT_AS_TEXT)
    value = _checked_cast(generated_name, column) if is_text else generated_name
    return f"CAST({value} AS {sql_type(column.spark_type)})"


def _from_postgresql(column: RemoteColumn) -> exp.Expr | None:
    reference, spark_type = column.reference, column.spark_type
    if isinstance(spark_type, t.DecimalType):
        is_short = column.remote_type.startswith("numeric(") and spark_type.precision <= _LONG_DIGITS
        return None if is_short else _text(reference)
    if isinstance(spark_type, t.DateType | t.TimestampNTZType):
        return _text(reference)
    if isinstance(spark_type, t.TimestampType):
        return _text(exp.AtTimeZone(this=reference, zone=exp.Literal.string("UTC")))
    return column.rendering


def _text(node: exp.Expr) -> exp.Expr:
    return cast(node, "text", Dialect.POSTGRES)


def _from_mysql(column: RemoteColumn, table: RemoteTable) -> exp.Expr | None:
    spark_type, base_type = column.spark_type, column.remote_type.partition("(")[0].partition(" ")[0]
    expression = column.reference if column.rendering is None else column.rendering
    if base_type in _UNCONVERTED_MYSQL_TYPES and "unsigned" not in column.remote_type:
        is_wide = base_type == "decimal" and _digits(column) > MAX_DECIMAL_DIGITS
        return call("CONCAT", expression) if is_wide else column.rendering
    if isinstance(spark_type, _SENT_AS_TEXT):
        return call("CONCAT", expression)
    if isinstance(spark_type, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        # Drivers would deliver tinyint(1) as a boolean and year as a date.
        return cast(expression, "SIGNED", Dialect.MYSQL)
    if isinstance(spark_type, t.StringType) and (base_type not in _MYSQL_STRING_TYPES or table.subquery is not None):
        # Spark pads columns that a driver reports as CHAR. These include enums, and possibly the columns of a query.
        return call("CONCAT", expression)
    return column.rendering


def _digits(column: RemoteColumn) -> int:
    return int(column.remote_type.partition("(")[2].partition(",")[0] or 0)


def _checked_cast(text: str, column: RemoteColumn) -> str:
    """Return SQL for the value of a string. It raises, naming the column, if the value does not fit the type."""
    spark_type = column.spark_type
    with_zone = f"concat({text}, 'Z')" if isinstance(spark_type, t.TimestampType) else text
    value = f"CASE WHEN {_is_well_formed(text, spark_type)} THEN try_cast({with_zone} AS {sql_type(spark_type)}) END"
    return f"coalesce({value}, CASE WHEN {text} IS NOT NULL THEN {_raise_conflict(text, column)} END)"


def _is_well_formed(text: str, kind: t.DataType) -> str:
    """Return the SQL condition under which Spark's cast reads a string correctly. It ignores text after a date."""
    if isinstance(kind, t.DateType):
        return f"length({text}) = {_DATE_LENGTH} AND {text} >= '0001'"
    if isinstance(kind, t.TimestampNTZType | t.TimestampType):
        return f"substring({text}, 5, 1) = '-' AND {text} >= '0001' AND NOT endswith({text}, 'C')"
    return f"{text} IS NOT NULL"


def _raise_conflict(text: str, column: RemoteColumn) -> str:
    """Return SQL that raises SchemaConflictError, which the driver recognizes."""
    before = SchemaConflictError.plan_message(f"column {column.name} ({column.remote_type}) holds '")
    after = (
        f"', which Spark cannot represent as {column.spark_type.simpleString()}; leave the column out, or give a "
        "`query` that converts it\n"
    )
    return f"raise_error(concat({sql_text(before)}, substring({text}, 1, {_MAX_SHOWN_CHARACTERS}), {sql_text(after)}))"
