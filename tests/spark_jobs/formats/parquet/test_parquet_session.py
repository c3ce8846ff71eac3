"""Parquet scans in a session: rows, reports, and scans by Spark's reader."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from session_settings import pushdown_off, session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions, SourceReport
from pushdown_spark.errors import PushdownError
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

ROWS = 3_000
Rows = list[str]


def scan(
    spark: SparkSession,
    path: Path,
    where: str | None,
    columns: list[str] | None = None,
    *,
    reader: str = "pushdown",
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
    limit: int | None = None,
) -> tuple[Rows, SourceReport]:
    """Return sorted rows of a scan as strings, and the report."""
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="parquet", reader=reader, schema=schema, options=options or {})
    result: PushdownResult = session.scan("t", columns=columns, where=where, limit=limit)
    rows = result.run(sorted_rows)
    return rows, result.report()["t"]


def agrees(
    spark: SparkSession,
    path: Path,
    where: str,
    columns: list[str] | None = None,
    *,
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> SourceReport:
    """Assert that a scan has the rows of Spark's reader without pushdown. Return its report."""
    with pushdown_off(spark, "parquet"):
        frame = spark.read.options(**(options or {}))
        frame = frame if schema is None else frame.schema(schema)
        expected = frame.parquet(str(path)).where(where).select(*(columns or ["*"]))
        expected_rows = sorted_rows(expected)
    actual, report = scan(spark, path, where, columns, schema=schema, options=options)
    assert actual == expected_rows, report.reason
    return report


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table with nested columns. `k` is scattered, `id` is sorted."""
    path = tmp_path_factory.mktemp("parquet") / "t"
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        "id",
        "pmod(id * 7919, 3000) AS k",
        "'v' || id AS v",
        "named_struct('a', id % 10, 'b', named_struct('c', 'n' || id % 100)) AS s",
        "array(id, NULL) AS l",
        "map('x', id) AS m",
        "timestamp_seconds(id * 100000) AS at",
    )
    options = {
        "parquet.block.size": "16384",
        "parquet.page.row.count.limit": "100",
        "parquet.bloom.filter.enabled#k": "true",
        "parquet.bloom.filter.expected.ndv#k": "5000",
    }
    rows.write.options(**options).parquet(str(path))
    return path


@pytest.mark.parametrize(
    "where",
    [
        "k = 17",
        "k = 17 AND v LIKE 'v%'",
        "s.a = 3 AND k < 100",
        "s.b.c = 'n17'",
        "v LIKE '%99_' OR k IN (1, 2, NULL)",
        "NOT (k > 10 OR v = 'v5')",
        "l IS NOT NULL AND id = 5",
        "m IS NULL OR id BETWEEN 7 AND 9",
        "at = TIMESTAMP'1970-01-06 22:40:00'",
        "at >= TIMESTAMP'1979-01-01' AND upper(v) LIKE 'V29%'",
        "k <=> 5 OR k IS NULL",
        "id = 1e1",
        f"k IN ({', '.join(map(str, range(0, 300, 3)))})",
    ],
)
def test_rows_are_those_of_sparks_reader(spark: SparkSession, table: Path, where: str) -> None:
    assert agrees(spark, table, where).reader == "pushdown"


def test_only_some_columns_and_members_are_read(spark: SparkSession, table: Path) -> None:
    for columns in (["v", "s.a"], ["s.b.c"], ["m", "at"]):
        assert agrees(spark, table, "k < 100", columns).reader == "pushdown"


@pytest.fixture(scope="module")
def needle(spark: SparkSession, table: Path) -> tuple[list[str], SourceReport]:
    """Return the rows and the report of a scan with a predicate that one row passes."""
    return scan(spark, table, "id = 1234", ["v"])


def test_row_groups_beyond_the_bounds_are_pruned(needle: tuple[list[str], SourceReport]) -> None:
    rows, report = needle
    groups = report.units["row groups"]
    assert rows == ["Row(v='v1234')"]
    assert groups["total"] > 2
    assert (groups["read"], groups["pruned by statistics"]) == (1, groups["total"] - 1)


def test_pages_beyond_the_bounds_are_not_decoded(needle: tuple[list[str], SourceReport]) -> None:
    _, report = needle
    pages = report.units["pages"]
    assert 0 < pages["pruned by page index"] < pages["total"]
    assert report.rows_decoded is not None
    assert 0 < report.rows_decoded <= 100


def test_pruned_bytes_are_not_read(needle: tuple[list[str], SourceReport]) -> None:
    _, report = needle
    assert report.bytes_read is not None
    assert 0 < report.bytes_read < report.bytes_total / 2
    assert report.skipped["bytes never read"] == report.bytes_total - report.bytes_read


def test_the_report_shows_how_the_conjunct_is_pushed(needle: tuple[list[str], SourceReport]) -> None:
    _, report = needle
    assert [conjunct.pushed_as for conjunct in report.conjuncts] == [
        "filter over Parquet columns before others are decoded"
    ]


def test_row_groups_without_the_value_are_pruned_by_bloom_filters(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 1000, 1, 1).selectExpr("id * 2 AS k")
    options = {"parquet.bloom.filter.enabled#k": "true", "parquet.enable.dictionary": "false"}
    rows.write.options(**options).parquet(str(tmp_path / "t"))
    _, report = scan(spark, tmp_path / "t", "k = 501")
    assert report.units["row groups"]["pruned by bloom filter"] == 1


@pytest.mark.parametrize("where", ["k = 7000000000001", "k < 7000000000002", "k IN (7000000000001, 5)"])
def test_wrong_statistics_of_an_old_writer_prune_nothing(spark: SparkSession, tmp_path: Path, where: str) -> None:
    """The smallest value is missing in the statistics, as for decimals by parquet-mr before 1.10."""
    path = tmp_path / "old.parquet"
    low, high = 7_000_000_000_001, 7_000_000_000_002
    pq.write_table(pa.table({"k": [low, high]}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    writer = pq.read_metadata(path).created_by.encode()
    old_footer = content[footer:].replace(low.to_bytes(8, "little"), high.to_bytes(8, "little"))
    old_footer = old_footer.replace(writer, b"parquet-mr version 1.8.2".ljust(len(writer)))
    path.write_bytes(content[:footer] + old_footer)
    statistics = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (statistics.min, statistics.max) == (high, high)
    report = agrees(spark, path, where)
    assert (report.reader, report.rows_returned) == ("pushdown", 1)


def test_a_file_that_claims_to_have_no_rows_is_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "none.parquet"
    pq.write_table(pa.table({"k": range(100_003)}), path)
    content = path.read_bytes()
    # Field 3 of the footer, an integer in variable length, is before field 4, a list. Both zeros have three bytes.
    rows = b"\x16\xc6\x9a\x0c\x19"
    assert content.count(rows) == 1
    path.write_bytes(content.replace(rows, b"\x16\x80\x80\x00\x19"))
    assert pq.read_metadata(path).num_rows == 0
    report = agrees(spark, path, "k > 99999")
    assert report.reader == "spark"
    assert "counts 0 rows, but its row groups have 100,003" in report.reason


@pytest.mark.parametrize(
    "where", ["s.m IS NULL", "s.m IS NULL OR k = 1", "NOT (s.t.m IS NOT NULL)", "s.t.m <=> NULL", "s.m IS NOT NULL"]
)
def test_a_required_member_is_null_where_its_struct_is(spark: SparkSession, tmp_path: Path, where: str) -> None:
    required_field = pa.field("m", pa.int32(), nullable=False)
    inner = pa.struct([required_field])
    kind = pa.struct([required_field, pa.field("t", inner), pa.field("u", inner, nullable=False)])
    whole = {"m": 1, "t": {"m": 2}, "u": {"m": 3}}
    structs = pa.array([whole, None, {**whole, "t": None}], kind)
    pq.write_table(pa.table({"k": range(3), "s": structs}), tmp_path / "t.parquet")
    agrees(spark, tmp_path, where)
    agrees(spark, tmp_path, where.replace("s.t.m", "s.u.m"))


def test_limits_stop_the_scan(spark: SparkSession, table: Path) -> None:
    rows, _ = scan(spark, table, "k < 100", ["id"], limit=7)
    assert len(rows) == 7
    assert len(scan(spark, table, None, ["id"], limit=11)[0]) == 11


def test_scans_without_columns_or_predicate_count_every_row(spark: SparkSession, table: Path) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=str(table), format="parquet", reader="pushdown")
    for query, expected in (
        ("SELECT count(*) FROM t", ROWS),
        ("SELECT count(*) FROM t WHERE k < 10", 10),
        ("SELECT sum(id) FROM t", ROWS * (ROWS - 1) // 2),
    ):
        assert session.sql(query).run(lambda frame: frame.collect())[0][0] == expected


def test_names_of_files_may_have_any_character(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for number, name in enumerate(("a b", "c#d%20e?", "x[1]*{y}", "ü'\"`\\", "k=%3A")):
        pq.write_table(pa.table({"a": [1, 2, number]}), tmp_path / "t" / f"{name}.parquet")
    report = agrees(spark, tmp_path / "t", "a > 1")
    assert (report.reader, report.files_read) == ("pushdown", 5)


def test_names_of_columns_may_have_any_character(spark: SparkSession, tmp_path: Path) -> None:
    names = ["a.b", "A", "x y", 'q"q', "ü", "sélect", "t`t"]
    pq.write_table(pa.table({name: [1, 2, None] for name in names}), tmp_path / "t.parquet")
    quoted_names = ["`" + name.replace("`", "``") + "`" for name in names]
    where = " AND ".join(f"{name} = 2" for name in quoted_names)
    assert agrees(spark, tmp_path / "t.parquet", where).reader == "pushdown"


def test_partition_columns_are_read_and_prune_files(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(100).selectExpr("id", "id % 3 AS p", "IF(id % 2 = 0, 'x=y', NULL) AS q")
    rows.write.partitionBy("p", "q").parquet(str(tmp_path / "t"))
    report = agrees(spark, tmp_path / "t", "p = 1 AND id < 50", ["q", "id", "p"])
    assert report.reader == "pushdown"
    assert report.files_total == 4
    agrees(spark, tmp_path / "t", "q IS NULL AND id > 20 OR p = 2")


def test_columns_that_a_parquet_file_lacks_are_null(spark: SparkSession, tmp_path: Path) -> None:
    for number, table in enumerate(
        (pa.table({"a": [1, 2], "b": ["x", None]}), pa.table({"b": ["y"], "c": [1.5]}), pa.table({"d": [True]}))
    ):
        (tmp_path / "t").mkdir(exist_ok=True)
        pq.write_table(table, tmp_path / "t" / f"{number}.parquet")
    schema = "a bigint, b string, c double"
    for where in ("a = 1 OR c > 1", "NOT a <=> 2", "c IS NULL AND a IS NULL"):
        assert agrees(spark, tmp_path / "t", where, schema=schema).reader == "pushdown"
    agrees(spark, tmp_path / "t", "a IS NULL OR b = 'x'", options={"mergeSchema": "true"})


def test_empty_files_and_summaries_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    pq.write_table(table, tmp_path / "rows.parquet")
    pq.write_table(table.slice(0, 0), tmp_path / "no-rows.parquet")
    pq.write_metadata(table.schema, tmp_path / "_metadata")
    pq.write_metadata(table.schema, tmp_path / "_common_metadata")
    (tmp_path / "empty.parquet").touch()
    assert agrees(spark, tmp_path, "a = 2", schema="a bigint").reader == "pushdown"


@pytest.mark.parametrize(
    ("settings", "options", "reason"),
    [
        ({"spark.sql.files.ignoreCorruptFiles": "true"}, {}, "ignoreCorruptFiles is on"),
        ({"spark.sql.files.ignoreMissingFiles": "true"}, {}, "ignoreMissingFiles is on"),
        ({}, {"ignoreCorruptFiles": "true"}, "ignoreCorruptFiles is on"),
        ({"spark.sql.parquet.fieldId.read.enabled": "true"}, {}, "field ids"),
        ({"spark.sql.parquet.int96TimestampConversion": "true"}, {}, "between time zones"),
        ({}, {"parquet.page.verify-checksum.enabled": "true"}, "checksums of pages"),
        ({"parquet.crypto.factory.class": "org.example.Factory"}, {}, "encrypted"),
    ],
)
def test_settings_that_only_sparks_reader_supports_leave_the_scan_to_spark(
    spark: SparkSession, table: Path, settings: dict[str, str], options: dict[str, str], reason: str
) -> None:
    with session_settings(spark, settings):
        session = PushdownSession(spark)
        fields = {"path": str(table), "format": "parquet", "schema": "k bigint", "options": options}
        session.add_source("t", reader="pushdown", **fields)
        report = session.scan("t", where="k = 1").report()["t"]
    assert report.reader == "spark"
    assert reason in report.reason


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([1, 2, 2**32 - 1], pa.uint32()), "INT32 (Int(bitWidth=32, isSigned=false)"),
        (pa.array([1, 2, 3], pa.uint64()), "isSigned=false"),
        (pa.array([[1, 2, 3]] * 3, pa.list_(pa.timestamp("ms", "UTC"))), "milliseconds inside"),
    ],
)
def test_columns_of_types_that_spark_converts_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, array: pa.Array, reason: str
) -> None:
    pq.write_table(pa.table({"a": array, "b": [1, 2, 3]}), tmp_path / "t.parquet")
    report = agrees(spark, tmp_path / "t.parquet", "b < 3")
    assert report.reader == "spark"
    assert reason in report.reason
    assert agrees(spark, tmp_path / "t.parquet", "b < 3", ["b"]).reader == "pushdown"


@pytest.mark.parametrize("unit", ["us", "ms"])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_timestamps_of_each_unit_and_zone_are_compared(
    spark: SparkSession, tmp_path: Path, unit: str, zone: str | None
) -> None:
    moments = [datetime(2020, 1, 1), datetime(1970, 1, 1), datetime(1, 1, 2), datetime(9999, 12, 31), None]
    pq.write_table(pa.table({"at": pa.array(moments, pa.timestamp(unit, zone))}), tmp_path / "t.parquet")
    kind = "TIMESTAMP" if zone else "TIMESTAMP_NTZ"
    for where in (f"at IN ({kind}'2020-01-01', {kind}'1800-01-01')", f"NOT at < {kind}'2500-01-01'"):
        assert agrees(spark, tmp_path / "t.parquet", where).reader == "pushdown"


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"])
@pytest.mark.parametrize("mode", ["CORRECTED", "LEGACY"])
def test_files_in_the_old_calendar_are_left_to_spark(spark: SparkSession, tmp_path: Path, kind: str, mode: str) -> None:
    settings = {
        "spark.sql.parquet.outputTimestampType": kind,
        "spark.sql.parquet.datetimeRebaseModeInWrite": mode,
        "spark.sql.parquet.int96RebaseModeInWrite": mode,
    }
    days = ("0001-01-02", "1500-03-01", "1899-12-31", "2020-02-29", "9999-12-31")
    values = ", ".join(f"(DATE'{day}', TIMESTAMP'{day} 12:34:56.789', {n})" for n, day in enumerate(days))
    with session_settings(spark, settings):
        spark.sql(f"SELECT * FROM VALUES {values} AS t(d, at, n)").coalesce(1).write.parquet(str(tmp_path / "t"))
    for where in ("d = DATE'1500-03-01' OR n = 4", "at < TIMESTAMP'1600-01-01' OR at > TIMESTAMP'2500-01-01'"):
        report = agrees(spark, tmp_path / "t", where)
        assert report.reader == ("pushdown" if mode == "CORRECTED" else "spark")
    assert agrees(spark, tmp_path / "t", "n > 1", ["n"]).reader == "pushdown"


@pytest.mark.parametrize("mode", ["EXCEPTION", "LEGACY"])
def test_calendars_of_other_writers_follow_the_setting(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    pq.write_table(pa.table({"d": pa.array([1, 2], pa.date32())}), tmp_path / "t.parquet")
    where = "d = DATE'1970-01-03'"
    assert agrees(spark, tmp_path / "t.parquet", where).reader == "pushdown"
    assert agrees(spark, tmp_path / "t.parquet", where, options={"datetimeRebaseMode": mode}).reader == "spark"
    with session_settings(spark, {"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
        assert agrees(spark, tmp_path / "t.parquet", where).reader == "spark"


def test_char_columns_have_their_stored_blanks(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "t"
    spark.sql(f"CREATE TABLE parquet_chars (c char(3), v varchar(3)) USING parquet LOCATION '{place}'")
    spark.sql("INSERT INTO parquet_chars VALUES ('a', 'a'), ('b', 'b')")
    spark.sql("DROP TABLE parquet_chars")
    for where in ("v = 'a'", "c = 'a'", "c = 'a  '"):
        agrees(spark, place, where)


def test_lists_of_two_levels_are_left_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    with session_settings(spark, {"spark.sql.parquet.writeLegacyFormat": "true"}):
        spark.sql("SELECT array(1, 2) AS l, array(1, NULL) AS o, map(1, 'x') AS m, 1.5BD AS d").write.parquet(
            str(tmp_path / "t")
        )
    assert agrees(spark, tmp_path / "t", "d > 1", ["l"]).reader == "spark"
    for column in ("o", "d"):
        assert agrees(spark, tmp_path / "t", "d > 1", [column]).reader == "pushdown"
    agrees(spark, tmp_path / "t", "d > 1", ["m"])


def test_parquet_columns_that_differ_only_in_case_are_read_by_pushdown(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "A": [3, 4]}), tmp_path / "t.parquet")
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}):
        assert agrees(spark, tmp_path / "t.parquet", "A = 4 AND a = 2").reader == "pushdown"
    pq.write_table(pa.table({"Id": [1, 2]}), tmp_path / "u.parquet")
    assert agrees(spark, tmp_path / "u.parquet", "iD = 2", schema="iD bigint").reader == "pushdown"


def test_workers_check_the_files_that_the_driver_does_not(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(66):
        kind = pa.uint32() if number == 33 else pa.int64()
        pq.write_table(pa.table({"a": pa.array([number], kind)}), tmp_path / f"{number:02}.parquet")
    rows, report = scan(spark, tmp_path, "a >= 64", schema="a bigint", reader="pushdown")
    assert rows == ["Row(a=64)", "Row(a=65)"]
    assert report.reader == "spark"


def test_keys_of_a_small_source_reach_a_large_one(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [5, 17, 2999], "owner": ["me", "me", "you"]}), tmp_path / "small.parquet")
    query = "SELECT t.v, s.owner FROM t JOIN small s ON t.k = s.key WHERE s.owner = 'me'"
    rows = {}
    for reader in ("pushdown", "auto", "spark"):
        session = PushdownSession(spark)
        session.add_source("t", path=str(table), format="parquet", reader=reader)
        session.add_source("small", path=str(tmp_path / "small.parquet"), format="parquet", reader=reader)
        result = session.sql(query, JoinOptions(min_bytes=1_000))
        rows[reader] = result.run(sorted_rows)
        if reader == "pushdown":
            report = result.report()["t"]
            assert report.reader == "pushdown"
            assert any(" IN " in conjunct.sql for conjunct in report.conjuncts)
    assert len(rows["spark"]) == 2
    assert rows["pushdown"] == rows["auto"] == rows["spark"]


def test_auto_leaves_small_tables_to_spark(spark: SparkSession, table: Path) -> None:
    _, report = scan(spark, table, "k = 1", reader="auto")
    assert report.reader == "spark"
    assert "too few to make up for starting another reader" in report.reason


@pytest.mark.parametrize(
    ("values", "where", "row_count"),
    [
        ([1.0, math.nan], "x > 3", 1),
        ([1.0, math.nan], "NOT x <= 3D", 1),
        ([1.0, math.nan], "x IN (double('NaN'), 7D)", 1),
        ([-0.0, None], "x = 0", 1),
        ([0.0, None], "x IN (-0.0D, 9D)", 1),
    ],
)
def test_auto_finds_floating_point_numbers_that_spark_loses(
    spark: SparkSession, tmp_path: Path, values: list[float | None], where: str, row_count: int
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array(values, pa.float64())}), path)
    assert spark.read.parquet(str(path)).where(where).count() == 0, "Spark or its library has been fixed"
    _, report = scan(spark, path, where, reader="auto")
    assert (report.reader, report.rows_returned) == ("spark", row_count)
    assert report.conjuncts[0].reason == "Spark's filter pushdown may lose rows with NaN, 0.0 or -0.0"


@pytest.mark.parametrize("reader", ["auto", "pushdown"])
@pytest.mark.parametrize(("value", "where"), [(math.nan, "x > 3"), (-0.0, "x = 0")])
def test_rows_are_not_lost_if_only_spark_can_read_them(
    spark: SparkSession, tmp_path: Path, value: float, where: str, reader: str
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array([1.0 if value else None, value], pa.float64())}), path)
    with session_settings(spark, {"spark.sql.files.ignoreCorruptFiles": "true"}):
        _, report = scan(spark, path, where, reader=reader)
    assert (report.reader, report.rows_returned) == ("spark", 1)


@pytest.mark.parametrize("pushdown", [True, False])
def test_lazy_dataframes_lose_no_rows(spark: SparkSession, tmp_path: Path, pushdown: bool) -> None:
    path = tmp_path / "t"
    pq.write_to_dataset(pa.table({"x": [1.0, math.nan], "p": [0, 0]}), path, partition_cols=["p"])
    session = PushdownSession(spark)
    session.add_source("t", path=str(path), format="parquet", filter_pushdown=pushdown)
    frame = session.scan("t", where="x > 3 AND p = 0").df
    assert frame.count() == 1
    assert "PartitionFilters: [isnotnull(p" in str(frame._jdf.queryExecution().executedPlan())
    join = session.sql("SELECT a.x FROM t a JOIN t b ON a.p = b.p WHERE a.x > 3D AND b.x < 3D").df
    assert join.count() == 1


def test_damaged_files_raise_an_error_that_names_them(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    content = next(table.glob("*.parquet")).read_bytes()
    bad = tmp_path / "bad.parquet"
    bad.write_bytes(content[:50] + b"\xff" * (len(content) // 2) + content[50 + len(content) // 2 :])
    with pytest.raises(Exception, match=r"bad\.parquet"):
        scan(spark, bad, "k = 1 OR v = 'x'")


class PlainKeys(encryption.KmsClient):
    """A key service that stores keys as they are."""

    def __init__(self, config: encryption.KmsConnectionConfig) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master_key: str) -> bytes:
        return b64encode(key)

    def unwrap_key(self, wrapped_key: bytes, master_key: str) -> bytes:
        return b64decode(wrapped_key)


@pytest.mark.parametrize("plaintext_footer", [True, False])
def test_encrypted_columns_return_no_rows(spark: SparkSession, tmp_path: Path, plaintext_footer: bool) -> None:
    config = encryption.EncryptionConfiguration("f", column_keys={"k": ["a"]}, plaintext_footer=plaintext_footer)
    factory = encryption.CryptoFactory(PlainKeys)
    properties = factory.file_encryption_properties(encryption.KmsConnectionConfig(), config)
    table = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})
    with pq.ParquetWriter(tmp_path / "t.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    for where in ("a = 2", "b = 5"):
        with pytest.raises((PushdownError, PySparkException, Py4JError)):
            scan(spark, tmp_path, where, schema="a bigint, b bigint")
