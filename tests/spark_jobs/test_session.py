"""A session returns Spark's rows, reads no more than necessary, and reports what it read."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from session_settings import searched_by, session_settings
from spark_rows import sorted_rows
from text_sources import both_readers, text_session

from pushdown_spark.contract import IntervalSpec, QuerySpec
from pushdown_spark.errors import BadPredicateError, BadSchemaError, BadSpecError, PushdownError, UnknownColumnError
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

SCHEMA = "id bigint, name string, at timestamp, day date, price decimal(10,2), place struct<city: string, zip: int>"


def _records(count: int) -> list[bytes]:
    return [
        json.dumps(
            {
                "id": n,
                "name": f"name {n % 100}",
                "at": f"2024-01-{n % 28 + 1:02d}T12:00:00",
                "day": f"2024-02-{n % 28 + 1:02d}",
                "price": n / 4,
                "place": {"city": f"c{n % 7}", "zip": n % 1000},
            }
        ).encode()
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write four files of 500 records each below directories. One is compressed with gzip."""
    folder = tmp_path_factory.mktemp("data")
    records = _records(2000)
    for part in range(4):
        target = folder / f"y{part % 2}" / f"part{part}.json"
        target.parent.mkdir(exist_ok=True)
        content = b"\n".join(records[part * 500 : part * 500 + 500]) + b"\n"
        if part == 3:
            target.with_suffix(".json.gz").write_bytes(gzip.compress(content))
        else:
            target.write_bytes(content)
    return folder


def _stored_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("part*"))


@pytest.mark.parametrize(
    "where",
    [
        "id = 1234",
        "name = 'name 7' AND price > 100",
        "day BETWEEN '2024-02-03' AND '2024-02-04'",
        "place.city = 'c3' AND place.zip < 20",
        "id IN (1, 501, 1001, 1501) OR name LIKE '%me 99%'",
        "at >= '2024-01-05' AND at < '2024-01-06'",
    ],
)
def test_both_readers_return_the_same_rows(spark: SparkSession, folder: Path, where: str) -> None:
    rows, report = both_readers(spark, folder, SCHEMA, where, recursiveFileLookup="true")
    assert rows
    assert report.reader == "pushdown"
    assert report.rows_returned == len(rows)
    assert report.files_read == report.files_total == 4
    assert report.bytes_read == report.bytes_total == _stored_bytes(folder)
    assert report.bytes_searched is not None
    assert report.bytes_searched > report.bytes_read
    assert report.rows_decoded is not None
    assert len(rows) <= report.rows_decoded < 1000


def test_columns_members_and_implicit_columns_agree(spark: SparkSession, folder: Path) -> None:
    columns = ["place.city", "id", "filename", "dir0", "suffix", "fqn"]
    results = []
    for reader in ("spark", "pushdown"):
        result = text_session(spark, folder, SCHEMA, reader, recursiveFileLookup="true").scan(
            "data", columns=columns, where="id IN (3, 700, 1600) AND dir0 LIKE 'y%'"
        )
        results.append((result.run(sorted_rows), result.df.columns))
        assert result.report()["data"].reader == reader
    assert results[0] == results[1]
    assert len(results[0][0]) == 3


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, name FROM data WHERE id = 77",
        "SELECT d.id AS x, d.place.city FROM data d WHERE d.id BETWEEN 10 AND 12 ORDER BY x",
        "SELECT name, count(*) AS n FROM data WHERE name = 'name 5' GROUP BY name HAVING count(*) > 1",
        "SELECT count(*) FROM data WHERE id < 0",
        "SELECT id FROM data TABLESAMPLE (5 ROWS) WHERE id = 1999",
        "SELECT id FROM data WHERE name = '\\u006eame 7'",
        "SELECT id FROM data WHERE (data.place.city = 'c1' OR data.id = 5) AND id < 20",
    ],
)
def test_sql_returns_the_same_rows_with_both_readers(spark: SparkSession, folder: Path, query: str) -> None:
    results = [
        text_session(spark, folder, SCHEMA, reader, recursiveFileLookup="true").sql(query).run(sorted_rows)
        for reader in ("spark", "pushdown")
    ]
    assert results[0] == results[1]


def test_sql_reads_exactly_one_declared_source(spark: SparkSession, folder: Path) -> None:
    session = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true")
    with pytest.raises(BadSpecError, match="data"):
        session.sql("SELECT * FROM other")
    with pytest.raises(BadSpecError, match="SELECT"):
        session.sql("DROP TABLE data")


