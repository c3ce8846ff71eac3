"""A corpus of files by any writer: the pushdown readers against Spark's own, with predicates over the files' values.

Spark evaluates all predicates of one file and one setting in one job, with all filters of its readers off. The pushdown
readers run them in one job too, each predicate as a scan. A difference or an error is checked again in a query of its
own.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from drawn_options import ZONES, random_options
from oracle import row_text
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from random_predicates import Leaf, leaves, quoted
from random_predicates import predicate as pooled_predicate
from session_settings import PUSHDOWN_OFF, session_settings

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import PushdownError
from pushdown_spark.formats.avro.spark_source import spark_format
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

MOST_BYTES = 450_000
"""Larger files are left out: what matters is how many kinds of files there are."""
MOST_ROWS = 4_000
SCHEMA_SUFFIX = ".schema"
"""A hidden file `_NAME.schema` next to a file NAME has the DDL with which it is read."""

_NAME = re.compile(
    r"\.(orc|avro|parquet|json|jsonl|ndjson|csv|tsv)(\.(gz|bz2|zst|gzip|zstd|deflate|snappy|lz4))?$", re.I
)
_FORMATS = {"jsonl": "json", "ndjson": "json", "tsv": "csv"}
_FAILURES = (PySparkException, Py4JJavaError, PushdownError)
_SAMPLE = 60
_FEW = 4
Rows = Counter[str]


@dataclass(frozen=True)
class CorpusFile:
    """A file and its format."""

    path: Path
    source_format: SourceFormat

    @property
    def schema(self) -> str | None:
        """Return the DDL with which the file is read, None for Spark's inference."""
        schema_file = self.path.with_name(f"_{self.path.name}{SCHEMA_SUFFIX}")
        return schema_file.read_text(encoding="utf-8") if schema_file.exists() else None


@dataclass
class CorpusTally:
    """The comparisons: predicates by format and reader that ran, and all differences."""

    compared: Counter[tuple[str, str]] = field(default_factory=Counter)
    failing: Counter[tuple[str, str]] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    files: defaultdict[str, set[Path]] = field(default_factory=lambda: defaultdict(set))

    def ours(self, source_format: SourceFormat) -> int:
        """Return the comparisons of a format in which our reader ran to the end."""
        return self.compared[source_format.value, "pushdown"]

    def text(self) -> str:
        """Return the counts and all differences."""
        lines = []
        for name in sorted({name for name, _ in self.compared} | {name for name, _ in self.failing}):
            by_reader = ", ".join(f"{n:,} by {reader}" for (f, reader), n in sorted(self.compared.items()) if f == name)
            failing = ", ".join(f"{n:,} {what}" for (f, what), n in sorted(self.failing.items()) if f == name)
            lines.append(f"{name}: {len(self.files[name]):,} files; compared {by_reader or 'none'}; {failing}")
            lines.append(f"  rows kept in all: {self.rows[name]:,}")
        lines += [f"  {count:,} times {reason}" for reason, count in self.reasons.most_common(25)]
        lines += [f"DIFFERENCE {difference}" for difference in self.differences]
        return "\n".join(lines)


def corpus_files(folder: Path) -> list[CorpusFile]:
    """Return the files below a directory whose names end like ORC, Avro, Parquet, JSON or CSV files."""
    found = []
    for path in sorted(folder.rglob("*")):
        named = _NAME.search(path.name)
        if named and path.is_file() and not path.name.startswith(("_", ".")) and path.stat().st_size <= MOST_BYTES:
            name = named.group(1).lower()
            found.append(CorpusFile(path, SourceFormat(_FORMATS.get(name, name))))
    return found


@dataclass(frozen=True)
class Setting:
    """Options of the reader and settings of the session for one read."""

    options: Mapping[str, str]
    conf: Mapping[str, str]

    @classmethod
    def drawn(cls, rng: random.Random, file: CorpusFile) -> Setting:
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

    def applied(self, spark: SparkSession) -> AbstractContextManager[None]:
        """Apply the settings to the session during the block."""
        return session_settings(spark, self.conf)


