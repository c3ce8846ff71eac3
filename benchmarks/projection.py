"""Costs of 2 of 120 columns, and 2 of 120 struct members, compared with all of them and with Spark's own reader.

The same table is written in every format, flat and with all columns in one struct. Every round runs all scans of one
format once, in turn. Ratios are medians of the ratios within rounds. There are no filters, so the only gain is the
projection. Our reader is included if it supports scans without a predicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Comparison, Engines, measure, seconds
from benchmarks.scans import Query, save_selected, scan
from benchmarks.sessions import benchmark_session
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

COLUMNS = 120
_FORMATS = ("csv", "json", "avro", "orc", "parquet")
_OURS = ("avro", "orc")
"""Formats whose scans our reader takes without a predicate."""
_NAMES = tuple(f"c{number}" for number in range(COLUMNS))
_TYPES = ("bigint", "string", "double", "date")
_TWO = ("c8", "c101")


@dataclass(frozen=True)
class Data:
    """One table in one format. With `nested`, its columns are members of one struct."""

    source_format: str
    nested: bool
    path: Path

    @property
    def name(self) -> str:
        """The name in the table of results."""
        return f"{self.source_format}, members of a struct" if self.nested else self.source_format

    @property
    def schema(self) -> str:
        """The DDL that both readers use."""
        fields = [(name, _TYPES[number % len(_TYPES)]) for number, name in enumerate(_NAMES)]
        if self.nested:
            return f"s struct<{', '.join(f'{name}: {kind}' for name, kind in fields)}>"
        return ", ".join(f"{name} {kind}" for name, kind in fields)

    @property
    def two(self) -> tuple[str, ...]:
        """Two columns or two members."""
        return tuple(f"s.{name}" for name in _TWO) if self.nested else _TWO

    @property
    def spark_format(self) -> str:
        """Spark's name of the format."""
        return AVRO_CLASS if self.source_format == "avro" else self.source_format


def tables(cache: Path, only: list[str]) -> list[Data]:
    """Return all tables. CSV has no structs."""
    return [
        Data(source_format, nested, cache / f"wide-{source_format}{'-nested' if nested else ''}")
        for source_format in _FORMATS
        for nested in (False, True)
        if not (nested and source_format == "csv") and is_chosen(source_format, only)
    ]


def prepare(spark: SparkSession, data: Data, rows: int) -> None:
    """Write the table if it does not exist."""
    if (data.path / "_SUCCESS").exists():
        return
    makers = {
        "bigint": "xxhash64(id, {0}) % 1000000",
        "string": "left(sha1(cast(id * {0} AS string)), 12)",
        "double": "(xxhash64({0}, id) % 100000) / 100D",
        "date": "date_add(DATE'2020-01-01', cast(pmod(id * {0}, 2000) AS int))",
    }
    items = [f"{makers[_TYPES[n % len(_TYPES)]].format(n + 1)} AS {name}" for n, name in enumerate(_NAMES)]
    frame = spark.range(rows).coalesce(2)
    frame = frame.selectExpr(f"struct({', '.join(items)}) AS s") if data.nested else frame.selectExpr(*items)
    frame.write.format(data.spark_format).mode("overwrite").save(str(data.path))


def engines(spark: SparkSession, data: Data) -> Engines:
    """Return the actions for a table: two columns and all, with reader='auto', our reader, and Spark alone."""
    two, every = Query("two", columns=data.two), Query("all")
    source = {"path": str(data.path), "format": data.source_format, "schema": data.schema}

    def sparks(query: Query) -> int:
        return save_selected(spark.read.format(data.spark_format).schema(data.schema).load(str(data.path)), query)

    engines_by_name: Engines = {
        "two": lambda: scan(spark, two, **source),
        "all": lambda: scan(spark, every, **source),
        "spark two": lambda: sparks(two),
        "spark all": lambda: sparks(every),
    }
    if data.source_format in _OURS:
        engines_by_name["our two"] = lambda: scan(spark, two, **source, reader="pushdown")
        engines_by_name["our all"] = lambda: scan(spark, every, **source, reader="pushdown")
    return engines_by_name


_COMPARISONS = (
    Comparison("2 columns take of all", "two", "all"),
    Comparison("2 columns take of Spark's 2", "two", "spark two"),
    Comparison("all take of Spark's all", "all", "spark all"),
    Comparison("Spark's 2 take of its all", "spark two", "spark all"),
    Comparison("our reader's 2 take of its all", "our two", "our all"),
    Comparison("our reader's 2 take of Spark's 2", "our two", "spark two"),
)


def main() -> None:
    """Measure, and write the table as Markdown."""
    parser = command_line(__doc__, rounds=3)
    parser.add_argument("--rows", type=int, default=40_000)
    arguments = parser.parse_args()
    spark = benchmark_session({"spark.driver.memory": "2g"})
    about = (
        f"{arguments.rows:,} rows of {COLUMNS} columns (numbers, strings, dates), all rows, written to Spark's `noop` "
        f"sink. CPU seconds of driver, JVM and Python workers. {arguments.rounds} interleaved rounds after two that do "
        "not count, medians of the ratios within rounds (below 1: less)."
    )
    titles = ["table", "all columns, CPU s", *(column.title for column in _COMPARISONS)]
    table = ResultTable(arguments.results / "projection.md", "2 of 120 columns", about, titles)
    for data in tables(arguments.cache / f"projection-{arguments.rows}", arguments.only):
        prepare(spark, data, arguments.rows)
        measurements = measure(engines(spark, data), arguments.rounds, warm_up=2)
        ratios = [column.cell(measurements) for column in _COMPARISONS]
        table.add(data.name, [data.name, seconds(measurements, "all"), *ratios])
    spark.stop()


if __name__ == "__main__":
    main()
