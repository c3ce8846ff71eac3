"""ORC scans: our reader against Spark's own, with and without its lazy filter (`orc.sarg.to.filter`).

Every round runs all readers once, in turn. Ratios are medians of the ratios within rounds. Bytes are those that the
processes read by system calls. The wide table has the shape of the search job for which ORC's lazy filter was made: 120
columns, three of them searched by IN lists of 1,000 values under OR, and very few matches.
"""

from __future__ import annotations

import statistics
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.lineitem import convert
from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Comparison, Engines, Measured, cpu_and_wall, measure, repeat, seconds
from benchmarks.scans import Query, save_selected, scan
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import wide_column

_SIXTEEN = (*(f"c{number}" for number in range(0, 120, 8)), "c1")
_SEARCHED = ("c0", "c1", "c8")
_DOMAIN = 3_000_000_000
"""Searched values are drawn from so many, so that 3,000 of them find about one row in a million."""
COMPARED = ("pushdown", "spark", "sarg")
WARM_UP = 30
"""Queries of each kind over a few rows before the first that counts."""
SETTLE = 15
"""Runs of a query over a few rows before its first round: planning it is compiled then."""


def _lineitem_queries(scale: int) -> list[Query]:
    """Return queries with matches in all row groups (by part) and with adjacent matches (by order)."""
    parts = ", ".join(map(str, range(1, 33 * 197 * scale, 197 * scale)))
    start = 3_000_001
    two, eight = ("l_orderkey", "l_comment"), ("l_orderkey", "l_partkey", "l_quantity", "l_tax", "l_shipdate")
    eight = (*eight, "l_shipmode", "l_returnflag", "l_comment")
    scattered = [
        ("1 scattered", "l_partkey = 12345 AND l_suppkey = 2346 AND l_quantity = 50"),
        ("20 scattered", f"l_partkey = {12345 * scale}"),
        ("1,000 scattered", f"l_partkey IN ({parts})"),
        ("60,000 scattered", f"l_partkey <= {2_000}"),
        ("3,000,000 scattered", f"l_partkey <= {100_000}"),
    ]
    clustered = [
        (f"{name} clustered", f"l_orderkey BETWEEN {start} AND {start + width}")
        for name, width in (("1-7", 0), ("20", 16), ("1,000", 1_000), ("60,000", 60_000), ("3,000,000", 3_000_000))
    ]
    lineitem = partial(Query, table="lineitem")
    needle, half = scattered[1][1], f"l_partkey <= {100_000 * scale}"
    return [
        *(lineitem(name, where) for name, where in (*scattered, *clustered)),
        *(lineitem(f"20 scattered, {len(columns)} columns", needle, columns) for columns in (two, eight)),
        lineitem("half the rows", half),
        lineitem("half the rows, 2 columns", half, two),
    ]


def _wide_queries() -> list[Query]:
    step = _DOMAIN // 1_000
    among = " OR ".join(
        f"{name} IN ({', '.join(str(value * step + offset) for value in range(1_000))})"
        for offset, name in enumerate(_SEARCHED)
    )
    return [
        Query("wide, 16 columns", among, _SIXTEEN, table="wide"),
        Query("wide, all columns", among, table="wide"),
    ]


def prepare(spark: SparkSession, scale: int, wide_rows: int, cache: Path) -> dict[str, Path]:
    """Return directories of the two tables and of some rows for the warm-up. They are created if necessary."""
    lineitem, wide = cache / f"lineitem-orc-{scale}", cache / f"wide-orc-{wide_rows}"

    def write(table: DataFrame) -> None:
        table.coalesce(4 * scale).write.mode("overwrite").orc(str(lineitem))

    convert(spark, scale, lineitem, write)
    if not (wide / "_SUCCESS").exists():
        print("wide table: generating", flush=True)
        rows = spark.range(0, wide_rows, 1, 8).selectExpr(*(_wide_column(number) for number in range(120)))
        rows.write.mode("overwrite").orc(str(wide))
    tables = {"lineitem": lineitem, "wide": wide}
    few = {_few(name): cache / _few(name) for name in tables}
    for table, rows in zip(tables.values(), few.values(), strict=True):
        if not (rows / "_SUCCESS").exists():
            spark.read.orc(str(table)).limit(1_000).coalesce(1).write.mode("overwrite").orc(str(rows))
    return tables | few


