"""Lines that are not JSON: the pushdown reader detects those that Spark parses differently in files."""

from __future__ import annotations

import gzip
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.formats.text.line_filter import parses_alike
from pushdown_spark.session import PushdownSession

SCHEMA = "id INT, a ARRAY<SMALLINT>, b INT, c INT, s STRUCT<x: DOUBLE, l: ARRAY<DOUBLE>>, m MAP<STRING, INT>"
FRAMES = (
    '{{"id":{n},"a":[5,{token}],"b":1,"c":2}}',
    '{{"id":{n},"b":1,"a":[{token},7],"c":2}}',
    '{{"id":{n},"s":{{"x":{token},"l":[2]}},"b":1}}',
    '{{"id":{n},"s":{{"l":[3,{token}]}},"b":1}}',
    '{{"id":{n},"m":{{"k":{token}}},"c":3,"b":1}}',
    '{{"id":{n},"b":{token},"c":2}}',
)
PIECES = ("1", ".", "e", "-", ",", "[", "]", '"', "t", "é", " ")
TOKENS = [*map("".join, product(PIECES, repeat=2)), *PIECES, "1.5e", "tru", "nul", "-Infinity", "+INF", "0x10", "01"]
GOOD = ("1", "-0.5e3", "null", "true", '"é\\u00e9\\n"', "NaN", "[]", "[1, 2]", "{}", '{"x": [1.5]}', "1 ", "'x'")


def parse_both_ways(spark: SparkSession, lines: list[str], path: Path) -> list[tuple[str, str]]:
    """Return Spark's result for each line in a file, and for the same line as a string."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    reader = spark.read.schema(SCHEMA)
    frames = (reader.json(str(path)), reader.json(spark.read.text(str(path))))
    by_file, by_text = ([row[0] for row in frame.selectExpr("to_json(struct(*))").collect()] for frame in frames)
    return list(zip(by_file, by_text, strict=True))


def test_lines_that_parse_differently_are_detected(spark: SparkSession, tmp_path: Path) -> None:
    lines = [frame.format(n=n, token=token) for n, (frame, token) in enumerate(product(FRAMES, TOKENS))]
    results = parse_both_ways(spark, lines, tmp_path / "odd.json")
    different = [line for line, (by_file, by_text) in zip(lines, results, strict=True) if by_file != by_text]
    assert len(different) > 20
    assert [line for line in different if parses_alike(line.encode())] == []


def test_valid_json_lines_parse_alike() -> None:
    lines = [frame.format(n=n, token=token) for n, (frame, token) in enumerate(product(FRAMES, GOOD))]
    lines += [f"\t{line}\r" for line in lines]
    assert [line for line in lines if not parses_alike(line.encode())] == []
    cut = lines[0].encode()
    assert all(parses_alike(cut[:end]) for end in range(len(cut)) if not cut[:end].endswith(b"."))


@pytest.mark.parametrize("reader", ["pushdown", "auto"])
def test_a_line_that_parses_differently_uses_spark(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    lines = [f'{{"id": {n}, "b": {n}, "a": [{n}]}}' for n in range(300)]
    lines[200] = '{"b": 7, "id": 200, "a": [2147483647.]}'
    # Compressed, since the size of a plain file this small settles the matter under auto.
    path = tmp_path / "rows.json.gz"
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))
    session = PushdownSession(spark)
    session.add_source("data", path=str(path), format="json", schema=SCHEMA, reader=reader)
    result = session.scan("data", where="b = 7")
    actual = result.run(lambda frame: frame.select("id").collect())
    expected = spark.read.schema(SCHEMA).json(str(path)).where("b = 7").select("id").collect()
    assert sorted(actual) == sorted(expected)
    assert result.report()["data"].reader == "spark"
    assert "not JSON" in result.report()["data"].reason
