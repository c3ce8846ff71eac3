"""`reader="auto"` over tables of many shapes, against the better of Spark's reader with pushdown on and off.

Tables and queries come from a seed, which changes with every run unless it is given. A run takes as many tables, in
random order, as it has time for. Every round runs all engines once, in turn. Ratios are medians of the ratios of CPU
seconds within rounds. Spark's reader runs twice in each round, and the ratio of these two runs is the noise. The
session is warm.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import SparkSession

from benchmarks.result_files import command_line, is_chosen, table_head, table_line, write_page
from benchmarks.rounds import Engines, measure, ratio, repeat
from benchmarks.scans import Query, save, save_selected, select
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import FORMATS, Column, Shape, Table, shapes, write
from pushdown_spark.formats.spark_reader.spark_scan import FILTER_SETTINGS
from pushdown_spark.formats.text import planner
from pushdown_spark.formats.worker_startup import warm_up_workers
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

GOAL = 0.95
_QUERIES = 8
"""Queries of each table with `--queries all`."""
_ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin")
_TINY_ROWS = 200
_SETTLE = 5
"""Number of runs of a query over a tiny table before its first round."""
_WORST = 10
_LONGEST_PREDICATE = 120
"""Characters of a predicate in the list of the least ratios."""


def queries(shape: Shape, table: Table, rows: int, rng: random.Random) -> list[Query]:
    """Return queries from no row to all rows of a table, in random order."""
    queries = list(_queries([column for column in shape.columns if column in table.columns], rows, rng))
    rng.shuffle(queries)
    return queries


def _queries(columns: list[Column], rows: int, rng: random.Random) -> Iterator[Query]:
    def used(use: str) -> list[Column]:
        return [column for column in columns if column.use == use]

    def value(column: Column) -> int:
        return rng.randrange(max(min(column.distinct, rows), 1))

    keys, shares = used("key"), used("share")
    names = [column.name for column in columns]
    two = tuple(sorted(rng.sample(names, 2), key=names.index))
    yield Query("needle on an early field", f"{keys[0].name} = {value(keys[0])}")
    yield Query("needle on a late field", f"{keys[-1].name} = {value(keys[-1])}")
    yield Query("needle, 2 columns", f"{rng.choice(keys).name} = {value(keys[0])}", two)
    yield Query("no match", f"{rng.choice(keys).name} = {10**9 + rng.randrange(1000)}")
    among = ", ".join(str(value(keys[-1])) for _ in range(rng.choice((3, 10, 100))))
    yield Query("IN", f"{keys[-1].name} IN ({among})")
    share = rng.choice(shares).name
    yield Query("1 %", f"{share} < 100")
    yield Query("half", f"{share} < 5000", rng.choice((None, two)))
    yield Query("all", f"{share} >= 0", rng.choice((None, two)))
    for nested in used("nested")[:1]:
        yield Query("needle on a nested field", f"{nested.compared} = {value(nested)}")
    for text in used("text")[-1:]:
        pattern = rng.choice((f"name {rng.randrange(100_000)} %", f"%word{rng.randrange(10_000)} %"))
        yield Query("LIKE", f"{text.name} LIKE '{pattern}'")
        yield Query("LIKE in any case", f"LOWER({text.name}) LIKE '{pattern}'")
    for moment in used("time")[-1:]:
        start = 1_700_000_000 + rng.randrange(moment.distinct)
        end = start + rng.choice((300, 3_600, 86_400, 7 * 86_400))
        low, high = (f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}" for second in (start, end))
        yield Query("range of a timestamp", f"{moment.name} BETWEEN TIMESTAMP'{low}' AND TIMESTAMP'{high}'")
        yield Query("day of a timestamp", f"DATE({moment.name}) = DATE'{low[:10]}'")
    for items in used("items")[:1]:
        yield Query("item of an array", f"EXISTS({items.name}, item -> item.sku = 'sku {rng.randrange(100_000)}')")
    for tags in used("tags")[:1]:
        yield Query("value of a map", f"{tags.name}['a'] = 'v {rng.randrange(100_000)}'")
    for amount in used("amount")[-1:]:
        low_amount = round(amount.distinct * rng.choice((0.5, 0.98, 0.999)), 2)
        yield Query("range of a decimal", f"{amount.name} > {low_amount}")


class Bench:
    """The engines over one table."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self._spark = spark
        self.table = table
        self._last: PushdownResult | None = None

    def engines(self, query: Query, *, forced: bool) -> Engines:
        """Return the action of each engine. With `forced`, our readers also run where they are not chosen."""
        ours: Engines = {"auto": lambda: self._auto(query)}
        if forced:
            carriers = ("workers", "jvm") if self.table.format in ("json", "csv") else ("",)
            for carrier in carriers:
                ours[carrier or "ours"] = lambda carrier=carrier: self._ours(query, "pushdown", carrier)[0]
        return {
            "on": lambda: self._spark_reader(query, "true"),
            **ours,
            "off": lambda: self._spark_reader(query, "false"),
            "on again": lambda: self._spark_reader(query, "true"),
        }

    def count(self, query: Query) -> int:
        """Return the number of rows by Spark's reader without pushdown."""
        with self._pushdown("false"):
            return select(self.table.load(self._spark), query.columns, query.where).count()

    def _auto(self, query: Query) -> int:
        rows, self._last = self._ours(query, "auto", "")
        return rows

    def choice(self) -> tuple[str, str]:
        """Return the reader of the last run with `auto`, and the reason for it."""
        assert self._last is not None
        report = self._last.report()["t"]
        return report.carrier or report.reader, report.reason

    def _ours(self, query: Query, reader: str, carrier: str) -> tuple[int, PushdownResult]:
        session = PushdownSession(self._spark)
        session.add_source(
            "t",
            path=str(self.table.path),
            format=self.table.format,
            schema=self.table.schema,
            options=self.table.options,
            reader=reader,
        )
        with patch.object(planner, "CARRIERS", frozenset([carrier] if carrier else planner.CARRIERS)):
            result = session.scan("t", columns=query.columns, where=query.where)
        result.run(save, single_pass=True)
        return result.rows or 0, result

    def _spark_reader(self, query: Query, pushdown: str) -> int:
        with self._pushdown(pushdown):
            return save_selected(self.table.load(self._spark), query)

    @contextmanager
    def _pushdown(self, value: str) -> Iterator[None]:
        """Set the pushdown of Spark's reader for a block."""
        self._spark.conf.set(FILTER_SETTINGS[self.table.format], value)
        try:
            yield
        finally:
            self._spark.conf.set(FILTER_SETTINGS[self.table.format], "true")


