"""One generated file with many predicates: Spark evaluates them once, and byte search returns its candidates."""

from __future__ import annotations

import random
from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path

import csv_lines
import json_lines
from bisection import split_failures
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as t
from random_options import random_options, random_settings
from random_predicates import leaves, predicate
from session_settings import session_settings
from spark_results import SPARK_ERRORS

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.byte_patterns.csv import csv_patterns
from pushdown_spark.expressions.byte_patterns.facts import facts_of
from pushdown_spark.expressions.byte_patterns.json import json_patterns
from pushdown_spark.expressions.byte_patterns.text import BytePattern
from pushdown_spark.expressions.parser import parse_predicate
from pushdown_spark.expressions.scope import Fold, Scope
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineMatcher, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader, Window
from pushdown_spark.formats.text.text_options import TextOptions, check_text_options, text_options, zone_offsets
from pushdown_spark.sources.stores.listing import Compression, Split


class UnreadableBySparkError(Exception):
    """A file on which Spark's own reader fails, because its CSV parser fails on some spaces."""


MARK = "rid"
"""The field with the line number of JSON rows. A marker line with this field follows each generated line."""


@dataclass(frozen=True)
class TextCase:
    """The lines of one file, their options, and predicates over them."""

    source_format: SourceFormat
    schema: t.StructType
    options: Mapping[str, str]
    lines: tuple[bytes, ...]
    terminators: tuple[bytes, ...]
    predicates: tuple[str, ...]
    ansi: bool
    settings: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def generate(
        cls,
        source_format: SourceFormat,
        seed: int,
        *,
        lines: int,
        predicates: int,
        oddness: Sequence[float] = (0.02, 0.15, 0.5),
        refused: float = 0.0,
    ) -> TextCase:
        """Return the case of a seed. One value of `oddness` applies to the whole file.

        `refused` is the probability of an option or a setting that rules out byte search.
        """
        rng = random.Random(seed)
        is_json = source_format is SourceFormat.JSON
        ansi = rng.random() < 0.5
        odd = rng.choice(oddness)
        options = random_options(rng, source_format, refused=rng.random() < refused)
        settings = random_settings(rng, refused=rng.random() < refused / 3)
        if is_json:
            schema = json_lines.random_schema(rng, rng.randint(1, 5))
            contents = [json_lines.line(rng, schema, odd) for _ in range(lines)]
        else:
            schema = csv_lines.random_schema(rng, rng.randint(1, 5))
            contents = [csv_lines.line(rng, schema, options, odd) for _ in range(lines)]
        mixed_ends = rng.random() < 0.2 and "lineSep" not in options
        ends = [rng.choice((b"\n", b"\r\n", b"\r")) if mixed_ends else b"\n" for _ in contents]
        columns = list(leaves(schema))
        candidates = [predicate(rng, columns, mixed=not ansi) for _ in range(predicates)]
        if "lineSep" not in options:
            contents = [line if is_json else line.replace(b"\r", b" ") for line in contents]
        predicates_once = tuple(dict.fromkeys(candidates))
        return cls(source_format, schema, options, tuple(contents), tuple(ends), predicates_once, ansi, settings)

    @cached_property
    def read_schema(self) -> t.StructType:
        if self.source_format is SourceFormat.CSV:
            return self.schema
        return t.StructType([*self.schema.fields, t.StructField(MARK, t.LongType())])

    @property
    def content(self) -> bytes:
        if self.source_format is SourceFormat.CSV:
            return b"".join(line + end for line, end in zip(self.lines, self.terminators, strict=True))
        marks = (b'{"%s":%d}\n' % (MARK.encode(), number) for number in range(len(self.lines)))
        return b"".join(line + end + mark for line, end, mark in zip(self.lines, self.terminators, marks, strict=True))

    @property
    def text_options(self) -> TextOptions:
        """The reader's options for byte search."""
        options = {key.lower(): value for key, value in self.options.items()}
        legacy = self.settings.get("spark.sql.legacy.timeParserPolicy", "CORRECTED") != "CORRECTED"
        today = datetime.now(UTC).date()
        spark = SparkSession.getActiveSession()
        assert spark is not None
        zone = self.options.get("timeZone") or self.settings.get("spark.sql.session.timeZone") or _session_zone(spark)
        return text_options(
            self.source_format,
            options,
            self.read_schema,
            has_legacy_dates=legacy,
            today=today,
            offsets=zone_offsets(spark, zone),
        )

    @property
    def unsafe(self) -> str | None:
        """Why byte search rejects the options or the schema."""
        try:
            check_text_options(self.source_format, {k.lower(): v for k, v in self.options.items()}, self.read_schema)
        except UnsupportedError as problem:
            return str(problem)
        return None

    def spark_frame(self, spark: SparkSession, path: Path) -> DataFrame:
        """Return Spark's own reader over the file."""
        return (
            spark.read.format(self.source_format.value).schema(self.read_schema).options(**self.options).load(str(path))
        )


def _session_zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


@dataclass(frozen=True)
class Evaluation:
    """Spark's rows as strings, the line number of each row, and for each predicate the rows that it keeps."""

    rows: tuple[str, ...]
    origins: tuple[int, ...]
    kept: Mapping[str, frozenset[int]]
    raised: tuple[str, ...]


