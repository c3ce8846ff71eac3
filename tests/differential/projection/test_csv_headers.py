"""CSV with a declared schema: columns are matched by header names, else by position as in Spark, with any reader."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typed_results import rows_of, sorted_rows

from pushdown_spark.session import PushdownSession

pytestmark = pytest.mark.usefixtures("carrier")

READERS = ("spark", "pushdown")
DECLARED = "id int, name string, more string"
ROWS = [(1, "Ada", None), (2, "Bo", None)]
WHERE = "id IN (1, 2)"
VARIANTS: dict[str, dict[str, str]] = {
    "plain": {},
    "gzip": {},
    "with a byte order mark": {},
    "multiLine": {"multiLine": "true"},
    "lineSep": {"lineSep": "\n"},
    "UTF-16": {"encoding": "UTF-16LE", "multiLine": "true"},
    "separators of two signs": {"sep": "||"},
    "types inferred": {"inferSchema": "true"},
    "broken files skipped": {"ignoreCorruptFiles": "true"},
}


def write_files(directory: Path, way: str, *contents: str) -> str:
    """Write the files p0, p1, ... with these contents, in one of the variants. Return their path."""
    for number, text in enumerate(contents):
        path = directory / f"p{number}.csv{'.gz' if way == 'gzip' else ''}"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = text.replace(",", VARIANTS[way].get("sep", ","))
        raw = ("\ufeff" * (way == "with a byte order mark") + text).encode(VARIANTS[way].get("encoding", "UTF-8"))
        path.write_bytes(gzip.compress(raw) if way == "gzip" else raw)
    return str(directory)


def rows(
    spark: SparkSession, path: str, reader: str, schema: str = DECLARED, where: str = WHERE, **options: str
) -> list[str]:
    session = PushdownSession(spark)
    options = {"header": "true", **options}
    session.add_source("data", path=path, format="csv", schema=schema, options=options, reader=reader)
    return session.scan("data", where=where).run(rows_of)


@pytest.mark.parametrize("way", VARIANTS)
def test_columns_are_matched_by_name_with_both_readers(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = write_files(tmp_path, way, "name,id\nAda,1\n", "id,else,name\n2,x,Bo\n")
    for reader in READERS:
        assert rows(spark, path, reader, **VARIANTS[way]) == sorted_rows(ROWS), reader


@pytest.mark.parametrize("way", VARIANTS)
def test_headers_in_the_declared_order_return_sparks_rows(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = write_files(tmp_path, way, "id,name,more\n1,Ada,\n", "ID,Name,More\n2,Bo,\n")
    own = spark.read.options(header="true", **VARIANTS[way]).schema(DECLARED).csv(path)
    for reader in READERS:
        assert rows(spark, path, reader, **VARIANTS[way]) == rows_of(own) == sorted_rows(ROWS), reader


@pytest.mark.parametrize("way", VARIANTS)
def test_headers_without_known_names_are_matched_by_position_as_in_spark(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    path = write_files(tmp_path, way, "number,called\n1,Ada\n2,Bo\n")
    own = spark.read.options(header="true", **VARIANTS[way]).schema(DECLARED).csv(path)
    for reader in READERS:
        assert rows(spark, path, reader, **VARIANTS[way]) == rows_of(own) == sorted_rows(ROWS), reader


HEADERS: list[tuple[str, dict[str, str]]] = [
    ('"name","id"', {}),
    ("'name','id'", {"quote": "'"}),
    ("name,id", {"quote": "n", "escape": "e"}),
    ('"first name",net (EUR)', {}),
    ("share in %,km/h", {}),
    ("share in %,km/h", {"escape": "/", "quote": "%"}),
    (' name ,"id "', {}),
    (' name ,"id "', {"ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}),
    ('"name" ,"id"', {}),
    ('"a""b","c\\"d"', {}),
    ('"a,b",c', {}),
    ('"a.b","A.B"', {}),
    ('"","id"', {}),
    ('"-",id', {"nullValue": "-"}),
    ('"a-b",a:b', {"nullValue": "a-b"}),
]


@pytest.mark.parametrize(("header", "options"), HEADERS)
def test_headers_give_the_names_of_spark(
    spark: SparkSession, tmp_path: Path, header: str, options: dict[str, str]
) -> None:
    path = write_files(tmp_path, "plain", f"{header}\n1,2\n", f"{header}\n3,4\n")
    session = PushdownSession(spark)
    session.add_source("data", path=path, format="csv", options={"header": "true", **options}, reader="pushdown")
    assert session.scan("data").df.columns == spark.read.options(header="true", **options).csv(path).columns


def test_a_header_after_many_comments_is_found(spark: SparkSession, tmp_path: Path) -> None:
    comments = f"# {'x' * 98}\n" * 2_000
    path = write_files(tmp_path, "plain", "id,name\n1,Ada\n", f"{comments}name,id\nBo,2\n")
    for reader in READERS:
        assert rows(spark, path, reader, comment="#") == sorted_rows(ROWS), reader


def test_partition_directories_do_not_change_the_matching(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path / "k=1", "plain", "name,id\nAda,1\n")
    write_files(tmp_path / "k=2", "plain", "id,name\n2,Bo\n")
    for reader in READERS:
        actual = rows(spark, str(tmp_path), reader, f"{DECLARED}, k int")
        assert actual == sorted_rows([(1, "Ada", None, 1), (2, "Bo", None, 2)])


def test_without_enforce_schema_spark_checks_names_and_matches_by_position(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, "plain", "id,name,more\n1,Ada,\n2,Bo,\n")
    own = spark.read.options(header="true", enforceSchema="false").schema(DECLARED).csv(path)
    for reader in READERS:
        assert rows(spark, path, reader, enforceSchema="false") == rows_of(own)


def test_files_without_header_are_matched_by_position_as_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, "plain", "1,Ada\n", "2,Bo,\n")
    own = spark.read.options(header="false").schema(DECLARED).csv(path)
    for reader in READERS:
        assert rows(spark, path, reader, header="false") == rows_of(own) == sorted_rows(ROWS)


def test_the_report_shows_how_columns_are_matched(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, "plain", "number,called\n1,Ada\n")
    session = PushdownSession(spark)
    session.add_source("data", path=path, format="csv", schema=DECLARED, options={"header": "true"})
    notes = session.scan("data").report()["data"].notes
    assert "no header has a name of the declared schema, so columns are matched by position" in notes


@pytest.mark.parametrize("headers", [("name,id", "id,else,name"), ("id,name,more", "more,id,name")])
def test_malformed_lines_are_kept_in_their_column_with_any_header(
    spark: SparkSession, tmp_path: Path, headers: tuple[str, str]
) -> None:
    lines = [[header, *(",".join("x" for _ in header.split(",")) for _ in range(2))] for header in headers]
    path = write_files(tmp_path, "plain", *("\n".join(file) + "\n" for file in lines))
    schema = "id int, name string, _broken string, more string"
    expected = [(None, "x", line[1], "x" if "more" in line[0] else None) for line in lines for _ in range(2)]
    for reader in ("auto", *READERS):
        broken_rows = rows(spark, path, reader, schema, "_broken LIKE 'x%'", columnNameOfCorruptRecord="_broken")
        assert broken_rows == sorted_rows(expected), reader


def test_records_in_one_column_are_read_from_several_files(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path, "plain", "id,name\n1,Ada\n", "id,name\n2,Bo\n")
    own = spark.read.options(header="true", singleVariantColumn="record").csv(path)
    for reader in ("auto", *READERS):
        session = PushdownSession(spark)
        options = {"header": "true", "singleVariantColumn": "record"}
        session.add_source("data", path=path, format="csv", options=options, reader=reader)
        records = session.scan("data").run(lambda frame: frame.selectExpr("to_json(struct(*)) AS record").collect())
        assert sorted(records) == sorted(own.selectExpr("to_json(struct(*)) AS record").collect()), reader
