"""Scans of the same files in an S3 bucket, an Azure container, a Google bucket and HDFS, against Spark's own reader.

The servers of the stores are on this machine, and their CPU seconds do not count. Spark has no driver for the Google
server, so its reader reads the same files from the local disk instead, which favors it. Every round runs all engines
once, in turn. Ratios are medians of the ratios within rounds. Queries that keep many rows are compared with the better
of Spark's settings with and without filter pushdown. Needles also run in Python workers and in the JVM where `auto`
chooses another reader.
"""

from __future__ import annotations

import statistics
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import hdfs_server
from cloud_servers import Azurite, CloudStore, GoogleServer, S3Server, mount, run_server
from pyspark.sql import DataFrame, SparkSession

from benchmarks.auto import GOAL, Bench
from benchmarks.lineitem import NESTED_SCHEMA, SCHEMA, convert, nest_keys
from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Measured, measure, ratio, repeat, seconds
from benchmarks.scans import Query
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import FORMATS, Table
from pushdown_spark.runtime.jvm_gateway import java_class
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

_SCALES = {"json": 0.15, "csv": 0.3, "avro": 0.6, "orc": 1.0, "parquet": 1.0}
"""Scale factors of lineitem with which Spark's reader takes some seconds. The option `--scale` multiplies them."""
_PARTS = 200_000
"""Values of `l_partkey` at scale 1."""
_FILES = 16
_SETTLE = 4
"""Number of runs of a query over a few local rows before its first round."""
_GOALS = {"workers": 5.0, "jvm": 3.0}
"""The goals of needles by carrier. The goal of `auto` is that of its own benchmark."""
_AZURE = {
    "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
    # The emulator has the protocol of accounts without a hierarchical namespace.
    "fs.azure.account.hns.enabled": "false",
    "fs.azure.fns.account.service.type": "BLOB",
}
_SERVERS = {"S3": S3Server, "Azure": Azurite, "Google": GoogleServer}
_HDFS = "HDFS"


@dataclass(frozen=True)
class Hdfs:
    """An HDFS: the URI of its root, and the settings of its clients."""

    root: str
    hadoop: Mapping[str, str]


Server = CloudStore | Hdfs


def queries(source_format: str, parts: int, comment: str) -> list[Query]:
    """Return queries from some rows to all rows. Columns for them are `l_partkey`, and the last two of the table."""
    nested = [] if source_format == "csv" else [Query("needle on a nested field", f"part.key = {parts // 2}")]
    return [
        Query("needle on a late field", f"l_comment = '{comment}'"),
        *nested,
        Query("1 %", f"l_partkey <= {parts // 100}"),
        Query("half", f"l_partkey <= {parts // 2}"),
        Query("all", "l_partkey > 0"),
    ]


def prepare(spark: SparkSession, source_format: str, scale: float, target: Path) -> None:
    """Write lineitem to a directory, with a struct of two keys as its last column where the format has structs."""

    def write(table: DataFrame) -> None:
        rows = table if source_format == "csv" else nest_keys(table)
        name = AVRO_CLASS if source_format == "avro" else source_format
        options = {"header": "true"} if source_format == "csv" else {}
        rows.repartition(_FILES).write.mode("overwrite").format(name).options(**options).save(str(target))

    convert(spark, scale, target, write)


@contextmanager
def servers(names: Sequence[str]) -> Iterator[dict[str, Server]]:
    """Run the servers of stores during the block."""
    with ExitStack() as stack:
        servers_by_name: dict[str, Server] = {}
        for name in names:
            directory = Path(stack.enter_context(TemporaryDirectory()))
            if name == _HDFS:
                root = stack.enter_context(hdfs_server.run_server(directory))
                servers_by_name[name] = Hdfs(root, {"dfs.namenode.http-address": hdfs_server.http_address(directory)})
            else:
                servers_by_name[name] = stack.enter_context(run_server(_SERVERS[name], directory))
        yield servers_by_name


