"""Avro scans in a session: skipped blocks, options, schema changes, damage, and the fallback to Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import fastavro
import pytest
from pyspark.sql import Row, SparkSession

from pushdown_spark.contract import ErrorCode, OutputSpec, SourceReport
from pushdown_spark.errors import BadSchemaError, PushdownError
from pushdown_spark.output.files.file_output import open_output
from pushdown_spark.result import PushdownResult
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.runtime.spark_internals import AVRO_CLASS
from pushdown_spark.session import PushdownSession

ROWS = 6_000
SCHEMA = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "k", "type": "long"},
        {"name": "v", "type": ["null", "string"]},
        {"name": "part", "type": {"type": "record", "name": "i", "fields": [{"name": "n", "type": "int"}]}},
    ],
}
EVOLVED = """{"type": "record", "name": "t", "fields": [
    {"name": "k", "type": "long"}, {"name": "added", "type": "string", "default": "none"}]}"""


def write(path: Path, keys: Sequence[int], codec: str = "deflate", schema: dict[str, object] = SCHEMA) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {field["name"] for field in schema["fields"]}  # type: ignore[attr-defined]
    records = ({"k": key, "v": f"v{key}" if key % 3 else None, "part": {"n": key % 7}} for key in keys)
    with path.open("wb") as file:
        partial_records = ({name: value for name, value in record.items() if name in names} for record in records)
        fastavro.writer(file, fastavro.parse_schema(schema), partial_records, codec=codec, sync_interval=2_000)
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write keys to two files. The first file has them in random order, which does not affect a byte search."""
    root = tmp_path_factory.mktemp("avro") / "t"
    write(root / "a.avro", [key * 7919 % ROWS * 1_000 for key in range(ROWS)])
    write(root / "b.avro", range(ROWS * 1_000, ROWS * 1_000 + 100), codec="snappy")
    return root


def scan(
    spark: SparkSession,
    path: Path | Sequence[Path],
    where: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    reader: str = "pushdown",
    schema: str | None = None,
    **options: str,
) -> PushdownResult:
    session = PushdownSession(spark)
    paths = [str(path)] if isinstance(path, Path) else list(map(str, path))
    session.add_source("t", path=paths, format="avro", reader=reader, schema=schema, options=options)
    return session.scan("t", columns=columns, where=where, limit=limit)


def rows_and_report(result: PushdownResult) -> tuple[list[Row], SourceReport]:
    rows = result.run(lambda frame: frame.collect())
    return rows, result.report()["t"]


def by_spark(spark: SparkSession, path: Path, where: str | None = None, **options: str) -> list[Row]:
    frame = spark.read.format(AVRO_CLASS).options(**options).load(str(path))
    return (frame if where is None else frame.where(where)).collect()


@pytest.fixture(scope="module")
def needle(spark: SparkSession, table: Path) -> tuple[list[Row], SourceReport]:
    """Return the rows and the report of a scan with a predicate that one record passes."""
    return rows_and_report(scan(spark, table, "k = 4321000"))


def test_a_selective_scan_returns_sparks_rows(
    spark: SparkSession, table: Path, needle: tuple[list[Row], SourceReport]
) -> None:
    rows, report = needle
    assert rows == by_spark(spark, table, "k = 4321000")
    assert (report.reader, report.rows_returned) == ("pushdown", 1)


def test_blocks_without_the_pattern_are_skipped(needle: tuple[list[Row], SourceReport]) -> None:
    blocks = needle[1].units["blocks"]
    assert blocks["skipped by bytes"] > blocks["total"] / 2
    assert blocks["skipped by bytes"] + blocks["filter columns decoded"] == blocks["total"]


def test_records_of_skipped_blocks_are_not_decoded(needle: tuple[list[Row], SourceReport]) -> None:
    _, report = needle
    assert report.rows_decoded is not None
    assert report.rows_decoded < ROWS / 2
    assert report.skipped["rows never decoded"] + report.rows_decoded == ROWS + 100


def test_bytes_are_counted_as_read_and_decompressed_as_searched(needle: tuple[list[Row], SourceReport]) -> None:
    _, report = needle
    assert report.bytes_read is not None
    assert 0 < report.bytes_read <= report.bytes_total
    assert report.bytes_searched is not None
    assert report.bytes_searched > report.bytes_read


