"""Join order: TPC-H queries in published and permuted FROM orders, by us, by Spark as it is, and by Spark's cost model.

The latter has `spark.sql.cbo` on and every table analysed; the seconds of ANALYZE are told apart. Every round runs all
once, in turn. `rows` are those that flow out of all joins of a run, which no noise changes; a run that takes longer
than the limit is stopped, and counts as one that did not finish.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from benchmarks.cpu import tree_seconds
from benchmarks.tpch_joins import QUERIES, TABLES, JoinQuery
from spark_jobs.contract import JoinOptions
from spark_jobs.joins.measure import JoinWatch
from spark_jobs.joins.text import named_tables, parsed, written
from spark_jobs.session import PushdownSession

_ANALYSED = "analysed"
_COST_MODEL = ("spark.sql.cbo.enabled", "spark.sql.cbo.joinReorder.enabled")


@dataclass
class Run:
    """One execution: wall and CPU seconds, rows out of joins (None where it was stopped), seconds before it began."""

    wall: float
    cpu: float
    rows: int | None
    planning: float
    result: list[str] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Pair:
    """The engines over one text."""

    query: str
    order: str
    ours: tuple[Run, ...]
    spark: tuple[Run, ...]
    costed: tuple[Run, ...]


class Bench:
    """The engines over one directory of tables."""

    def __init__(self, spark: SparkSession, data: Path, limit: float) -> None:
        self._spark = spark
        self._data = data
        self._limit = limit
        self._session = PushdownSession(spark)
        for table in TABLES:
            self._session.add_source(table, path=str(data / f"{table}.parquet"), format="parquet", reader="spark")
        self.analysing = self._analysed()

    def _analysed(self) -> float:
        """Have all tables in a catalog with statistics of all columns; the seconds that these took."""
        started = time.perf_counter()
        self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {_ANALYSED}")
        for table in TABLES:
            place = self._data / f"{table}.parquet"
            name = f"{_ANALYSED}.{table}"
            self._spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING parquet LOCATION '{place.resolve()}'")
            self._spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        return time.perf_counter() - started

    def ours(self, text: str) -> Run:
        """The query through a session that has sampled the files before, as within one job."""
        return self._run(lambda: self._session.sql(text, JoinOptions()).df)

    def spark(self, text: str) -> Run:
        """The query as Spark runs it by itself; it opens the files too."""
        return self._run(lambda: self._opened(text))

    def costed(self, text: str) -> Run:
        """The query over the analysed tables, in the order of Spark's cost model."""
        tree = parsed(text)
        for table in named_tables(tree):
            table.set("db", exp.to_identifier(_ANALYSED))
        for key in _COST_MODEL:
            self._spark.conf.set(key, "true")
        try:
            return self._run(lambda: self._spark.sql(written(tree)))
        finally:
            for key in _COST_MODEL:
                self._spark.conf.unset(key)

    def _opened(self, text: str) -> DataFrame:
        for table in TABLES:
            if table in text:
                self._spark.read.parquet(str(self._data / f"{table}.parquet")).createOrReplaceTempView(table)
        return self._spark.sql(text)

    def _run(self, planned: Callable[[], DataFrame]) -> Run:
        group = f"join-{time.monotonic_ns()}"
        self._spark.sparkContext.setJobGroup(group, group, interruptOnCancel=True)
        timer = threading.Timer(self._limit, self._spark.sparkContext.cancelJobGroup, [group])
        wall, cpu = time.perf_counter(), tree_seconds()
        watch = JoinWatch(self._spark)
        frame = planned()
        planning = time.perf_counter() - wall
        timer.start()
        try:
            found = [str(row) for row in frame.collect()]
            rows = watch.rows_through_joins()
        except (PySparkException, Py4JJavaError):
            # Stopped at the limit: how Spark says so depends on what it was at.
            found, rows = [], None
        finally:
            timer.cancel()
        return Run(time.perf_counter() - wall, tree_seconds() - cpu, rows, planning, found)


def pairs(bench: Bench, queries: Sequence[JoinQuery], permutations: int, rounds: int) -> Iterator[Pair]:
    """Every query in every order by both engines, after one run of each that is not counted."""
    for query in queries:
        for number in range(permutations + 1):
            text = query.text(number)
            bench.ours(text)
            runs = [(bench.ours(text), bench.spark(text), bench.costed(text)) for _ in range(rounds)]
            ours, spark, costed = zip(*runs, strict=True)
            for theirs in (spark[0], costed[0]):
                if ours[0].rows is not None and theirs.rows is not None and not _same(ours[0], theirs):
                    raise SystemExit(f"{query.name}, order {number}: the rows are not the same")
            yield Pair(query.name, f"permutation {number}" if number else "published", ours, spark, costed)


def _same(one: Run, two: Run) -> bool:
    """Whether two runs gave the same rows: sums of decimals are exact, and ties do not decide who is listed."""
    return sorted(one.result) == sorted(two.result)


