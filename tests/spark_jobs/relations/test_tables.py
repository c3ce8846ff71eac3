"""Tables of the catalog: the readers return exactly the rows of `spark.table`, also where the files say otherwise."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from session_settings import session_settings
from spark_rows import sorted_rows

from pushdown_spark.contract import Exactness, SourceReport
from pushdown_spark.errors import BadSpecError, MissingPathError, UnknownColumnError
from pushdown_spark.runtime.spark_internals import AVRO_CLASS
from pushdown_spark.session import PushdownSession

FORMATS = ("parquet", "orc", "json", "csv", "avro")
DATABASE = "shop"


@pytest.fixture(scope="module", autouse=True)
def _database(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Create a database with its own directory."""
    place = tmp_path_factory.mktemp("database")
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{place}'")
    yield
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


@pytest.fixture
def name(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Return the name of a table that does not exist, and drop the table after the test."""
    name = f"{DATABASE}.t{zlib.crc32(request.node.name.encode())}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS {name}")


def using(source_format: str) -> str:
    """Return the name of a format in `CREATE TABLE`. The short name of Avro needs a jar."""
    return AVRO_CLASS if source_format == "avro" else source_format


def scan(
    spark: SparkSession,
    table: str,
    where: str | None,
    columns: Sequence[str] | None = None,
    *,
    reader: str = "pushdown",
    options: Mapping[str, str] | None = None,
) -> tuple[list[str], SourceReport]:
    """Return the sorted rows of a scan as strings, and the report."""
    session = PushdownSession(spark)
    session.add_table("t", table, reader=reader, options=dict(options or {}))
    result = session.scan("t", columns=columns, where=where)
    rows = result.run(sorted_rows)
    return rows, result.report()["t"]


def agrees(
    spark: SparkSession, table: str, where: str | None, columns: Sequence[str] = ("*",), *, reader: str = "pushdown"
) -> SourceReport:
    """Assert that a scan has the rows of `spark.table`. Return its report."""
    actual, report = scan(spark, table, where, columns, reader=reader)
    frame = spark.table(table)
    expected = (frame if where is None else frame.where(where)).select(*columns)
    assert actual == sorted_rows(expected), report
    return report


def create(spark: SparkSession, name: str, source_format: str, clauses: str = "PARTITIONED BY (p)") -> None:
    """Create a table with 300 rows in two inserts. The partition column has three values and NULL."""
    spark.sql(f"CREATE TABLE {name} (id BIGINT, v STRING COMMENT 'text', p INT) USING {using(source_format)} {clauses}")
    for start in (0, 150):
        spark.sql(
            f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, concat('v', id), nullif(CAST(id % 4 AS INT), 3) "
            f"FROM range({start}, {start + 150})"
        )


@pytest.mark.parametrize("source_format", FORMATS)
def test_tables_with_partitions_are_read_by_the_pushdown_readers(
    spark: SparkSession, name: str, source_format: str
) -> None:
    create(spark, name, source_format)
    report = agrees(spark, name, "p = 1 AND v = 'v13'", ["id", "p"])
    assert report.reader == "pushdown", report.reason
    assert report.conjuncts[0].exactness is Exactness.EXACT
    assert report.conjuncts[0].pushed_as == "partition pruning"
    assert report.files_total == 2
    agrees(spark, name, "id = 7 OR p = 2")
    for where in ("v = 'v13'", "p IS NULL AND id = 7", "P = 1 AND v LIKE 'v13%'"):
        report = agrees(spark, name, where)
        assert report.reader == "pushdown", report.reason


@pytest.mark.parametrize("source_format", FORMATS)
def test_external_tables_without_partitions_are_read_at_their_location(
    spark: SparkSession, name: str, tmp_path: Path, source_format: str
) -> None:
    create(spark, name, source_format, f"LOCATION '{(tmp_path / 'odd [1] place%20').as_uri()}'")
    report = agrees(spark, name, "v = 'v13'", ["v", "p"])
    assert report.reader == "pushdown"
    rows, _ = scan(spark, name, "v = 'v13'", ["dir0"])
    assert rows == ["Row(dir0=None)"]


def test_auto_explains_its_choice(spark: SparkSession, name: str) -> None:
    create(spark, name, "parquet")
    assert agrees(spark, name, "id = 7", reader="auto").reason
    assert agrees(spark, name, "id = 7", reader="spark").reason == "requested with reader='spark'"
    assert agrees(spark, name, None, reader="auto").reader == "spark"


@pytest.mark.parametrize("source_format", FORMATS)
def test_only_the_partitions_of_the_catalog_are_read(
    spark: SparkSession, name: str, tmp_path: Path, source_format: str
) -> None:
    create(spark, name, source_format, f"PARTITIONED BY (p) LOCATION '{tmp_path.as_uri()}/t'")
    spark.sql(f"ALTER TABLE {name} DROP PARTITION (p = 1)")
    assert (tmp_path / "t" / "p=1").is_dir(), "an external table keeps its files"
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 50) LOCATION '{tmp_path.as_uri()}/elsewhere/x'")
    spark.sql(f"INSERT INTO {name} PARTITION (p = 50) SELECT /*+ COALESCE(1) */ id, 'v' || id FROM range(500, 510)")
    shutil.copytree(tmp_path / "t" / "p=1", tmp_path / "t" / "p=77")
    agrees(spark, name, "p = 1 AND v = 'v1'")
    for where in ("v = 'v13'", "p = 50 AND id = 500", "id IN (7, 505, 5)"):
        report = agrees(spark, name, where)
        assert report.reader == "pushdown", report.reason
    rows, report = scan(spark, name, "p = 50 AND id = 500", ["p", "v"])
    assert rows == ["Row(p=50, v='v500')"]
    assert report.files_total == 1


def test_one_directory_of_several_partitions_is_left_to_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    create(spark, name, "parquet")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 8) LOCATION '{tmp_path.as_uri()}/x'")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 9) LOCATION '{tmp_path.as_uri()}/x'")
    spark.sql(f"INSERT INTO {name} PARTITION (p = 8) VALUES (800, 'twice')")
    report = agrees(spark, name, "v = 'twice'")
    assert "has several partitions" in report.reason
    # With the other partition pruned, the value is known.
    assert agrees(spark, name, "p = 9 AND v = 'twice'").reader == "pushdown"


@pytest.mark.parametrize("source_format", FORMATS)
def test_values_of_partitions_have_the_declared_type(spark: SparkSession, name: str, source_format: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id INT, k STRING, d DATE) USING {using(source_format)} PARTITIONED BY (k, d)")
    values = ["007", "1e3", "a b", "a=b/c", "100%25", "ä#?", "null", "it''s"]
    rows = [f"({number}, '{value}', DATE'2024-02-29')" for number, value in enumerate(values)]
    spark.sql(f"INSERT INTO {name} VALUES {', '.join(rows)}, (8, NULL, NULL), (9, '', DATE'1969-12-31')")
    agrees(spark, name, "id = 3 OR k = 'a b'")
    for where in ("id IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)", "k = '007' AND id = 0", "k IS NULL AND id IN (8, 9)"):
        report = agrees(spark, name, where)
        assert report.reader == "pushdown", report.reason


@pytest.mark.parametrize("source_format", FORMATS)
def test_partitions_that_the_catalog_does_not_manage_are_pruned_like_sparks(
    spark: SparkSession, name: str, source_format: str
) -> None:
    with session_settings(spark, {"spark.sql.hive.manageFilesourcePartitions": "false"}):
        create(spark, name, source_format)
        assert agrees(spark, name, "p = 1 AND v = 'v13'").reader == "pushdown"


@pytest.mark.parametrize("source_format", ["parquet", "orc", "json", "avro"])
def test_columns_have_the_types_of_the_catalog_by_name(
    spark: SparkSession, name: str, tmp_path: Path, source_format: str
) -> None:
    rows = spark.range(100).selectExpr("id AS Id", "concat('v', id) AS b", "CAST(id AS INT) AS c", "id AS extra")
    rows.coalesce(1).write.format(using(source_format)).save(str(tmp_path / "t"))
    spark.sql(
        f"CREATE TABLE {name} (c INT, missing STRING, ID BIGINT, B STRING) USING {using(source_format)} "
        f"LOCATION '{tmp_path.as_uri()}/t'"
    )
    for where in ("id = 7", "b = 'v8' AND c = 8", "missing IS NULL AND c < 5", "missing = 'x'"):
        report = agrees(spark, name, where)
        assert report.reader == "pushdown", report.reason


def test_columns_of_csv_files_have_the_types_of_the_catalog_by_position(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    spark.range(50).selectExpr("id AS a", "id * 2 AS b").write.option("header", "true").csv(str(tmp_path / "t"))
    clauses = f"USING csv OPTIONS (header 'true') LOCATION '{tmp_path.as_uri()}/t'"
    spark.sql(f"CREATE TABLE {name} (b INT, a STRING, c STRING) {clauses}")
    assert agrees(spark, name, "b = 7").reader == "pushdown"
    assert scan(spark, name, "b = 7")[0] == ["Row(b=7, a='14', c=None)"]


def test_orc_files_without_names_go_by_position(spark: SparkSession, name: str, tmp_path: Path) -> None:
    spark.range(50).selectExpr("id AS _col0", "concat('v', id) AS _col1").write.orc(str(tmp_path / "t"))
    spark.sql(f"CREATE TABLE {name} (k BIGINT, v STRING) USING orc LOCATION '{tmp_path.as_uri()}/t'")
    assert agrees(spark, name, "v = 'v7'").reader == "pushdown"


def test_forced_positions_in_orc_files_are_left_to_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    spark.range(50).selectExpr("id AS b", "id * 2 AS a").write.orc(str(tmp_path / "t"))
    options = "OPTIONS ('orc.force.positional.evolution' 'true')"
    spark.sql(f"CREATE TABLE {name} (a BIGINT, b BIGINT) USING orc {options} LOCATION '{tmp_path.as_uri()}/t'")
    assert "orc.force.positional.evolution" in agrees(spark, name, "a = 7").reason


@pytest.mark.parametrize("source_format", FORMATS)
def test_defaults_of_added_columns_are_left_to_spark(spark: SparkSession, name: str, source_format: str) -> None:
    create(spark, name, "parquet" if source_format == "avro" else source_format)
    spark.sql(f"ALTER TABLE {name} ADD COLUMN late INT")
    assert agrees(spark, name, "late IS NULL AND id = 7").reader == "pushdown"
    spark.sql(f"ALTER TABLE {name} ADD COLUMN filled INT DEFAULT 5")
    report = agrees(spark, name, "filled = 5 AND id = 7")
    assert report.reason == "column filled has a default for missing values"
    assert agrees(spark, name, "id = 7", ["id", "late"]).reader == "pushdown"


@pytest.mark.parametrize("source_format", FORMATS)
def test_columns_with_a_declared_length_match_as_in_spark(spark: SparkSession, name: str, source_format: str) -> None:
    columns = "id INT, c CHAR(4), v VARCHAR(5)"
    spark.sql(f"CREATE TABLE {name} ({columns}) USING {using(source_format)}")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 'x'), (2, 'ab', 'yy'), (3, NULL, NULL)")
    for where in ("c = 'a'", "c = 'a   '", "v = 'x' AND id = 1", "c LIKE 'a%' AND id > 1"):
        agrees(spark, name, where)
    with session_settings(spark, {"spark.sql.readSideCharPadding": "false"}):
        agrees(spark, name, "c = 'a' OR id = 2")
    with session_settings(spark, {"spark.sql.legacy.charVarcharAsString": "true"}):
        agrees(spark, name, "c = 'a' OR id = 2")


def test_spark_reads_columns_with_a_collation(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING COLLATE UTF8_LCASE) USING parquet")
    spark.sql(f"INSERT INTO {name} VALUES (1, 'A'), (2, 'a'), (3, 'b')")
    assert agrees(spark, name, "v = 'a'").reader == "spark"
    assert agrees(spark, name, "v = 'a' AND id = 2", ["id"]).reader == "spark"
    assert agrees(spark, name, "id = 2", ["id"]).reader == "pushdown"


def test_two_columns_that_differ_only_in_case_are_read_by_pushdown(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    with session_settings(spark, {"spark.sql.caseSensitive": "true"}):
        spark.range(20).selectExpr("id AS a", "id * 2 AS A").write.parquet(str(tmp_path / "t"))
        spark.sql(f"CREATE TABLE {name} (a BIGINT, A BIGINT) USING parquet LOCATION '{tmp_path.as_uri()}/t'")
        assert agrees(spark, name, "a = 4 AND A = 8").reader == "pushdown"


@pytest.mark.parametrize("source_format", ["parquet", "orc"])
def test_spark_takes_scans_that_need_few_buckets(spark: SparkSession, name: str, source_format: str) -> None:
    create(spark, name, source_format, "PARTITIONED BY (p) CLUSTERED BY (id) SORTED BY (v) INTO 4 BUCKETS")
    assert agrees(spark, name, "id = 13").reader == "pushdown"
    assert agrees(spark, name, "v = 'v13' AND p = 1").reader == "pushdown"
    report = agrees(spark, name, "id = 13", reader="auto")
    assert report.reason == "Spark reads only the buckets that the predicate selects"


@pytest.mark.parametrize("qualifier", ["spark_catalog.", ""])
def test_tables_are_found_by_qualified_name_and_in_the_current_database(
    spark: SparkSession, name: str, qualifier: str
) -> None:
    create(spark, name, "parquet")
    assert agrees(spark, f"{qualifier}{name}", "id = 7").reader == "pushdown"
    spark.sql(f"USE {DATABASE}")
    try:
        assert agrees(spark, f"`{name.partition('.')[2]}`", "id = 7").reader == "pushdown"
    finally:
        spark.sql("USE default")


def test_views_are_read_by_spark(spark: SparkSession, name: str) -> None:
    create(spark, name, "parquet")
    spark.sql(f"CREATE VIEW {DATABASE}.v AS SELECT id * 2 AS twice, v FROM {name} WHERE p = 1")
    report = agrees(spark, f"{DATABASE}.v", "twice = 26 AND v = 'v13'", ["v"])
    assert (report.reader, report.reason) == ("spark", "it is a view, which Spark expands")
    assert report.conjuncts[1].pushed_as == "filter of Spark's scan: IsNotNull(v), EqualTo(v,v13)"
    assert report.files_read == 2
    # Spark does not count vectored reads of Parquet.
    assert report.bytes_read is None
    assert report.rows_returned == 1


def test_bytes_of_a_view_of_lines_are_counted(spark: SparkSession, name: str) -> None:
    create(spark, name, "json")
    spark.sql(f"CREATE VIEW {DATABASE}.lines AS SELECT v FROM {name}")
    assert agrees(spark, f"{DATABASE}.lines", "v = 'v13'", ["v"]).bytes_read


def test_a_temporary_view_hides_a_table(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE hidden USING parquet AS SELECT 1 AS a")
    spark.range(3).createTempView("hidden")
    try:
        assert agrees(spark, "hidden", "id = 2").reason == "it is a view, which Spark expands"
        assert agrees(spark, "default.hidden", "a = 1").reader == "pushdown"
    finally:
        spark.catalog.dropTempView("hidden")
        spark.sql("DROP TABLE hidden")


def test_cached_tables_keep_their_rows(spark: SparkSession, name: str) -> None:
    create(spark, name, "parquet")
    files = spark.table(name).inputFiles()
    spark.sql(f"CACHE TABLE {name}")
    for file in files:
        Path(file.removeprefix("file://")).unlink()
    report = agrees(spark, name, "id = 7")
    assert "cached in Spark" in report.reason


def test_a_stale_listing_is_left_to_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    file = tmp_path / "t" / "a.csv"
    file.write_text("1,a\n2,b\n")
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) USING csv LOCATION '{tmp_path.as_uri()}/t'")
    assert agrees(spark, name, "v = 'b'").reader == "pushdown"
    file.write_text("1,a\n2,b\n3,b\n")
    assert "REFRESH TABLE" in agrees(spark, name, "v = 'b'").reason
    spark.sql(f"REFRESH TABLE {name}")
    assert agrees(spark, name, "v = 'b'").reader == "pushdown"


def test_options_of_the_declaration_add_to_those_of_the_table(spark: SparkSession, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1;a\n2;b\n# 3;b\n")
    clauses = f"USING csv OPTIONS (sep ';') LOCATION '{tmp_path.as_uri()}'"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) {clauses}")
    assert agrees(spark, name, "v = 'b'").reader == "pushdown"
    rows, report = scan(spark, name, "v = 'b'", options={"comment": "#"})
    assert (rows, report.reader) == (["Row(id=2, v='b')"], "pushdown")


def test_tables_with_options_that_only_spark_supports_are_read_by_spark(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('{"id": 1,\n"v": "a"}')
    clauses = f"USING json OPTIONS (multiLine 'true') LOCATION '{tmp_path.as_uri()}'"
    spark.sql(f"CREATE TABLE {name} (id INT, v STRING) {clauses}")
    assert agrees(spark, name, "v = 'a'").reason == "with multiLine, records are not lines"


def test_text_tables_are_read_by_spark(spark: SparkSession, name: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    spark.sql(f"CREATE TABLE {name} (value STRING) USING text LOCATION '{tmp_path.as_uri()}'")
    assert agrees(spark, name, "value = 'two'").reason == "format text is read by Spark only"


def test_struct_members_of_json_tables_are_read(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (id INT, s STRUCT<a: INT, b: STRING>) USING json")
    spark.sql(f"INSERT INTO {name} VALUES (1, named_struct('a', 5, 'b', 'x')), (2, NULL)")
    assert agrees(spark, name, "s.b = 'x'", ["s.a"]).reader == "pushdown"
    assert agrees(spark, name, "s.b = 'x'", ["s.a"], reader="spark").reader == "spark"


def test_limits_and_file_columns_work_as_for_files(spark: SparkSession, name: str) -> None:
    create(spark, name, "parquet")
    session = PushdownSession(spark)
    session.add_table("t", name, reader="pushdown", implicit_names={"filename": "file"})
    first_rows = session.scan("t", columns=["id", "dir0", "file"], where="p = 1 AND id > 5", limit=3)
    rows = first_rows.run(lambda frame: frame.collect())
    assert len(rows) == 3
    assert {row.dir0 for row in rows} == {"p=1"}
    assert all(row.file.endswith(".parquet") for row in rows)


def test_one_query_joins_a_table_a_view_and_files(spark: SparkSession, name: str, tmp_path: Path) -> None:
    create(spark, name, "parquet")
    spark.range(300).selectExpr("id", "id % 7 AS kind").write.json(str(tmp_path / "kinds"))
    spark.sql(f"CREATE VIEW {DATABASE}.some AS SELECT id FROM {name} WHERE id < 100")
    session = PushdownSession(spark)
    session.add_table("events", name, reader="pushdown")
    session.add_table("some", f"{DATABASE}.some")
    session.add_source("kinds", path=str(tmp_path / "kinds"), format="json", schema="id BIGINT, kind BIGINT")
    result = session.sql(
        "SELECT e.v, k.kind FROM events e JOIN kinds k ON e.id = k.id JOIN some s ON s.id = e.id "
        "WHERE e.p = 1 AND e.v IN ('v13', 'v201', 'v21')"
    )
    rows = result.run(lambda frame: sorted(tuple(row) for row in frame.collect()))
    assert rows == [("v13", 6), ("v21", 0)]
    reports = result.report()
    assert reports["events"].reader == "pushdown"
    assert reports["some"].reader == "spark"


def test_default_values_are_not_taken_for_keys_of_a_semi_join(spark: SparkSession, name: str, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {name} (id BIGINT) USING parquet")
    spark.sql(f"INSERT INTO {name} VALUES (1), (2)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMN k INT DEFAULT 42")
    spark.range(100_000).selectExpr("CAST(id AS INT) AS k", "id AS x").write.parquet(str(tmp_path / "large"))
    session = PushdownSession(spark)
    session.add_table("small", name)
    session.add_source("large", path=str(tmp_path / "large"), format="parquet")
    result = session.sql("SELECT l.x FROM small s JOIN large l ON s.k = l.k WHERE s.id = 1")
    assert result.run(lambda frame: frame.collect()) == [(42,)]


def test_errors_name_the_table(spark: SparkSession, name: str) -> None:
    session = PushdownSession(spark)
    session.add_table("t", f"{DATABASE}.nothing")
    with pytest.raises(MissingPathError, match=f"^table of source 't': .*`{DATABASE}`.`nothing`"):
        session.scan("t")
    session.add_table("t", "no..name")
    with pytest.raises(BadSpecError, match=r"^table of source 't': Syntax error"):
        session.scan("t")
    with pytest.raises(BadSpecError, match=r"^source 't': reader: "):
        session.add_table("t", name, reader="fast")
    create(spark, name, "parquet")
    session.add_table("t", name)
    with pytest.raises(UnknownColumnError, match="nope"):
        session.scan("t", columns=["nope"])
    spark.sql(f"CREATE OR REPLACE VIEW {DATABASE}.plain AS SELECT 1 AS a")
    session.add_table("plain", f"{DATABASE}.plain")
    with pytest.raises(
        UnknownColumnError, match="which only Spark reads, and has no implicit columns such as filename"
    ):
        session.scan("plain", columns=["filename"])
