"""A corpus of files by any writer: the pushdown readers against Spark's own, with predicates over the files' values.

Spark evaluates all predicates of one file and one setting in one job, with all filters of its readers off. The pushdown
readers run them in one job too, each predicate as a scan. A difference or an error is checked again in a query of its
own.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from corpus_predicates import corpus_predicates
from oracle import row_text
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_options import ZONES, random_options
from session_settings import PUSHDOWN_OFF, session_settings
from spark_results import SPARK_ERRORS, Rows, rows_by_predicate

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import PushdownError
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.session import PushdownSession

MAX_BYTES = 450_000
"""Larger files are left out: what matters is how many kinds of files there are."""
MAX_ROWS = 4_000
SCHEMA_SUFFIX = ".schema"
"""A hidden file `_NAME.schema` next to a file NAME has the DDL with which it is read."""

_NAME = re.compile(
    r"\.(orc|avro|parquet|json|jsonl|ndjson|csv|tsv)(\.(gz|bz2|zst|gzip|zstd|deflate|snappy|lz4))?$", re.I
)
_FORMATS = {"jsonl": "json", "ndjson": "json", "tsv": "csv"}
_FAILURES = (*SPARK_ERRORS, PushdownError)
_FEW = 4


@dataclass(frozen=True)
class CorpusFile:
    """A file and its format."""

    path: Path
    source_format: SourceFormat

    @property
    def schema(self) -> str | None:
        """The DDL with which the file is read, or None for Spark's inference."""
        schema_file = self.path.with_name(f"_{self.path.name}{SCHEMA_SUFFIX}")
        return schema_file.read_text(encoding="utf-8") if schema_file.exists() else None


def corpus_files(directory: Path) -> list[CorpusFile]:
    """Return the files below a directory whose names end like ORC, Avro, Parquet, JSON or CSV files."""
    result = []
    for path in sorted(directory.rglob("*")):
        match = _NAME.search(path.name)
        if match and path.is_file() and not path.name.startswith(("_", ".")) and path.stat().st_size <= MAX_BYTES:
            name = match.group(1).lower()
            result.append(CorpusFile(path, SourceFormat(_FORMATS.get(name, name))))
    return result


