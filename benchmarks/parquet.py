"""Parquet scans: our reader against Spark's vectorized reader with its pushdown, DuckDB and Polars.

Every round runs all engines once, in turn. Ratios are medians of the ratios within rounds. The wide table has 61
columns with pseudo-random values, of which only `id` is sorted. The events are nested.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
from pyspark.sql import SparkSession

from benchmarks.result_files import table_head, write_page
from benchmarks.rounds import Measured, measure, ratio, repeat
from benchmarks.scans import save, scan, select
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import wide_column

_WIDE_ROWS, _EVENT_ROWS = 1_800_000, 1_400_000
"""Rows at scale 1."""
_COMPARED = ("pushdown", "auto", "spark")
_WARM_UP = 3
_LIST = ", ".join(str(number * 997) for number in range(1_000))


@dataclass(frozen=True)
class Query:
    """One row of the results: data, filter and columns (None for all). `goal` is the ratio to reach."""

    name: str
    table: str
    where: str
    goal: str
    columns: tuple[str, ...] | None = None


_QUERIES = (
    Query("needle", "wide", "c0 = 12345", "10"),
    Query("needle, no match", "wide", "c1 = 7 AND c0 = 500001 AND c6 = 3", "10"),
    Query("needle on a nested member", "events", "user.id = 12345", "10"),
    Query("IN of 1,000", "wide", f"c6 IN ({_LIST})", "5"),
    Query("LIKE 'x%'", "wide", "c2 LIKE 'name 1234%'", "5"),
    Query("date equality", "wide", "c4 = DATE'2005-05-05'", "5"),
    Query("1 % scattered", "wide", "c0 < 10000", "2"),
    Query("needle in a sorted table", "wide", "id = 1000000", "0.95 (auto)"),
    Query("half", "wide", "c0 < 500000", "0.95 (auto)"),
    Query("half, 2 columns", "wide", "c0 < 500000", "0.95 (auto)", ("c0", "c2")),
    Query("all", "wide", "c0 >= 0", "0.95 (auto)"),
)


_EVENT_COLUMNS = (
    "id",
    "timestamp_micros(1700000000000000 + id * 1000000) AS at",
    """named_struct('id', pmod(xxhash64(id, 1), 700000), 'name', concat('user ', pmod(xxhash64(id, 2), 100000)), 'geo',
        named_struct('country', concat('c', pmod(xxhash64(id, 3), 200)), 'lat', rand(1), 'lon', rand(2))) AS user""",
    "concat('kind ', pmod(xxhash64(id, 4), 1000)) AS kind",
    """transform(sequence(1, 1 + CAST(pmod(xxhash64(id, 5), 5) AS INT)), i -> named_struct(
        'sku', concat('sku ', pmod(xxhash64(id, 6 + i), 100000)), 'n', CAST(pmod(xxhash64(id, 20 + i), 10) AS INT),
        'price', CAST(pmod(xxhash64(id, 40 + i), 100000) / 100 AS DECIMAL(10, 2)))) AS items""",
    "map('a', concat('v ', pmod(xxhash64(id, 60), 100000)), 'b', concat('w ', pmod(xxhash64(id, 61), 100000))) AS tags",
    "sha2(CAST(id AS STRING), 256) AS payload",
)


def prepare(spark: SparkSession, scale: int, cache: Path) -> dict[str, Path]:
    """Return the directories of the two tables, which are written by Spark with its defaults if necessary."""
    tables = {"wide": cache / f"wide-parquet-{scale}", "events": cache / f"events-parquet-{scale}"}
    columns = {"wide": ["id", *map(wide_column, range(60))], "events": list(_EVENT_COLUMNS)}
    rows = {"wide": _WIDE_ROWS * scale, "events": _EVENT_ROWS * scale}
    for name, path in tables.items():
        if not (path / "_SUCCESS").exists():
            print(f"{name}: generating {rows[name]:,} rows", flush=True)
            frame = spark.range(0, rows[name], 1, 2 * scale).selectExpr(*columns[name])
            frame.write.mode("overwrite").parquet(str(path))
    return tables


class Bench:
    """The engines over one data set."""

    def __init__(self, spark: SparkSession, data: dict[str, Path]) -> None:
        self._spark = spark
        self._data = data

    def engines(self, query: Query) -> dict[str, Callable[[], int]]:
        """Return the action of each engine for a query."""
        return {
            "pushdown": lambda: self._ours(query, "pushdown"),
            "auto": lambda: self._ours(query, "auto"),
            "spark": lambda: self._spark_reader(query),
            "duckdb": lambda: self._duckdb(query),
            "polars": lambda: self._polars(query),
        }

    def _ours(self, query: Query, reader: str) -> int:
        return scan(
            self._spark, query.columns, query.where, path=str(self._data[query.table]), format="parquet", reader=reader
        )

    def _spark_reader(self, query: Query) -> int:
        """Run Spark's reader as its users do."""
        save(select(self._spark.read.parquet(str(self._data[query.table])), query.columns, query.where))
        return 0

    def _duckdb(self, query: Query) -> int:
        """Run DuckDB with as many threads, and read the rows in Arrow batches."""
        where = query.where.replace("user.id", '"user".id')
        columns = "*" if query.columns is None else ", ".join(query.columns)
        connection = duckdb.connect()
        connection.execute("SET threads = 2")
        relation = connection.execute(f"SELECT {columns} FROM '{self._data[query.table]}/*.parquet' WHERE {where}")
        rows = sum(batch.num_rows for batch in relation.to_arrow_reader(100_000))
        connection.close()
        return rows

    def _polars(self, query: Query) -> int:
        """Run Polars' streaming engine, which returns all rows at once."""
        where = query.where.replace("user.id", '"user".id')
        columns = "*" if query.columns is None else ", ".join(query.columns)
        frame = pl.scan_parquet(f"{self._data[query.table]}/*.parquet", parallel="prefiltered")
        found = pl.SQLContext(t=frame).execute(f"SELECT {columns} FROM t WHERE {where}")
        return int(found.collect(engine="streaming").height)


