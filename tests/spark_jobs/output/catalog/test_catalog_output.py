"""Tables of files in the catalog as targets: values, columns, partitions, options, and tables that are refused.

The nightly module `test_catalog_hive.py` runs these tests with a Hive metastore.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interrupted_files import InterruptedFiles
from pyspark.sql import DataFrame, SparkSession
from session_settings import session_settings

from pushdown_spark.contract import CatalogOutputSpec, ErrorCode, OutputMode
from pushdown_spark.errors import (
    BadPredicateError,
    BadSpecError,
    CheckFailedError,
    MissingPathError,
    OutputConflictError,
    OutputExistsError,
    PushdownError,
    SchemaConflictError,
    UnwritableValueError,
)
from pushdown_spark.output.catalog.catalog_targets import open_catalog_output
from pushdown_spark.output.catalog.file_table import FileTableTarget
from pushdown_spark.output.files.file_output import FileOutput
from pushdown_spark.runtime.error_classification import classify

DATABASE = "targets"
TABLE = f"{DATABASE}.t"
PARTITIONS = OutputMode.OVERWRITE_PARTITIONS
VALUES = """SELECT id, CAST(id AS TINYINT) AS b, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i, id > 1 AS t,
    CAST(id / 3 AS FLOAT) AS f, id / 3 AS d, CAST(id / 7 AS DECIMAL(20, 5)) AS n,
    concat('it''s ', id, ' \\u20ac\\n"x"') AS v,
    CAST(CAST(id AS STRING) AS BINARY) AS y, date_add(DATE'1999-12-31', CAST(id AS INT)) AS day,
    TIMESTAMP'2026-03-29 01:30:00.123456' + make_interval(0, 0, 0, 0, CAST(id AS INT)) AS ts,
    TIMESTAMP_NTZ'2026-03-29 02:30:00.5' AS local, array(id, NULL) AS a, map('k', id) AS m,
    named_struct('x', id, 'odd name', 'z') AS o FROM range(4)
    UNION ALL SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"""
PARTITION_VALUES = {
    "date": "DATE'2026-01-01', DATE'1969-12-31', NULL",
    "timestamp": "TIMESTAMP'2026-01-01 00:00:00', TIMESTAMP'2026-01-01 10:11:12.5', NULL",
    "string": "'a b', 'x/y=z', 'it''s %41 \\u00e9 {[*?#', NULL",
    "int": "1, -5, NULL",
    "decimal(9,2)": "1.50BD, -0.10BD, NULL",
    "boolean": "true, false, NULL",
    "double": "1.5D, 1e30D, NULL",
}

FOREIGN_NAMES = [
    ("STRING", "a%20b", "'a b'"),
    ("INT", "01", "1"),
    ("DATE", "2026-1-1", "DATE'2026-01-01'"),
    ("DATE", "2026-01-01 05%3A00%3A00", "DATE'2026-01-01'"),
    ("DECIMAL(9,2)", "1.5", "1.50"),
    ("DOUBLE", "1", "1"),
    ("BOOLEAN", "TRUE", "true"),
    ("TIMESTAMP", "2026-01-01", "TIMESTAMP'2026-01-01 00:00:00'"),
]
"""Types of partition columns, values, and their names of other programs."""


@pytest.fixture(autouse=True)
def _database(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    spark.sql(f"CREATE DATABASE {DATABASE} LOCATION '{tmp_path.as_uri()}/db'")
    yield
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def output_of(
    spark: SparkSession, mode: OutputMode = OutputMode.APPEND, run: str = "run", table: str = TABLE, **fields: object
) -> FileOutput:
    output = open_catalog_output(spark, CatalogOutputSpec(catalog_table=table, mode=mode, **fields), run)  # type: ignore[arg-type]
    assert isinstance(output, FileOutput)
    return output


def write(output: FileOutput, frame: DataFrame) -> FileOutput:
    if output.prepare():
        with output.transaction():
            output.stage(frame)
            output.staged_rows = frame.count()
    return output


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row)) for row in frame.collect())


@pytest.mark.parametrize("source_format", ["parquet", pytest.param("orc", marks=pytest.mark.nightly)])
def test_values_arrive_as_they_were(spark: SparkSession, source_format: str) -> None:
    frame = spark.sql(VALUES)
    output = write(output_of(spark, format=source_format, partition_by=["day"]), frame)
    assert output.summary is not None
    assert (output.summary.table, output.summary.partitions_total) == (TABLE, 5)
    assert str(output.summary.location).endswith("/db/t")
    columns = frame.columns
    assert rows(spark.table(TABLE).select(*columns)) == rows(frame)
    write(output_of(spark, run="second"), frame.select(*reversed(columns)))
    assert spark.table(TABLE).count() == 2 * frame.count()
    write(output_of(spark, OutputMode.OVERWRITE, "third"), frame)
    assert rows(spark.table(TABLE).select(*columns)) == rows(frame)


def test_partition_columns_of_a_new_table_may_have_another_spelling(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS id, 'a' AS Day, 'b' AS kind")
    for run in ("run", "run", "second"):
        write(output_of(spark, run=run, partition_by=["DAY", "Kind"]), frame)
        count = 2 if run == "second" else 1
        assert rows(spark.table(TABLE).select("id", "Day", "kind")) == ["(1, 'a', 'b')"] * count
    assert [row[0] for row in spark.sql(f"SHOW PARTITIONS {TABLE}").collect()] == ["Day=a/kind=b"]


@pytest.mark.parametrize(
    "kind", [kind if kind == "string" else pytest.param(kind, marks=pytest.mark.nightly) for kind in PARTITION_VALUES]
)
def test_partition_values_arrive_as_they_were(spark: SparkSession, kind: str) -> None:
    values = PARTITION_VALUES[kind]
    frame = spark.sql(f"SELECT posexplode(array({values})) AS (id, p)").selectExpr("id", f"CAST(p AS {kind}) AS p")
    write(output_of(spark, partition_by=["p"]), frame)
    assert rows(spark.table(TABLE)) == rows(frame)
    write(output_of(spark, PARTITIONS, "again"), frame)
    assert rows(spark.table(TABLE)) == rows(frame)
    assert spark.sql(f"SHOW PARTITIONS {TABLE}").count() == len(values.split(", "))


@pytest.mark.parametrize("name", ["._COPYING_", ".x", "_x"])
@pytest.mark.parametrize("is_value", [False, True])
@pytest.mark.parametrize("tracks", ["true", "false"])
def test_rows_of_partitions_are_read_back_or_refused(
    spark: SparkSession, name: str, is_value: bool, tracks: str
) -> None:
    """Spark lists the directories of a table without partitions in the catalog, and ignores some of them."""
    column, value = ("t", name) if is_value else (name, "t")
    frame = spark.sql(f"SELECT 1 AS id, '{value}' AS `{column}`")
    is_unread = tracks == "false" and (f"{column}={value}".startswith(".") or value == "._COPYING_")
    with session_settings(spark, {"spark.sql.hive.manageFilesourcePartitions": tracks}):
        for create in ("", f"CREATE TABLE {TABLE} (id INT, `{column}` STRING) USING json PARTITIONED BY (`{column}`)"):
            if create:
                spark.sql(f"DROP TABLE IF EXISTS {TABLE}")
                spark.sql(create)
            if is_unread:
                with pytest.raises((BadSpecError, UnwritableValueError), match="Spark reads no directory whose"):
                    write(output_of(spark, partition_by=[column]), frame)
                continue
            for mode in (OutputMode.APPEND, PARTITIONS):
                write(output_of(spark, mode, partition_by=[column]), frame)
                assert rows(spark.table(TABLE)) == rows(frame)


def test_rows_are_stored_like_those_of_insert(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE TABLE {TABLE} (Id INT, v VARCHAR(3), c CHAR(4), `odd name` DECIMAL(5, 1), Day DATE) USING parquet "
        "PARTITIONED BY (Day)"
    )
    source = "SELECT DATE'2026-01-01' AS DAY, 2.25BD AS `Odd Name`, 'ab' AS c, 'abc' AS v, 7L AS id"
    write(output_of(spark), spark.sql(source))
    assert rows(spark.table(TABLE)) == ["(7, 'abc', 'ab  ', Decimal('2.3'), datetime.date(2026, 1, 1))"]
    for wrong in ("9999999999L AS id, 'abc' AS v", "1 AS id, 'abcd' AS v"):
        frame = spark.sql(f"SELECT {wrong}, 'c' AS c, 1BD AS `odd name`, DATE'2026-01-01' AS day")
        with pytest.raises(Exception, match=r"CAST_OVERFLOW|EXCEED_LIMIT") as error:
            write(output_of(spark, run="wrong"), frame)
        assert classify(error.value).code is ErrorCode.CHECK_FAILED
    with pytest.raises(
        SchemaConflictError, match=r"output_table: Cannot write incompatible data .*`Day` \"STRING\" to"
    ):
        write(output_of(spark), spark.sql("SELECT 1 AS id, 'v' AS v, 'c' AS c, 1BD AS `odd name`, 'x' AS day"))
    with pytest.raises(SchemaConflictError, match="the table has no column 'more'"):
        write(output_of(spark), spark.sql(f"SELECT *, 1 AS more FROM {TABLE}"))
    with pytest.raises(SchemaConflictError, match="the rows have no column 'c'"):
        write(output_of(spark), spark.table(TABLE).drop("c"))
    assert spark.table(TABLE).count() == 1


def test_options_of_the_table_are_used(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 'it''s' AS a, 1 AS b")
    write(output_of(spark, format="csv", options={"header": "true", "sep": "|", "nullValue": "'\\"}), frame)
    write(output_of(spark, run="second", options={"SEP": "|"}), frame)
    assert rows(spark.table(TABLE)) == 2 * ['("it\'s", 1)']
    with pytest.raises(BadSpecError, match=r"output_options: targets.t has sep='\|', not ';'"):
        output_of(spark, options={"sep": ";"})


def test_a_retry_of_a_created_table_reports_the_earlier_try(spark: SparkSession) -> None:
    for mode in (OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE):
        write(output_of(spark, mode), spark.range(7))
        again = write(output_of(spark, mode), spark.range(7))
        assert again.committed_rows == 7
        assert again.summary is not None
        assert (again.summary.is_from_earlier_try, again.summary.columns) == (True, {"id": "bigint"})
        spark.sql(f"DROP TABLE {TABLE}")
    write(output_of(spark, OutputMode.OVERWRITE), spark.range(7))
    with pytest.raises(OutputExistsError, match=r"output: targets.t already exists"):
        output_of(spark, OutputMode.ERROR_IF_EXISTS, "other").prepare()
    assert not output_of(spark, OutputMode.IGNORE, "other").prepare()


def test_replace_where_selects_partitions(spark: SparkSession) -> None:
    days = "SELECT id, date_add(DATE'2026-01-01', CAST(id AS INT)) AS day FROM range(5)"
    write(output_of(spark, partition_by=["day"]), spark.sql(days))
    day = "day >= DATE'2026-01-04'"
    write(output_of(spark, PARTITIONS, "1", replace_where=day), spark.sql("SELECT 9 AS id, DATE'2026-01-04' AS day"))
    assert [row["id"] for row in spark.table(TABLE).orderBy("day").collect()] == [0, 1, 2, 9]
    assert spark.sql(f"SHOW PARTITIONS {TABLE}").count() == 4
    with pytest.raises(CheckFailedError, match=r"the rows have partition day=2026-01-01, for which"):
        write(output_of(spark, PARTITIONS, "2", replace_where=day), spark.sql(days))
    with pytest.raises(BadPredicateError, match=r"replace_where: .*can use the partition columns \(day\)"):
        output_of(spark, PARTITIONS, "3", replace_where="id = 1").prepare()
    write(output_of(spark, PARTITIONS, "4", replace_where="day IS NOT NULL"), spark.sql(f"{days} LIMIT 0"))
    assert spark.table(TABLE).count() == 0


def test_a_task_can_read_what_it_overwrites(spark: SparkSession) -> None:
    write(output_of(spark), spark.range(5))
    write(output_of(spark, OutputMode.OVERWRITE, "second"), spark.table(TABLE).selectExpr("id + 10 AS id"))
    assert rows(spark.table(TABLE)) == [f"({number},)" for number in range(10, 15)]


def test_a_write_drops_the_statistics_of_the_earlier_rows(spark: SparkSession) -> None:
    write(output_of(spark), spark.range(5))
    spark.sql(f"ANALYZE TABLE {TABLE} COMPUTE STATISTICS")
    write(output_of(spark, run="second"), spark.range(5))
    description = {row["col_name"]: row["data_type"] for row in spark.sql(f"DESCRIBE EXTENDED {TABLE}").collect()}
    assert "5 rows" not in str(description.get("Statistics"))


def test_tables_that_cannot_be_replaced_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {TABLE} (id INT, p INT) USING parquet CLUSTERED BY (id) INTO 2 BUCKETS")
    with pytest.raises(BadSpecError, match="has buckets"):
        output_of(spark)
    spark.sql(f"CREATE VIEW {DATABASE}.v AS SELECT 1 AS id")
    with pytest.raises(BadSpecError, match="is a view"):
        output_of(spark, table=f"{DATABASE}.v")
    spark.sql(f"CREATE TABLE {DATABASE}.p (id INT, p INT) USING parquet PARTITIONED BY (p)")
    spark.sql(f"ALTER TABLE {DATABASE}.p ADD PARTITION (p = 1) LOCATION '{tmp_path.as_uri()}/else'")
    frame = spark.sql("SELECT 1 AS id, 1 AS p")
    with pytest.raises(BadSpecError, match=r"a partition of targets.p has a directory of its own, file:.*/else"):
        output_of(spark, OutputMode.OVERWRITE, table=f"{DATABASE}.p").prepare()
    with pytest.raises(BadSpecError, match="has a directory of its own"):
        write(output_of(spark, table=f"{DATABASE}.p"), frame)
    write(output_of(spark, table=f"{DATABASE}.p"), frame.selectExpr("id", "2 AS p"))
    for fields, message in (
        ({"mode": OutputMode.MERGE, "merge_keys": ["id"]}, "output_mode: targets.p is a table of files; merge needs"),
        ({"partition_by": ["id"]}, "partition_by: targets.p is partitioned by p, not by id"),
        (
            {"table": f"{DATABASE}.n", "mode": PARTITIONS},
            "overwrite_partitions needs partitions, and targets.n has none",
        ),
        ({"table": f"{DATABASE}.n", "format": "delta"}, "cannot write targets.n all or nothing"),
        ({"table": "a.b.c"}, "has more parts"),
        ({"table": "a b"}, "output_table: "),
    ):
        with pytest.raises(BadSpecError, match=message):
            output_of(spark, **{"table": f"{DATABASE}.p", **fields})  # type: ignore[arg-type]
    with pytest.raises(MissingPathError, match="has no database nope"):
        output_of(spark, table="nope.t")
    (tmp_path / "db" / "left").mkdir()
    (tmp_path / "db" / "left" / "part-0.parquet").touch()
    with pytest.raises(BadSpecError, match=r"has files, but the catalog has no table targets.left"):
        output_of(spark, table=f"{DATABASE}.left").prepare()


@pytest.mark.parametrize("name", ["p=1/part-0.json", "p=1/.part-0.json.crc"])
def test_a_file_that_appears_in_an_empty_directory_is_kept(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Another program begins to fill the directory after the run has found no files in it."""
    directory = tmp_path / "db" / "t"
    (directory / "p=0").mkdir(parents=True)
    (directory / "p=1").mkdir()
    target = output_of(spark)._target
    assert isinstance(target, FileTableTarget)
    target._files = InterruptedFiles(1, lambda _left: (directory / name).touch())
    with pytest.raises(BadSpecError, match=r"has files, but the catalog has no table targets.t"):
        target.exists()
    assert [path for path in directory.rglob("*") if path.is_file()] == [directory / name]


