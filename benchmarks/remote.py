"""Remote tables: our scans over Arrow and JDBC against Spark's JDBC source as its users write it.

Servers of the run are on this machine. Every round runs all engines once, in turn. Ratios are medians of the ratios
within rounds. CPU seconds are those of Spark's side, without the databases. `alone` is the wall time in which a
database counts the rows of our statements, which is a lower bound for any reader.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet
import pymysql
from databases import Server, mariadb, mysql, postgresql
from pyspark.sql import SparkSession

from benchmarks.lineitem import generate
from benchmarks.result_files import ResultTable, command_line, is_chosen, table_head
from benchmarks.rounds import Comparison, Engines, Measured, cpu_and_wall, measure, repeat, seconds
from benchmarks.scans import Query, save, select
from benchmarks.sessions import jdbc_session
from pushdown_spark.databases.read.jdbc import DRIVERS
from pushdown_spark.databases.sql.remote_table import Dialect
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

_TYPES = (
    ("l_orderkey", "bigint"),
    ("l_partkey", "bigint"),
    ("l_suppkey", "bigint"),
    ("l_linenumber", "int"),
    ("l_quantity", "decimal(15,2)"),
    ("l_extendedprice", "decimal(15,2)"),
    ("l_discount", "decimal(15,2)"),
    ("l_tax", "decimal(15,2)"),
    ("l_returnflag", "char(1)"),
    ("l_linestatus", "char(1)"),
    ("l_shipdate", "date"),
    ("l_commitdate", "date"),
    ("l_receiptdate", "date"),
    ("l_shipinstruct", "varchar(25)"),
    ("l_shipmode", "varchar(10)"),
    ("l_comment", "varchar(44)"),
)
_SQLITE_SCHEMA = ", ".join(f"{name} bigint" for name, kind in _TYPES if kind == "bigint")
"""Spark's source takes SQLite's bigint for decimals, of which it has no bits."""
_DEFINITION = ", ".join(f"{name} {kind}" for name, kind in _TYPES)
_TWO = ("l_orderkey", "l_comment")
_INDEX = "CREATE INDEX by_order ON lineitem (l_orderkey)"
_KEY = "PRIMARY KEY (l_orderkey, l_linenumber)"
"""TPC-H's own: by such a key InnoDB stores its rows."""
_NAMES = {"mariadb": "MariaDB", "mysql": "MySQL"}
_OPTIONS = {"mariadb": "?permitMysqlScheme=true", "mysql": "?sslMode=DISABLED&allowPublicKeyRetrieval=true"}
_WARM_UP = 4
_FETCH = "10000"


@dataclass(frozen=True)
class RemoteQuery(Query):
    """A query with a limit, or SQL over `t`."""

    limit: int | None = None
    text: str | None = None


def queries(rows: int) -> list[RemoteQuery]:
    """Return queries that Spark's JDBC source can push, then others."""
    many = ", ".join(str(key) for key in range(1, 40_000, 8))
    return [
        RemoteQuery("all, 16 columns"),
        RemoteQuery("all, 2 columns", columns=_TWO),
        RemoteQuery("1 % filter", "l_partkey <= 400"),
        RemoteQuery("needle by index", f"l_orderkey = {rows // 2 // 32 * 32 + 1}"),
        RemoteQuery("LIMIT 100", limit=100),
        RemoteQuery(
            "top 100", text="SELECT l_orderkey, l_extendedprice FROM t ORDER BY l_extendedprice DESC LIMIT 100"
        ),
        RemoteQuery("groups", text="SELECT l_linenumber, count(*), max(l_shipdate) FROM t GROUP BY l_linenumber"),
        RemoteQuery("OR of functions", "length(l_comment) = 43 OR substring(l_comment, 1, 4) = 'abou'"),
        RemoteQuery("bits", "l_partkey & 1023 = 7"),
        RemoteQuery("CASE", "CASE WHEN l_linenumber = 7 THEN l_partkey ELSE l_suppkey END = 77"),
        RemoteQuery("<=> of expressions", "l_partkey % 1000 <=> l_suppkey % 999 + 900"),
        RemoteQuery("IN of 5,000", f"l_suppkey + 0 = 3 OR l_partkey * 7 IN ({many})"),
        RemoteQuery("IN of 5,000 of a column", f"l_orderkey IN ({many})"),
    ]


@dataclass(frozen=True)
class Database:
    """A filled database: our connection, the options of Spark's JDBC source, and a client that counts rows."""

    name: str
    connection: Mapping[str, object]
    jdbc: Mapping[str, str]
    count: Callable[[str], int]
    transports: tuple[str, ...] = ("arrow", "auto")