_TITLES = (
    *(
        "query",
        "rows",
        "goal",
        "our CPU s",
        "our wall s",
        "Spark's CPU s",
        "Spark's wall s",
        "ours / Spark: CPU",
        "wall",
    ),
    *("auto / Spark: CPU", "wall", "DuckDB CPU s", "Polars CPU s"),
)


def _line(query: Query, measured: dict[str, Measured]) -> str:
    def median(engine: str, kind: str) -> str:
        return f"{statistics.median(getattr(measured[engine], kind)):.2f}" if engine in measured else "-"

    ratios = [
        f"{ratio(measured, 'spark', mine, kind):.2f}" for mine in ("pushdown", "auto") for kind in ("cpu", "wall")
    ]
    seconds = [median(engine, kind) for engine in ("pushdown", "spark") for kind in ("cpu", "wall")]
    peers = [median(engine, "cpu") for engine in ("duckdb", "polars")]
    cells = [query.name, f"{measured['pushdown'].rows:,}", query.goal, *seconds, *ratios, *peers]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Run the queries, and write the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=int(os.environ.get("SF", "1")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[""], help="run only queries whose name contains one of these")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.cache))
    repeat(bench.engines(_QUERIES[0]), _COMPARED, _WARM_UP)
    lines = table_head(_TITLES)
    print(*lines, sep="\n", flush=True)
    about = (
        f"A table of {_WIDE_ROWS * arguments.scale:,} rows and 61 columns, and {_EVENT_ROWS * arguments.scale:,} "
        "nested events, written by Spark with its defaults; all columns unless a query says otherwise. "
        f"{arguments.rounds} interleaved rounds after one that does not count. Medians of the ratios within rounds "
        "(above 1: our reader takes less)."
    )
    for query in _QUERIES:
        if not any(text in query.name for text in arguments.only):
            continue
        engines = bench.engines(query)
        if query.table == "events":
            # Polars has no maps.
            del engines["polars"]
        lines.append(_line(query, measure(engines, arguments.rounds)))
        print(lines[-1], flush=True)
        write_page(arguments.results / "parquet.md", "Parquet scans", about, lines)
    spark.stop()


if __name__ == "__main__":
    main()