def test_sql_over_a_source_is_not_sql_over_a_table_of_another_database(spark: SparkSession, folder: Path) -> None:
    spark.sql("CREATE DATABASE elsewhere")
    try:
        spark.sql("CREATE TABLE elsewhere.data USING parquet AS SELECT 1 AS id")
        session = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true")
        with pytest.raises(BadSpecError, match=r"elsewhere\.data"):
            session.sql("SELECT id FROM elsewhere.data")
    finally:
        spark.sql("DROP DATABASE elsewhere CASCADE")


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
@pytest.mark.parametrize("query", ["SELECT name FROM data WHERE id = 77", "SELECT name FROM data ORDER BY nothing"])
def test_sql_does_not_change_views_of_the_session(spark: SparkSession, folder: Path, reader: str, query: str) -> None:
    users = spark.range(3).withColumnRenamed("id", "mine").cache()
    users.createOrReplaceTempView("data")
    try:
        before = spark.catalog.listTables()
        session = text_session(spark, folder, SCHEMA, reader, recursiveFileLookup="true")
        if "nothing" in query:
            with pytest.raises(UnknownColumnError, match="nothing"):
                session.sql(query)
        else:
            assert session.sql(query).run(sorted_rows) == ["Row(name='name 77')"]
        assert spark.catalog.listTables() == before
        assert sorted_rows(spark.table("data")) == ["Row(mine=0)", "Row(mine=1)", "Row(mine=2)"]
        assert spark.catalog.isCached("data")
    finally:
        spark.catalog.dropTempView("data")
        users.unpersist()


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_sql_drops_its_views(spark: SparkSession, folder: Path, reader: str) -> None:
    before = spark.catalog.listTables()
    text_session(spark, folder, SCHEMA, reader, recursiveFileLookup="true").sql("SELECT id FROM data WHERE id = 1").run(
        sorted_rows
    )
    assert spark.catalog.listTables() == before


def _many_files(tmp_path: Path, count: int) -> Path:
    for number in range(count):
        (tmp_path / f"part{number:03d}.json").write_bytes(b"\n".join(_records(50)) + b"\n")
    return tmp_path


def test_a_limit_opens_only_a_few_files(spark: SparkSession, tmp_path: Path) -> None:
    session = text_session(spark, _many_files(tmp_path, 100), SCHEMA, "pushdown")
    result = session.scan("data", where="name = 'name 7'", limit=10)
    rows = result.run(lambda frame: frame.collect())
    report = result.report()["data"]
    assert len(rows) == 10
    assert result.rows == 10
    assert {row["name"] for row in rows} == {"name 7"}
    assert report.files_total == 100
    assert report.files_read is not None
    assert report.files_read < 50


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_a_limit_changes_no_value(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    """Java's older dates lack ten days of 1582, and its strings have no bytes other than UTF-8."""
    day = "DATE '1582-10-10'"
    values = (f"{day} AS day", f"array(struct({day})) AS days", "TIMESTAMP '1582-10-10 01:02:03.000004' AS moment")
    spark.range(20).selectExpr("id", *values, "CAST(X'ff41' AS STRING) AS text").write.orc(str(tmp_path / "t"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "t"), format="orc", reader=reader)
    for columns in (["day", "days", "moment"], ["text"]):
        columns_as_text = [f"hex({name})" if name == "text" else f"CAST({name} AS STRING)" for name in columns]
        result = session.scan("t", columns=columns, where="id >= 3", limit=2)
        actual = result.run(lambda frame, columns_as_text=columns_as_text: frame.selectExpr(*columns_as_text).collect())
        assert actual == result.df.selectExpr(*columns_as_text).limit(2).collect()


def test_a_large_limit_does_not_open_all_files(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}.json").write_bytes(b'{"i":1}\n' * 30_000)
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path), format="json", schema="i int", reader="pushdown")
    result = session.scan("data", where="i = 1", limit=120_000)
    rows = result.run(lambda frame: frame.count())
    report = result.report()["data"]
    assert (rows, result.rows, report.rows_returned) == (120_000, 120_000, 120_000)
    assert report.files_read == 4
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


@pytest.mark.parametrize(("limit", "expected"), [(0, 0), (1, 1), (19, 19), (20, 20), (21, 20), (200_000, 20)])
def test_incremental_scans_return_exactly_the_limit(
    spark: SparkSession, folder: Path, limit: int, expected: int
) -> None:
    result = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true").scan(
        "data", columns=["id"], where="name = 'name 7'", limit=limit
    )
    ids = result.run(lambda frame: [row.id for row in frame.collect()])
    assert len(ids) == len(set(ids)) == expected


