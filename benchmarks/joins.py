"""Join order: TPC-H queries in published and permuted FROM orders, by us and by Spark as it is.

Every round runs both once, in turn. `rows` are those that flow out of all joins of a run, which no noise changes; a run
that takes longer than the limit is stopped, and counts as one that did not finish.
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

from benchmarks.cpu import tree_seconds
from benchmarks.tpch_joins import QUERIES, TABLES, JoinQuery
from spark_jobs.contract import JoinOptions
from spark_jobs.joins.measure import JoinWatch
from spark_jobs.session import PushdownSession


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
    """Both engines over one text."""

    query: str
    order: str
    ours: tuple[Run, ...]
    spark: tuple[Run, ...]


class Bench:
    """The engines over one directory of tables."""

    def __init__(self, spark: SparkSession, data: Path, limit: float) -> None:
        self._spark = spark
        self._data = data
        self._limit = limit
        self._session = PushdownSession(spark)
        for table in TABLES:
            self._session.add_source(table, path=str(data / f"{table}.parquet"), format="parquet", reader="spark")

    def ours(self, text: str) -> Run:
        """The query through a session that has sampled the files before, as within one job."""
        return self._run(lambda: self._session.sql(text, JoinOptions()).df)

    def spark(self, text: str) -> Run:
        """The query as Spark runs it by itself; it opens the files too."""
        return self._run(lambda: self._opened(text))

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
            runs = [(bench.ours(text), bench.spark(text)) for _ in range(rounds)]
            ours, spark = zip(*runs, strict=True)
            if ours[0].rows is not None and spark[0].rows is not None and not _same(ours[0], spark[0]):
                raise SystemExit(f"{query.name}, order {number}: the rows are not the same")
            yield Pair(query.name, f"permutation {number}" if number else "published", ours, spark)


def _same(one: Run, two: Run) -> bool:
    """Whether two runs gave the same rows: sums of decimals are exact, and ties do not decide who is listed."""
    return sorted(one.result) == sorted(two.result)


def line(pair: Pair) -> str:
    """One line of the table."""
    ours, spark = pair.ours, pair.spark
    wall = statistics.median(theirs.wall / mine.wall for mine, theirs in zip(ours, spark, strict=True))
    cpu = statistics.median(theirs.cpu / max(mine.cpu, 1e-3) for mine, theirs in zip(ours, spark, strict=True))
    planning = statistics.median(run.planning / run.wall for run in ours)
    finished = spark[0].rows is not None
    rows = [f"{run.rows:,}" if run.rows is not None else "not finished" for run in (ours[0], spark[0])]
    cells = [pair.query, pair.order, *rows, ("" if finished else "> ") + f"{wall:.2f}", f"{cpu:.2f}", f"{planning:.1%}"]
    return "| " + " | ".join(cells) + " |"


_TITLES = ("query", "order", "our rows", "Spark's rows", "Spark / ours: wall", "CPU", "our planning, of the whole")


def summary(found: Sequence[Pair]) -> str:
    """Geometric means over the queries that both finished."""
    both = [pair for pair in found if pair.spark[0].rows is not None and pair.ours[0].rows is not None]
    walls = [pair.spark[0].wall / pair.ours[0].wall for pair in both]
    rows = [max(pair.spark[0].rows or 0, 1) / max(pair.ours[0].rows or 0, 1) for pair in both]
    stopped = sum(pair.spark[0].rows is None and pair.ours[0].rows is not None for pair in found)
    return (
        f"{len(both)} runs that both finish: Spark takes {statistics.geometric_mean(walls):.2f} times our wall time "
        f"(least {min(walls):.2f}) and {statistics.geometric_mean(rows):.2f} times our rows through joins, both in "
        f"geometric mean; {stopped} more are finished by us alone."
    )


def prepare(scale: int, cache: Path) -> Path:
    """A directory with a Parquet file of each table, made if it is not there yet."""
    data = cache / f"tpch-{scale}"
    if not (data / "lineitem.parquet").exists():
        tool = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([tool, "parquet", "-s", str(scale), "-o", data], check=True)
    return data


def main() -> None:
    """Run the queries and write the table as Markdown and the raw figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=int(os.environ.get("SF", "1")))
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
        _write(arguments.results, arguments.scale, arguments.rounds, [*lines, "", summary(found)], found)
    print(summary(found))
    spark.stop()


def _write(results: Path, scale: int, rounds: int, lines: list[str], found: Sequence[Pair]) -> None:
    """After every query: a run that is stopped keeps what it measured."""
    results.mkdir(parents=True, exist_ok=True)
    about = (
        f"TPC-H, scale {scale}, Parquet; {rounds} interleaved rounds, medians of ratios within rounds (above 1: ours "
        f"takes less), rows of the first; {os.cpu_count()} processors ({platform.machine()}), Python "
        f"{platform.python_version()}, load average at the end {os.getloadavg()[0]:.1f}; {datetime.now(UTC):%Y-%m-%d}."
    )
    (results / f"joins-sf{scale}.md").write_text("\n".join(["# Join order", "", about, "", *lines]) + "\n")
    raw = [asdict(pair) for pair in found]
    for pair in raw:
        for run in (*pair["ours"], *pair["spark"]):
            del run["result"]
    (results / f"joins-sf{scale}.json").write_text(json.dumps(raw, indent=1) + "\n")


if __name__ == "__main__":
    main()
