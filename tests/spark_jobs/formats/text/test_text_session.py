"""Scans of JSON and CSV through the session: odd bytes and the options of the parsers change no row."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows
from text_sources import both_readers, text_session

from pushdown_spark.errors import ChangedFilesError, UnreadableFileError
from pushdown_spark.runtime.error_classification import classify


def test_the_error_for_a_truncated_gzip_names_file_and_position(spark: SparkSession, tmp_path: Path) -> None:
    compressed_bytes = gzip.compress(b"\n".join(b'{"id":%d,"name":"%x"}' % (n, n * 7919**5) for n in range(100_000)))
    (tmp_path / "cut.json.gz").write_bytes(compressed_bytes[: len(compressed_bytes) // 2])
    session = text_session(spark, tmp_path, "id bigint, name string", "pushdown")
    with pytest.raises(Exception, match=r"cut\.json\.gz") as error:
        session.scan("data", where="id = 99999").run(sorted_rows)
    assert classify(error.value).code is UnreadableFileError.code


def test_bytes_between_compressed_members_lose_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's bzip2 reader skips these bytes. Python's reader treats them as the end of the file."""
    member = bz2.compress(b'{"id":1}\n')
    (tmp_path / "a.json.bz2").write_bytes(member + b"\0" * 20 + member)
    rows, report = both_readers(spark, tmp_path, "id int", "id = 1")
    assert len(rows) == 2
    assert report.reader == "spark"


def test_bytes_after_a_gzip_member_fail_as_they_do_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"id":1}\n') + b"\0" * 512)
    for reader in ("spark", "pushdown"):
        session = text_session(spark, tmp_path, "id int", reader)
        with pytest.raises(Exception, match=r"a\.json\.gz") as error:
            session.scan("data", where="id = 1").run(sorted_rows)
        assert classify(error.value).code is UnreadableFileError.code


def test_a_file_that_shrinks_after_planning_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    """Another try plans the scan again. Spark's reader may return the rows of the shorter file."""
    path = tmp_path / "a.csv"
    path.write_text("1,needle\n2,needle\n")
    scan = text_session(spark, tmp_path, "a int, b string", "pushdown", "csv").scan("data", where="b = 'needle'")
    assert scan.df.columns == ["a", "b"]
    path.write_text("1,needle\n")
    with pytest.raises(Exception, match=r"a\.csv was longer") as error:
        scan.run(sorted_rows)
    assert classify(error.value).code is ChangedFilesError.code


@pytest.mark.parametrize("option", ["maxColumns", "maxCharsPerColumn"])
def test_limits_of_the_csv_parser_apply_to_every_line(spark: SparkSession, tmp_path: Path, option: str) -> None:
    """Spark fails on a line beyond the limit even if the predicate would drop the line."""
    (tmp_path / "a.csv").write_text("1,needle\n2,x,too,many\n")
    for reader in ("spark", "pushdown"):
        session = text_session(spark, tmp_path, "a int, b string", reader, "csv", **{option: "3"})
        with pytest.raises(Exception, match="Index 3 out of bounds"):
            session.scan("data", where="b = 'needle'").run(sorted_rows)


def _late(line: bytes) -> bytes:
    """Write a file whose sample has nothing unusual. The line lies between the sampled blocks."""
    filler = b'{"id":1,"name":"plain","s":"x"}\n'
    return filler * 100_000 + line + b"\n" + filler * 40_000


@pytest.mark.parametrize(
    "line",
    [
        b'{"id":7,"s":1.50}',
        b'{"id":7,"s":{ "a" : 1 }}',
        b'{"id":7,"s":"\xff"}',
        b'{"id":7,"s":"x"}\x00',
    ],
)
@pytest.mark.parametrize("late", [False, True])
def test_input_that_byte_search_cannot_read_uses_spark(
    spark: SparkSession, tmp_path: Path, line: bytes, late: bool
) -> None:
    content = _late(line) if late else line + b'\n{"id":8,"s":"x"}\n'
    (tmp_path / "a.json").write_bytes(content)
    rows, report = both_readers(spark, tmp_path, "id bigint, s string", "id = 7")
    assert report.reader == "spark"
    assert report.rows_returned == len(rows)


def test_headers_equal_to_data_are_dropped_once_per_file(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_bytes(b"name,id\nname,id\nother,5\nname,7\n")
    rows, report = both_readers(spark, tmp_path, "name string, id string", "name = 'name'", "csv", header="true")
    assert len(rows) == 6
    assert report.reader == "pushdown"


@pytest.mark.parametrize(
    ("options", "content", "where"),
    [
        ({}, b'a,1\n"a",2\n"a""b",3\na\n\n a ,4\n"a\n', "s = 'a'"),
        ({"escape": '"'}, b'"a""b",1\n"a","2",3\n', "s = 'a\"b'"),
        ({"sep": "||"}, b"a||1\n b||2\na||\n", "s = 'a'"),
        ({"sep": "\t", "quote": "'"}, b"'a\tb'\t1\na\t2\n", "s = 'a\tb'"),
        ({"nullValue": "a"}, b"a,1\nb,2\n", "s = 'a' OR i = 2"),
        ({"comment": "#"}, b"#a,1\na,1\n", "s = 'a'"),
        ({"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}, b"  a  ,1\n", "s = 'a'"),
        ({"lineSep": "\n"}, b"1,a\r\nb,2\r\nx\ry,2\n", "i = 2"),
        ({}, b"b,1\rb,2\r\na,2\nx\ry,2\n", "i = 2"),
        ({"emptyValue": "2"}, b'b,""\n', "i = 2"),
        ({"encoding": "us-ascii"}, "é,2\n".encode(), "i = 2"),
        ({}, b"\xef\xbb\xbfa,1\n", "s = 'a'"),
        ({}, b"\xff,1\n\xff\xfe,2\n", "i = 1 OR s = '\ufffd'"),
        ({}, b"a,1,5,6\na\n,1\n", "s = 'a' OR i = 1"),
        ({"timestampFormat": "yyyy"}, b"a,1,2020\n", "i = 1"),
    ],
)
def test_csv_options_return_sparks_rows(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], content: bytes, where: str
) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    both_readers(spark, tmp_path, "s string, i int", where, "csv", **options)