def test_incremental_scans_continue_if_candidates_do_not_match(spark: SparkSession, tmp_path: Path) -> None:
    """Every line is a candidate, but only the last lines satisfy the predicate."""
    lines = [b'{"id":%d,"name":"needle%d"}' % (n, n >= 2990) for n in range(3000)]
    (tmp_path / "a.json").write_bytes(b"\n".join(lines))
    result = text_session(spark, tmp_path, SCHEMA, "pushdown").scan(
        "data", where="name LIKE '%needle%' AND name <> 'needle0'", limit=10
    )
    assert sorted(result.run(lambda frame: [row.id for row in frame.collect()])) == list(range(2990, 3000))


def test_incremental_scans_end_if_spark_finds_that_no_row_matches(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's optimizer knows that no decimal(5,0) is 9.99, and runs no task."""
    (tmp_path / "a.json").write_bytes(b'{"id":1,"price":9}\n{"id":1,"price":10}\n')
    with searched_by("workers"):
        session = text_session(spark, tmp_path, "id int, price decimal(5,0)", "pushdown")
        result = session.scan("data", where="price = 9.99 AND id = 1", limit=10)
        assert result.run(lambda frame: frame.collect()) == []
    assert result.report()["data"].reader == "pushdown"


@pytest.mark.parametrize(("name", "of_source"), [("source", ""), ("other", " of source 'other'")])
def test_errors_name_the_parameter_and_the_source_if_there_are_several(
    spark: SparkSession, tmp_path: Path, name: str, of_source: str
) -> None:
    session = PushdownSession(spark)
    session.add_source(name, path=str(tmp_path / "none"), format="json", schema="a int")
    with pytest.raises(PushdownError, match=f"^path{of_source}: Path does not exist"):
        session.scan(name)
    session.add_source(name, path=str(tmp_path), format="json", schema="a nonsense(")
    with pytest.raises(BadSchemaError, match=f"^schema{of_source}: "):
        session.scan(name)


def test_a_schema_that_text_files_cannot_have_raises(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line\n")
    session = PushdownSession(spark)
    session.add_source("source", path=str(tmp_path), format="text", schema="title int")
    with pytest.raises(BadSpecError, match=r"^schema: The Text datasource doesn't support the column `title`"):
        session.scan("source")


def test_the_report_has_the_reason_if_spark_reads(spark: SparkSession, folder: Path) -> None:
    session = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true")
    for where in ("name IS NULL", "id + 1 = 5", "name IS NOT NULL OR id IS NULL", "length(name) = 6"):
        report = session.scan("data", where=where).report()["data"]
        assert report.reader == "spark"
        assert "no conjunct implies bytes" in report.reason
    assert (
        "mode="
        in text_session(spark, folder, SCHEMA, "pushdown", mode="DROPMALFORMED").scan("data", where="id = 1").explain()
    )


def test_a_struct_with_the_name_of_the_source_hides_no_column(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'{"x":"abc","data":{"x":5}}\n{"x":"5","data":{"x":7}}\n')
    schema = "x string, data struct<x: int>"
    both_readers(spark, tmp_path, schema, "data.x = 5")
    session = text_session(spark, tmp_path, schema, "pushdown")
    assert session.sql("SELECT x FROM data WHERE data.x = 'abc'").run(sorted_rows) == ["Row(x='abc')"]


@pytest.mark.parametrize(
    ("key", "value", "where"),
    [
        ("spark.sql.ansi.doubleQuotedIdentifiers", "true", 'a = "b"'),
        ("spark.sql.caseSensitive", "true", "a = 'x' OR A = 'y'"),
        ("spark.sql.json.enablePartialResults", "false", "a = 'x'"),
        ("spark.sql.legacy.timeParserPolicy", "LEGACY", "d = '2020-01-01'"),
        ("spark.sql.json.enableExactStringParsing", "false", "a = '[1,2]'"),
        ("spark.sql.session.timeZone", "Pacific/Kiritimati", "t = '2020-01-01'"),
        ("spark.sql.columnNameOfCorruptRecord", "a", "a LIKE '%oops%'"),
    ],
)
def test_settings_that_change_values_apply_to_both_readers(
    spark: SparkSession, tmp_path: Path, key: str, value: str, where: str
) -> None:
    (tmp_path / "a.json").write_bytes(
        b'{"a":"x","b":"x","d":"2020-01-01 ","t":"2019-12-31T10:00:00Z"}\n{"a":"b","d":"2020-1-1"}\n'
        b'{"a":[ 1, 2 ]}\n{"A":"y"}\n{"oops\n{"a":"x","d":[]}\n'
    )
    both = "a string, A string, d date"
    schema = both if key.endswith("caseSensitive") else "a string, b string, d date, t timestamp"
    with session_settings(spark, {"spark.sql.ansi.enabled": "true", key: value}):
        rows, _ = both_readers(spark, tmp_path, schema, where)
        assert rows


@pytest.mark.parametrize("word", ["symmetric", "asymmetric"])
@pytest.mark.parametrize("source_format", ["json", "csv"])
def test_a_column_named_symmetric_is_part_of_the_lower_bound(
    spark: SparkSession, tmp_path: Path, word: str, source_format: str
) -> None:
    rows = [(-10, -20), (2, 0), (9, 0)]
    text = {
        "json": "".join(f'{{"a":{a},"{word}":{b}}}\n' for a, b in rows),
        "csv": "".join(f"{a},{b}\n" for a, b in rows),
    }
    (tmp_path / "a.txt").write_text(text[source_format])
    actual, _ = both_readers(spark, tmp_path, f"a int, {word} int", f"a BETWEEN {word} -5 AND 3", source_format)
    assert len(actual) == 2


@pytest.mark.parametrize("value", ["true", "TRUE", " True "])
def test_double_quotes_enclose_names_whatever_the_case_of_the_setting(
    spark: SparkSession, tmp_path: Path, value: str
) -> None:
    (tmp_path / "a.json").write_bytes(b'{"a":"x","b":"x"}\n{"a":"b","b":"y"}\n')
    session = text_session(spark, tmp_path, "a string, b string", "pushdown")
    with session_settings(spark, {"spark.sql.ansi.doubleQuotedIdentifiers": value}):
        assert session.sql('SELECT a, b FROM data WHERE a = "b"').run(sorted_rows) == ["Row(a='x', b='x')"]


@pytest.mark.parametrize(
    "where", ["id = 2147483647 + 1", "id = CAST('abc' AS INT)", "day = DATE'+12345-01-01' + INTERVAL 1 DAY"]
)
def test_constants_beyond_python_or_ansi_do_not_fail_the_plan(spark: SparkSession, folder: Path, where: str) -> None:
    with session_settings(spark, {"spark.sql.ansi.enabled": "true"}):
        session = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true")
        report = session.scan("data", where=where).report()["data"]
    assert report.reader == "spark"


@pytest.mark.parametrize("source_format", ["json", "parquet", "orc"])
def test_a_predicate_that_only_spark_parses_may_need_any_struct_member(
    spark: SparkSession, tmp_path: Path, source_format: str
) -> None:
    frame = spark.sql("SELECT named_struct('b', id, 'c', id + 1) AS m FROM range(5)")
    frame.write.format(source_format).save(str(tmp_path / "data"))
    session = PushdownSession(spark)
    session.add_source("t", path=str(tmp_path / "data"), format=source_format, schema="m struct<b: bigint, c: bigint>")
    scan = session.scan("t", columns=["m.b"], where="m.c = 3 AND 'a' 'b' = 'ab'")
    assert [row.b for row in scan.df.collect()] == [2]


@pytest.mark.nightly
def test_long_predicates_are_planned(spark: SparkSession, folder: Path) -> None:
    session = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true")
    many = ", ".join(str(n) for n in range(0, 20_000, 4))
    either = " OR ".join(f"id = {n}" for n in range(0, 600))
    every = " AND ".join(f"id <> {n}" for n in range(0, 600))
    assert len(session.scan("data", where=f"id IN ({many})").run(sorted_rows)) == 500
    assert len(session.scan("data", where=either).run(sorted_rows)) == 600
    assert session.scan("data", where=f"name = 'name 7' AND {every}").run(lambda frame: frame.count()) == 14


def test_counts_are_not_doubled_by_a_second_run(spark: SparkSession, folder: Path) -> None:
    result = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true").scan("data", where="id = 5")

    def twice(frame: DataFrame) -> Sequence[object]:
        frame.collect()
        return frame.collect()

    result.run(twice)
    assert result.report()["data"].bytes_read == _stored_bytes(folder)


def test_the_report_of_a_run_does_not_change_after_it(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(100).write.orc(str(tmp_path / "t"))
    session = PushdownSession(spark)
    session.add_source("data", path=str(tmp_path / "t"), format="orc", reader="spark")
    result = session.scan("data", where="id >= 0 AND id % 10 = 0")
    result.run(lambda frame: frame.collect())
    result.df.collect()
    shutil.rmtree(tmp_path / "t")
    report = result.report()["data"]
    assert (report.rows_decoded, report.rows_returned) == (100, 10)
    assert list(report.pushed) == ["id >= 0"]
    assert report.bytes_total > 0


def test_before_a_run_the_report_is_the_plan(spark: SparkSession, folder: Path) -> None:
    result: PushdownResult = text_session(spark, folder, SCHEMA, "pushdown", recursiveFileLookup="true").scan(
        "data", where="id = 5 AND length(name) = 6"
    )
    report = result.report()["data"]
    assert (report.bytes_read, report.rows_returned, result.rows) == (None, None, None)
    assert [c.sql for c in report.conjuncts] == ["id = 5", "LENGTH(name) = 6"]
    assert list(report.pushed) == ["id = 5"]
    assert "pushdown reader" in result.explain()
    assert result.df.isEmpty() is False


def test_mistakes_raise_when_the_scan_is_planned(spark: SparkSession, folder: Path) -> None:
    session = text_session(spark, folder, SCHEMA, "auto", recursiveFileLookup="true")
    with pytest.raises(UnknownColumnError, match="name"):
        session.scan("data", columns=["nam"])
    with pytest.raises(BadPredicateError):
        session.scan("data", where="id = = 5")
    with pytest.raises(BadSpecError, match="no source"):
        session.scan("dat")
    with pytest.raises(BadSpecError, match="format"):
        session.add_source("x", path="/x", format="xls")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"on_missing_column": "nul"}, "source 'x': on_missing_column: Input should be 'null' or 'error'"),
        ({"nonsense": 1}, "source 'x': nonsense: "),
        ({"max_malformed": 0}, "source 'x': max_malformed: only jobs have this limit; remove it"),
    ],
)
def test_invalid_fields_of_a_source_are_errors(spark: SparkSession, fields: dict[str, object], message: str) -> None:
    with pytest.raises(BadSpecError, match=f"^{message}"):
        PushdownSession(spark).add_source("x", path="/x", format="json", **fields)


