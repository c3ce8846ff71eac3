"""The pushdown reader searches lines, but leaves files with lines that Spark parses differently to Spark's reader."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from oracle import TextCase, apply_settings
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import SourceFormat
from pushdown_spark.session import PushdownSession

FOUR = "a string, b string, c int, d int"


@dataclass(frozen=True)
class OddFile:
    """A file of which Spark keeps `kept` rows. With `searched`, the pushdown reader must read it, else Spark's."""

    content: bytes
    where: str
    schema: str
    kept: int
    columns: tuple[str, ...] | None = None
    options: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    searched: bool = False


QUOTES = {"escape": '"'}
UNPRUNED = {"spark.sql.csv.parser.columnPruning.enabled": "false"}
CSV = {
    "a mark in the file": OddFile(b"x,1\n\xef\xbb\xbfabc,2\n", "i = 2", "s string, i int", 1),
    "a mark before a number": OddFile(b"1,1\n\xef\xbb\xbf5,2\n", "i = 5", "i int, j int", 0),
    "two marks": OddFile(b"\xef\xbb\xbf\xef\xbb\xbfabc,1\nx,2\n", "s = 'abc'", "s string, i int", 1),
    "two marks, many numbers": OddFile(
        b"\xef\xbb\xbf\xef\xbb\xbf59,1\n2,2\n", f"i IN ({', '.join(map(str, range(2, 102)))})", "i int, j int", 2
    ),
    "one mark": OddFile(b"\xef\xbb\xbfabc,1\nx,2\n", "s = 'abc'", "s string, i int", 1, searched=True),
    "a blank line": OddFile(b"x\n\t\n", "s = '\t'", "s string", 0, searched=True),
    "a blank line of two fields": OddFile(b"1,x\n\t\t\n", "s = '\t\t' OR i = 1", "s string, i int", 0, searched=True),
    "two signs": OddFile(b'p||q||1||2\n"x||y"||q||7||8\n', "c = 7", FOUR, 0, ("c",), {"sep": "||"}),
    "two signs, all columns": OddFile(
        b"p||q||1||2\nx||q||7||8\n", "c = 7", FOUR, 1, None, {"sep": "||"}, searched=True
    ),
    "two signs, none skipped": OddFile(
        b"p||q||1||2\nx||q||7||8\n", "c = 7", FOUR, 1, ("c",), {"sep": "||"}, UNPRUNED, searched=True
    ),
    "an escaped escape": OddFile(b'p,q,1,2\n"C:\\\\",", 5 pieces",7,8\n', "b LIKE '%pieces%'", FOUR, 1, ("b",)),
    "an escaped escape, all columns": OddFile(b'p,q,1,2\n"C:\\\\",", 5",7,8\n', "c = 7", FOUR, 1, searched=True),
    "an escaped quote": OddFile(b'p,q,1,2\n"C:\\"",5 pieces,7,8\n', "c = 7", FOUR, 1, ("c",), searched=True),
    "an empty field": OddFile(b'p,q,1,2\n"",",x,y",7,8\n', "c = 7", FOUR, 0, ("c",), QUOTES),
    "usual quotes": OddFile(
        b'p,q,1,2\n"","a,""b""",7,8\n"""a""","",7,8\n', "c = 7", FOUR, 2, ("c",), QUOTES, searched=True
    ),
}
JSON = {
    "no base64": OddFile('{"b":"Grüße","l":7}\n{"b":"YWJj","l":8}\n'.encode(), "l = 7", "b binary, l int", 0),
    "no base64 in a struct": OddFile('{"st":{"b":"é"},"l":7}\n'.encode(), "l = 7", "st struct<b: binary>, l int", 0),
    "no base64, in ASCII": OddFile(b'{"b":"a$b","l":7}\n', "l = 7", "b binary, l int", 1, searched=True),
    "base64, not selected": OddFile('{"b":"é","l":7}\n'.encode(), "l = 7", "b binary, l int", 1, ("l",), searched=True),
    "a letter in an escape": OddFile('{"s":"\\u00é,"l":7}\n'.encode(), "l = 7", "s string, l int", 0),
    "a letter like a digit": OddFile('{"s":"\\u004\u0131","l":7}\n'.encode(), "l = 7", "s string, l int", 0),
    "a letter in an unknown text": OddFile('{"l":7,"zz":"\\u004\u0131"}\n'.encode(), "l = 7", "l int", 0),
    "a letter after an escape": OddFile('{"s":"\\\\uü \\u00e9é","l":7}\n'.encode(), "l = 7", "s string, l int", 1,
                                     searched=True),
    "no UTF-8 in a member that is not selected": OddFile(
        b'{"n":{"d":12,"a":"\xed\xa0\x80127"}}\n', "n.d IS NULL", "n struct<d: string, a: tinyint>", 1, ("n.d",)
    ),
    "no base64 in a member that is not selected": OddFile(
        '{"n":{"b":"é","d":"x"},"l":7}\n'.encode(), "n.d IS NULL", "n struct<b: binary, d: string>, l int", 1, ("n.d",)
    ),
    "no value in a member that is not selected": OddFile(
        b'{"n":{"k":{},"b":5,"u":{"f":5e-1,"s":+1}},"l":10}\n', "n.k IS NOT NULL",
        "n struct<k: map<string, bigint>, u: struct<f: float, s: smallint>, b: bigint>, l int", 1, ("n.k",)
    ),
    "no JSON in a variant": OddFile('{"v":[1,2\u00a0],"l":7}\n'.encode(), "l = 7", "l int, v variant", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CSV)
def test_csv_lines_are_read_as_spark_does(spark: SparkSession, name: str, tmp_path: Path, carrier: str) -> None:
    check(spark, SourceFormat.CSV, CSV[name], tmp_path / "data.csv", carrier)


@pytest.mark.parametrize("name", JSON)
def test_json_lines_are_read_as_spark_does(spark: SparkSession, name: str, tmp_path: Path, carrier: str) -> None:
    check(spark, SourceFormat.JSON, JSON[name], tmp_path / "data.json", carrier)


def check(spark: SparkSession, source_format: SourceFormat, odd: OddFile, path: Path, carrier: str) -> None:
    """Assert that our rows of a file equal Spark's, and that the expected reader ran."""
    path.write_bytes(odd.content)
    schema = StructType.fromDDL(odd.schema)
    columns = odd.columns or tuple(schema.fieldNames())
    session = PushdownSession(spark)
    session.add_source(
        "data", path=str(path), format=source_format, schema=odd.schema, options=odd.options, reader="pushdown"
    )
    with apply_settings(spark, TextCase(source_format, schema, {}, (), (), (), ansi=False, settings=odd.settings)):
        spark_frame = spark.read.format(source_format).schema(schema).options(**odd.options).load(str(path))
        expected = count_rows(spark_frame.where(odd.where).select(*columns))
        result = session.scan("data", columns=columns, where=odd.where)
        actual = result.run(count_rows)
    assert sum(expected.values()) == odd.kept
    assert actual == expected
    report = result.report()["data"]
    assert report.reader != "pushdown" or odd.searched, report.reason
    # The JVM searches for strings, which not every predicate implies.
    assert report.reader == "pushdown" or not odd.searched or carrier == "jvm", report.reason


def count_rows(frame: DataFrame) -> Counter[str]:
    """Return rows as strings, because Python has no values for variants."""
    expressions = [f"to_json(struct({column}))" for column in frame.columns]
    return Counter(str(row) for row in frame.selectExpr(*expressions).collect())
