"""The array `columns` has all fields of every line of a CSV file, even if the first line has fewer."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.session import PushdownSession

LINES = "10,foo,bar\n20\n30,x,y,z\n"


def _read(
    spark: SparkSession, path: Path, columns: list[str], reader: str, where: str | None = None, **options: str
) -> list[object]:
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="csv", reader=reader, options=options)
    frame = session.scan("t", columns=columns, where=where).run(lambda frame: frame.toArrow())
    return [row[frame.column_names[0]] for row in frame.to_pylist()]


@pytest.mark.parametrize("reader", ["spark", "auto", "pushdown"])
@pytest.mark.parametrize("where", [None, "_c0 >= 10"])
def test_columns_contains_every_field_of_lines_of_any_length(
    spark: SparkSession, tmp_path: Path, reader: str, where: str | None
) -> None:
    (tmp_path / "a.csv").write_text(LINES)
    assert _read(spark, tmp_path, ["columns"], reader, where) == [
        ["10", "foo", "bar", None],
        ["20", None, None, None],
        ["30", "x", "y", "z"],
    ]
    assert _read(spark, tmp_path, ["columns[3]"], reader, where) == [None, None, "z"]
    assert _read(spark, tmp_path, ["columns[3, 0]"], reader, where) == [["10", None], ["20", None], ["30", "z"]]


def test_pushdown_finds_fields_after_the_first_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(LINES)
    assert _read(spark, tmp_path, ["columns[3]"], "pushdown", "_c0 = '30'") == ["z"]


def test_a_list_of_columns_is_as_long_as_the_widest_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n2,b\n")
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"3,b,c\n4,b,c,d,e\n"))
    actual = _read(spark, tmp_path, ["columns"], "auto")
    assert sorted(map(str, actual)) == [
        "['1', None, None, None, None]",
        "['2', 'b', None, None, None]",
        "['3', 'b', 'c', None, None]",
        "['4', 'b', 'c', 'd', 'e']",
    ]


@pytest.mark.parametrize(
    ("text", "options", "widest"),
    [
        ('1\n"a,b","c""d,e",f\n', {}, ["a,b", 'c"d,e', "f"]),
        ("1\n'a|b'|'c\\'|d'|f\n", {"sep": "|", "quote": "'"}, ["a|b", "c'|d", "f"]),
        ("1\n#a,b,c,d\nx,y\n", {"comment": "#"}, ["x", "y"]),
        ("1\nx\ty\tz\n", {"sep": "\\t"}, ["x", "y", "z"]),
        ("1\nx::y::z\n", {"sep": "::"}, ["x", "y", "z"]),
    ],
)
def test_separators_in_quotes_and_comments_are_not_counted(
    spark: SparkSession, tmp_path: Path, text: str, options: dict[str, str], widest: list[str]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    first, last = _read(spark, tmp_path, ["columns"], "auto", **options)
    assert first == ["1", *[None] * (len(widest) - 1)]
    assert last == (widest if '""' not in text else _as_spark_unquotes(spark, tmp_path))


def _as_spark_unquotes(spark: SparkSession, path: Path) -> list[str]:
    """Return the last line as Spark reads it: two quotes in a row depend on its escape character."""
    return list(spark.read.schema("a string, b string, c string").csv(str(path)).collect()[-1])


@pytest.mark.parametrize(("mode", "width"), [("DROPMALFORMED", 3), ("PERMISSIVE", 4)])
def test_dropmalformed_keeps_the_width_of_the_first_line(
    spark: SparkSession, tmp_path: Path, mode: str, width: int
) -> None:
    (tmp_path / "a.csv").write_text(LINES)
    assert {len(row) for row in _read(spark, tmp_path, ["columns"], "spark", mode=mode)} == {width}


def test_wide_and_narrow_queries_of_a_session_do_not_change_each_other(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1\n2,b\n")
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path), format="csv", reader="spark")
    for _ in range(2):
        assert session.scan("data").df.columns == ["_c0"]
        wide = session.scan("data", columns=["columns[1] AS second"]).run(lambda frame: frame.toArrow())
        assert wide["second"].to_pylist() == [None, "b"]