class Comparison:
    """One file with one setting."""

    def __init__(self, spark: SparkSession, file: CorpusFile, setting: Setting, tally: CorpusTally) -> None:
        self._spark = spark
        self._file = file
        self._setting = setting
        self._tally = tally
        self._about = f"{file.path} {dict(setting.options)} {dict(setting.conf)}"
        self._schema = file.schema
        if file.source_format is SourceFormat.CSV and self._schema is None:
            self._about += " inferSchema"
        self._options = dict(setting.options)
        if file.source_format is SourceFormat.CSV and self._schema is None:
            self._options["inferSchema"] = "true"

    def check(self, rng: random.Random, predicates: int) -> None:
        """Compare this number of predicates. If Spark cannot read a file, ours must fail too."""
        with self._setting.applied(self._spark):
            try:
                frame = self._native()
                if not frame.columns:
                    return
                rows = frame.selectExpr(row_text(frame.schema)).limit(MOST_ROWS + 1).collect()
            except _FAILURES as problem:
                self._must_fail(problem)
                return
            if len(rows) > MOST_ROWS:
                self._tally.failing[self._file.source_format.value, "files with too many rows"] += 1
                return
            self._tally.files[self._file.source_format.value].add(self._file.path)
            # With a declared schema, the scans need no job for inference.
            if self._file.source_format in (SourceFormat.JSON, SourceFormat.CSV) and rng.random() < 0.9:
                self._schema = frame.schema.toDDL()
                self._options.pop("inferSchema", None)
                frame = self._native()
            wanted = self._some_columns(rng, frame.schema)
            asked = list(dict.fromkeys(_predicates(rng, frame, wanted, predicates)))
            self._compare(rng, frame, wanted, asked)

    def _some_columns(self, rng: random.Random, schema: t.StructType) -> t.StructType:
        """Return requested columns, mostly without maps if our reader leaves maps to Spark."""
        fields = schema.fields
        if self._file.source_format is SourceFormat.AVRO and rng.random() < 0.95:
            fields = [field for field in fields if "map<" not in field.dataType.simpleString()] or fields
        some = rng.sample(range(len(fields)), rng.randint(1, min(len(fields), 12)))
        return t.StructType([fields[place] for place in sorted(some)])

    def _native(self) -> DataFrame:
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

    def _must_fail(self, problem: Exception) -> None:
        for reader in ("spark", "pushdown", "auto"):
            try:
                result = self._session(reader).scan("t")
                result.run(lambda frame: frame.collect())
            except _FAILURES:
                self._tally.failing[self._file.source_format.value, "failed by both"] += 1
            else:
                self._differs(f"reader={reader} reads what Spark does not: {classify(problem).message}")

    def _compare(self, rng: random.Random, frame: DataFrame, wanted: t.StructType, asked: Sequence[str]) -> None:
        self._columns = ["`" + name.replace("`", "``") + "`" for name in wanted.fieldNames()]
        self._shown = row_text(wanted)
        expected = _expected(frame, self._shown, asked)
        for text in [text for text in asked if text not in expected][:2]:
            self._alone("pushdown", text)
        for text, rows in self._answers(list(expected)).items():
            self._record(text, expected[text], rows, "pushdown", "reader=pushdown")
        some = rng.sample(sorted(expected), min(2, len(expected)))
        for text, reader in zip(some, ("auto", "spark"), strict=False):
            self._alone(reader, text)
        self._tally.rows[self._file.source_format.value] += sum(rows.total() for rows in expected.values())

    def _answers(self, asked: Sequence[str]) -> dict[str, Rows]:
        """Return our reader's rows of each predicate that it supports, in one job if none of them fails."""
        session = self._session("pushdown")
        results = {}
        try:
            for number, text in enumerate(asked):
                if number == 3 * _FEW and not results:
                    # Most likely our reader takes no predicate over this file.
                    break
                result = session.scan("t", columns=self._columns, where=text)
                report = result.report()["t"]
                self._tally.reasons[re.sub(r"[/\d][\w/.,%]*", "#", report.reason)[:110]] += 1
                if report.reader == "pushdown":
                    results[text] = result
            frames = [result.df.selectExpr(f"{n} AS scan", self._shown) for n, result in enumerate(results.values())]
            collected = _together(frames).collect() if frames else []
        except _FAILURES:
            # One of the scans fails or falls back. Running a few separately shows which one.
            for text in asked[:_FEW]:
                self._alone("pushdown", text)
            return {}
        found: list[Rows] = [Counter() for _ in results]
        for number, row in collected:
            found[number][row] += 1
        return dict(zip(results, found, strict=True))

    def _alone(self, reader: str, text: str) -> None:
        """Run one predicate separately, in Spark and in our reader. An error of only one side is a difference."""
        theirs, ours, ran, is_row_error = None, None, reader, False
        try:
            theirs = Counter(row[0] for row in self._native().where(text).selectExpr(self._shown).collect())
        except _FAILURES as problem:
            message = classify(problem).message
            is_row_error = (
                isinstance(problem, PySparkException)
                and (problem.getSqlState() or "").startswith("22")
                and self._options.get("mode", "PERMISSIVE").upper() == "PERMISSIVE"
            )
        try:
            result = self._session(reader).scan("t", columns=self._columns, where=text)
            ours = Counter(row[0] for row in result.run(lambda frame: frame.selectExpr(self._shown).collect()))
            ran = result.report()["t"].reader
        except _FAILURES as problem:
            message = classify(problem).message
        if theirs is None and ours is None:
            self._tally.failing[self._file.source_format.value, "failed by both"] += 1
        elif theirs is None and is_row_error and ran == "pushdown" and (" AND " in text or " OR " in text):
            # In ANSI mode an expression fails on single rows. docs/errors.md: a reader that drops rows by another
            # conjunct hides the error.
            self._tally.failing[self._file.source_format.value, "failed by Spark on a row that our reader drops"] += 1
        elif theirs is None or ours is None:
            self._differs(
                f"{text}: reader={reader} ({ran}) {'alone reads' if theirs is None else 'alone fails'}: {message}"
            )
        else:
            self._record(text, theirs, ours, ran, f"reader={reader}, ran {ran}")

    def _record(self, text: str, theirs: Rows, ours: Rows, ran: str, about: str) -> None:
        self._tally.compared[self._file.source_format.value, ran] += 1
        if ours != theirs:
            missing, more = list((theirs - ours).items())[:2], list((ours - theirs).items())[:2]
            self._differs(f"{text}: {about}: missing {missing}, more {more}")

    def _differs(self, what: str) -> None:
        self._tally.differences.append(f"{self._about} schema {self._schema}: {what}")