def test_the_report_shows_the_conjunct_as_a_byte_pattern(needle: tuple[list[Row], SourceReport]) -> None:
    (conjunct,) = needle[1].conjuncts
    assert conjunct.pushed_as is not None
    assert conjunct.pushed_as.startswith("byte pattern ")


def test_every_row_is_read_without_a_predicate(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(scan(spark, table))
    assert sorted(rows) == sorted(by_spark(spark, table))
    assert (report.rows_returned, report.rows_decoded) == (ROWS + 100, ROWS + 100)


def test_rows_are_counted_without_any_column(spark: SparkSession, table: Path) -> None:
    session = PushdownSession(spark)
    session.add_source("t", path=str(table), format="avro", reader="pushdown")
    assert session.sql("SELECT count(*) AS n FROM t").df.collect() == [Row(n=ROWS + 100)]


def test_struct_members_and_implicit_columns_are_read(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(
        scan(spark, table, "part.n = 3 AND v IS NULL", columns=["k", "part.n", "filename"], limit=1_000)
    )
    expected = [row.k for row in by_spark(spark, table, "part.n = 3 AND v IS NULL")]
    assert sorted(row.k for row in rows) == sorted(expected)
    assert {row.filename for row in rows} == {"a.avro", "b.avro"}
    assert report.reader == "pushdown"


def test_a_limit_stops_the_scan(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(scan(spark, table, "k >= 0", limit=5))
    assert len(rows) == 5
    assert (report.files_read, report.files_total) == (1, 2)
    assert report.rows_decoded == ROWS


def test_auto_explains_why_spark_reads_small_files(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(scan(spark, table, "k = 4321000", reader="auto"))
    assert [row.k for row in rows] == [4_321_000]
    assert report.reader == "spark"
    assert "records are too few to make up for starting another reader" in report.reason


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"ignoreCorruptFiles": "true"}, "ignoreCorruptFiles"),
        ({"ignoreMissingFiles": "true"}, "ignoreMissingFiles"),
        ({"positionalFieldMatching": "true"}, "positionalFieldMatching"),
        ({"recursiveFieldMaxDepth": "2"}, "recursiveFieldMaxDepth"),
        ({"enableStableIdentifiersForUnionType": "true"}, "enableStableIdentifiersForUnionType"),
    ],
)
def test_options_that_only_spark_supports_use_spark(
    spark: SparkSession, table: Path, options: dict[str, str], reason: str
) -> None:
    rows, report = rows_and_report(scan(spark, table, "k = 4321000", **options))
    assert [row.k for row in rows] == [4_321_000]
    assert report.reader == "spark"
    assert reason in report.reason


def test_a_schema_url_uses_spark(spark: SparkSession, table: Path, tmp_path: Path) -> None:
    (tmp_path / "schema.avsc").write_text(EVOLVED)
    rows, report = rows_and_report(scan(spark, table, "k = 4321000", avroSchemaUrl=(tmp_path / "schema.avsc").as_uri()))
    assert rows == [Row(k=4_321_000, added="none")]
    assert report.reader == "spark"


def test_a_reader_schema_uses_spark(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(scan(spark, table, "k = 4321000 AND added = 'none'", avroSchema=EVOLVED))
    assert rows == [Row(k=4_321_000, added="none")] == by_spark(spark, table, "k = 4321000", avroSchema=EVOLVED)
    assert report.reader == "spark"
    assert "avroSchema" in report.reason


@pytest.mark.parametrize("ignore", ["true", "false"])
def test_files_by_other_names_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, ignore: str) -> None:
    write(tmp_path / "t" / "a.avro", range(10))
    write(tmp_path / "t" / "b.gz", range(10, 30))
    rows, report = rows_and_report(scan(spark, tmp_path / "t", "k < 20", ignoreExtension=ignore))
    assert sorted(row.k for row in rows) == list(range(20 if ignore == "true" else 10))
    assert sorted(rows) == sorted(by_spark(spark, tmp_path / "t", "k < 20", ignoreExtension=ignore))
    assert report.reader == "pushdown"