@contextmanager
def upload(spark: SparkSession, server: Server, data: Path) -> Iterator[str]:
    """Copy a directory to a store, and yield its URI there. It remains readable during the block."""
    if isinstance(server, Hdfs):
        path = java_class(spark, "org.apache.hadoop.fs.Path")
        target = path(f"{server.root}/data")
        system = target.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        system.copyFromLocalFile(path(data.as_uri()), target)
        yield f"{server.root}/data"
        return
    for file in data.rglob("[!._]*"):
        if file.is_file():
            server.put(f"data/{file.relative_to(data)}", file.read_bytes())
    if isinstance(server, GoogleServer):
        with mount(spark, server, data):
            yield server.path("data")
    else:
        yield server.path("data")


def session(found: Mapping[str, Server], packages: str) -> SparkSession:
    """Start a session with Hadoop's drivers and the settings of the servers."""
    hadoop = dict(_AZURE)
    for server in found.values():
        if isinstance(server, (S3Server, Azurite, Hdfs)):
            hadoop |= server.hadoop
    return benchmark_session(
        {
            **{f"spark.hadoop.{key}": value for key, value in hadoop.items()},
            "spark.jars.packages": packages,
            "spark.jars.excludes": "software.amazon.awssdk:bundle,com.microsoft.azure:azure-storage",
            "spark.jars.ivy": str(Path(".cache/ivy").absolute()),
        }
    )


_TITLES = (
    *("store", "format", "query", "rows", "reader of auto", "Spark CPU s", "auto CPU s"),
    *("Spark / auto: CPU", "wall", "Spark / workers: CPU", "wall", "Spark / JVM: CPU", "wall"),
)


@dataclass(frozen=True)
class Cell:
    """The result of one query in one store. `best` is the better of Spark's settings."""

    store: str
    format: str
    query: str
    rows: int
    is_right: bool
    reader: str
    reason: str
    best: str
    measured: Mapping[str, Measured]

    @property
    def name(self) -> str:
        """The key of the figures."""
        return f"{self.store} {self.format} {self.query}"

    @property
    def values(self) -> list[str]:
        """The cells of the row in the table of results."""
        rows = f"{self.rows:,}" if self.is_right else f"WRONG: {self.rows:,}"
        own = [seconds(self.measured, engine) for engine in (self.best, "auto")]
        ratios = [
            f"{self.ratio(engine, kind):.2f}" if engine in self.measured else ""
            for engine in ("auto", *_GOALS)
            for kind in ("cpu", "wall")
        ]
        return [self.store, self.format, self.query, rows, self.reader, *own, *ratios]

    def ratio(self, engine: str, kind: str = "cpu") -> float:
        """Return the ratio of Spark's reader to ours."""
        return ratio(self.measured, self.best, engine, kind)


def summary(cells: Sequence[Cell]) -> list[str]:
    """Return how many queries of each store reach the goals."""
    lines = [f"- wrong number of rows: {sum(not cell.is_right for cell in cells)}"]
    for store in dict.fromkeys(cell.store for cell in cells):
        of_store = [cell for cell in cells if cell.store == store]
        for engine, goal in {"auto": GOAL, **_GOALS}.items():
            ratios = [cell.ratio(engine) for cell in of_store if engine in cell.measured]
            if ratios:
                lines.append(
                    f"- {store}, {engine}: {sum(number >= goal for number in ratios)} of {len(ratios)} queries reach "
                    f"{goal:g}; median {statistics.median(ratios):.2f}, least {min(ratios):.2f}"
                )
    return ["", *lines]


def engines_of(query: Query, source_format: str) -> list[str]:
    """Return the engines to compare for a query. Needles in lines also run where `auto` does not run them.

    Spark without its pushdown can only be the better one for queries that keep many rows.
    """
    names = ["on", "auto"]
    if not query.name.startswith("needle"):
        return [*names, "off"]
    if source_format in ("json", "csv"):
        names += ["workers", "jvm"]
    return names