def _few(table: str) -> str:
    return f"few-{table}-orc"


def _wide_column(number: int) -> str:
    """Return a column with pseudo-random values. The searched columns are long."""
    if f"c{number}" in _SEARCHED:
        return f"pmod(xxhash64(id, {number}), {_DOMAIN}) AS c{number}"
    return wide_column(number)


class Bench:
    """The readers over one data set."""

    def __init__(self, spark: SparkSession, data: dict[str, Path]) -> None:
        self._spark = spark
        self._data = data

    def engines(self, query: Query) -> Engines:
        """Return the action of each reader for a query."""
        path = str(self._data[query.table])

        def ours(reader: str, *, use_selected: bool = False) -> int:
            options = {"use_selected": use_selected}
            return scan(self._spark, query, path=path, format="orc", reader=reader, orc=options)

        def spark(lazy: str) -> int:
            return save_selected(self._spark.read.option("orc.sarg.to.filter", lazy).orc(path), query)

        return {
            "pushdown": lambda: ours("pushdown"),
            "selected": lambda: ours("pushdown", use_selected=True),
            "auto": lambda: ours("auto"),
            "spark": lambda: spark("false"),
            "sarg": lambda: spark("true"),
        }


_COMPARISONS = (
    *cpu_and_wall("ours / Spark", "spark", "pushdown"),
    Comparison("bytes", "spark", "pushdown", "read"),
    *cpu_and_wall("ours / Spark with sarg.to.filter", "sarg", "pushdown"),
    Comparison("bytes", "sarg", "pushdown", "read"),
    Comparison("use_selected / Spark: CPU", "spark", "selected"),
    Comparison("auto / Spark: CPU", "spark", "auto"),
    Comparison("auto / sarg.to.filter: CPU", "sarg", "auto"),
)


def _cells(query: Query, measured: dict[str, Measured]) -> list[str]:
    ours = [seconds(measured, "pushdown", kind) for kind in ("cpu", "wall")]
    read = f"{statistics.median(measured['pushdown'].read) / 1e6:,.0f}"
    return [query.name, f"{measured['pushdown'].rows:,}", *ours, read, *(c.cell(measured) for c in _COMPARISONS)]


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw values as JSON."""
    parser = command_line(__doc__, rounds=5)
    parser.add_argument("--wide-rows", type=int, default=4_000_000, help="rows of the wide table")
    arguments = parser.parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.wide_rows, arguments.cache))
    # `measure` compares warm sessions, in which the JVM has compiled the code of both readers.
    repeat(bench.engines(Query("warm-up", "l_partkey < 100000", table=_few("lineitem"))), COMPARED, WARM_UP)
    about = (
        f"TPC-H lineitem, scale {arguments.scale}, and a table of {arguments.wide_rows:,} rows and 120 columns; zstd. "
        f"{arguments.rounds} interleaved rounds after two that do not count, in a JVM that ran {WARM_UP} small queries "
        f"of each kind and {SETTLE} of the same kind over 1,000 rows before. Medians of the ratios within rounds "
        "(above 1: the pushdown reader takes less)."
    )
    titles = ["query", "rows", "our CPU s", "our wall s", "our MB", *(column.title for column in _COMPARISONS)]
    table = ResultTable(arguments.results / f"orc-sf{arguments.scale}.md", "ORC scans", about, titles)
    for query in (*_wide_queries(), *_lineitem_queries(arguments.scale)):
        if is_chosen(query.name, arguments.only):
            repeat(bench.engines(replace(query, table=_few(query.table))), COMPARED, SETTLE)
            measurements = measure(bench.engines(query), arguments.rounds, warm_up=2)
            table.add(query.name, _cells(query, measurements), measurements)
    spark.stop()


if __name__ == "__main__":
    main()