def test_empty_directories_in_the_place_of_a_new_table_are_deleted(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "db" / "t" / "p=0" / "q=0").mkdir(parents=True)
    write(output_of(spark), spark.sql("SELECT 1 AS id"))
    assert [row["id"] for row in spark.table(TABLE).collect()] == [1]


def test_an_append_does_not_bring_back_old_files(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {TABLE} (id INT, p INT) USING json PARTITIONED BY (p) LOCATION '{tmp_path.as_uri()}/t'")
    frame = spark.sql("SELECT 1 AS id, 1 AS p")
    write(output_of(spark), frame)
    spark.sql(f"ALTER TABLE {TABLE} DROP PARTITION (p = 1)")
    with pytest.raises(BadSpecError, match=r"p=1 has files, but the catalog has no such partition"):
        write(output_of(spark, run="second"), frame)
    write(output_of(spark, PARTITIONS, "third"), frame)
    assert spark.table(TABLE).count() == 1


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, PARTITIONS, OutputMode.APPEND])
@pytest.mark.parametrize(("kind", "name", "value"), FOREIGN_NAMES)
def test_a_partition_whose_directory_spark_names_differently_is_not_replaced(
    spark: SparkSession, tmp_path: Path, mode: OutputMode, kind: str, name: str, value: str
) -> None:
    """Spark would write `p=a b` and `p=1`. The table would have no rows, or rows of both directories."""
    value = f"CAST({value} AS {kind})"
    create_foreign_partition(spark, tmp_path / "t", kind, name)
    old, new = spark.sql(f"SELECT 1 AS id, {value} AS p"), spark.sql(f"SELECT 2 AS id, {value} AS p")
    assert rows(spark.table(TABLE)) == rows(old)
    if kind != "STRING" and mode is OutputMode.APPEND:
        write(output_of(spark, mode), new)
        assert rows(spark.table(TABLE)) == rows(old.union(new))
        return
    with pytest.raises(BadSpecError, match=r"a partition of targets.t has a directory of its own, file:.*/p="):
        write(output_of(spark, mode), new)
    assert rows(spark.table(TABLE)) == rows(old)