def test_listing_options_of_spark_are_applied(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.avro", range(10))
    write(tmp_path / "t" / "deep" / "b.avro", range(10, 20))
    write(tmp_path / "t" / "deep" / "c.old", range(20, 30))
    options = {"recursiveFileLookup": "true", "pathGlobFilter": "*.avro"}
    rows, report = rows_and_report(scan(spark, tmp_path / "t", "k >= 0", **options))
    assert sorted(row.k for row in rows) == list(range(20))
    assert (report.reader, report.files_total, report.files_read) == ("pushdown", 2, 2)


def test_partition_directories_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    for day in (1, 2):
        write(tmp_path / "t" / f"day={day}" / "a.avro", range(day * 10))
    rows, report = rows_and_report(scan(spark, tmp_path / "t", "day = 2 AND k > 15"))
    assert sorted((row.k, row.day) for row in rows) == [(16, 2), (17, 2), (18, 2), (19, 2)]
    assert (report.reader, report.files_read) == ("pushdown", 1)
    assert report.conjuncts[0].pushed_as == "partition pruning"


def test_columns_that_a_file_lacks_are_null(spark: SparkSession, tmp_path: Path) -> None:
    less = {**SCHEMA, "fields": SCHEMA["fields"][:1]}  # type: ignore[index]
    write(tmp_path / "a.avro", range(5))
    write(tmp_path / "b.avro", range(5, 10), schema=less)
    rows, report = rows_and_report(scan(spark, tmp_path, "v IS NULL"))
    assert sorted(row.k for row in rows) == [0, 3, 5, 6, 7, 8, 9]
    assert report.reader == "pushdown"


def test_a_declared_schema_chooses_and_adds_columns(spark: SparkSession, table: Path) -> None:
    rows, report = rows_and_report(scan(spark, table, "k = 4321000", schema="K bigint, other int"))
    assert rows == [Row(K=4_321_000, other=None)]
    assert report.reader == "pushdown"


@pytest.mark.parametrize("where", [None, "k = 4021", "k IN (17, 5999, 1099511627776)", "k > 5990", "k = 1099511627776"])
def test_files_of_narrower_integers_are_searched_as_they_are(
    spark: SparkSession, tmp_path: Path, where: str | None
) -> None:
    """Whichever file comes first, and whether or not a schema is declared."""
    wide = {"type": "record", "name": "t", "fields": [{"name": "k", "type": "long"}]}
    narrow = {"type": "record", "name": "t", "fields": [{"name": "k", "type": ["null", "int"]}]}
    for number, schemas in enumerate(((wide, narrow), (narrow, wide))):
        write(tmp_path / str(number) / "a.avro", range(3_000), schema=schemas[0])
        write(tmp_path / str(number) / "b.avro", range(3_000, ROWS), schema=schemas[1])
        for schema in (None, "k bigint"):
            rows, report = rows_and_report(scan(spark, tmp_path / str(number), where, schema=schema))
            frame = spark.read.format(AVRO_CLASS).schema("k bigint").load(str(tmp_path / str(number)))
            assert sorted(rows) == sorted((frame if where is None else frame.where(where)).collect())
            assert report.reader == "pushdown", report.reason


def test_spark_takes_over_at_a_file_of_other_types(spark: SparkSession, tmp_path: Path) -> None:
    """Spark decides what to return for a boolean column that is declared as an integer: here, an error."""
    other = {"type": "record", "name": "t", "fields": [{"name": "k", "type": "boolean"}]}
    write(tmp_path / "a.avro", range(5))
    with (tmp_path / "b.avro").open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(other), [{"k": True}])
    result = scan(spark, tmp_path, "k = 1", schema="k bigint")
    with pytest.raises(Exception, match="SQL type") as error:
        result.run(lambda frame: frame.collect())
    assert classify(error.value).code is not ErrorCode.UNSAFE_INPUT
    assert "the pushdown reader failed" in result.report()["t"].reason


@pytest.fixture
def damaged_file(tmp_path: Path) -> Path:
    """Write a file whose second half is overwritten."""
    path = write(tmp_path / "t" / "a.avro", range(2_000), codec="deflate")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
    path.write_bytes(data)
    return path.parent


