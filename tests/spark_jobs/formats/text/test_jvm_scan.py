"""Scans that search lines inside the JVM return the rows of Spark's own reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_settings import pushdown_off, searched_by, session_settings
from spark_rows import sorted_rows

from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

SCHEMA = "id bigint, name string, at struct<place:string>"


@pytest.fixture(autouse=True)
def _inside_the_jvm(spark: SparkSession) -> Iterator[None]:
    with searched_by("jvm"), pushdown_off(spark):
        yield


def _json(rows: int) -> str:
    lines = [{"id": n, "name": f"n{n}", "at": {"place": "needle" if n % 10 == 3 else "hay"}} for n in range(rows)]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _scan(
    spark: SparkSession,
    path: Path,
    where: str,
    source_format: str = "json",
    schema: str = SCHEMA,
    reader: str = "pushdown",
    columns: list[str] | None = None,
    **options: str,
) -> PushdownResult:
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format=source_format, schema=schema, options=options, reader=reader)
    return session.scan("t", columns=columns, where=where)


def test_the_report_shows_lines_and_bytes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(_json(100))
    result = _scan(spark, path, "at.place = 'needle'")
    assert len(result.run(sorted_rows)) == 10
    report = result.report()["t"]
    assert (report.reader, report.carrier) == ("pushdown", "jvm")
    assert report.bytes_read == path.stat().st_size
    assert report.rows_decoded == 10
    assert report.skipped == {"lines never parsed": 90}
    assert report.conjuncts[0].pushed_as == "strings of place: needle"


@pytest.mark.parametrize("carriers", [("workers", "jvm"), ("jvm",)])
def test_files_with_a_codec_of_hadoop_are_searched(
    spark: SparkSession, tmp_path: Path, carriers: tuple[str, ...]
) -> None:
    (tmp_path / "data.json").write_text(_json(300))
    compressed_path = str(tmp_path / "packed")
    spark.read.text(str(tmp_path / "data.json")).write.option("compression", "deflate").text(compressed_path)
    with searched_by(*carriers):
        result = _scan(spark, Path(compressed_path), "at.place = 'needle' AND id > 100")
        assert result.run(sorted_rows) == sorted_rows(
            spark.read.schema(SCHEMA).json(compressed_path).where("at.place = 'needle' AND id > 100")
        )
    assert result.report()["t"].carrier == "jvm", result.report()["t"].reason


def test_partitions_and_file_columns_have_sparks_values(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__"):
        folder = tmp_path / f"day={day}" / "sub=a b%20ü"
        folder.mkdir(parents=True)
        (folder / "part+1 %.json").write_text(_json(50))
    columns = ["id", "day", "sub", "filename", "filepath", "fqn", "suffix", "size", "modified", "dir0"]
    where = "at.place = 'needle' AND (day > DATE'2024-01-01' OR day IS NULL)"
    schema = f"{SCHEMA}, day date, sub string"
    result = _scan(spark, tmp_path, where, schema=schema, columns=columns)
    assert result.run(sorted_rows) == _scan(spark, tmp_path, where, schema=schema, columns=columns, reader="spark").run(
        sorted_rows
    )
    report = result.report()["t"]
    assert report.carrier == "jvm", report.reason
    assert report.files_total == 2
    assert report.bytes_read == 2 * len(_json(50))


def test_a_header_with_a_string_of_the_predicate_is_not_a_row(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,Ada\n2,name\n")
    (tmp_path / "b.csv").write_text("# name\n\n#x\nid,name\n3,name\n")
    schema, where = "id int, name string", "name = 'name'"
    result = _scan(spark, tmp_path, where, "csv", schema, header="true", comment="#")
    assert result.run(sorted_rows) == ["Row(id=2, name='name')", "Row(id=3, name='name')"]
    assert result.report()["t"].reader == "spark"
    assert "header" in result.report()["t"].reason
    other = _scan(spark, tmp_path, "name = 'Ada'", "csv", schema, header="true", comment="#")
    assert other.run(sorted_rows) == ["Row(id=1, name='Ada')"]
    assert other.report()["t"].carrier == "jvm"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-16"])
def test_lines_in_another_encoding_use_spark(spark: SparkSession, tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "data.json"
    line = '{"id":1,"name":"x","at":{"place":"needle"}}'
    path.write_bytes(_json(20).encode() + line.encode(encoding) + b"\n")
    result = _scan(spark, path, "at.place = 'needle'")
    assert result.run(sorted_rows) == sorted_rows(
        spark.read.schema(SCHEMA).json(str(path)).where("at.place = 'needle'")
    )
    assert result.report()["t"].reader == "spark"


def test_lines_after_byte_order_marks_match_and_invalid_utf8_uses_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    line = b'{"id":1,"name":"x","at":{"place":"needle"}}\n'
    path.write_bytes(b"\xef\xbb\xbf" + line + b"\xef\xbb\xbf" + line)
    result = _scan(spark, path, "at.place = 'needle'")
    assert result.run(sorted_rows) == sorted_rows(
        spark.read.schema(SCHEMA).json(str(path)).where("at.place = 'needle'")
    )
    assert result.report()["t"].carrier == "jvm"
    path.write_bytes(line + line.replace(b"needle", b"n\xc1\xa5edle"))
    result = _scan(spark, path, "at.place = 'needle'")
    assert result.run(sorted_rows) == sorted_rows(
        spark.read.schema(SCHEMA).json(str(path)).where("at.place = 'needle'")
    )
    assert "UTF-8" in result.report()["t"].reason


def test_a_range_predicate_has_no_string_to_search_and_uses_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("1,a\n20,b\n")
    result = _scan(spark, path, "id > 7", "csv", "id int, name string")
    assert result.run(sorted_rows) == ["Row(id=20, name='b')"]
    assert "string" in result.report()["t"].reason


def test_auto_leaves_an_early_key_of_long_lines_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    text = "x" * 900
    lines = [f'{{"id":{n},"kind":"k{n % 1000}","text":"{text}","last":"l{n % 1000}"}}\n' for n in range(1_000)]
    path.write_text("".join(lines) * 300)
    schema = "id bigint, kind string, text string, last string"
    with session_settings(spark, {"spark.sql.json.filterPushdown.enabled": "true"}), searched_by("workers", "jvm"):
        early = _scan(spark, path, "kind = 'k777'", schema=schema, reader="auto").report()["t"]
        late = _scan(spark, path, "last = 'l777'", schema=schema, reader="auto").report()["t"]
    assert early.reader == "spark", early.reason
    assert late.reader == "pushdown", late.reason


def test_long_lines_do_not_exhaust_the_stack(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    long = '\\"x' * 200_000
    strings = ",".join(f'"s{number}"' for number in range(100_000))
    lines = [f'{{"id":{n},"name":"{long}","tags":["{long}",{strings}],"at":{{"place":"needle"}}}}' for n in range(2)]
    lines.append(lines[0][:-20])
    path.write_text("\n".join(lines) + "\n")
    schema = "id bigint, name string, tags array<string>, at struct<place:string>"
    result = _scan(spark, path, "at.place = 'needle' AND tags IS NOT NULL", schema=schema)
    assert len(result.run(sorted_rows)) == 2
    assert result.report()["t"].carrier == "jvm", result.report()["t"].reason


def test_lines_of_blanks_that_spark_does_not_trim_are_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("\x85\x85\x85\n \t\x1f\nabc\n", encoding="utf-8")
    result = _scan(spark, path, "s IN ('\x85\x85\x85', ' \t\x1f')", "csv", "s string")
    assert [row.s for row in result.run(lambda frame: frame.collect())] == ["\x85\x85\x85"]
    assert result.report()["t"].carrier == "jvm", result.report()["t"].reason


def test_both_sides_of_a_join_have_their_own_implicit_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "left.json").write_text(_json(30))
    (tmp_path / "right.json").write_text(_json(20))
    session = PushdownSession(spark)
    for name in ("left", "right"):
        path = str(tmp_path / f"{name}.json")
        session.add_source(name, path=path, format="json", schema=SCHEMA, reader="pushdown")
    query = session.sql(
        "SELECT l.id, l.filename AS one, r.filename AS other FROM left l JOIN right r ON l.id = r.id "
        "WHERE l.at.place = 'needle' AND r.at.place = 'needle'"
    )
    actual = query.run(sorted_rows)
    assert actual == [f"Row(id={n}, one='left.json', other='right.json')" for n in (13, 3)]
    assert [report.carrier for report in query.report().values()] == ["jvm", "jvm"]


@pytest.mark.parametrize("carrier", ["workers", "jvm"])
@pytest.mark.parametrize("file_format", ["json", "csv"])
def test_scans_without_remaining_directories_have_no_rows(
    spark: SparkSession, tmp_path: Path, file_format: str, carrier: str
) -> None:
    for letter in "bc":
        spark.sql("SELECT 12345 AS k").coalesce(1).write.format(file_format).save(str(tmp_path / f"p={letter}"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path), format=file_format, schema="k int", reader="pushdown")
    with searched_by(carrier):
        result = session.scan("t", columns=["k", "p"], where="p LIKE 'A' AND k BETWEEN 12345 AND 12346")
        assert result.run(lambda frame: frame.collect()) == []
    assert result.df.columns == ["k", "p"]