@pytest.mark.parametrize("mode", [OutputMode.OVERWRITE, PARTITIONS])
def test_a_partition_without_the_padding_of_its_column_is_not_replaced(
    spark: SparkSession, tmp_path: Path, mode: OutputMode
) -> None:
    create_foreign_partition(spark, tmp_path / "t", "CHAR(3)", "a")
    with pytest.raises(BadSpecError, match=r"a partition of targets.t has a directory of its own, file:.*/p=a"):
        write(output_of(spark, mode), spark.sql("SELECT 2 AS id, 'a' AS p"))
    assert [row["id"] for row in spark.table(TABLE).collect()] == [1]


@pytest.mark.parametrize(("kind", "name", "value"), FOREIGN_NAMES)
def test_overwrite_partitions_replaces_a_directory_of_another_name_if_the_catalog_has_no_partitions(
    spark: SparkSession, tmp_path: Path, kind: str, name: str, value: str
) -> None:
    """Spark reads `p=01` and `p=1` as one partition."""
    value = f"CAST({value} AS {kind})"
    with session_settings(spark, {"spark.sql.hive.manageFilesourcePartitions": "false"}):
        create_foreign_partition(spark, tmp_path / "t", kind, name)
        assert rows(spark.table(TABLE)) == rows(spark.sql(f"SELECT 1 AS id, {value} AS p"))
        for run in ("run", "run", "second"):
            new = spark.sql(f"SELECT 2 AS id, {value} AS p")
            write(output_of(spark, PARTITIONS, run), new)
            assert rows(spark.table(TABLE)) == rows(new)
    assert len([*(tmp_path / "t").glob("p=*")]) == 1


