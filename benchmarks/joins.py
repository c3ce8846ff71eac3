"""Join orders: workloads in published and permuted FROM orders, with our optimizer, plain Spark and its cost model.

The cost model runs only TPC-H, with `spark.sql.cbo` and analyzed tables. The seconds of ANALYZE are reported
separately. TPC-H's eight queries have the orders at the median and the 90th percentile of rows that Spark joins. TPC-DS
has its queries with at least four relations, without their LIMIT. The Star Schema Benchmark has its ten queries of four
and five relations. The Join Order Benchmark has one of each of its 33 forms, over skewed tables with its schema and a
twentieth of its size. A seed, which changes with every run unless it is given, draws these queries and the permuted
orders. Every round runs all engines once, in turn. `rows` are the rows of all joins of a run,
which do not depend on noise. A run beyond the time limit is stopped and counts as not finished.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Protocol

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from benchmarks.lineitem import generate
from benchmarks.movies import movies
from benchmarks.result_files import command_line, is_chosen, table_head, table_line, write_page
from benchmarks.rounds import tree_seconds
from benchmarks.sessions import benchmark_session
from benchmarks.ssb import ssb
from benchmarks.tpch_joins import QUERIES, TABLES
from benchmarks.workloads import TPCDS, PermutedQuery, Workload, most_relations, without_limit
from pushdown_spark.contract import JoinOptions
from pushdown_spark.optimizer.executed_joins import JoinWatch, is_join
from pushdown_spark.optimizer.plans.sql_dialect import to_sql
from pushdown_spark.optimizer.plans.sql_reader import named_tables, parse_query
from pushdown_spark.session import PushdownSession

_CATALOG_DATABASE = "analyzed"
_COST_MODEL = ("spark.sql.cbo.enabled", "spark.sql.cbo.joinReorder.enabled")


class OrderedQuery(Protocol):
    """A query whose FROM lists can have several orders."""

    @property
    def name(self) -> str:
        """The name in the tables."""

    def orders(self) -> dict[str, str]:
        """Return the query in its orders by their names in the tables, as published first."""


@dataclass(frozen=True)
class JoinWorkload:
    """Tables, each a Parquet file in a directory, and queries. With `analyzed`, the cost model runs them too."""

    name: str
    data: Path
    tables: tuple[str, ...]
    queries: tuple[OrderedQuery, ...]
    analyzed: bool


@dataclass
class Run:
    """One execution: wall and CPU seconds, rows of joins (None if it was stopped), and seconds of planning."""

    wall: float
    cpu: float
    rows: int | None
    planning: float
    result: list[str] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class Pair:
    """The runs of all engines for one query. `costed` is empty without the cost model."""

    query: str
    order: str
    ours: tuple[Run, ...]
    spark: tuple[Run, ...]
    costed: tuple[Run, ...] = ()

    @property
    def others(self) -> tuple[tuple[Run, ...], ...]:
        """The runs of the other engines."""
        return (self.spark, self.costed) if self.costed else (self.spark,)


class Bench:
    """The engines over the tables of a workload."""

    def __init__(self, spark: SparkSession, workload: JoinWorkload, limit: float) -> None:
        self._spark = spark
        self._data = workload.data
        self._tables = workload.tables
        self._limit = limit
        self._session = PushdownSession(spark)
        for table in self._tables:
            path = str(self._data / f"{table}.parquet")
            self._session.add_source(table, path=path, format="parquet", reader="spark")
            spark.read.parquet(path).createOrReplaceTempView(table)
        self.analyzing = self._analyze_tables() if workload.analyzed else None

    def _analyze_tables(self) -> float:
        """Create all tables in a catalog with statistics of all columns. Return the seconds that this took."""
        start = time.perf_counter()
        self._spark.sql(f"CREATE DATABASE IF NOT EXISTS {_CATALOG_DATABASE}")
        for table in self._tables:
            place = self._data / f"{table}.parquet"
            name = f"{_CATALOG_DATABASE}.{table}"
            self._spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING parquet LOCATION '{place.resolve()}'")
            self._spark.sql(f"ANALYZE TABLE {name} COMPUTE STATISTICS FOR ALL COLUMNS")
        return time.perf_counter() - start

    @property
    def engines(self) -> tuple[Callable[[str], Run], ...]:
        """Our engine, and the others in the order of `Pair`."""
        return (self.ours, self.spark) if self.analyzing is None else (self.ours, self.spark, self.costed)

    def ours(self, text: str) -> Run:
        """Run the query in a session that has already opened and sampled the files, as within one job."""
        return self._run(lambda: self._session.sql(text, JoinOptions()).df)

    def spark(self, text: str) -> Run:
        """Run the query in plain Spark over views that have already been opened."""
        return self._run(lambda: self._spark.sql(text))

    def costed(self, text: str) -> Run:
        """Run the query over the analyzed tables with Spark's cost model."""
        tree = parse_query(text)
        for table in named_tables(tree):
            table.set("db", exp.to_identifier(_CATALOG_DATABASE))
        for key in _COST_MODEL:
            self._spark.conf.set(key, "true")
        try:
            return self._run(lambda: self._spark.sql(to_sql(tree)))
        finally:
            for key in _COST_MODEL:
                self._spark.conf.unset(key)

    def runs(self, text: str) -> bool:
        """Return whether Spark supports a query."""
        try:
            self._spark.sql(text)
        except PySparkException:
            return False
        return True

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
            values = [str(tuple(map(_normalize, row))) for row in frame.collect()]
            plans = watch.executed_plans()
            rows = sum(node.rows or 0 for plan in plans for node in plan.nodes() if is_join(node))
        except (PySparkException, Py4JJavaError):
            # The run was stopped at the limit. The exception depends on what Spark was doing.
            values, rows = [], None
        finally:
            timer.cancel()
        return Run(time.perf_counter() - wall, tree_seconds() - cpu, rows, planning, values)


