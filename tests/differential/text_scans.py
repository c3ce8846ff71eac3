"""Scans of many predicates over one set of files in one Spark job, by our text reader and by Spark's own."""

from __future__ import annotations

import bz2
import gzip
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from pathlib import Path

from oracle import TextCase, UnreadableBySparkError, apply_settings, row_text
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from spark_results import SPARK_ERRORS, Rows, rows_by_predicate

from pushdown_spark.contract import ErrorCode, SourceReport
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

_WRITERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".GZ": gzip.compress,
}


@dataclass(frozen=True)
class Scans:
    """The files of a case, the requested columns, and whether the file name is requested."""

    case: TextCase
    directory: Path
    columns: tuple[str, ...]
    with_filename: bool

    @classmethod
    def write(cls, case: TextCase, directory: Path, rng: random.Random) -> Scans:
        """Divide a case's lines into a few files, some compressed, and choose columns."""
        ends = sorted(rng.randint(0, len(case.lines)) for _ in range(rng.choice((0, 0, 1, 3))))
        for number, (start, stop) in enumerate(pairwise((0, *ends, len(case.lines)))):
            suffix = rng.choice(("", "", "", *_WRITERS))
            text = b"".join(
                line + end for line, end in zip(case.lines[start:stop], case.terminators[start:stop], strict=True)
            )
            (directory / f"part-{number}.{case.source_format.value}{suffix}").write_bytes(_WRITERS[suffix](text))
        names = case.schema.fieldNames()
        columns = (
            sorted(rng.sample(names, rng.randint(1, len(names))), key=names.index) if rng.random() < 0.5 else names
        )
        # Spark's DataSource V2 readers do not support the file name.
        is_named = "spark.sql.sources.useV1SourceList" not in case.settings and rng.random() < 0.3
        return cls(case, directory, tuple(columns), is_named)

    @property
    def row_sql(self) -> str:
        """SQL for a row of the result as a string."""
        fields = [field for field in self.case.schema.fields if field.name in self.columns]
        if self.with_filename:
            fields.append(t.StructField("filename", t.StringType()))
        return row_text(t.StructType(fields))

    def expected(self, spark: SparkSession, predicates: Sequence[str]) -> dict[str, Rows]:
        """Return the rows of Spark's own reader for each predicate, without predicates that raise.

        Raises UnreadableBySparkError if Spark cannot read the files at all.
        """
        try:
            return rows_by_predicate(self._spark_frame(spark), self.row_sql, predicates)
        except SPARK_ERRORS as problem:
            raise UnreadableBySparkError from problem

    def expected_alone(self, spark: SparkSession, predicate: str) -> Rows:
        """Return the rows of Spark's own reader for one predicate, in a separate query."""
        return Counter(row[0] for row in self._spark_frame(spark).where(predicate).selectExpr(self.row_sql).collect())

    def run_predicates(self, spark: SparkSession, predicates: Sequence[str]) -> dict[str, tuple[Rows, SourceReport]]:
        """Return the rows of a session with reader='pushdown' and its reports for each predicate, in one job."""
        session = self._session(spark)
        results = [session.scan("data", columns=self._sql_columns, where=predicate) for predicate in predicates]
        frames = [result.df.selectExpr(f"{n} AS scan", f"{self.row_sql} AS row") for n, result in enumerate(results)]
        try:
            rows = reduce(DataFrame.unionAll, frames).collect()
        except SPARK_ERRORS as problem:
            if classify(problem).code is not ErrorCode.UNSAFE_INPUT:
                raise
            return {predicate: self._run(result) for predicate, result in zip(predicates, results, strict=True)}
        counts: dict[int, Rows] = {number: Counter() for number in range(len(predicates))}
        for number, row in rows:
            counts[number][row] += 1
        return {predicate: (counts[n], results[n].report()["data"]) for n, predicate in enumerate(predicates)}

    def run_limited(self, spark: SparkSession, predicate: str, limit: int) -> Rows:
        """Return at most `limit` rows of a session with reader='pushdown' for a predicate."""
        result = self._session(spark).scan("data", columns=self._sql_columns, where=predicate, limit=limit)
        return self._run(result)[0]

    def _session(self, spark: SparkSession) -> PushdownSession:
        """Return a session with the files as its source `data`."""
        session = PushdownSession(spark)
        session.add_source(
            "data",
            path=str(self.directory),
            format=self.case.source_format.value,
            schema=self.case.schema.toDDL(),
            options=self.case.options,
            reader="pushdown",
        )
        return session

    @property
    def _sql_columns(self) -> list[str]:
        columns = ["`" + name.replace("`", "``") + "`" for name in self.columns]
        return [*columns, "filename"] if self.with_filename else columns

    def _run(self, result: PushdownResult) -> tuple[Rows, SourceReport]:
        rows = result.run(lambda frame: frame.selectExpr(self.row_sql).collect())
        return Counter(row[0] for row in rows), result.report()["data"]

    def _spark_frame(self, spark: SparkSession) -> DataFrame:
        case = self.case
        frame = spark.read.format(case.source_format.value).schema(case.schema).options(**case.options)
        rows = frame.load(str(self.directory))
        return rows.selectExpr("*", "_metadata.file_name AS filename") if self.with_filename else rows


def compare_readers(
    spark: SparkSession, scans: Scans, predicates: Sequence[str]
) -> Iterator[tuple[str, Rows, Rows, SourceReport]]:
    """Return the rows of Spark's reader, the rows of the pushdown reader, and its report for each predicate.

    Spark evaluates a predicate with a difference again in a separate query, which reads only its columns.
    """
    with apply_settings(spark, scans.case):
        together = scans.expected(spark, predicates)
        outcomes = scans.run_predicates(spark, list(together)) if together else {}
        for predicate, (actual, report) in outcomes.items():
            expected = together[predicate]
            if actual != expected:
                expected = scans.expected_alone(spark, predicate)
            yield predicate, expected, actual, report