def test_fields_of_a_source_that_are_none_have_their_defaults(spark: SparkSession) -> None:
    without, with_none = PushdownSession(spark), PushdownSession(spark)
    without.add_source("a", path="/x", format="json")
    none = dict.fromkeys(("schema", "options", "reader", "orc", "on_schema_conflict", "implicit_names"))
    with_none.add_source("a", path=("/x",), format="json", **none)
    assert with_none._sources == without._sources


INTERVAL = IntervalSpec(
    column="at", start=datetime(2026, 1, 1, tzinfo=UTC), end=datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=1)))
)


@pytest.fixture
def interval_session(spark: SparkSession, tmp_path: Path) -> PushdownSession:
    """A source whose rows 1 and 2 are in the interval."""
    times = ("2025-12-31T23:59:59.999Z", "2026-01-01T00:00:00Z", "2026-01-01T22:59:59.999999Z", "2026-01-01T23:00:00Z")
    lines = (f'{{"id":{number},"at":"{time}"}}\n' for number, time in enumerate(times))
    (tmp_path / "a.json").write_text("".join(lines))
    return text_session(spark, tmp_path, "id int, at timestamp", "pushdown")


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        (None, ["Row(id=1)", "Row(id=2)"]),
        ("id = 1 OR id = 3 -- a comment", ["Row(id=1)"]),
        ("id > 5", []),
    ],
)
def test_rows_are_in_the_interval_whatever_the_predicate(
    interval_session: PushdownSession, where: str | None, rows: list[str]
) -> None:
    assert (
        interval_session.query(QuerySpec(source="data", columns=("id",), where=where, interval=INTERVAL)).run(
            sorted_rows
        )
        == rows
    )


def test_a_predicate_that_leaves_its_parentheses_is_an_error(interval_session: PushdownSession) -> None:
    with pytest.raises(BadPredicateError, match=r"^where: "):
        interval_session.query(QuerySpec(source="data", where="id = 1) OR (id = 3", interval=INTERVAL))


def test_an_interval_of_an_expression_is_an_error(interval_session: PushdownSession) -> None:
    interval = INTERVAL.model_copy(update={"column": "id = 3 OR at"})
    with pytest.raises(BadSpecError, match=r"^data_interval: 'id = 3 OR at' is not the name of a column"):
        interval_session.query(QuerySpec(source="data", interval=interval))
