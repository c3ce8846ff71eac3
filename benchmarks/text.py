"""JSON and CSV scans: our reader against Spark's own reader with pushdown on and off, DuckDB and Polars.

`pushdown` searches lines in Python workers, `jvm` inside the JVM.

Every round runs all engines once, in turn, so that changes of the machine's speed affect all. Results are medians of
the ratios within rounds. The session is warm: many small queries run first, and the Python workers are running. CPU
seconds of the whole process tree are the main result, wall seconds are additional.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.cpu import tree_seconds
from benchmarks.lineitem import NESTED_SCHEMA, SCHEMA, prepare
from benchmarks.result_files import table_head, write_page
from benchmarks.rounds import ratio, repeat
from benchmarks.scans import save, scan, select
from benchmarks.sessions import benchmark_session
from pushdown_spark.formats.text.planner import CARRIER_SETTING

_PARTS_10 = tuple(range(1000, 200_000, 20_000))
_PARTS_1000 = tuple(range(197, 197_001, 197))
_TWO = ("l_orderkey", "l_comment")
COMPARED = ("pushdown", "jvm", "spark on", "spark off")
WARM_UP = 40
"""Number of warm-up queries of each kind."""
SETTLE = 25
"""Number of runs of a query over one line before its first round."""


@dataclass(frozen=True)
class Query:
    """One row of the results."""

    name: str
    format: str
    where: str | None
    columns: tuple[str, ...] | None = None


def _queries() -> list[Query]:
    among_10 = f"l_partkey IN ({', '.join(map(str, _PARTS_10))})"
    among_1000 = f"l_partkey IN ({', '.join(map(str, _PARTS_1000))})"
    conditions: list[tuple[str, str | None, tuple[str, ...] | None]] = [
        ("needle equality", "l_partkey = 12345", None),
        ("needle equality, 2 columns", "l_partkey = 12345", _TWO),
        ("IN of 10", among_10, None),
        ("IN of 1,000", among_1000, None),
        ("LIKE '%phrase%'", "l_comment LIKE '%blithely regular acc%'", None),
        ("1 % date range", "l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1995-02-01'", None),
        ("15 % date range", "l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1996-01-01'", None),
        ("50 % date range", "l_shipdate >= DATE '1995-06-17'", None),
        ("no predicate", None, None),
        ("no predicate, 2 columns", None, _TWO),
    ]
    queries = [Query(name, fmt, where, columns) for fmt in ("json", "csv") for name, where, columns in conditions]
    return [Query("nested equality", "json", "part.supplier.key = 1234 AND part.key = 101233"), *queries]


@dataclass
class Measured:
    """The seconds of one engine over the rounds of one query."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    rows: int | None = None