def _literal(path: Path) -> str:
    """Return a path with escaped glob characters."""
    return re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the union of frames as a balanced tree, so that Spark analyzes each frame only a few times."""
    half = len(frames) // 2
    return frames[0] if not half else _together(frames[:half]).unionAll(_together(frames[half:]))


def _expected(frame: DataFrame, shown: str, asked: Sequence[str]) -> dict[str, Rows]:
    """Return the rows that Spark keeps for each predicate. Predicates that raise are found by bisection."""
    try:
        rows = frame.selectExpr(shown, *(f"({text}) AS `p{n}`" for n, text in enumerate(asked))).collect()
    except _FAILURES:
        half = len(asked) // 2
        if not half:
            return {}
        return _expected(frame, shown, asked[:half]) | _expected(frame, shown, asked[half:])
    return {text: Counter(row[0] for row in rows if row[1 + n] is True) for n, text in enumerate(asked)}


def _predicates(rng: random.Random, frame: DataFrame, wanted: t.StructType, number: int) -> Iterator[str]:
    """Return predicates with values of the file, and some with values of the common pools."""
    found = list(leaves(wanted))
    values = _values(frame, found)
    for _ in range(number):
        if rng.random() < 0.12:
            yield pooled_predicate(rng, found, mixed=rng.random() < 0.3)
        else:
            yield _tree(rng, found, values)


def _values(frame: DataFrame, found: Sequence[Leaf]) -> dict[str, list[str]]:
    """Return some values of each column as SQL literals, none for unsupported types."""
    shown = {name: _written(name, kind) for name, kind in found}
    items = {name: text for name, text in shown.items() if text is not None}
    if not items:
        return {}
    try:
        rows = frame.selectExpr(*(f"{text} AS `v{n}`" for n, text in enumerate(items.values()))).limit(4_000).collect()
    except _FAILURES:
        return {}
    rows = rows[:: max(1, len(rows) // _SAMPLE)]
    kinds = dict(found)
    return {
        name: [_literal_of(row[n], kinds[name]) for row in rows if row[n] is not None] for n, name in enumerate(items)
    }


def _written(name: str, kind: t.DataType) -> str | None:
    if isinstance(kind, t.BinaryType):
        return f"hex({name})"
    known = (t.BooleanType, t.NumericType, t.StringType, t.DateType, t.TimestampType, t.TimestampNTZType)
    return f"CAST({name} AS STRING)" if isinstance(kind, known) else None


def _literal_of(text: str, kind: t.DataType) -> str:
    match kind:
        case t.StringType():
            return quoted(text[:200])
        case t.BinaryType():
            return f"X'{text[:200] if len(text) % 2 == 0 else ''}'"
        case t.BooleanType():
            return text
        case t.FloatType() | t.DoubleType() | t.DecimalType():
            return f"CAST('{text}' AS {kind.simpleString()})"
        case t.DateType():
            return f"CAST('{text}' AS DATE)"
        case t.TimestampType():
            return f"CAST('{text}' AS TIMESTAMP)"
        case t.TimestampNTZType():
            return f"CAST('{text}' AS TIMESTAMP_NTZ)"
        case t.LongType() if text == "-9223372036854775808":
            return "CAST('-9223372036854775808' AS BIGINT)"
    return text


def _tree(rng: random.Random, found: Sequence[Leaf], values: Mapping[str, list[str]], depth: int = 0) -> str:
    roll = rng.random()
    if depth < 2 and roll < 0.3:
        word = rng.choice((" AND ", " AND ", " OR "))
        return "(" + word.join(_tree(rng, found, values, depth + 1) for _ in range(rng.choice((2, 2, 3)))) + ")"
    if depth < 2 and roll < 0.36:
        return f"NOT ({_tree(rng, found, values, depth + 1)})"
    name, kind = rng.choice(found)
    known = values.get(name)
    if not known or rng.random() < 0.05:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    value = rng.choice(known)
    roll = rng.random()
    if isinstance(kind, t.StringType) and roll < 0.3:
        return _text_test(rng, name, value)
    if roll < 0.45:
        return f"{name} {rng.choice(('=', '=', '<=>', '<>'))} {value}"
    if roll < 0.6:
        return f"{name} {rng.choice(('<', '<=', '>', '>='))} {value}"
    if roll < 0.7:
        return f"({name} >= {value} AND {name} {rng.choice(('<', '<='))} {rng.choice(known)})"
    if roll < 0.8:
        return f"{name} BETWEEN {value} AND {rng.choice(known)}"
    many = ", ".join(rng.choice(known) for _ in range(rng.choice((1, 2, 3, 12))))
    return f"{name} {rng.choice(('', '', 'NOT '))}IN ({many})"


def _text_test(rng: random.Random, name: str, value: str) -> str:
    """Return LIKE or a similar test with a part of a value, whose wildcards are mostly escaped."""
    content = value[1:-1].replace("\\'", "'").replace("\\\\", "\\")
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice((1, 3, 8, 40))]
    if rng.random() < 0.3:
        return f"{rng.choice(('startswith', 'endswith', 'contains'))}({name}, {quoted(part)})"
    pattern = rng.choice(("{}", "{}%", "%{}", "%{}%", "_{}%")).format(part.replace("\\", "\\\\"))
    return f"{name} {rng.choice(('', '', 'NOT '))}LIKE {quoted(pattern)}"