@dataclass(frozen=True)
class Setting:
    """Options of the reader and settings of the session for one read."""

    options: Mapping[str, str]
    conf: Mapping[str, str]

    @classmethod
    def draw(cls, rng: random.Random, file: CorpusFile) -> Setting:
        """Return a random setting. Text files mostly have a few options, sometimes one that only Spark supports."""
        conf = {
            "spark.sql.session.timeZone": rng.choice(ZONES),
            "spark.sql.ansi.enabled": rng.choice(("true", "false")),
            "spark.sql.caseSensitive": rng.choice(("true", "false", "false")),
            **PUSHDOWN_OFF,
        }
        if file.source_format not in (SourceFormat.JSON, SourceFormat.CSV):
            return cls({}, conf)
        if rng.random() < 0.1:
            conf["spark.sql.legacy.timeParserPolicy"] = rng.choice(("LEGACY", "CORRECTED"))
        options: dict[str, str] = {}
        if rng.random() < 0.6:
            options = random_options(rng, file.source_format, refused=rng.random() < 0.05)
            # With a separator or codec that the file does not have, one column is compared.
            options = {key: text for key, text in options.items() if key not in ("sep", "compression", "lineSep")}
        if ".tsv" in file.path.name:
            options["sep"] = "\t"
        return cls(options, conf)

    def apply(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Apply the settings to the session during the block."""
        return session_settings(spark, self.conf)


@dataclass(frozen=True)
class Outcome:
    """The rows of a query, or its error. `reader` is the reader that ran, `spark` or `pushdown`."""

    reader: str
    rows: Rows | None = None
    error: str = ""
    is_row_error: bool = False
    """Whether Spark raised the error for the value of a row, as it does in ANSI mode."""


class Comparison:
    """One file with one setting. Differences are added to a list."""

    def __init__(
        self, spark: SparkSession, file: CorpusFile, setting: Setting, tally: Counter[str], differences: list[str]
    ) -> None:
        self._spark = spark
        self._file = file
        self._setting = setting
        self._tally = tally
        self._differences = differences
        self._about = f"{file.path} {dict(setting.options)} {dict(setting.conf)}"
        self._schema = file.schema
        self._options = dict(setting.options)
        if file.source_format is SourceFormat.CSV and self._schema is None:
            self._about += " inferSchema"
            self._options["inferSchema"] = "true"
        self._columns: list[str] = []
        """The requested columns, quoted."""
        self._row_text = ""
        """SQL for a row of these columns as a string."""

    def check(self, rng: random.Random, predicates: int) -> None:
        """Compare this number of predicates. If Spark cannot read a file, the pushdown reader must fail too."""
        with self._setting.apply(self._spark):
            try:
                frame = self._spark_frame()
                if not frame.columns:
                    return
                rows = frame.selectExpr(row_text(frame.schema)).limit(MAX_ROWS + 1).collect()
            except _FAILURES as problem:
                self._check_that_all_fail(problem)
                return
            if len(rows) > MAX_ROWS:
                self._tally["files with too many rows"] += 1
                return
            self._tally["files"] += 1
            # With a declared schema, the scans need no job for inference.
            if self._file.source_format in (SourceFormat.JSON, SourceFormat.CSV) and rng.random() < 0.9:
                self._schema = frame.schema.toDDL()
                self._options.pop("inferSchema", None)
                frame = self._spark_frame()
            columns = self._some_columns(rng, frame.schema)
            self._columns = ["`" + name.replace("`", "``") + "`" for name in columns.fieldNames()]
            self._row_text = row_text(columns)
            self._compare(rng, frame, list(dict.fromkeys(corpus_predicates(rng, frame, columns, predicates))))

    def _some_columns(self, rng: random.Random, schema: t.StructType) -> t.StructType:
        """Return requested columns, mostly without maps if our reader leaves maps to Spark."""
        fields = schema.fields
        if self._file.source_format is SourceFormat.AVRO and rng.random() < 0.95:
            fields = [field for field in fields if "map<" not in field.dataType.simpleString()] or fields
        some = rng.sample(range(len(fields)), rng.randint(1, min(len(fields), 12)))
        return t.StructType([fields[place] for place in sorted(some)])

    def _spark_frame(self) -> DataFrame:
        name = self._file.source_format.value
        reader = self._spark.read.format(spark_format(name)).options(**self._options)
        return (reader if self._schema is None else reader.schema(self._schema)).load(_literal(self._file.path))

    def _session(self, reader: str) -> PushdownSession:
        session = PushdownSession(self._spark)
        session.add_source(
            "t",
            path=_literal(self._file.path),
            format=self._file.source_format.value,
            schema=self._schema,
            options=self._options,
            reader=reader,
        )
        return session

    def _check_that_all_fail(self, problem: Exception) -> None:
        for reader in ("spark", "pushdown", "auto"):
            try:
                result = self._session(reader).scan("t")
                result.run(lambda frame: frame.collect())
            except _FAILURES:
                self._tally["failed by both"] += 1
            else:
                self._add_difference(f"reader={reader} reads what Spark does not: {classify(problem).message}")

    def _compare(self, rng: random.Random, frame: DataFrame, predicates: Sequence[str]) -> None:
        expected = rows_by_predicate(frame, self._row_text, predicates)
        for predicate in [predicate for predicate in predicates if predicate not in expected][:2]:
            self._check_separately(predicate, "pushdown")
        for predicate, rows in self._pushdown_rows(list(expected)).items():
            self._compare_rows(predicate, expected[predicate], rows, "pushdown", "reader=pushdown")
        some = rng.sample(sorted(expected), min(2, len(expected)))
        for predicate, reader in zip(some, ("auto", "spark"), strict=False):
            self._check_separately(predicate, reader)
        self._tally["rows kept"] += sum(rows.total() for rows in expected.values())

    def _pushdown_rows(self, predicates: Sequence[str]) -> dict[str, Rows]:
        """Return our reader's rows of each predicate that it supports, in one job if none of them fails."""
        session = self._session("pushdown")
        results = {}
        try:
            for number, predicate in enumerate(predicates):
                if number == 3 * _FEW and not results:
                    # Most likely our reader takes no predicate over this file.
                    break
                result = session.scan("t", columns=self._columns, where=predicate)
                report = result.report()["t"]
                self._tally[re.sub(r"[/\d][\w/.,%]*", "#", report.reason)[:110]] += 1
                if report.reader == "pushdown":
                    results[predicate] = result
            frames = [
                result.df.selectExpr(f"{number} AS scan", self._row_text)
                for number, result in enumerate(results.values())
            ]
            rows = _together(frames).collect() if frames else []
        except _FAILURES:
            # One of the scans fails or falls back. Running a few separately shows which one.
            for predicate in predicates[:_FEW]:
                self._check_separately(predicate, "pushdown")
            return {}
        counts: list[Rows] = [Counter() for _ in results]
        for number, row in rows:
            counts[number][row] += 1
        return dict(zip(results, counts, strict=True))

    def _check_separately(self, predicate: str, reader: str) -> None:
        """Run one predicate in Spark and in a reader. An error of only one of them is a difference."""
        expected, actual = self._spark_outcome(predicate), self._outcome(predicate, reader)
        if expected.rows is not None and actual.rows is not None:
            self._compare_rows(
                predicate, expected.rows, actual.rows, actual.reader, f"reader={reader}, ran {actual.reader}"
            )
        elif expected.rows is None and actual.rows is None:
            self._tally["failed by both"] += 1
        elif actual.rows is None:
            self._add_difference(f"{predicate}: reader={reader} ({actual.reader}) alone fails: {actual.error}")
        elif expected.is_row_error and actual.reader == "pushdown" and (" AND " in predicate or " OR " in predicate):
            # A reader that drops rows by another conjunct hides their errors (docs/error-semantics.md).
            self._tally["failed by Spark on a row that the pushdown reader drops"] += 1
        else:
            self._add_difference(f"{predicate}: reader={reader} ({actual.reader}) alone reads: {expected.error}")

    def _spark_outcome(self, predicate: str) -> Outcome:
        try:
            rows = self._spark_frame().where(predicate).selectExpr(self._row_text).collect()
        except _FAILURES as problem:
            is_data_exception = isinstance(problem, PySparkException) and (problem.getSqlState() or "").startswith("22")
            is_permissive = self._options.get("mode", "PERMISSIVE").upper() == "PERMISSIVE"
            return Outcome("spark", None, classify(problem).message, is_data_exception and is_permissive)
        return Outcome("spark", Counter(row[0] for row in rows))

    def _outcome(self, predicate: str, reader: str) -> Outcome:
        try:
            result = self._session(reader).scan("t", columns=self._columns, where=predicate)
            rows = result.run(lambda frame: frame.selectExpr(self._row_text).collect())
            return Outcome(result.report()["t"].reader, Counter(row[0] for row in rows))
        except _FAILURES as problem:
            return Outcome(reader, None, classify(problem).message)

    def _compare_rows(self, predicate: str, expected: Rows, actual: Rows, reader: str, about: str) -> None:
        self._tally[f"compared with {reader}"] += 1
        if actual != expected:
            missing, more = list((expected - actual).items())[:2], list((actual - expected).items())[:2]
            self._add_difference(f"{predicate}: {about}: missing {missing}, more {more}")

    def _add_difference(self, difference: str) -> None:
        self._differences.append(f"{self._about} schema {self._schema}: {difference}")


def _literal(path: Path) -> str:
    """Return a path with escaped glob characters."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of frames as a balanced tree, so that Spark analyzes each frame only a few times."""
    half = len(frames) // 2
    return frames[0] if not half else _together(frames[:half]).unionAll(_together(frames[half:]))
