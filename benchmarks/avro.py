"""Avro scans: our reader against Spark's own Avro source with pushdown on and off, and against other engines.

Every round runs all readers once, in turn. Ratios are medians of the ratios within rounds. Spark's source is the class
in its own jars; the jar of the short name adds no code. The others are fastavro, Polars, DataFusion and DuckDB, if they
can read the files on this machine. DuckDB needs its extension `avro`. The rare value is also searched in tables with
other codecs, because decompression is most of our reader's work for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import datafusion
import duckdb
import fastavro
import polars as pl
from pyspark.sql import DataFrame, SparkSession

from benchmarks.lineitem import convert
from benchmarks.result_files import command_line, is_chosen, table_head, table_line, write_page
from benchmarks.rounds import Comparison, Engines, Measured, cpu_and_wall, measure, repeat, seconds
from benchmarks.scans import Query, duckdb_rows, save_selected, scan
from benchmarks.sessions import benchmark_session
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

_PUSHDOWN = "spark.sql.avro.filterPushdown.enabled"
_TWO = ("l_orderkey", "l_comment")
_WITH_PEERS = ("needle", "all", "needle, 2 columns", "all, 2 columns")
"""Queries that the other engines take part in: what they do is the same, whatever the predicate."""
_DEFAULT_CODEC = "snappy"
_OTHER_CODECS = ("uncompressed", "zstandard", "deflate")
"""Codecs as Spark names them; the needle is looked for in files of each."""


@dataclass(frozen=True)
class AvroQuery(Query):
    """A query with the values of `l_partkey` that it finds (None for all), and the codec of its files."""

    keys: range | None = None
    codec: str = _DEFAULT_CODEC


def queries(scale: int) -> list[AvroQuery]:
    """Return queries from one row to all rows. Rows of a part are in all blocks, rows of an order are adjacent."""
    needle = range(12_345 * scale, 12_345 * scale + 1)
    thousand = range(1, 197 * scale * 1_000 + 1, 197 * scale)
    among = ", ".join(map(str, thousand))
    conditions = [
        ("needle", f"l_partkey = {needle[0]}", needle),
        ("IN of 1,000", f"l_partkey IN ({among})", thousand),
        ("1 % range, scattered", f"l_partkey <= {2_000 * scale}", range(2_000 * scale + 1)),
        ("1 % range, clustered", f"l_orderkey BETWEEN 3000001 AND {3_000_001 + 60_000 * scale}", None),
        ("half", f"l_partkey <= {100_000 * scale}", range(100_000 * scale + 1)),
        ("all", None, None),
    ]
    queries = [AvroQuery(name, where, keys=keys) for name, where, keys in conditions]
    narrow = [replace(query, name=f"{query.name}, 2 columns", columns=_TWO) for query in queries]
    packed = [replace(queries[0], name=f"needle, {codec}", codec=codec) for codec in _OTHER_CODECS]
    return queries + narrow + packed


def repack(spark: SparkSession, lineitem: Path, codec: str) -> Path:
    """Return the files of a directory in another codec. They are created if necessary."""
    if codec == _DEFAULT_CODEC:
        return lineitem
    target = lineitem.with_name(f"{lineitem.name}-{codec}")
    if not (target / "_SUCCESS").exists():
        files = len(list(lineitem.glob("*.avro")))
        frame = spark.read.format(AVRO_CLASS).load(str(lineitem)).coalesce(files)
        frame.write.format(AVRO_CLASS).option("compression", codec).mode("overwrite").save(str(target))
    return target


def prepare(spark: SparkSession, scale: int, cache: Path) -> Path:
    """Return a directory of lineitem in Spark's default codec, ordered by `l_orderkey`. It is created if necessary."""
    lineitem = cache / f"lineitem-avro-{scale}"

    def write(table: DataFrame) -> None:
        table.coalesce(4 * scale).write.format(AVRO_CLASS).mode("overwrite").save(str(lineitem))

    convert(spark, scale, lineitem, write)
    return lineitem


class Bench:
    """The readers over one table in the codec of each query."""

    def __init__(self, spark: SparkSession, data: Path, peers: frozenset[str]) -> None:
        self._spark = spark
        self._data = data
        self._peers = peers

    def engines(self, query: AvroQuery) -> Engines:
        """Return the action of each reader for a query."""
        path = str(repack(self._spark, self._data, query.codec))
        engines: Engines = {
            "pushdown": lambda: scan(self._spark, query, path=path, format="avro", reader="pushdown"),
            "auto": lambda: scan(self._spark, query, path=path, format="avro", reader="auto"),
            "spark on": lambda: self._spark_reader(query, path, pushdown=True),
            "spark off": lambda: self._spark_reader(query, path, pushdown=False),
        }
        peers: Engines = {
            "fastavro": lambda: self._fastavro(query),
            "polars": lambda: self._polars(query),
            "datafusion": lambda: self._datafusion(query),
            "duckdb": lambda: duckdb_rows(query.sql(f"read_avro('{self._data}/*.avro')"), "LOAD avro"),
        }
        chosen = self._peers if query.name in _WITH_PEERS else ()
        return engines | {name: action for name, action in peers.items() if name in chosen}

    def _spark_reader(self, query: Query, path: str, *, pushdown: bool) -> int:
        self._spark.conf.set(_PUSHDOWN, str(pushdown).lower())
        rows = save_selected(self._spark.read.format(AVRO_CLASS).load(path), query)
        self._spark.conf.set(_PUSHDOWN, "true")
        return rows

    def _fastavro(self, query: AvroQuery) -> int:
        """Read record by record, as fastavro's users do."""
        row_count = 0
        for path in sorted(self._data.glob("*.avro")):
            with path.open("rb") as file:
                for record in fastavro.reader(file):
                    row_count += query.keys is None or record["l_partkey"] in query.keys
        return row_count

    def _polars(self, query: AvroQuery) -> int:
        """Read whole files with selected columns, because Polars' reader has no filter."""
        row_count = 0
        for path in sorted(self._data.glob("*.avro")):
            names = None if query.columns is None else list(dict.fromkeys((*query.columns, "l_partkey")))
            frame = pl.read_avro(path, columns=names)
            row_count += (frame if query.keys is None else frame.filter(pl.col("l_partkey").is_in(query.keys))).height
        return row_count

    def _datafusion(self, query: Query) -> int:
        context = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(2))
        context.register_avro("t", str(self._data))
        return sum(batch.num_rows for batch in context.sql(query.sql("t")).collect())