@dataclass(frozen=True)
class Cell:
    """The result of one query over one table. `best` is Spark's better setting, `forced` our fastest forced reader."""

    format: str
    shape: str
    query: str
    where: str
    rows: int
    is_right: bool
    reader: str
    reason: str
    auto: float
    spark: float
    ratio: float
    noise: float
    forced: tuple[str, float] | None

    @property
    def line(self) -> str:
        """The row of the table of results."""
        forced = "" if self.forced is None else f"{self.forced[0]} {self.forced[1]:.2f}"
        rows = f"{self.rows:,}" if self.is_right else f"WRONG: {self.rows:,}"
        cells = (self.format, self.shape, self.query, rows, self.reader, f"{self.auto:.2f}", f"{self.spark:.2f}")
        return table_line((*cells, f"{self.ratio:.2f}", f"{self.noise:.2f}", forced))


_TITLES = ("format", "shape", "query", "rows", "reader", "auto CPU s", "Spark CPU s", "Spark / auto", "Spark / Spark")
_HEAD = table_head((*_TITLES, "forced"))


def measure_cell(bench: Bench, tiny: Bench, shape: Shape, query: Query, rounds: int, *, forced: bool, fmt: str) -> Cell:
    """Compare the engines for one query."""
    small = tiny.engines(query, forced=True)
    repeat(small, [name for name in small if name != "on again"], _SETTLE)
    rows = bench.count(query)
    measurements = measure(bench.engines(query, forced=forced), rounds)
    best = min(("on", "off"), key=lambda name: statistics.median(measurements[name].cpu))
    others = [name for name in ("workers", "jvm", "ours") if name in measurements]
    fastest = min(others, key=lambda name: statistics.median(measurements[name].cpu), default=None)
    return Cell(
        fmt,
        shape.name,
        query.name,
        query.where or "",
        rows,
        measurements["auto"].rows == rows,
        *bench.choice(),
        statistics.median(measurements["auto"].cpu),
        statistics.median(measurements[best].cpu),
        ratio(measurements, best, "auto", "cpu"),
        ratio(measurements, "on", "on again", "cpu"),
        None if fastest is None else (fastest, ratio(measurements, best, fastest, "cpu")),
    )