class Bench:
    """The engines over one data set."""

    def __init__(self, spark: SparkSession, data: dict[str, Path]) -> None:
        self._spark = spark
        self._data = data

    def engines(self, query: Query) -> dict[str, Callable[[], int]]:
        """Return the action of each engine for a query."""
        return {
            "auto": lambda: self._ours(query, "auto"),
            "pushdown": lambda: self._ours(query, "pushdown", "workers"),
            "jvm": lambda: self._ours(query, "pushdown", "jvm"),
            "spark on": lambda: self._spark_reader(query, True),
            "spark off": lambda: self._spark_reader(query, False),
            "duckdb": lambda: self._duckdb(query),
            "polars": lambda: self._polars(query),
        }

    def start_workers(self) -> None:
        """Start a Python worker on every core. Spark ends idle workers after a minute, and rounds take longer."""
        cores = self._spark.sparkContext.defaultParallelism
        self._spark.range(0, cores, 1, cores).mapInArrow(_after_a_moment, "id bigint").collect()

    def _ours(self, query: Query, reader: str, carrier: str = "") -> int:
        self._spark.conf.set(CARRIER_SETTING, carrier)
        return scan(
            self._spark,
            query.columns,
            query.where,
            path=str(self._data[query.format]),
            format=query.format,
            schema=NESTED_SCHEMA if query.format == "json" else SCHEMA,
            options={"header": "true"} if query.format == "csv" else {},
            reader=reader,
        )

    def _spark_reader(self, query: Query, pushdown: bool) -> int:
        """Run Spark's reader as its users do, with the same counting sink."""
        self._spark.conf.set(f"spark.sql.{query.format}.filterPushdown.enabled", str(pushdown).lower())
        reader = self._spark.read.schema(NESTED_SCHEMA if query.format == "json" else SCHEMA)
        frame = reader.options(header="true" if query.format == "csv" else "false").format(query.format)
        save(select(frame.load(str(self._data[query.format])), query.columns, query.where))
        self._spark.conf.set(f"spark.sql.{query.format}.filterPushdown.enabled", "true")
        return -1

    def _duckdb(self, query: Query) -> int:
        source = self._data[query.format] / f"*.{query.format}"
        read = "read_csv" if query.format == "csv" else "read_json"
        columns = ", ".join(query.columns) if query.columns else "*"
        where = f"WHERE {query.where}" if query.where else ""
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2")
            return connection.execute(f"SELECT {columns} FROM {read}('{source}') {where}").to_arrow_table().num_rows

    def _polars(self, query: Query) -> int:
        source = str(self._data[query.format] / f"*.{query.format}")
        lazy = pl.scan_csv(source, try_parse_dates=True) if query.format == "csv" else pl.scan_ndjson(source)
        if query.where is not None:
            lazy = lazy.filter(_polars_predicate(query))
        if query.columns is not None:
            lazy = lazy.select(*query.columns)
        return lazy.collect(engine="streaming").height