def _normalize(value: object) -> object:
    """Return a value as a string that does not depend on the join order: floats are rounded to nine digits."""
    if isinstance(value, float):
        return f"{value:.9g}"
    return str(value.normalize()) if isinstance(value, Decimal) else value


def pairs(bench: Bench, queries: Sequence[OrderedQuery], rounds: int, at_most: int) -> Iterator[Pair]:
    """Yield the runs of every query in every order by all engines, after one warm-up run of each."""
    for query in queries:
        for order, text in query.orders().items():
            if not bench.runs(text):
                continue
            runs = _rounds([partial(engine, text) for engine in bench.engines], rounds, at_most)
            pair = Pair(query.name, order, *runs)
            ours = pair.ours[0]
            for theirs in pair.others:
                if ours.rows is not None and theirs[0].rows is not None and not _same(ours, theirs[0]):
                    raise SystemExit(f"{query.name}, {order}: the rows are not the same")
            yield pair


def _rounds(engines: Sequence[Callable[[], Run]], rounds: int, at_most: int) -> list[tuple[Run, ...]]:
    """Return the runs of each engine. Each round begins with another engine, because later engines run compiled code.

    After `rounds`, more rounds follow until the ratios are precise enough, up to `at_most`. This depends only on the
    variance of the ratios, so it favors no engine.
    """
    runs: list[list[Run]] = [[] for _ in engines]
    for engine in engines:
        engine()
    for number in range(max(rounds, at_most)):
        if number >= rounds and all(_is_settled(theirs, runs[0]) for theirs in runs[1:]):
            break
        for place in range(len(engines)):
            chosen = (number + place) % len(engines)
            runs[chosen].append(engines[chosen]())
    return [tuple(each) for each in runs]


def _is_settled(theirs: Sequence[Run], ours: Sequence[Run]) -> bool:
    """Return whether the median ratio has a standard error of at most `_NOISE`, or a run was stopped."""
    if theirs[-1].rows is None or ours[-1].rows is None:
        return True
    ratios = [math.log(run.wall / mine.wall) for mine, run in zip(ours, theirs, strict=True)]
    # The standard error of the median of normal values, relative to that of their mean.
    return 1.2533 * statistics.stdev(ratios) / math.sqrt(len(ratios)) <= _NOISE


def _same(one: Run, two: Run) -> bool:
    """Return whether two runs have the same rows. Sums of decimals are exact, and ties do not affect the rows."""
    return sorted(one.result) == sorted(two.result)


def line(pair: Pair) -> str:
    """Return one line of the table."""
    engines = (pair.ours, *pair.others)
    rows = [f"{runs[0].rows:,}" if runs[0].rows is not None else "not finished" for runs in engines]
    planning = statistics.median(run.planning / run.wall for run in pair.ours)
    ratios = [cell for runs in pair.others for cell in _ratios(runs, pair.ours)]
    return table_line([pair.query, pair.order, *rows, *ratios, f"{planning:.1%}"])


