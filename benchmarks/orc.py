"""ORC scans: our reader against Spark's own, with and without its lazy filter (`orc.sarg.to.filter`).

Every round runs all readers once, in turn. Ratios are medians of the ratios within rounds. Bytes are those that the
processes read by system calls. The wide table has the shape of the search job for which ORC's lazy filter was made: 120
columns, three of them searched by IN lists of 1,000 values under OR, and very few matches.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.result_files import table_head, write_page
from benchmarks.rounds import Measured, measure, ratio, repeat
from benchmarks.scans import save, scan, select
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


@dataclass(frozen=True)
class Query:
    """One row of the results: data, filter and columns (None for all)."""

    name: str
    table: str
    where: str
    columns: tuple[str, ...] | None = None


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
    queries = [Query(name, "lineitem", where) for name, where in (*scattered, *clustered)]
    needle = scattered[1][1]
    queries += [Query(f"20 scattered, {len(c)} columns", "lineitem", needle, c) for c in (two, eight)]
    half = f"l_partkey <= {100_000 * scale}"
    return [
        *queries,
        Query("half the rows", "lineitem", half),
        Query("half the rows, 2 columns", "lineitem", half, two),
    ]


def _wide_queries() -> list[Query]:
    step = _DOMAIN // 1_000
    among = " OR ".join(
        f"{name} IN ({', '.join(str(value * step + offset) for value in range(1_000))})"
        for offset, name in enumerate(_SEARCHED)
    )
    return [Query("wide, 16 columns", "wide", among, _SIXTEEN), Query("wide, all columns", "wide", among)]


def prepare(spark: SparkSession, scale: int, wide_rows: int, cache: Path) -> dict[str, Path]:
    """Return directories of the two tables and of some rows for the warm-up. They are created if necessary."""
    lineitem, wide = cache / f"lineitem-orc-{scale}", cache / f"wide-orc-{wide_rows}"
    if not (lineitem / "_SUCCESS").exists():
        parquet = cache / "parquet"
        tool = Path(sys.executable).with_name("tpchgen-cli")
        print(f"lineitem at scale {scale}: generating", flush=True)
        subprocess.run([tool, "parquet", "-s", str(scale), "-T", "lineitem", "-o", parquet], check=True)
        # In the order of l_orderkey, as it is generated.
        frame = spark.read.parquet(str(parquet / "lineitem.parquet"))
        frame.coalesce(4 * scale).write.mode("overwrite").orc(str(lineitem))
        shutil.rmtree(parquet)
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

    def engines(self, query: Query) -> dict[str, Callable[[], int]]:
        """Return the action of each reader for a query."""
        return {
            "pushdown": lambda: self._ours(query, "pushdown"),
            "selected": lambda: self._ours(query, "pushdown", use_selected=True),
            "auto": lambda: self._ours(query, "auto"),
            "spark": lambda: self._spark_reader(query, lazy=False),
            "sarg": lambda: self._spark_reader(query, lazy=True),
        }

    def _ours(self, query: Query, reader: str, *, use_selected: bool = False) -> int:
        path, options = str(self._data[query.table]), {"use_selected": use_selected}
        return scan(self._spark, query.columns, query.where, path=path, format="orc", reader=reader, orc=options)

    def _spark_reader(self, query: Query, *, lazy: bool) -> int:
        """Run Spark's reader as its users do."""
        frame = self._spark.read.option("orc.sarg.to.filter", str(lazy).lower()).orc(str(self._data[query.table]))
        save(select(frame, query.columns, query.where))
        return 0


def _warm_up(bench: Bench) -> None:
    """Run queries until the JVM has compiled the code of both readers, because `measure` compares warm sessions."""
    few = Query("warm-up", _few("lineitem"), "l_partkey < 100000")
    repeat(bench.engines(few), COMPARED, WARM_UP)


_COLUMNS = (
    ("ours / Spark: CPU", "spark", "pushdown", "cpu"),
    ("wall", "spark", "pushdown", "wall"),
    ("bytes", "spark", "pushdown", "read"),
    ("ours / Spark with sarg.to.filter: CPU", "sarg", "pushdown", "cpu"),
    ("wall", "sarg", "pushdown", "wall"),
    ("bytes", "sarg", "pushdown", "read"),
    ("use_selected / Spark: CPU", "spark", "selected", "cpu"),
    ("auto / Spark: CPU", "spark", "auto", "cpu"),
    ("auto / sarg.to.filter: CPU", "sarg", "auto", "cpu"),
)


def _line(query: Query, measured: dict[str, Measured]) -> str:
    ours = measured["pushdown"]
    cells = [query.name, f"{ours.rows:,}", f"{statistics.median(ours.cpu):.2f}", f"{statistics.median(ours.wall):.2f}"]
    cells.append(f"{statistics.median(ours.read) / 1e6:,.0f}")
    cells += [f"{ratio(measured, other, mine, kind):.2f}" for _, other, mine, kind in _COLUMNS]
    return "| " + " | ".join(cells) + " |"


def _head() -> list[str]:
    titles = ["query", "rows", "our CPU s", "our wall s", "our MB", *(title for title, *_ in _COLUMNS)]
    return table_head(titles)


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw values as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=int(os.environ.get("SF", "1")))
    parser.add_argument("--wide-rows", type=int, default=4_000_000, help="rows of the wide table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--only", nargs="*", default=[""], help="run only queries whose name contains one of these strings"
    )
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    spark = benchmark_session()
    bench = Bench(spark, prepare(spark, arguments.scale, arguments.wide_rows, arguments.cache))
    _warm_up(bench)
    lines, raw = _head(), {}
    print(*lines, sep="\n", flush=True)
    about = (
        f"TPC-H lineitem, scale {arguments.scale}, and a table of {arguments.wide_rows:,} rows and 120 columns; zstd. "
        f"{arguments.rounds} interleaved rounds after two that do not count, in a JVM that ran {WARM_UP} small queries "
        f"of each kind and {SETTLE} of the same kind over 1,000 rows before. Medians of the ratios within rounds "
        "(above 1: the pushdown reader takes less)."
    )
    for query in (*_wide_queries(), *_lineitem_queries(arguments.scale)):
        if not any(text in query.name for text in arguments.only):
            continue
        repeat(bench.engines(replace(query, table=_few(query.table))), COMPARED, SETTLE)
        measured = measure(bench.engines(query), arguments.rounds, warm_up=2)
        raw[query.name] = {name: asdict(figures) for name, figures in measured.items()}
        lines.append(_line(query, measured))
        print(lines[-1], flush=True)
        write_page(arguments.results / f"orc-sf{arguments.scale}.md", "ORC scans", about, lines, raw)
    spark.stop()


if __name__ == "__main__":
    main()
