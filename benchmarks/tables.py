"""Writing tables of databases: outputs of this project against Spark's JDBC writer as its users write it.

The servers run on this machine. Every round runs all engines once, in random order. Each engine has a table of its
own with the same columns, and writes the same rows from the same partitions. `tuned` is Spark's writer with the
driver's own rewriting of batches, which users have to know. Spark's writer is not all or nothing, ours is.

The tables are empty before an append, have the rows of the last round before an overwrite, and are missing in mode
`errorifexists`. SQLite has one writer at a time, so that Spark writes one partition. Spark creates no table in SQLite,
because it does not recognize the driver's error for a missing one.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from databases import Server, mariadb, mysql, postgresql
from pyspark.sql import DataFrame, SparkSession

from benchmarks.result_files import ResultTable, command_line
from benchmarks.rounds import Engines, cpu_and_wall, measure, seconds
from benchmarks.sessions import jdbc_session
from pushdown_spark.contract import DatabaseKind, OutputMode, RemoteConnection, TableOutputSpec
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.write.write_connection import connect_to_write
from pushdown_spark.output.database.database_output import open_database_output

_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "sqlite": "org.sqlite.JDBC",
}
_TUNED = {
    "postgresql": "reWriteBatchedInserts=true",
    "mariadb": "useBulkStmts=true",
    "mysql": "rewriteBatchedStatements=true",
}
_NAMES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB", "mysql": "MySQL", "sqlite": "SQLite"}
_SERVERS = {"postgresql": postgresql, "mariadb": mariadb, "mysql": mysql}
_PARTITIONS = 4
_ENGINES = ("spark", "tuned", "ours")
_COMPARISONS = (*cpu_and_wall("Spark / ours", "spark", "ours"), *cpu_and_wall("tuned / ours", "tuned", "ours"))
_TITLES = ("database", "mode", "rows", "Spark s", "tuned s", "ours s", *(column.title for column in _COMPARISONS))


@dataclass(frozen=True)
class Target:
    """A database, and the JDBC URLs of Spark's writer by engine."""

    product: str
    connection: RemoteConnection
    jdbc: Mapping[str, str]

    @property
    def partitions(self) -> int:
        """The number of partitions that Spark's writer writes."""
        return 1 if self.product == "sqlite" else _PARTITIONS

    def clear(self, mode: OutputMode, engine: str) -> None:
        """Delete all rows for an append, and the table if the mode creates it. An overwrite replaces the rows."""
        if mode is OutputMode.OVERWRITE:
            return
        statement = "DELETE FROM" if self.product == "sqlite" else "TRUNCATE TABLE"
        if mode is OutputMode.ERROR_IF_EXISTS:
            statement = "DROP TABLE IF EXISTS"
        with closing(connect_to_write(address_of(self.connection))) as connection:
            connection.rows(f"{statement} by_{engine}")


class Tables:
    """Writers of the same rows with each engine."""

    def __init__(self, spark: SparkSession, rows: int) -> None:
        self._spark = spark
        self._number = 0
        columns = (
            "id",
            "CAST(id % 1000 AS int) AS customer",
            "concat('item ', id % 5000, ', \"new\"') AS item",
            "CAST(id * 0.01 AS decimal(12,2)) AS amount",
            "id / 7D AS weight",
            "date_add(DATE'2020-01-01', CAST(id % 1000 AS int)) AS day",
            "timestamp_micros(1700000000000000 + id * 1000001) AS changed",
        )
        self.rows: DataFrame = spark.range(0, rows, 1, _PARTITIONS).selectExpr(*columns).cache()
        self.count = self.rows.count()

    def create(self, target: Target) -> None:
        """Create the tables of all engines, as this project does."""
        for engine in _ENGINES:
            self._write(target, f"by_{engine}", OutputMode.APPEND, self.rows.limit(0))

    def by_spark(self, target: Target, mode: OutputMode, engine: str) -> int:
        """Write with Spark's JDBC writer. Overwriting truncates the table, so that its columns stay."""
        writer = self.rows.coalesce(target.partitions).write.mode(mode.value).option("truncate", "true")
        login = {key: str(getattr(target.connection, key) or "") for key in ("user", "password")}
        writer.jdbc(target.jdbc[engine], f"by_{engine}", properties={**login, "driver": _DRIVERS[target.product]})
        return self.count

    def by_ours(self, target: Target, mode: OutputMode) -> int:
        """Write as a job does. Each round is a separate run."""
        self._write(target, "by_ours", mode, self.rows)
        return self.count

    def _write(self, target: Target, table: str, mode: OutputMode, rows: DataFrame) -> None:
        self._number += 1
        spec = TableOutputSpec(table=table, mode=mode)
        output = open_database_output(self._spark, spec, target.connection, f"run {self._number}")
        output.prepare()
        with output.transaction():
            output.stage(rows)