def measure_query(store: str, bench: Bench, query: Query, rows: int, rounds: int) -> Cell:
    """Compare the engines for one query, which must return a number of rows."""
    names, engines = engines_of(query, bench.table.format), bench.engines(query, forced=True)
    measurements = measure({name: engines[name] for name in names}, rounds)
    sparks = [name for name in ("on", "off") if name in measurements]
    best = min(sparks, key=lambda name: statistics.median(measurements[name].cpu))
    is_right = all(measurements[name].rows == rows for name in names if name not in sparks)
    return Cell(store, bench.table.format, query.name, rows, is_right, *bench.choice(), best, measurements)


class Data:
    """The tables of all formats: files on the local disk, and a few rows of each."""

    def __init__(self, spark: SparkSession, scale: float, formats: Sequence[str], cache: Path) -> None:
        self._spark = spark
        self.scales = {name: _SCALES[name] * scale for name in formats}
        self.home = cache / f"stores-{scale:g}"
        self._few = cache / "stores-few"
        for name, factor in self.scales.items():
            prepare(spark, name, factor, self.home / name)
            prepare(spark, name, 0.001, self._few / name)

    def bench(self, name: str, home: object) -> Bench:
        """Return the engines over the table of a format in a directory."""
        schema = {"json": NESTED_SCHEMA, "csv": SCHEMA}.get(name)
        options = {"header": "true"} if name == "csv" else {}
        return Bench(self._spark, Table(f"{home}/{name}", name, schema, options, ()))

    def queries(self, name: str, only: Sequence[str]) -> dict[Query, int]:
        """Return queries of a format with their numbers of rows. The JVM has compiled their code afterward."""
        bench, few = self.bench(name, self.home.absolute()), self.bench(name, self._few.absolute())
        rows = bench.table.load(self._spark).where("l_orderkey = 100 AND l_linenumber = 1")
        comment = rows.select("l_comment").collect()[0][0]
        drawn = queries(name, int(_PARTS * self.scales[name]), comment)
        chosen_queries = [query for query in drawn if is_chosen(query.name, only)]
        for query in chosen_queries:
            small = few.engines(query, forced=True)
            repeat(small, small, _SETTLE)
        return {query: bench.count(query) for query in chosen_queries}


def run(arguments: Namespace, found: Mapping[str, Server]) -> None:
    """Measure all stores, and write the table."""
    spark = session(found, arguments.packages)
    data = Data(spark, arguments.scale, arguments.formats, arguments.cache)
    scales = ", ".join(f"{scale:g} ({name})" for name, scale in data.scales.items())
    about = (
        f"TPC-H lineitem with a nested column (except CSV) in {_FILES} files at scales {scales}, all columns. Medians "
        f"of the ratios within {arguments.rounds} interleaved rounds after one that does not count, in a warm session. "
        "Above 1, the pushdown reader takes less than Spark's."
    )
    table = ResultTable(arguments.results / "stores.md", "Scans of object stores and HDFS", about, _TITLES)
    chosen = {name: data.queries(name, arguments.only) for name in arguments.formats}
    cells = []
    for store, server in found.items():
        with upload(spark, server, data.home.absolute()) as home:
            for name in arguments.formats:
                for query, rows in chosen[name].items():
                    cell = measure_query(store, data.bench(name, home), query, rows, arguments.rounds)
                    table.add(cell.name, cell.values, cell.measured)
                    cells.append(cell)
    table.add_lines(summary(cells))
    spark.stop()


def main() -> None:
    """Start the servers, and measure in another process, so that their CPU seconds do not count."""
    parser = command_line(__doc__, rounds=2, scale=float)
    parser.add_argument("--packages", required=True, help="coordinates of Hadoop's drivers in Maven Central")
    parser.add_argument("--stores", nargs="*", default=[*_SERVERS, _HDFS])
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    arguments = parser.parse_args()
    with servers(arguments.stores) as servers_by_name:
        process = get_context("spawn").Process(target=run, args=(arguments, servers_by_name))
        process.start()
        process.join()
    sys.exit(process.exitcode)


if __name__ == "__main__":
    main()