def test_a_damaged_block_is_an_error_that_names_file_block_and_byte(spark: SparkSession, damaged_file: Path) -> None:
    with pytest.raises(Exception, match=r"a\.avro, block \d+ at byte \d+: ") as error:
        scan(spark, damaged_file, "k >= 0").run(lambda frame: frame.collect())
    assert classify(error.value).code is ErrorCode.UNREADABLE_FILE


@pytest.mark.parametrize("mode", ["FAILFAST", "PERMISSIVE", "DROPMALFORMED"])
def test_the_option_mode_makes_no_difference_to_files(spark: SparkSession, damaged_file: Path, mode: str) -> None:
    """As in Spark's own reader, for which it is a setting of `from_avro` alone."""
    with pytest.raises(Exception, match="avro"):
        by_spark(spark, damaged_file, mode=mode)
    with pytest.raises(Exception, match=r"block \d+ at byte"):
        scan(spark, damaged_file, "k >= 0", mode=mode).run(lambda frame: frame.collect())


def test_an_error_names_a_file_of_another_format(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "a.avro", range(5))
    (tmp_path / "b.avro").write_bytes(b"no container")
    with pytest.raises(Exception, match=r"b\.avro") as error:
        scan(spark, tmp_path, "k >= 0").run(lambda frame: frame.collect())
    assert classify(error.value).code is ErrorCode.UNREADABLE_FILE


@pytest.mark.parametrize("reader", ["spark", "pushdown"])
def test_intervals_of_several_files_have_sparks_types(spark: SparkSession, tmp_path: Path, reader: str) -> None:
    columns = ("id", "make_dt_interval(0, id) AS hours", "named_struct('y', make_ym_interval(id)) AS years")
    for number in range(2):
        frame = spark.range(number, number + 3).selectExpr(*columns).coalesce(1)
        frame.write.mode("append").format(AVRO_CLASS).save(str(tmp_path / "t"))
    expected = spark.read.format(AVRO_CLASS).load(str(tmp_path / "t"))
    result = scan(spark, tmp_path / "t", where="hours > INTERVAL '1' HOUR", reader=reader)
    assert result.df.schema == expected.schema
    assert sorted(result.df.selectExpr("string(hours)", "string(years)").collect()) == sorted(
        expected.where("hours > INTERVAL '1' HOUR").selectExpr("string(hours)", "string(years)").collect()
    )
    ids = scan(spark, tmp_path / "t", where="id > 1", columns=["id"], reader=reader)
    assert sorted(row.id for row in ids.df.collect()) == [2, 2, 3]


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "column part.d is a decimal of 39 digits"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "column part.d is a long .timestamp-nanos."),
    ],
)
@pytest.mark.parametrize("reader", ["spark", "pushdown"])
@pytest.mark.parametrize("others", [0, 1])
def test_an_error_names_file_and_column_of_a_type_that_spark_lacks(
    spark: SparkSession, tmp_path: Path, kind: dict[str, object], problem: str, reader: str, others: int
) -> None:
    part = {"type": "record", "name": "i", "fields": [{"name": "d", "type": kind}]}
    schema = {**SCHEMA, "fields": [{"name": "k", "type": "long"}, {"name": "part", "type": part}]}
    with (tmp_path / "b.avro").open("wb") as file:
        fastavro.writer(file, schema, [])
    if others:
        write(tmp_path / "a.avro", range(3))
    with pytest.raises(BadSchemaError, match=f"/b.avro: {problem}") as caught:
        scan(spark, tmp_path, reader=reader)
    assert not classify(caught.value).retryable


def test_a_source_without_avro_files_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PushdownError, match="source 't'"):
        scan(spark, tmp_path / "nowhere", "k >= 0")


def test_avro_is_written_without_the_jar(spark: SparkSession, tmp_path: Path) -> None:
    writer = open_output(spark, OutputSpec(path=str(tmp_path / "out"), format="avro"), "run")
    assert writer.prepare()
    with writer.transaction():
        writer.stage(spark.range(100).selectExpr("id AS k"))
    rows, report = rows_and_report(scan(spark, tmp_path / "out", "k = 77"))
    assert rows == [Row(k=77)]
    assert report.reader == "pushdown"