def _wall(theirs: Sequence[Run], ours: Sequence[Run]) -> float:
    """Return the wall time of an engine relative to ours. A stopped run counts with its time limit."""
    return statistics.median(run.wall / mine.wall for mine, run in zip(ours, theirs, strict=True))


def _ratios(theirs: Sequence[Run], ours: Sequence[Run]) -> tuple[str, str]:
    """Return wall and CPU time of an engine relative to ours, as lower bounds if it was stopped."""
    wall = _wall(theirs, ours)
    cpu = statistics.median(run.cpu / max(mine.cpu, 1e-3) for mine, run in zip(ours, theirs, strict=True))
    sign = "" if theirs[0].rows is not None else "> "
    return f"{sign}{wall:.2f}", f"{sign}{cpu:.2f}"


def titles(*, analyzed: bool) -> list[str]:
    """Return the two header lines of the table."""
    others = ("Spark", "cost model") if analyzed else ("Spark",)
    cells = ["query", "order", "our rows", *(f"{name}'s rows" for name in others)]
    cells += [cell for name in others for cell in (f"{name} / ours: wall", "CPU")]
    cells.append("our planning, of the whole")
    return table_head(cells)


def summary(found: Sequence[Pair], analyzing: float | None) -> str:
    """Return geometric means over the queries for each other engine and each kind of order."""
    orders = {"All orders": found}
    for order in dict.fromkeys(pair.order for pair in found):
        orders[order.capitalize()] = [pair for pair in found if pair.order == order]
    paragraphs = [
        f"{name}: {_against('Spark', [(pair.ours, pair.spark) for pair in chosen])}" for name, chosen in orders.items()
    ]
    if analyzing is not None:
        costed = _against("Its cost model", [(pair.ours, pair.costed) for pair in found])
        paragraphs.append(f"{costed} ANALYZE took {analyzing:.0f} s before, which is counted nowhere.")
    return "\n\n".join(paragraphs)


def _against(name: str, runs: Sequence[tuple[tuple[Run, ...], tuple[Run, ...]]]) -> str:
    both = [(ours, theirs) for ours, theirs in runs if ours[0].rows is not None and theirs[0].rows is not None]
    stop_count = sum(theirs[0].rows is None and ours[0].rows is not None for ours, theirs in runs)
    if not both:
        return f"{name}: no run that both finish; {stop_count} are finished by us alone."
    walls = [_wall(theirs, ours) for ours, theirs in both]
    rows = [max(theirs[0].rows or 0, 1) / max(ours[0].rows or 0, 1) for ours, theirs in both]
    sentence = (
        f"{len(both)} runs that both finish: {name} takes {statistics.geometric_mean(walls):.2f} times our wall time "
        f"(least {min(walls):.2f}) and {statistics.geometric_mean(rows):.2f} times our rows through joins, both in "
        "geometric mean."
    )
    if stop_count:
        sentence += (
            f" {stop_count} more are finished by us alone: with what these took until they were stopped it takes "
            f"{statistics.geometric_mean(_wall(theirs, ours) for ours, theirs in runs):.2f} times our wall time."
        )
    return sentence


def prepare(scale: float, cache: Path) -> Path:
    """Return a directory with a Parquet file of each table. It is created if necessary."""
    data = cache / f"tpch-{scale:g}"
    if not (data / "lineitem.parquet").exists():
        generate(scale, data, table=None)
    return data


def tpch(scale: float, cache: Path, seeds: tuple[int, ...]) -> JoinWorkload:
    """Return eight queries of TPC-H with their own orders."""
    del seeds
    return JoinWorkload("TPC-H", prepare(scale, cache), TABLES, QUERIES, analyzed=True)


def tpcds(scale: float, cache: Path, seeds: tuple[int, ...]) -> JoinWorkload:
    """Return the queries of TPC-DS with at least four relations in a FROM list."""
    workload = TPCDS.workload(scale, cache)
    chosen = {
        f"Q{number}": text for number, text in workload.queries.items() if most_relations(text) >= _FEWEST_RELATIONS
    }
    return _permute_queries("TPC-DS", workload, chosen, seeds)