def _after_a_moment(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Wait long enough that tasks of other cores need their own workers."""
    time.sleep(0.5)
    return batches


def _polars_predicate(query: Query) -> pl.Expr:
    """Return the predicate for Polars. JSON dates stay strings there and are compared as strings."""
    part, comment, shipped = pl.col("l_partkey"), pl.col("l_comment"), pl.col("l_shipdate").cast(pl.String)
    known = {
        "needle equality": part == 12345,
        "IN of 10": part.is_in(_PARTS_10),
        "IN of 1,000": part.is_in(_PARTS_1000),
        "LIKE '%phrase%'": comment.str.contains("blithely regular acc", literal=True),
        "1 % date range": (shipped >= "1995-01-01") & (shipped < "1995-02-01"),
        "15 % date range": (shipped >= "1995-01-01") & (shipped < "1996-01-01"),
        "50 % date range": shipped >= "1995-06-17",
        "nested equality": pl.col("part").struct.field("key") == 101233,
    }
    return known[query.name.removesuffix(", 2 columns")]


def measure(bench: Bench, query: Query, rounds: int, skip: Sequence[str]) -> dict[str, Measured]:
    """Run one warm-up round, then `rounds` rounds of all engines in turn."""
    measured: dict[str, Measured] = {}
    for number in range(rounds + 1):
        for name, action in bench.engines(query).items():
            if name in skip:
                continue
            if name in ("auto", "pushdown"):
                bench.start_workers()
            wall, cpu = time.perf_counter(), tree_seconds()
            rows = action()
            figures = measured.setdefault(name, Measured())
            if number:
                figures.wall.append(time.perf_counter() - wall)
                figures.cpu.append(tree_seconds() - cpu)
            figures.rows = rows if rows >= 0 else figures.rows
    return measured


def warm_up(bench: Bench) -> None:
    """Run many small queries, so that the JVM compiles the code of every query: planner, scheduler, parsers.

    A fresh JVM spends most of a short query compiling either reader's code, and `measure` compares warm sessions.
    """
    for name in ("json", "csv"):
        repeat(bench.engines(Query("warm-up", name, "l_partkey = 12345")), COMPARED, WARM_UP)


def settle(tiny: Bench, query: Query, skip: Sequence[str]) -> None:
    """Run the query over one line often enough that the JVM has compiled its plan.

    Otherwise it compiles within the first rounds, which takes up to a second.
    """
    repeat(tiny.engines(query), [name for name in COMPARED if name not in skip], SETTLE)


_COLUMNS = (
    ("pushdown / spark on, CPU", "spark on", "pushdown", "cpu"),
    ("wall", "spark on", "pushdown", "wall"),
    ("pushdown / spark off, CPU", "spark off", "pushdown", "cpu"),
    ("wall", "spark off", "pushdown", "wall"),
    ("jvm / spark on, CPU", "spark on", "jvm", "cpu"),
    ("wall", "spark on", "jvm", "wall"),
    ("auto / spark on, CPU", "spark on", "auto", "cpu"),
    ("wall", "spark on", "auto", "wall"),
    ("pushdown / duckdb, CPU", "duckdb", "pushdown", "cpu"),
    ("pushdown / polars, CPU", "polars", "pushdown", "cpu"),
)


def _line(query: Query, measured: dict[str, Measured]) -> str:
    ours = measured.get("pushdown") or measured["auto"]
    cells = [query.format, query.name, f"{ours.rows:,}", f"{statistics.median(ours.cpu):.2f}"]
    for _, other, mine, kind in _COLUMNS:
        is_measured = other in measured and mine in measured
        cells.append(f"{ratio(measured, other, mine, kind):.2f}" if is_measured else "")
    return "| " + " | ".join(cells) + " |"


def _head() -> list[str]:
    titles = ["format", "query", "rows", "pushdown CPU s", *(title for title, *_ in _COLUMNS)]
    return table_head(titles)


def one_line(cache: Path) -> dict[str, Path]:
    """Return files of one line in each format."""
    tiny = {name: cache / f"one-line.{name}" for name in ("json", "csv")}
    tiny["json"].write_text('{"l_partkey":12345}\n')
    tiny["csv"].write_text("l_orderkey,l_partkey\n1,12345\n")
    return tiny


def fixed_cost(bench: Bench, rounds: int) -> list[str]:
    """Return the fixed cost of a query: both readers over a file of one line."""
    lines = []
    for name in ("json", "csv"):
        query = Query("fixed cost", name, "l_partkey = 12345")
        measured = measure(bench, query, rounds, ("auto", "jvm", "spark off", "duckdb", "polars"))
        for engine, figures in measured.items():
            wall, cpu = statistics.median(figures.wall), statistics.median(figures.cpu)
            lines.append(f"- {name}, {engine}: {wall:.2f} s wall, {cpu:.2f} s CPU")
    return lines


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw seconds as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=int(os.environ.get("SF", "1")))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="run only queries whose name contains one of these strings"
    )
    parser.add_argument("--skip", nargs="*", default=[], help="engines to leave out")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.cache))
    tiny = Bench(spark, one_line(arguments.cache))
    warm_up(tiny)
    lines, raw = _head(), {}
    print(*lines, sep="\n", flush=True)
    page = arguments.results / f"text-sf{arguments.scale}.md"
    about = (
        f"TPC-H lineitem, scale {arguments.scale}. {arguments.rounds} interleaved rounds after one that does not "
        f"count, in a JVM that ran {WARM_UP} queries of each kind and {SETTLE} of the same kind over one line before. "
        "Medians of the ratios within rounds (above 1: the pushdown reader takes less)."
    )
    for query in _queries():
        if not any(text in f"{query.format} {query.name}" for text in arguments.only):
            continue
        settle(tiny, query, arguments.skip)
        measured = measure(bench, query, arguments.rounds, arguments.skip)
        raw[f"{query.format} {query.name}"] = {name: asdict(figures) for name, figures in measured.items()}
        lines.append(_line(query, measured))
        print(lines[-1], flush=True)
        write_page(page, "JSON and CSV scans", about, lines, raw)
    lines += ["", "Fixed cost of a query (a file of one line):", *fixed_cost(tiny, arguments.rounds)]
    write_page(page, "JSON and CSV scans", about, lines, raw)
    spark.stop()


if __name__ == "__main__":
    main()
