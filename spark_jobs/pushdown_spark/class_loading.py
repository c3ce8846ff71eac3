"""A job with a little of everything: run once, it has the JVM load the classes that an archive of them is to hold."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputSpec, ReaderChoice, SourceFormat
from pushdown_spark.formats.avro.spark_source import format_name
from pushdown_spark.output.writer import open_output
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

_FORMATS = (SourceFormat.JSON, SourceFormat.CSV, SourceFormat.ORC, SourceFormat.AVRO, SourceFormat.PARQUET)
_ROWS = 100
_COLUMNS = (
    "id AS a",
    "concat('x', id) AS b",
    "CAST(id AS DECIMAL(12, 2)) AS c",
    "date_add(DATE'2020-01-01', CAST(id AS INT)) AS d",
    "timestamp_seconds(id) AS e",
)
_SCHEMA = "a bigint, b string, c decimal(12, 2), d date, e timestamp"
_WHERE = "a BETWEEN 7 AND 70 AND b <> 'x9' AND d > DATE'2020-01-02'"
_JOINED = (
    "SELECT x.b, count(*) AS n, sum(y.c) AS s FROM json x JOIN orc y ON x.a = y.a JOIN csv z ON z.b = y.b "
    "LEFT JOIN parquet p ON p.a = x.a WHERE x.b LIKE 'x%' AND y.a IN (1, 7, 9) GROUP BY x.b ORDER BY x.b LIMIT 10"
)


def main() -> None:
    """Scan each format through Spark's reader and through ours, join and group them, and write as jobs write."""
    spark = SparkSession.builder.appName("classes").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as place:
        files = _files(spark, Path(place))
        for reader in (ReaderChoice.SPARK, ReaderChoice.PUSHDOWN):
            _query(spark, files, reader, f"{place}/{reader}")
    spark.stop()


def _files(spark: SparkSession, place: Path) -> Mapping[SourceFormat, str]:
    """A directory of a few rows in each format."""
    rows = spark.range(_ROWS).selectExpr(*_COLUMNS)
    made = {source: str(place / f"few.{source}") for source in _FORMATS}
    for source, path in made.items():
        rows.write.format(format_name(spark) if source is SourceFormat.AVRO else source.value).save(path)
    return made


def _query(spark: SparkSession, files: Mapping[SourceFormat, str], reader: ReaderChoice, place: str) -> None:
    """Read each source by itself, then all but Avro together."""
    session = PushdownSession(spark)
    for source, path in files.items():
        chosen = ReaderChoice.SPARK if source is SourceFormat.PARQUET else reader
        session.add_source(source.value, path=path, format=source.value, reader=chosen, schema=_SCHEMA)
    answers = {source.value: session.scan(source.value, columns=("a", "b"), where=_WHERE) for source in files}
    for name, answer in {**answers, "joined": session.sql(_JOINED)}.items():
        _write(spark, answer, f"{place}/{name}")


def _write(spark: SparkSession, answer: PushdownResult, path: str) -> None:
    output = open_output(spark, OutputSpec(path=path), "classes")
    output.prepare()
    with output.guarded():
        answer.run(output.stage, as_they_come=True)
    answer.report()


if __name__ == "__main__":
    main()
