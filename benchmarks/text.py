"""JSON and CSV scans: our reader against Spark's own reader with pushdown on and off, DuckDB and Polars.

`pushdown` searches lines in Python workers, `jvm` inside the JVM.

Every round runs all engines once, in turn, so that changes of the machine's speed affect all. Results are medians of
the ratios within rounds. The session is warm: many small queries run first, and the Python workers are running. CPU
seconds of the whole process tree are the main result, wall seconds are additional.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.lineitem import NESTED_SCHEMA, SCHEMA, prepare
from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Comparison, Engines, Measured, cpu_and_wall, measure, repeat, seconds
from benchmarks.scans import Query, duckdb_rows, save_selected, scan
from benchmarks.sessions import benchmark_session
from pushdown_spark.formats.text import planner

_PARTS_10 = tuple(range(1000, 200_000, 20_000))
_PARTS_1000 = tuple(range(197, 197_001, 197))
_TWO = ("l_orderkey", "l_comment")
_SCHEMAS = {"json": NESTED_SCHEMA, "csv": SCHEMA}
_OPTIONS: dict[str, dict[str, str]] = {"json": {}, "csv": {"header": "true"}}
COMPARED = ("pushdown", "jvm", "spark on", "spark off")
WARM_UP = 40
"""Number of warm-up queries of each kind."""
SETTLE = 25
"""Number of runs of a query over one line before its first round."""


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
    queries = [Query(*condition, table=name) for name in ("json", "csv") for condition in conditions]
    return [Query("nested equality", "part.supplier.key = 1234 AND part.key = 101233", table="json"), *queries]


class Bench:
    """The engines over one data set. The table of a query is a format."""

    def __init__(self, spark: SparkSession, data: dict[str, Path], skip: Sequence[str]) -> None:
        """Set the data by format, and the names of engines to leave out."""
        self._spark = spark
        self._data = data
        self._skip = skip

    def engines(self, query: Query) -> Engines:
        """Return the action of each engine for a query."""
        source = f"{self._data[query.table]}/*.{query.table}"
        engines: Engines = {
            "auto": lambda: self._ours(query, "auto"),
            "pushdown": lambda: self._ours(query, "pushdown", "workers"),
            "jvm": lambda: self._ours(query, "pushdown", "jvm"),
            "spark on": lambda: self._spark_reader(query, "true"),
            "spark off": lambda: self._spark_reader(query, "false"),
            "duckdb": lambda: duckdb_rows(query.sql(f"read_{query.table}('{source}')")),
            "polars": lambda: _polars_rows(query, source),
        }
        return {name: action for name, action in engines.items() if name not in self._skip}

    def start_workers(self, engine: str) -> None:
        """Start a Python worker on every core for our readers. Spark ends idle workers after a minute."""
        if engine in ("auto", "pushdown"):
            cores = self._spark.sparkContext.defaultParallelism
            self._spark.range(0, cores, 1, cores).mapInArrow(_after_a_moment, "id bigint").collect()

    def repeat(self, query: Query, times: int) -> None:
        """Run a query so often that the JVM has compiled its plan, which would otherwise take up to a second."""
        repeat(self.engines(query), [name for name in COMPARED if name not in self._skip], times)

    def measure(self, query: Query, rounds: int) -> dict[str, Measured]:
        """Measure a query with running workers."""
        return measure(self.engines(query), rounds, prepare=self.start_workers)

    def _ours(self, query: Query, reader: str, carrier: str = "") -> int:
        source = {"path": str(self._data[query.table]), "format": query.table, "schema": _SCHEMAS[query.table]}
        with patch.object(planner, "CARRIERS", frozenset([carrier] if carrier else planner.CARRIERS)):
            return scan(self._spark, query, **source, options=_OPTIONS[query.table], reader=reader)

    def _spark_reader(self, query: Query, pushdown: str) -> int:
        setting = f"spark.sql.{query.table}.filterPushdown.enabled"
        self._spark.conf.set(setting, pushdown)
        reader = self._spark.read.schema(_SCHEMAS[query.table]).options(**_OPTIONS[query.table]).format(query.table)
        rows = save_selected(reader.load(str(self._data[query.table])), query)
        self._spark.conf.set(setting, "true")
        return rows


def _polars_rows(query: Query, source: str) -> int:
    lazy = pl.scan_csv(source, try_parse_dates=True) if query.table == "csv" else pl.scan_ndjson(source)
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
    costs = {
        "needle equality": part == 12345,
        "IN of 10": part.is_in(_PARTS_10),
        "IN of 1,000": part.is_in(_PARTS_1000),
        "LIKE '%phrase%'": comment.str.contains("blithely regular acc", literal=True),
        "1 % date range": (shipped >= "1995-01-01") & (shipped < "1995-02-01"),
        "15 % date range": (shipped >= "1995-01-01") & (shipped < "1996-01-01"),
        "50 % date range": shipped >= "1995-06-17",
        "nested equality": pl.col("part").struct.field("key") == 101233,
    }
    return costs[query.name.removesuffix(", 2 columns")]


_COMPARISONS = (
    *cpu_and_wall("pushdown / spark on", "spark on", "pushdown"),
    *cpu_and_wall("pushdown / spark off", "spark off", "pushdown"),
    *cpu_and_wall("jvm / spark on", "spark on", "jvm"),
    *cpu_and_wall("auto / spark on", "spark on", "auto"),
    Comparison("pushdown / duckdb: CPU", "duckdb", "pushdown"),
    Comparison("pushdown / polars: CPU", "polars", "pushdown"),
)


def _cells(query: Query, measured: dict[str, Measured]) -> list[str]:
    ours = "pushdown" if "pushdown" in measured else "auto"
    cells = [query.table, query.name, f"{measured[ours].rows:,}", seconds(measured, ours)]
    return [*cells, *(column.cell(measured) for column in _COMPARISONS)]


def one_line(cache: Path) -> dict[str, Path]:
    """Return files of one line in each format."""
    tiny = {name: cache / f"one-line.{name}" for name in ("json", "csv")}
    tiny["json"].write_text('{"l_partkey":12345}\n')
    tiny["csv"].write_text("l_orderkey,l_partkey\n1,12345\n")
    return tiny


def fixed_cost(spark: SparkSession, tiny: dict[str, Path], rounds: int) -> list[str]:
    """Return the fixed cost of a query: both readers over a file of one line."""
    bench = Bench(spark, tiny, ("auto", "jvm", "spark off", "duckdb", "polars"))
    lines = []
    for name in tiny:
        measurements = bench.measure(Query("fixed cost", "l_partkey = 12345", table=name), rounds)
        for engine in measurements:
            wall, cpu = seconds(measurements, engine, "wall"), seconds(measurements, engine)
            lines.append(f"- {name}, {engine}: {wall} s wall, {cpu} s CPU")
    return lines


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw seconds as JSON."""
    parser = command_line(__doc__, rounds=5)
    parser.add_argument("--skip", nargs="*", default=[], help="engines to leave out")
    arguments = parser.parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.cache), arguments.skip)
    files = one_line(arguments.cache)
    tiny = Bench(spark, files, arguments.skip)
    # A fresh JVM spends most of a short query compiling either reader's code, and `measure` compares warm sessions.
    for name in files:
        tiny.repeat(Query("warm-up", "l_partkey = 12345", table=name), WARM_UP)
    about = (
        f"TPC-H lineitem, scale {arguments.scale}. {arguments.rounds} interleaved rounds after one that does not "
        f"count, in a JVM that ran {WARM_UP} queries of each kind and {SETTLE} of the same kind over one line before. "
        "Medians of the ratios within rounds (above 1: the pushdown reader takes less)."
    )
    titles = ["format", "query", "rows", "pushdown CPU s", *(column.title for column in _COMPARISONS)]
    table = ResultTable(arguments.results / f"text-sf{arguments.scale}.md", "JSON and CSV scans", about, titles)
    for query in _queries():
        if is_chosen(f"{query.table} {query.name}", arguments.only):
            tiny.repeat(query, SETTLE)
            measurements = bench.measure(query, arguments.rounds)
            table.add(f"{query.table} {query.name}", _cells(query, measurements), measurements)
    costs = fixed_cost(spark, files, arguments.rounds)
    table.add_lines(["", "Fixed cost of a query (a file of one line):", *costs])
    spark.stop()


if __name__ == "__main__":
    main()