def star(scale: float, cache: Path, seeds: tuple[int, ...]) -> JoinWorkload:
    """Return the joins of the Star Schema Benchmark."""
    workload = ssb(prepare(scale, cache), scale, cache)
    return _permute_queries("Star Schema Benchmark", workload, workload.queries, seeds)


def job(scale: float, cache: Path, seeds: tuple[int, ...]) -> JoinWorkload:
    """Return a query of each of the Join Order Benchmark's 33 forms, over generated tables."""
    workload = movies(scale * _SHARE_OF_IMDB, cache)
    forms: dict[str, list[str]] = {}
    for name in workload.queries:
        forms.setdefault(name[:-1], []).append(name)
    draw = Random(str(seeds))
    chosen = {name: workload.queries[name] for name in map(draw.choice, forms.values())}
    return _permute_queries("Join Order Benchmark", workload, chosen, seeds)


def _permute_queries(name: str, workload: Workload, queries: Mapping[str, str], seeds: tuple[int, ...]) -> JoinWorkload:
    """Return a workload's queries in several orders each."""
    ordered = tuple(PermutedQuery(query, without_limit(text), seeds) for query, text in queries.items())
    return JoinWorkload(name, workload.data, workload.tables, ordered, analyzed=False)


_WORKLOADS = {"tpch": tpch, "tpcds": tpcds, "ssb": star, "job": job}
_FEWEST_RELATIONS = 4
_NOISE = 0.04
"""Relative standard error of a ratio below which no more rounds are run."""
_SHARE_OF_IMDB = 0.05
"""Share of IMDB's rows at scale 1."""


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw values as JSON."""
    parser = command_line(__doc__, rounds=4, scale=float)
    parser.add_argument("--workload", choices=sorted(_WORKLOADS), default="tpch")
    parser.add_argument("--at-most", type=int, default=12, help="rounds of queries whose ratios differ between rounds")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", str(time.time_ns() % 1_000_000))))
    parser.add_argument("--permutations", type=int, default=1, help="of every query but TPC-H's, which have two")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which a run is stopped")
    parser.add_argument(
        "--warm-up", type=int, default=8, help="how many queries each engine runs before the first round"
    )
    arguments = parser.parse_args()
    spark = benchmark_session({"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "8"})
    seeds = tuple(range(arguments.seed, arguments.seed + arguments.permutations))
    workload = _WORKLOADS[arguments.workload](arguments.scale, arguments.cache, seeds)
    bench = Bench(spark, workload, arguments.limit)
    queries = [query for query in workload.queries if is_chosen(query.name, arguments.only)]
    # The warm-up lets the JVM compile the code, and finish the compilations that slow down the analysis.
    for query in islice(cycle(workload.queries), arguments.warm_up):
        for engine in bench.engines:
            engine(query.orders()["published"])
    lines = titles(analyzed=workload.analyzed)
    print(*lines, sep="\n", flush=True)
    runs: list[Pair] = []
    for pair in pairs(bench, queries, arguments.rounds, arguments.at_most):
        runs.append(pair)
        lines.append(line(pair))
        print(lines[-1], flush=True)
        suffix = "" if arguments.workload == "tpch" else f"-{arguments.workload}"
        page = arguments.results / f"joins{suffix}-sf{arguments.scale:g}.md"
        about = f"{workload.name}, seed {arguments.seed}, scale {arguments.scale:g}, Parquet"
        about += f"; {_number_of_rounds(runs)} interleaved rounds"
        _write(page, about, [*lines, "", summary(runs, bench.analyzing)], runs)
    print(summary(runs, bench.analyzing))
    spark.stop()


def _number_of_rounds(found: Sequence[Pair]) -> str:
    """Return the number of rounds of the queries, or its range."""
    fewest, most = (pick(len(pair.ours) for pair in found) for pick in (min, max))
    return str(fewest) if fewest == most else f"{fewest} to {most}"


def _write(page: Path, about: str, lines: list[str], found: Sequence[Pair]) -> None:
    raw = [asdict(pair) for pair in found]
    for pair in raw:
        for run in (*pair["ours"], *pair["spark"], *pair["costed"]):
            del run["result"]
    about += ", medians of the ratios within rounds (above 1: the optimizer takes less), rows of the first."
    write_page(page, "Join orders", about, lines, raw)


if __name__ == "__main__":
    main()
