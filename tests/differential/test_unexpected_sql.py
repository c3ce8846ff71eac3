"""SQL with an unexpected meaning in Spark, and settings that change the meaning of SQL: the rows are Spark's."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from oracle import TextCase, apply_settings
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import SourceFormat, SourceReport
from pushdown_spark.expressions.parser import has_same_tokens, parse_predicate
from pushdown_spark.session import PushdownSession

LONG = "x" * 20_000
WIDE = "\u00e9" * 5_000


@dataclass(frozen=True)
class Trap:
    """A predicate or query and lines. Spark keeps `kept` of them. If `searched`, the pushdown reader must read them."""

    where: str
    lines: tuple[str, ...]
    kept: int
    schema: str = "i int, j int, s string"
    sql: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    searched: bool = False


TRAPS = {
    "a setting in a literal": Trap(
        "s = '${trap.word}'", ('{"s":"abc"}', '{"s":"${trap.word}"}'), 1, settings={"trap.word": "abc"}
    ),
    "a comment that ends at a carriage return": Trap("i = 5 -- five\r OR j = 6", ('{"i":5}', '{"j":6}', '{"i":6}'), 2),
    "a comment that does not end at its line": Trap("i = 5 -- five\\\n AND j = 6", ('{"i":5}', '{"j":6}'), 1),
    "a comment in a comment": Trap("i = 5 /* /* */ OR */ OR j = 6", ('{"i":5}', '{"j":6}'), 2, searched=True),
    "a quote that is doubled": Trap("s = 'it''s'", ('{"s":"it\'s"}', '{"s":"its"}'), 1),
    "a doubled quote of old": Trap(
        "s = 'it''s'",
        ('{"s":"its"}', '{"s":"it\'s"}'),
        1,
        settings={"spark.sql.legacy.consecutiveStringLiterals.enabled": "true"},
    ),
    "literals side by side": Trap("s = 'ab' 'cd'", ('{"s":"abcd"}', '{"s":"ab"}'), 1),
    "the name of the file": Trap("i = 5 AND input_file_name() LIKE '%data.json'", ('{"i":5}',), 1),
    "metadata of the file": Trap("i = 5 AND _metadata.file_name = 'data.json'", ('{"i":5}',), 1),
    "a query for the file": Trap(
        "", ('{"i":5}', '{"i":6}'), 1, sql="SELECT i, input_file_name() FROM data WHERE i = 5"
    ),
    "a decimal with room for 38 digits": Trap(
        "w = CAST(5 AS DECIMAL(38, 0))", ('{"w":4.6}', '{"w":5}', '{"w":5.5}'), 2, schema="w decimal(38, 10)"
    ),
    "decimals with room for 38 digits": Trap(
        "w BETWEEN CAST(5 AS DECIMAL(38, 0)) AND CAST(6 AS DECIMAL(38, 0))",
        ('{"w":4.6}', '{"w":6.4}', '{"w":6.5}'),
        2,
        schema="w decimal(38, 10)",
    ),
    "a literal of 20,000 letters": Trap(f"s = '{LONG}'", (f'{{"s":"{LONG}"}}', '{"s":"x"}'), 1, searched=True),
    "a literal of 10,000 bytes": Trap(f"s = '{WIDE}'", (f'{{"s":"{WIDE}"}}', '{"s":"x"}'), 1, searched=True),
    "a long prefix": Trap(f"s LIKE '{WIDE}%'", (f'{{"s":"{WIDE}x"}}', '{"s":"x"}'), 1, searched=True),
    "a long part": Trap(f"s LIKE '%{LONG}%'", (f'{{"s":"a{LONG}x"}}', '{"s":"x"}'), 1, searched=True),
    "dates compared as words": Trap(
        "d < '1995-01-05'",
        ('{"d":"+10000-01-01"}', '{"d":"1994-01-01"}', '{"d":"1996-01-01"}'),
        2,
        schema="d date",
        settings={"spark.sql.legacy.typeCoercion.datetimeToString.enabled": "true"},
    ),
}


def _run_trap(spark: SparkSession, trap: Trap, file: Path) -> tuple[Counter[str], SourceReport]:
    session = PushdownSession(spark)
    session.add_source("data", path=str(file), format="json", schema=trap.schema, reader="pushdown")
    result = session.sql(trap.sql) if trap.sql else session.scan("data", where=trap.where)
    rows = result.run(lambda frame: frame.selectExpr("CAST(struct(*) AS STRING)").collect())
    return Counter(row[0] for row in rows), result.report()["data"]


@pytest.mark.parametrize("name", TRAPS)
def test_lines_that_spark_reads_differently_return_sparks_rows(spark: SparkSession, name: str, tmp_path: Path) -> None:
    trap = TRAPS[name]
    file = tmp_path / "data.json"
    file.write_text("".join(line + "\n" for line in trap.lines), encoding="utf-8")
    schema = StructType.fromDDL(trap.schema)
    case = TextCase(SourceFormat.JSON, schema, {}, (), (), (), ansi=False, settings=trap.settings)
    with apply_settings(spark, case):
        spark_frame = spark.read.schema(schema).json(str(file))
        spark_frame.createOrReplaceTempView("data")
        frame = spark.sql(trap.sql) if trap.sql else spark_frame.where(trap.where)
        expected = Counter(row[0] for row in frame.selectExpr("CAST(struct(*) AS STRING)").collect())
        actual, report = _run_trap(spark, trap, file)
    assert sum(expected.values()) == trap.kept
    assert actual == expected
    assert (report.reader == "pushdown") is trap.searched or "decimal" in name


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("io.compression.codecs", "org.apache.hadoop.io.compress.DeflateCodec"),
        ("mapreduce.input.linerecordreader.line.maxlength", "20"),
    ],
)
def test_hadoop_settings_that_change_lines_use_spark(spark: SparkSession, key: str, value: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text('{"i":5}\n')
    trap = Trap("i = 5", (), 1, settings={key: value})
    case = TextCase(SourceFormat.JSON, StructType(), {}, (), (), (), ansi=False, settings=trap.settings)
    with apply_settings(spark, case):
        rows, report = _run_trap(spark, trap, tmp_path / "data.json")
    assert sum(rows.values()) == 1
    assert report.reader == "spark"
    assert key in report.reason


PACKED = {"gz": gzip.compress, "GZ": gzip.compress, "gzip": gzip.compress, "Bz2": bz2.compress, "zip": bytes}


@pytest.mark.parametrize("suffix", PACKED)
def test_suffixes_in_any_case_determine_the_compression(spark: SparkSession, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"data.json.{suffix}"
    file.write_bytes(PACKED[suffix](b'{"i":5}\n{"i":6}\n'))
    assert spark.read.schema("i int").json(str(file)).where("i = 5").count() == 1
    rows, _ = _run_trap(spark, Trap("i = 5", (), 1), file)
    assert sum(rows.values()) == 1


@pytest.mark.parametrize("text", ["i = 5 -- five", "s = 'a' AND s <> 'b'", "i = 5 /* ''\r */"])
def test_predicates_with_comments_are_parsed(text: str) -> None:
    assert has_same_tokens(text)
    assert parse_predicate(text) is not None