def targets(products: list[str], stack: ExitStack) -> Iterator[Target]:
    """Start the servers one after the other."""
    for product in products:
        if product == "sqlite":
            path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "shop.db")
            sqlite3.connect(path).close()
            connection = RemoteConnection(kind=DatabaseKind.SQLITE, database=path)
            yield Target(product, connection, {"spark": f"jdbc:sqlite:{path}"})
            continue
        server: Server = stack.enter_context(_SERVERS[product]())
        # MariaDB's driver uses no TLS by default, so our connection does not use it either.
        tls = {"tls": {"mode": "disable"}} if product == "mariadb" else {}
        yield Target(product, RemoteConnection.model_validate(server.connection(**tls)), _urls(server))


def _urls(server: Server) -> dict[str, str]:
    parts = server.connection()
    address = f"{parts['host']}:{parts['port']}/{parts['database']}"
    # Spark has no dialect for the scheme of MariaDB's driver, and would quote names wrongly.
    scheme, options = ("mysql", "?permitMysqlScheme=true") if server.product == "mariadb" else (server.product, "")
    url = f"jdbc:{scheme}://{address}{options}"
    return {"spark": url, "tuned": f"{url}{'&' if options else '?'}{_TUNED[server.product]}"}


def main() -> None:
    """Measure all cases and write the table."""
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--databases", nargs="*", default=list(_NAMES))
    parser.add_argument("--modes", nargs="*", default=["append", "overwrite", "errorifexists"])
    parser.add_argument("--packages", required=True, help="the JDBC drivers, from Maven Central")
    arguments = parser.parse_args()
    spark = jdbc_session(arguments.packages)
    about = (
        "Seven columns from four partitions into servers on this machine, in a warm session. "
        f"{arguments.rounds} rounds in random order after one that does not count. Tables are empty before an append "
        "and have as many rows before an overwrite. `tuned` sets reWriteBatchedInserts (PostgreSQL), useBulkStmts "
        "(MariaDB) or rewriteBatchedStatements (MySQL) in the URL. Medians of the ratios within rounds (above 1: this "
        "package takes less). CPU is that of Spark, its Python workers and the server."
    )
    table = ResultTable(arguments.results / "tables.md", "Writing tables of databases", about, _TITLES)
    tables = Tables(spark, arguments.rows)
    with ExitStack() as stack:
        for target in targets(arguments.databases, stack):
            tables.create(target)
            for mode in map(OutputMode, arguments.modes):
                if target.product == "sqlite" and mode is OutputMode.ERROR_IF_EXISTS:
                    continue
                engines: Engines = {engine: partial(tables.by_spark, target, mode, engine) for engine in target.jdbc}
                engines["ours"] = partial(tables.by_ours, target, mode)
                clear = partial(target.clear, mode)
                measurements = measure(engines, arguments.rounds, prepare=clear, order=Random(arguments.rounds))
                wall = [seconds(measurements, engine, "wall") for engine in _ENGINES]
                ratios = [column.cell(measurements) for column in _COMPARISONS]
                name = _NAMES[target.product]
                table.add(f"{name}: {mode}", [name, mode.value, f"{tables.count:,}", *wall, *ratios])
    spark.stop()


if __name__ == "__main__":
    main()