def line(pair: Pair) -> str:
    """One line of the table."""
    engines = (pair.ours, pair.spark, pair.costed)
    rows = [f"{runs[0].rows:,}" if runs[0].rows is not None else "not finished" for runs in engines]
    planning = statistics.median(run.planning / run.wall for run in pair.ours)
    ratios = [cell for runs in (pair.spark, pair.costed) for cell in _ratios(runs, pair.ours)]
    return "| " + " | ".join([pair.query, pair.order, *rows, *ratios, f"{planning:.1%}"]) + " |"


def _ratios(theirs: Sequence[Run], ours: Sequence[Run]) -> tuple[str, str]:
    """Wall and CPU time of an engine over ours; at least that where it was stopped."""
    wall = statistics.median(run.wall / mine.wall for mine, run in zip(ours, theirs, strict=True))
    cpu = statistics.median(run.cpu / max(mine.cpu, 1e-3) for mine, run in zip(ours, theirs, strict=True))
    sign = "" if theirs[0].rows is not None else "> "
    return f"{sign}{wall:.2f}", f"{sign}{cpu:.2f}"


_TITLES = (
    *("query", "order", "our rows", "Spark's rows", "cost model's rows"),
    *("Spark / ours: wall", "CPU", "cost model / ours: wall", "CPU", "our planning, of the whole"),
)


def summary(found: Sequence[Pair], analysing: float) -> str:
    """Geometric means over the queries that both finished, for each of the others."""
    return "\n\n".join(
        [
            _against("Spark", [(pair.ours, pair.spark) for pair in found]),
            _against("Its cost model", [(pair.ours, pair.costed) for pair in found])
            + f" ANALYZE took {analysing:.0f} s before, which is counted nowhere.",
        ]
    )


def _against(name: str, runs: Sequence[tuple[tuple[Run, ...], tuple[Run, ...]]]) -> str:
    both = [(ours[0], theirs[0]) for ours, theirs in runs if ours[0].rows is not None and theirs[0].rows is not None]
    stopped = sum(theirs[0].rows is None and ours[0].rows is not None for ours, theirs in runs)
    if not both:
        return f"{name}: no run that both finish; {stopped} are finished by us alone."
    walls = [theirs.wall / ours.wall for ours, theirs in both]
    rows = [max(theirs.rows or 0, 1) / max(ours.rows or 0, 1) for ours, theirs in both]
    return (
        f"{len(both)} runs that both finish: {name} takes {statistics.geometric_mean(walls):.2f} times our wall time "
        f"(least {min(walls):.2f}) and {statistics.geometric_mean(rows):.2f} times our rows through joins, both in "
        f"geometric mean; {stopped} more are finished by us alone."
    )


def prepare(scale: float, cache: Path) -> Path:
    """A directory with a Parquet file of each table, made if it is not there yet."""
    data = cache / f"tpch-{scale:g}"
    if not (data / "lineitem.parquet").exists():
        tool = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([tool, "parquet", "-s", f"{scale:g}", "-o", data], check=True)
    return data


def main() -> None:
    """Run the queries and write the table as Markdown and the raw figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=float(os.environ.get("SF", "1")))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--permutations", type=int, default=3)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a run is stopped")
    parser.add_argument("--only", nargs="*", default=[], help="names of queries")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "8")
        .getOrCreate()
    )
    bench = Bench(spark, prepare(arguments.scale, arguments.cache), arguments.limit)
    queries = [query for query in QUERIES if not arguments.only or query.name in arguments.only]
    lines = ["| " + " | ".join(_TITLES) + " |", "|" + "---|" * len(_TITLES)]
    print(*lines, sep="\n", flush=True)
    found: list[Pair] = []
    for pair in pairs(bench, queries, arguments.permutations, arguments.rounds):
        found.append(pair)
        lines.append(line(pair))
        print(lines[-1], flush=True)
        _write(
            arguments.results, arguments.scale, arguments.rounds, [*lines, "", summary(found, bench.analysing)], found
        )
    print(summary(found, bench.analysing))
    spark.stop()


def _write(results: Path, scale: float, rounds: int, lines: list[str], found: Sequence[Pair]) -> None:
    """After every query: a run that is stopped keeps what it measured."""
    results.mkdir(parents=True, exist_ok=True)
    about = (
        f"TPC-H, scale {scale:g}, Parquet; {rounds} interleaved rounds, medians of ratios within rounds (above 1: ours "
        f"takes less), rows of the first; {os.cpu_count()} processors ({platform.machine()}), Python "
        f"{platform.python_version()}, load average at the end {os.getloadavg()[0]:.1f}; {datetime.now(UTC):%Y-%m-%d}."
    )
    (results / f"joins-sf{scale:g}.md").write_text("\n".join(["# Join order", "", about, "", *lines]) + "\n")
    raw = [asdict(pair) for pair in found]
    for pair in raw:
        for run in (*pair["ours"], *pair["spark"], *pair["costed"]):
            del run["result"]
    (results / f"joins-sf{scale:g}.json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