def summary(cells: list[Cell]) -> list[str]:
    """Return the figures over all queries."""
    ratios = sorted(cell.ratio for cell in cells)
    noise = sorted(min(cell.noise, 1 / cell.noise) for cell in cells)
    floor = noise[len(noise) // 20]
    low = [cell for cell in cells if cell.ratio < GOAL]
    lines = [
        f"- {len(cells)} queries: median {statistics.median(ratios):.2f}, least {ratios[0]:.2f}, "
        f"{len(low)} below {GOAL}",
        f"- Spark's reader against itself: 95 % of the queries at {floor:.2f} or better, "
        f"median {statistics.median(noise):.2f}",
        f"- {sum(cell.ratio < GOAL * floor for cell in cells)} queries are below {GOAL} of these {floor:.2f}",
        f"- wrong number of rows: {sum(not cell.is_right for cell in cells)}",
    ]
    for name in FORMATS:
        ratios = [cell.ratio for cell in cells if cell.format == name]
        if ratios:
            lines.append(
                f"- {name}: {len(ratios)} queries, median {statistics.median(ratios):.2f}, least {min(ratios):.2f}, "
                f"{sum(number < GOAL for number in ratios)} below {GOAL}"
            )
    lines += ["", "Least ratios:", ""]
    for cell in sorted(cells, key=lambda cell: cell.ratio)[:_WORST]:
        where = textwrap.shorten(cell.where, _LONGEST_PREDICATE, placeholder=" ...")
        lines.append(f"- {cell.ratio:.2f} {cell.format}, {cell.shape}, `{where}`: {cell.reader}, {cell.reason}")
    return lines


def _write(results: Path, about: str, cells: list[Cell]) -> None:
    lines = [*summary(cells), "", *_HEAD, *(cell.line for cell in cells)]
    write_page(
        results / "auto.md", "`reader='auto'` over tables of many shapes", about, lines, list(map(asdict, cells))
    )


def main() -> None:
    """Run the queries, and write the tables as Markdown and JSON."""
    parser = command_line(__doc__, rounds=3, scale=float)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", str(time.time_ns() % 1_000_000))))
    parser.add_argument("--queries", type=int, default=1, help=f"queries of each table (of at least {_QUERIES})")
    parser.add_argument("--minutes", type=float, default=10.0, help="start no table later than this, 0 for no limit")
    parser.add_argument("--formats", nargs="*", default=FORMATS)
    parser.add_argument("--shapes", nargs="*", default=[], help="run only shapes with these names")
    parser.add_argument("--forced", action="store_true", help="also run our readers where they are not chosen")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    zone = rng.choice(_ZONES)
    about = (
        f"Seed {arguments.seed}, scale {arguments.scale:g}, time zone {zone}. {arguments.rounds} interleaved rounds "
        f"after one that does not count. Above 1, `auto` takes less CPU than the better of Spark's two settings."
    )
    print(about, *_HEAD, sep="\n", flush=True)
    spark = benchmark_session({"spark.sql.session.timeZone": zone})
    warm_up_workers(spark, FORMATS)
    home = arguments.cache / f"auto-{arguments.seed}"
    cells: list[Cell] = []
    selected = [shape for shape in shapes(arguments.seed) if not arguments.shapes or shape.name in arguments.shapes]
    tables = [(shape, name) for shape in selected for name in arguments.formats]
    rng.shuffle(tables)
    start = time.monotonic()
    for shape, name in tables:
        if arguments.minutes and time.monotonic() - start > 60 * arguments.minutes:
            break
        rows = shape.rows(arguments.scale)
        chosen = random.Random(f"{arguments.seed} {shape.name} {name}")
        bench = Bench(spark, write(spark, shape, name, rows, home / "table"))
        tiny = Bench(spark, write(spark, shape, name, _TINY_ROWS, home / "tiny"))
        drawn = queries(shape, bench.table, rows, chosen)
        chosen_queries = [query for query in drawn if is_chosen(query.name, arguments.only)]
        for query in chosen_queries[: arguments.queries]:
            cell = measure_cell(bench, tiny, shape, query, arguments.rounds, forced=arguments.forced, fmt=name)
            cells.append(cell)
            print(cell.line, flush=True)
        _write(arguments.results, about, cells)
    print(*summary(cells), sep="\n")
    shutil.rmtree(home, ignore_errors=True)
    spark.stop()


if __name__ == "__main__":
    main()
