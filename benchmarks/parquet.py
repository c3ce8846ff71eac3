"""Parquet scans: our reader against Spark's vectorized reader with its pushdown, DuckDB and Polars.

Every round runs all engines once, in turn. Ratios are medians of the ratios within rounds. The wide table has 61
columns with pseudo-random values, of which only `id` is sorted. The events are nested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from pyspark.sql import SparkSession

from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Engines, Measured, cpu_and_wall, measure, repeat, seconds
from benchmarks.scans import Query, duckdb_rows, save_selected, scan
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import wide_column

_WIDE_ROWS, _EVENT_ROWS = 1_800_000, 1_400_000
"""Rows at scale 1."""
_COMPARED = ("pushdown", "auto", "spark")
_WARM_UP = 3
_LIST = ", ".join(str(number * 997) for number in range(1_000))


@dataclass(frozen=True)
class ParquetQuery(Query):
    """A query with the ratio to reach."""

    goal: str = "0.95 (auto)"


_QUERIES = (
    ParquetQuery("needle", "c0 = 12345", goal="10"),
    ParquetQuery("needle, no match", "c1 = 7 AND c0 = 500001 AND c6 = 3", goal="10"),
    ParquetQuery("needle on a nested member", "user.id = 12345", table="events", goal="10"),
    ParquetQuery("IN of 1,000", f"c6 IN ({_LIST})", goal="5"),
    ParquetQuery("LIKE 'x%'", "c2 LIKE 'name 1234%'", goal="5"),
    ParquetQuery("date equality", "c4 = DATE'2005-05-05'", goal="5"),
    ParquetQuery("1 % scattered", "c0 < 10000", goal="2"),
    ParquetQuery("needle in a sorted table", "id = 1000000"),
    ParquetQuery("half", "c0 < 500000"),
    ParquetQuery("half, 2 columns", "c0 < 500000", ("c0", "c2")),
    ParquetQuery("all", "c0 >= 0"),
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

    def engines(self, query: Query) -> Engines:
        """Return the action of each engine for a query. Polars has no maps, and so does not read the events."""
        path = str(self._data[query.table or "wide"])
        quoted = replace(query, where=str(query.where).replace("user.id", '"user".id'))
        engines: Engines = {
            "pushdown": lambda: scan(self._spark, query, path=path, format="parquet", reader="pushdown"),
            "auto": lambda: scan(self._spark, query, path=path, format="parquet", reader="auto"),
            "spark": lambda: save_selected(self._spark.read.parquet(path), query),
            "duckdb": lambda: duckdb_rows(quoted.sql(f"'{path}/*.parquet'")),
        }
        return engines if query.table else {**engines, "polars": lambda: _polars_rows(path, quoted)}


def _polars_rows(path: str, query: Query) -> int:
    """Run Polars' streaming engine, which returns all rows at once."""
    frame = pl.scan_parquet(f"{path}/*.parquet", parallel="prefiltered")
    result = pl.SQLContext(t=frame).execute(query.sql("t"))
    return int(result.collect(engine="streaming").height)


_COMPARISONS = (*cpu_and_wall("ours / Spark", "spark", "pushdown"), *cpu_and_wall("auto / Spark", "spark", "auto"))
_TITLES = (
    *("query", "rows", "goal", "our CPU s", "our wall s", "Spark's CPU s", "Spark's wall s"),
    *(column.title for column in _COMPARISONS),
    *("DuckDB CPU s", "Polars CPU s"),
)


def _cells(query: ParquetQuery, measured: dict[str, Measured]) -> list[str]:
    own = [seconds(measured, engine, kind) for engine in ("pushdown", "spark") for kind in ("cpu", "wall")]
    peers = [seconds(measured, engine) or "-" for engine in ("duckdb", "polars")]
    ratios = [column.cell(measured) for column in _COMPARISONS]
    return [query.name, f"{measured['pushdown'].rows:,}", query.goal, *own, *ratios, *peers]


def main() -> None:
    """Run the queries, and write the table as Markdown."""
    arguments = command_line(__doc__, rounds=3).parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.cache))
    repeat(bench.engines(_QUERIES[0]), _COMPARED, _WARM_UP)
    about = (
        f"A table of {_WIDE_ROWS * arguments.scale:,} rows and 61 columns, and {_EVENT_ROWS * arguments.scale:,} "
        "nested events, written by Spark with its defaults; all columns unless a query says otherwise. "
        f"{arguments.rounds} interleaved rounds after one that does not count. Medians of the ratios within rounds "
        "(above 1: our reader takes less)."
    )
    table = ResultTable(arguments.results / "parquet.md", "Parquet scans", about, _TITLES)
    for query in _QUERIES:
        if is_chosen(query.name, arguments.only):
            table.add(query.name, _cells(query, measure(bench.engines(query), arguments.rounds)))
    spark.stop()


if __name__ == "__main__":
    main()
