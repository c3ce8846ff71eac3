"""Writing tables of databases: outputs of this project against Spark's JDBC writer as its users write it.

The servers run on this machine. Every round runs all engines once, in random order. Each engine has a table of its
own with the same columns, and writes the same rows from the same partitions. `tuned` is Spark's writer with the
driver's own rewriting of batches, which users have to know. Spark's writer is not all or nothing, ours is.

The tables are empty before an append, have the rows of the last round before an overwrite, and are missing in mode
`errorifexists`. SQLite has one writer at a time, so that Spark writes one partition.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from databases import Server, mariadb, mysql, postgresql
from pyspark.sql import DataFrame, SparkSession

from benchmarks.result_files import write_page
from benchmarks.rounds import Measured, measure, ratio
from benchmarks.sessions import jdbc_session
from pushdown_spark.contract import DatabaseKind, OutputMode, RemoteConnection, TableOutputSpec
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.write_connection import connect_to_write
from pushdown_spark.output.database_output import open_database_output

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
_HEAD = (
    "| database | mode | rows | Spark s | tuned s | ours s | Spark / ours: wall | CPU | tuned / ours: wall | CPU |",
    "|---|---|---|---|---|---|---|---|---|---|",
)


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

    def clear(self, mode: OutputMode) -> None:
        """Delete all rows for an append, and the tables if the mode creates them. An overwrite replaces the rows."""
        if mode is OutputMode.OVERWRITE:
            return
        statement = "DELETE FROM" if self.product == "sqlite" else "TRUNCATE TABLE"
        if mode is OutputMode.ERROR_IF_EXISTS:
            statement = "DROP TABLE IF EXISTS"
        with closing(connect_to_write(address_of(self.connection))) as connection:
            for engine in _ENGINES:
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
        with output.guarded():
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


def _measured(engines: Mapping[str, Callable[[], int]], rounds: int, clear: Callable[[], None]) -> dict[str, Measured]:
    chance = random.Random(rounds)
    total = {name: Measured() for name in engines}
    for number in range(rounds + 1):
        clear()
        order = chance.sample(sorted(engines), len(engines))
        for name, figures in measure({name: engines[name] for name in order}, rounds=1, warm_up=0).items():
            if number:
                total[name].wall += figures.wall
                total[name].cpu += figures.cpu
    return total


def row(target: Target, mode: OutputMode, rows: int, measured: Mapping[str, Measured]) -> str:
    """Return one line of the table."""
    seconds = [f"{statistics.median(measured[engine].wall):.2f}" if engine in measured else "" for engine in _ENGINES]
    ratios = [
        f"{ratio(measured, engine, 'ours', kind):.2f}" if engine in measured else ""
        for engine in _ENGINES[:2]
        for kind in ("wall", "cpu")
    ]
    return "| " + " | ".join([_NAMES[target.product], mode.value, f"{rows:,}", *seconds, *ratios]) + " |"


def main() -> None:
    """Measure all cases and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--databases", nargs="*", default=list(_NAMES))
    parser.add_argument("--modes", nargs="*", default=["append", "overwrite", "errorifexists"])
    parser.add_argument("--packages", required=True, help="the JDBC drivers, from Maven Central")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    spark = jdbc_session(arguments.packages)
    lines: list[str] = []
    tables = Tables(spark, arguments.rows)
    with ExitStack() as stack:
        for target in targets(arguments.databases, stack):
            tables.create(target)
            for mode in map(OutputMode, arguments.modes):
                engines: dict[str, Callable[[], int]] = {
                    engine: partial(tables.by_spark, target, mode, engine) for engine in target.jdbc
                }
                engines["ours"] = partial(tables.by_ours, target, mode)
                measured = _measured(engines, arguments.rounds, partial(target.clear, mode))
                lines.append(row(target, mode, tables.count, measured))
                print(lines[-1], flush=True)
    spark.stop()
    about = (
        "Seven columns from four partitions into servers on this machine, in a warm session. "
        f"{arguments.rounds} rounds in random order after one that does not count. Tables are empty before an append "
        "and have as many rows before an overwrite. `tuned` sets reWriteBatchedInserts (PostgreSQL), useBulkStmts "
        "(MariaDB) or rewriteBatchedStatements (MySQL) in the URL. Medians of the ratios within rounds (above 1: this "
        "package takes less). CPU is that of Spark, its Python workers and the server."
    )
    write_page(arguments.results / "tables.md", "Writing tables of databases", about, [*_HEAD, *lines])


if __name__ == "__main__":
    main()