def prepare(scale: float, cache: Path) -> pa.Table:
    """Return the rows of lineitem, generated once for each scale."""
    home = cache / f"lineitem-remote-{scale}"
    if not (home / "lineitem.parquet").exists():
        generate(scale, home)
    table = parquet.read_table(home / "lineitem.parquet")
    kinds = {"date": pa.date32(), "char": pa.string(), "varc": pa.string()}
    for place, (name, kind) in enumerate(_TYPES):
        if kind[:4] in kinds:
            table = table.set_column(place, name, table[name].cast(kinds[kind[:4]]))
    return table


def fill_postgresql(server: Server, file: Path) -> Database:
    """Load the rows with COPY."""
    login = {key: server.connection()[key] for key in ("host", "port", "user", "password")}
    with psycopg.connect(**login, dbname=server.connection()["database"], autocommit=True) as connection:
        connection.execute(f"CREATE TABLE lineitem ({_DEFINITION})")
        with connection.cursor().copy("COPY lineitem FROM STDIN (FORMAT csv)") as copy, file.open("rb") as data:
            while chunk := data.read(1 << 20):
                copy.write(chunk)
        connection.execute(_INDEX)
        connection.execute("VACUUM ANALYZE lineitem")
    url = f"jdbc:postgresql://{login['host']}:{login['port']}/{server.connection()['database']}"
    jdbc = {"url": url, "driver": "org.postgresql.Driver", "user": str(login["user"]), "password": server.password}
    connect = partial(psycopg.connect, **login, dbname=server.connection()["database"])
    return Database("PostgreSQL", server.connection(), jdbc, partial(_count_rows, connect))


def fill_mysql(server: Server, file: Path) -> Database:
    """Load the rows with LOAD DATA, into MariaDB or MySQL."""
    parts = server.connection()
    login = {key: parts[key] for key in ("host", "port", "user", "password", "database")}
    connecting = closing(pymysql.connect(**login, local_infile=True, autocommit=True))
    with connecting as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL local_infile = 1")
        cursor.execute(f"CREATE TABLE lineitem ({_DEFINITION}, {_KEY}) CHARACTER SET utf8mb4")
        cursor.execute(
            f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE lineitem CHARACTER SET utf8mb4 "
            "FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"
        )
        cursor.execute("ANALYZE TABLE lineitem")
    jdbc = {
        "url": f"jdbc:mysql://{parts['host']}:{parts['port']}/{parts['database']}{_OPTIONS[server.product]}",
        "driver": DRIVERS[Dialect(server.product)][-1],
        "user": str(parts["user"]),
        "password": server.password,
    }
    # MariaDB's driver uses no TLS by default, so our connection does not use it either.
    count = partial(_count_rows, partial(pymysql.connect, **login))
    return Database(_NAMES[server.product], {**parts, "tls": {"mode": "disable"}}, jdbc, count)


def fill_sqlite(table: pa.Table, directory: Path) -> Database:
    """Insert the rows. Dates are strings and decimals are numbers."""
    path = directory / "lineitem.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE lineitem ({_DEFINITION})")
        marks = ", ".join("?" * len(_TYPES))
        connection.executemany(f"INSERT INTO lineitem VALUES ({marks})", _rows(table))
        connection.execute(_INDEX)
    jdbc = {
        "url": f"jdbc:sqlite:{path}?date_string_format=yyyy-MM-dd",
        "driver": "org.sqlite.JDBC",
        "customSchema": _SQLITE_SCHEMA,
    }
    count = partial(_count_rows, partial(sqlite3.connect, path))
    return Database("SQLite", {"kind": "sqlite", "database": str(path)}, jdbc, count, ("arrow",))