def row_text(schema: t.StructType) -> str:
    """Return SQL for a whole row as a string. It distinguishes NULL, empty strings and the word, for all types."""
    names = ["`" + field.name.replace("`", "``") + "`" for field in schema.fields]
    items = ", ".join(f"CAST(STRUCT({name}) AS STRING), CAST({name} IS NULL AS STRING)" for name in names)
    return f"concat_ws('|', {items})"


def evaluate(spark: SparkSession, case: TextCase, path: Path) -> Evaluation:
    """Evaluate all predicates over all rows in one job. Predicates that raise are returned separately."""
    path.write_bytes(case.content)
    with apply_settings(spark, case):
        frame = case.spark_frame(spark, path)
        try:
            batches, raised = split_failures(case.predicates, partial(_select_results, frame, case), SPARK_ERRORS)
        except SPARK_ERRORS as problem:
            raise UnreadableBySparkError from problem
    rows, _ = batches[0]
    origins = tuple(_origins(case, [row[0] for row in rows]))
    kept = ChainMap(*(kept for _, kept in batches))
    return Evaluation(tuple(row[1] for row in rows), origins, kept, tuple(raised))


def apply_settings(spark: SparkSession, case: TextCase) -> AbstractContextManager[None]:
    """Apply the settings of a case. Spark's pushdown is off, because it loses rows with duplicate keys."""
    settings = {
        "spark.sql.ansi.enabled": str(case.ansi).lower(),
        "spark.sql.json.filterPushdown.enabled": "false",
        "spark.sql.csv.filterPushdown.enabled": "false",
        **case.settings,
    }
    return session_settings(spark, settings)


def _select_results(
    frame: DataFrame, case: TextCase, predicates: Sequence[str]
) -> tuple[list[Row], dict[str, frozenset[int]]]:
    """Return the marker and the string of each row, and the numbers of the rows that each predicate keeps."""
    mark = MARK if case.source_format is SourceFormat.JSON else "NULL"
    items = [mark, row_text(case.read_schema), *(f"({p}) AS `p{i}`" for i, p in enumerate(predicates))]
    rows = frame.selectExpr(*items).collect()
    kept = {p: frozenset(n for n, row in enumerate(rows) if row[2 + i] is True) for i, p in enumerate(predicates)}
    return rows, kept


def _origins(case: TextCase, marks: list[object]) -> Iterator[int]:
    """Return the line numbers of rows. JSON rows belong to the next marker, CSV rows to the next line that is a row.

    The row of a marker has the number -1 - n.
    """
    if case.source_format is SourceFormat.JSON:
        number = 0
        for mark in marks:
            yield number if mark is None else -1 - number
            number += mark is not None
        assert number == len(case.lines), "a marker got lost"
        return
    numbers = list(csv_rows(case))
    assert len(numbers) == len(marks), f"{len(marks)} rows from {len(numbers)} lines"
    yield from numbers


def csv_rows(case: TextCase) -> Iterator[int]:
    """Return the numbers of lines that are rows: not blank, not comments, not headers."""
    comment = case.options.get("comment", "").encode()
    header = case.options.get("header") == "true"
    for number, line in enumerate(case.lines):
        line = line.removeprefix(b"\xef\xbb\xbf") if number == 0 else line
        if not line.strip(bytes(range(0x21))) or (comment and line.startswith(comment)):
            continue
        if header:
            header = False
            continue
        yield number


def byte_patterns(case: TextCase, text: str, fold: Fold | None = None) -> list[BytePattern]:
    """Return the patterns that a predicate implies. Each must match every line that Spark keeps."""
    tree = parse_predicate(text)
    if tree is None:
        return []
    outcome = bind(tree, Scope(case.read_schema, has_plain_strings="\\" not in text, fold=fold))
    if outcome.artifact is None:
        return []
    facts = facts_of(outcome.artifact)
    options = case.text_options
    if case.source_format is SourceFormat.CSV:
        actual = csv_patterns(facts, options.csv, case.schema.fieldNames(), many=1)
        return [*actual, *(pattern.general for pattern in actual if pattern.general)]
    return json_patterns(facts, options.calendar)


def matches(pattern: BytePattern, line: bytes, terminator: bytes) -> bool:
    """Return whether the pattern matches a single line, including the fields of its matches."""
    window = Window()
    window.length = len(line + terminator)
    window.data[: window.length] = line + terminator
    if b"\x00" in line:
        return bool(Searcher(pattern).hits(window.data, window.length))
    finder = LineMatcher(Searcher(pattern), None, LineSyntax(ends_at_returns=False))
    return bool(finder.lines(window, "line", at_start=False))


def candidates(case: TextCase, pattern: BytePattern, path: Path, split_size: int) -> Counter[bytes]:
    """Return the candidate lines of the file if it is cut into splits of a size."""
    searcher, syntax = Searcher(pattern), case.text_options.lines
    size = path.stat().st_size
    candidate_lines: Counter[bytes] = Counter()
    for start in range(0, size, split_size):
        split = Split(str(path), start, min(start + split_size, size), Compression.NONE)
        finder = LineMatcher(searcher, None, syntax)
        for window in LineReader(split, ends_at_returns=syntax.ends_at_returns).windows():
            candidate_lines.update(finder.lines(window, split.path, at_start=start == 0))
    return candidate_lines