def create_foreign_partition(spark: SparkSession, directory: Path, kind: str, value: str) -> None:
    """Create a table with a partition whose directory another program has named."""
    (directory / f"p={value}").mkdir(parents=True)
    (directory / f"p={value}" / "part-0.json").write_text('{"id": 1}')
    spark.sql(f"CREATE TABLE {TABLE} (id INT, p {kind}) USING json PARTITIONED BY (p) LOCATION '{directory.as_uri()}'")
    if spark.conf.get("spark.sql.hive.manageFilesourcePartitions") == "true":
        spark.sql(f"MSCK REPAIR TABLE {TABLE}")


def test_a_table_that_changes_during_the_load_is_not_written(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {TABLE} (id INT) USING json")
    for change in (f"ALTER TABLE {TABLE} ADD COLUMNS (more INT)", f"DROP TABLE {TABLE}"):
        output = output_of(spark)
        assert output.prepare()
        output.stage(spark.table(TABLE))
        spark.sql(change)
        with pytest.raises(PushdownError, match="another program has changed or replaced") as error:
            output.commit()
        output.abort()
        assert error.value.code.retryable
    output = output_of(spark)
    assert output.prepare()
    output.stage(spark.sql("SELECT 1 AS id"))
    spark.sql(f"CREATE TABLE {TABLE} (id INT) USING json")
    with pytest.raises(PushdownError, match="another program has changed or replaced"):
        output.commit()
    output.abort()
    assert spark.table(TABLE).count() == 0


def test_an_overwrite_follows_the_dynamic_mode_of_the_session(spark: SparkSession) -> None:
    write(output_of(spark, partition_by=["p"]), spark.sql("SELECT id, id % 2 AS p FROM range(4)"))
    with session_settings(spark, {"spark.sql.sources.partitionOverwriteMode": "dynamic"}):
        write(output_of(spark, OutputMode.OVERWRITE, "second"), spark.sql("SELECT 9L AS id, 1L AS p"))
    assert sorted(row["id"] for row in spark.table(TABLE).collect()) == [0, 2, 9]


rounds = pytest.mark.parametrize("rounds", [3, pytest.param(50, marks=pytest.mark.nightly)])


def race(spark: SparkSession, table: str, partitions: tuple[int, int]) -> tuple[list[type[Exception]], list[int]]:
    """Let two runs commit a row each into a partition, at once. Return their errors, and the partition of each row."""
    outputs = [output_of(spark, PARTITIONS, run, table, partition_by=["p"]) for run in "ab"]
    for output, partition in zip(outputs, partitions, strict=True):
        assert output.prepare()
        output.stage(spark.sql(f"SELECT {ord(output.paths.run[0])} AS id, {partition} AS p"))

    def commit(output: FileOutput) -> type[Exception] | None:
        try:
            with output.transaction():
                pass
        except PushdownError as problem:
            return type(problem)
        return None

    with ThreadPoolExecutor(2) as threads:
        raised = [each for each in threads.map(commit, outputs) if each is not None]
    rows = sorted(row["p"] for row in spark.table(table).collect())
    spark.sql(f"DROP TABLE {table}")
    return raised, rows


def create_partition_0(spark: SparkSession, table: str) -> None:
    write(output_of(spark, run="old", table=table, partition_by=["p"]), spark.sql("SELECT 0 AS id, 0 AS p"))


@rounds
def test_one_of_two_runs_over_a_partition_raises_a_conflict(spark: SparkSession, rounds: int) -> None:
    for number in range(rounds):
        create_partition_0(spark, f"{DATABASE}.c{number}")
        assert race(spark, f"{DATABASE}.c{number}", (1, 1)) == ([OutputConflictError], [0, 1])


@rounds
def test_two_runs_over_different_partitions_are_both_written(spark: SparkSession, rounds: int) -> None:
    for number in range(rounds):
        create_partition_0(spark, f"{DATABASE}.d{number}")
        assert race(spark, f"{DATABASE}.d{number}", (1, 2)) == ([], [0, 1, 2])


@rounds
@pytest.mark.parametrize(
    ("partitions", "most_rows"), [((1, 1), 1), ((1, 2), 2)], ids=["same partition", "different partitions"]
)
def test_at_least_one_of_two_runs_that_create_a_table_is_written(
    spark: SparkSession, rounds: int, partitions: tuple[int, int], most_rows: int
) -> None:
    """A run that finds the table of the other one raises, and runs again."""
    for number in range(rounds):
        raised, rows = race(spark, f"{DATABASE}.e{number}", partitions)
        assert len(raised) + len(rows) == 2
        assert 1 <= len(rows) <= most_rows
        assert set(rows) <= set(partitions)
