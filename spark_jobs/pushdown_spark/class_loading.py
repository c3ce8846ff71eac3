"""A job that uses every format once. The JVM then loads the classes for the class data sharing (CDS) archive."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from pushdown_spark.contract import OutputSpec, ReaderChoice, SourceFormat
from pushdown_spark.output.files.file_output import open_output
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.spark_internals import spark_format
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
_JOIN_QUERY = (
    "SELECT x.b, count(*) AS n, sum(y.c) AS s FROM json x JOIN orc y ON x.a = y.a JOIN csv z ON z.b = y.b "
    "LEFT JOIN parquet p ON p.a = x.a WHERE x.b LIKE 'x%' AND y.a IN (1, 7, 9) GROUP BY x.b ORDER BY x.b LIMIT 10"
)


def main() -> None:
    """Scan each format with both readers, join the sources, and write the results as jobs do."""
    spark = SparkSession.builder.appName("classes").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        files = _write_files(spark, Path(directory))
        for reader in (ReaderChoice.SPARK, ReaderChoice.PUSHDOWN):
            _run_queries(spark, files, reader, f"{directory}/{reader}")
    spark.stop()


def _write_files(spark: SparkSession, directory: Path) -> Mapping[SourceFormat, str]:
    """Write a few rows in each format. Return the path of each format."""
    rows = spark.range(_ROWS).selectExpr(*_COLUMNS)
    paths = {source_format: str(directory / f"few.{source_format}") for source_format in _FORMATS}
    for source_format, path in paths.items():
        rows.write.format(spark_format(source_format.value)).save(path)
    return paths


def _run_queries(spark: SparkSession, files: Mapping[SourceFormat, str], reader: ReaderChoice, directory: str) -> None:
    """Scan each source alone, then join all sources except Avro. Write the results to the directory."""
    session = PushdownSession(spark)
    for source_format, path in files.items():
        name = source_format.value
        session.add_source(name, path=path, format=name, reader=reader, schema=_SCHEMA)
    results = {name.value: session.scan(name.value, columns=("a", "b"), where=_WHERE) for name in files}
    for name, result in {**results, "joined": session.sql(_JOIN_QUERY)}.items():
        _write(spark, result, f"{directory}/{name}")


def _write(spark: SparkSession, result: PushdownResult, path: str) -> None:
    output = open_output(spark, OutputSpec(path=path), "classes")
    output.prepare()
    with output.transaction():
        result.run(output.stage, single_pass=True)
    result.report()


if __name__ == "__main__":
    main()