def _count_rows(connect: Callable[[], Any], statement: str) -> int:
    """Return the number of rows of a statement, counted by the database over a separate connection."""
    with closing(connect()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(f"SELECT count(*) FROM ({statement}) AS found")
        return int(cursor.fetchone()[0])


def _rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    plain = pa.schema(
        [
            (
                name,
                pa.float64() if "decimal" in kind else pa.string() if kind == "date" else table.schema.field(name).type,
            )
            for name, kind in _TYPES
        ]
    )
    for batch in table.cast(plain).to_batches(10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class Bench:
    """Our transports and Spark's own source over one database."""

    def __init__(self, spark: SparkSession, database: Database) -> None:
        self._spark = spark
        self._database = database

    def engines(self, query: RemoteQuery) -> Engines:
        """Return the action of each reader for a query."""
        engines: Engines = {way: partial(self._ours, query, way) for way in self._database.transports}
        engines["spark"] = lambda: self._jdbc(query)
        if query.where is None:
            return engines
        statements = self._plan(query, self._database.transports[0]).report()["t"].statements
        # Reports cut long statements short.
        if not any(statement.endswith("...") for statement in statements):
            engines["alone"] = lambda: sum(map(self._database.count, statements))
        return engines

    def _ours(self, query: RemoteQuery, transport: str) -> int:
        result = self._plan(query, transport)
        result.run(save)
        return result.rows or 0

    def _plan(self, query: RemoteQuery, transport: str) -> PushdownResult:
        session = PushdownSession(self._spark)
        session.add_remote("t", self._database.connection, table="lineitem", transport=transport)
        if query.text is not None:
            return session.sql(query.text)
        return session.scan("t", columns=query.columns, where=query.where, limit=query.limit)

    def _jdbc(self, query: RemoteQuery) -> int:
        """Run Spark's JDBC source as its users do, with a suitable fetch size."""
        options = {**self._database.jdbc, "dbtable": "lineitem", "fetchsize": _FETCH}
        frame = self._spark.read.format("jdbc").options(**options).load()
        if query.text is not None:
            frame.createOrReplaceTempView("t")
            frame = self._spark.sql(query.text)
        frame = select(frame, query.columns, query.where)
        save(frame if query.limit is None else frame.limit(query.limit))
        return 0


def _comparisons(database: Database) -> list[Comparison]:
    return [column for way in database.transports for column in cpu_and_wall(way, "spark", way)]


def _cells(query: Query, database: Database, measured: dict[str, Measured]) -> list[str]:
    rows = max(figures.rows for figures in measured.values())
    spark = [seconds(measured, "spark", kind) for kind in ("cpu", "wall")]
    ratios = [column.cell(measured) for column in _comparisons(database)]
    alone = Comparison("Spark's of that", "spark", "alone", "wall").cell(measured)
    return [query.name, f"{rows:,}", *spark, *ratios, seconds(measured, "alone", "wall"), alone]


def _head(database: Database) -> list[str]:
    titles = ["query", "rows", "Spark's CPU s", "wall s", *(column.title for column in _comparisons(database))]
    titles += ["the database alone: wall s", "Spark's of that"]
    return ["", f"## {database.name}", "", *table_head(titles)]


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw values as JSON."""
    # At the default scale, the table has a million rows.
    parser = command_line(__doc__, rounds=3, scale=float, default_scale="0.17")
    parser.add_argument("--databases", nargs="*", default=["PostgreSQL", "MariaDB", "MySQL", "SQLite"])
    parser.add_argument("--packages", required=True, help="the drivers of Spark's JDBC source, from Maven Central")
    arguments = parser.parse_args()
    spark = jdbc_session(arguments.packages)
    rows = prepare(arguments.scale, arguments.cache)
    about = (
        f"TPC-H lineitem, {rows.num_rows:,} rows, on servers on this machine. Spark's JDBC source uses one partition "
        f"and a fetch size of {_FETCH}. {arguments.rounds} interleaved rounds after a warm-up, medians of the ratios "
        "within rounds (above 1: this package takes less). `auto` runs with the drivers' jars."
    )
    table = ResultTable(arguments.results / "remote.md", "Remote tables", about)
    with ExitStack() as stack:
        for database in _databases(arguments.databases, rows, arguments.cache.absolute(), stack):
            bench = Bench(spark, database)
            warm_up = bench.engines(RemoteQuery("warm-up", "l_orderkey = 1"))
            repeat(warm_up, warm_up, _WARM_UP)
            table.add_lines(_head(database))
            for query in queries(rows.num_rows):
                if is_chosen(query.name, arguments.only):
                    measurements = measure(bench.engines(query), arguments.rounds)
                    table.add(f"{database.name}: {query.name}", _cells(query, database, measurements), measurements)
    spark.stop()


def _databases(names: list[str], table: pa.Table, cache: Path, stack: ExitStack) -> Iterator[Database]:
    """Yield the databases with the table, one after the other."""
    file = cache / "lineitem.csv"
    csv.write_csv(table, file, csv.WriteOptions(include_header=False))
    stack.callback(file.unlink)
    if "PostgreSQL" in names:
        with postgresql() as server:
            yield fill_postgresql(server, file)
    for start, name in ((mariadb, "MariaDB"), (mysql, "MySQL")):
        if name in names:
            with start() as server:
                yield fill_mysql(server, file)
    if "SQLite" in names:
        (cache / "lineitem.db").unlink(missing_ok=True)
        yield fill_sqlite(table, cache)


if __name__ == "__main__":
    main()