def possible_peers(data: Path) -> frozenset[str]:
    """Return the engines that can read the files on this machine, with a note on the others."""
    path = min(data.glob("*.avro"), key=lambda file: file.stat().st_size)
    attempts: dict[str, Callable[[], object]] = {
        "fastavro": lambda: next(fastavro.reader(path.open("rb"))),
        "polars": lambda: pl.read_avro(path, n_rows=1),
        "datafusion": lambda: datafusion.SessionContext().read_avro(str(path)).limit(1).collect(),
        "duckdb": lambda: duckdb.connect().execute(f"LOAD avro; FROM read_avro('{path}') LIMIT 1"),
    }
    names = set()
    for name, attempt in attempts.items():
        try:
            attempt()
            names.add(name)
        except Exception as problem:
            # Each engine has its own errors for what it cannot read.
            print(f"{name} is left out: {str(problem).splitlines()[0]}", flush=True)
    return frozenset(names)


_COMPARISONS = (
    *cpu_and_wall("ours / Spark", "spark on", "pushdown"),
    *cpu_and_wall("ours / Spark without pushdown", "spark off", "pushdown"),
    *cpu_and_wall("auto / Spark", "spark on", "auto"),
    Comparison("ours / fastavro: CPU", "fastavro", "pushdown"),
    Comparison("ours / Polars: CPU", "polars", "pushdown"),
    Comparison("ours / DataFusion: CPU", "datafusion", "pushdown"),
    Comparison("ours / DuckDB: CPU", "duckdb", "pushdown"),
)
Raw = dict[str, dict[str, Measured]]
"""By query and engine."""


def _table(scale: int, raw: Raw) -> list[str]:
    """Return the table of the queries measured in this or an earlier run."""
    head = table_head(["query", "rows", "our CPU s", "our wall s", *(column.title for column in _COMPARISONS)])
    return head + [_line(query, raw[query.name]) for query in queries(scale) if query.name in raw]


def _line(query: Query, measured: dict[str, Measured]) -> str:
    ours = [seconds(measured, "pushdown", kind) for kind in ("cpu", "wall")]
    ratios = [column.cell(measured) for column in _COMPARISONS]
    return table_line([query.name, f"{measured['pushdown'].rows:,}", *ours, *ratios])


def _known(results: Path, scale: int) -> Raw:
    """Return the results of earlier runs. A run with `--only` adds to them."""
    file = results / f"avro-sf{scale}.json"
    earlier = json.loads(file.read_text()) if file.exists() else {}
    return {
        name: {engine: Measured(**figures) for engine, figures in engines.items()} for name, engines in earlier.items()
    }


def main() -> None:
    """Run the queries, and write the table as Markdown and the raw values as JSON."""
    parser = command_line(__doc__, rounds=5)
    parser.add_argument("--warm-up", type=int, default=8, help="needles that each reader looks for before")
    parser.add_argument("--skip", nargs="*", default=[], help="peers to leave out")
    arguments = parser.parse_args()
    spark = benchmark_session()
    data = prepare(spark, arguments.scale, arguments.cache)
    bench = Bench(spark, data, possible_peers(data) - set(arguments.skip))
    # The JVM compiles the code that every query runs.
    repeat(bench.engines(queries(arguments.scale)[0]), ("pushdown", "spark on", "spark off"), arguments.warm_up)
    raw = _known(arguments.results, arguments.scale)
    for query in queries(arguments.scale):
        if not is_chosen(query.name, arguments.only):
            continue
        measurements = measure(bench.engines(query), arguments.rounds, warm_up=1)
        raw[query.name] = measurements
        print(_line(query, measurements), flush=True)
        _write(arguments.results, arguments.scale, arguments.rounds, raw)
    spark.stop()


def _write(results: Path, scale: int, rounds: int, raw: Raw) -> None:
    about = (
        f"TPC-H lineitem, scale {scale}, written by Spark with its default codec. {rounds} interleaved rounds after a "
        "warm-up, medians of the ratios within rounds (above 1: the pushdown reader takes less)."
    )
    figures = {name: {engine: asdict(times) for engine, times in each.items()} for name, each in raw.items()}
    write_page(results / f"avro-sf{scale}.md", "Avro scans", about, _table(scale, raw), figures)


if __name__ == "__main__":
    main()
