"""Iceberg and Delta tables as targets: what each mode writes, also in repetitions, and what it refuses."""

from __future__ import annotations

import pytest
from lakehouse import CATALOG, CREATING, EXPECTED, NEW, OLD, create, output_of, stored_rows, versions, write
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pushdown_spark.contract import CatalogOutputSpec, OutputMode
from pushdown_spark.errors import (
    BadPredicateError,
    BadSpecError,
    CheckFailedError,
    OutputExistsError,
    PushdownError,
    SchemaConflictError,
)
from pushdown_spark.output.catalog.catalog_targets import open_catalog_output

pytestmark = pytest.mark.nightly


@pytest.mark.parametrize("mode", EXPECTED)
def test_each_mode_writes_once_and_a_retry_adds_nothing(spark: SparkSession, table: str, mode: OutputMode) -> None:
    create(spark, table)
    output = write(spark, output_of(spark, table, mode, checks={"min_rows": 2, "unique": ["id"]}))
    assert stored_rows(spark, table) == EXPECTED[mode]
    assert output.summary is not None
    assert (output.summary.mode, output.summary.is_from_earlier_try) == (mode, False)
    assert output.summary.files > 0
    assert output.summary.bytes > 0
    assert output.summary.location
    before = versions(spark, table)
    again = write(spark, output_of(spark, table, mode))
    assert (again.committed_rows, versions(spark, table)) == (2, before)
    assert again.summary is not None
    assert again.summary.is_from_earlier_try


@pytest.mark.parametrize("mode", CREATING)
def test_missing_tables_are_created(spark: SparkSession, table: str, mode: OutputMode) -> None:
    write(spark, output_of(spark, table, mode, partition_by=("day",)))
    assert stored_rows(spark, table) == NEW
    again = write(spark, output_of(spark, table, mode))
    assert (again.committed_rows, stored_rows(spark, table)) == (2, NEW)
    if mode is OutputMode.ERROR_IF_EXISTS:
        with pytest.raises(OutputExistsError):
            output_of(spark, table, mode, "other").prepare()
    if mode is OutputMode.IGNORE:
        assert not output_of(spark, table, mode, "other").prepare()


def test_runs_without_rows_are_versions_too(spark: SparkSession, table: str) -> None:
    write(spark, output_of(spark, table, OutputMode.ERROR_IF_EXISTS), [])
    assert stored_rows(spark, table) == []
    write(spark, output_of(spark, table, OutputMode.APPEND, "second"), [])
    again = write(spark, output_of(spark, table, OutputMode.APPEND, "second"))
    assert (again.committed_rows, stored_rows(spark, table)) == (0, [])


def test_a_repetition_on_purpose_writes_again_where_rows_cannot_double(spark: SparkSession, table: str) -> None:
    create(spark, table)
    for mode in (OutputMode.OVERWRITE, OutputMode.OVERWRITE_PARTITIONS, OutputMode.MERGE):
        write(spark, output_of(spark, table, mode, mode), NEW)
        write(spark, output_of(spark, table, mode, mode, generation="2"), [(2, "b", f"again {mode}")])
        assert (2, "b", f"again {mode}") in stored_rows(spark, table)
    before = stored_rows(spark, table)
    write(spark, output_of(spark, table, OutputMode.APPEND, "append"))
    write(spark, output_of(spark, table, OutputMode.APPEND, "append", generation="2"))
    assert stored_rows(spark, table) == sorted([*before, *NEW])


def test_replace_where_replaces_the_rows_for_which_it_is_true(spark: SparkSession, table: str) -> None:
    create(spark, table)
    mode = OutputMode.OVERWRITE_PARTITIONS
    write(spark, output_of(spark, table, mode, replace_where="day = 'b'"), [(9, "b", "nine")])
    assert stored_rows(spark, table) == [OLD[0], (9, "b", "nine")]
    with pytest.raises(CheckFailedError, match="is not true for 1 of the rows"):
        write(spark, output_of(spark, table, mode, "2", replace_where="day = 'b'"), [(9, "c", "nine")])
    with pytest.raises((BadPredicateError, PushdownError), match="replace_where"):
        output_of(spark, table, mode, "3", replace_where="nope = 1").prepare()
    write(spark, output_of(spark, table, mode, "4", replace_where="day = 'b'"), [])
    assert stored_rows(spark, table) == [OLD[0]]


def test_a_task_can_read_what_it_overwrites(spark: SparkSession, table: str) -> None:
    create(spark, table)
    output = output_of(spark, table, OutputMode.OVERWRITE)
    assert output.prepare()
    with output.transaction():
        output.stage(spark.table(table).selectExpr("id + 10 AS id", "day", "x"))
    assert [row[0] for row in stored_rows(spark, table)] == [11, 12, 13]


def test_errors_leave_the_table_as_it_was(spark: SparkSession, table: str) -> None:
    create(spark, table)
    before = versions(spark, table)
    with pytest.raises(CheckFailedError, match="unique"):
        write(spark, output_of(spark, table, OutputMode.APPEND, checks={"unique": ["day"]}))
    with pytest.raises(CheckFailedError, match="unique: id"):
        write(spark, output_of(spark, table, OutputMode.MERGE), [(1, "a", "x"), (1, "b", "y")])
    with pytest.raises(CheckFailedError, match="not_null: id"):
        write(spark, output_of(spark, table, OutputMode.MERGE), [(None, "a", "x")])  # type: ignore[list-item]
    output = output_of(spark, table, OutputMode.APPEND)
    assert output.prepare()
    with pytest.raises(SchemaConflictError, match="no column 'day'"), output.transaction():
        output.stage(spark.sql("SELECT 1 AS id, 'x' AS x"))
    for values in ("'1' AS id, 'b' AS day, 'x' AS x", "1 AS id, 'b' AS day, array('x') AS x"):
        with (
            pytest.raises(SchemaConflictError, match=r"output_table: column \w+ is .* in the rows"),
            output.transaction(),
        ):
            output.stage(spark.sql(f"SELECT {values}"))
    with pytest.raises(BadSpecError, match=r"partition_by: .* is partitioned by day, not by x"):
        output_of(spark, table, OutputMode.APPEND, partition_by=("x",)).prepare()
    assert versions(spark, table) == before


def test_checks_and_merges_see_the_stored_values(spark: SparkSession, table: str) -> None:
    source_format = "iceberg" if table.startswith(CATALOG) else "delta"
    spark.sql(f"CREATE TABLE {table} (day DATE, x STRING) USING {source_format}")
    spark.sql(f"INSERT INTO {table} VALUES (DATE'2026-01-01', 'old')")
    times = "SELECT timestamp(time) AS day, x FROM VALUES ('{}', 'new'), ('{}', 'new') AS rows(time, x)"
    changes: dict[OutputMode, dict[str, object]] = {
        OutputMode.APPEND: {"checks": {"unique": ["day"]}},
        OutputMode.MERGE: {"merge_keys": ("day",)},
        OutputMode.OVERWRITE_PARTITIONS: {"replace_where": "day <> DATE'2026-01-02'"},
    }
    for mode, value in changes.items():
        output = output_of(spark, table, mode, str(mode), **value)
        assert output.prepare()
        with pytest.raises(CheckFailedError), output.transaction():
            output.stage(spark.sql(times.format("2026-01-02 10:00", "2026-01-02 11:00")))
    output = output_of(spark, table, OutputMode.MERGE, merge_keys=("day",))
    assert output.prepare()
    with output.transaction():
        output.stage(spark.sql(times.format("2026-01-01 10:00", "2026-01-02 10:00")))
    assert [row["x"] for row in spark.table(table).collect()] == ["new", "new"]


def test_a_merge_by_an_empty_string_in_a_partition_column_adds_no_row_twice(spark: SparkSession, table: str) -> None:
    """Delta stores NULL, which equals no key."""
    create(spark, table)
    for run in ("first", "second"):
        output = output_of(spark, table, OutputMode.MERGE, run, merge_keys=("id", "day"))
        if table.startswith(CATALOG):
            write(spark, output, [(5, "", run)])
        else:
            with pytest.raises(CheckFailedError, match="not_null: day requires no NULL, found 1 NULL"):
                write(spark, output, [(5, "", run)])
    expected = sorted([*OLD, (5, "", "second")]) if table.startswith(CATALOG) else OLD
    assert stored_rows(spark, table) == expected


def test_a_run_without_rows_replaces_no_partition(spark: SparkSession, table: str) -> None:
    if not table.startswith(CATALOG):
        pytest.skip("Iceberg makes no version for it")
    create(spark, table)
    output = write(spark, output_of(spark, table, OutputMode.OVERWRITE_PARTITIONS), [])
    assert output.summary is not None
    assert (output.summary.files, output.summary.is_from_earlier_try) == (0, False)
    assert stored_rows(spark, table) == OLD
    assert versions(spark, table) == 1


def test_tables_of_files_in_a_catalog_with_connectors_cannot_be_merged(spark: SparkSession) -> None:
    spec = CatalogOutputSpec(catalog_table="default.files", mode=OutputMode.MERGE, merge_keys=("id",))
    with pytest.raises(BadSpecError, match="merge needs a table of Iceberg or Delta"):
        open_catalog_output(spark, spec, "run")


TRANSFORMS = ["bucket(3, id)", "truncate(1, day)", "days(at)", "hours(at)", "bucket(3, id), day"]


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("mode", EXPECTED)
def test_tables_with_partition_transforms_get_the_rows_of_icebergs_own_writer(
    spark: SparkSession, mode: OutputMode, transform: str
) -> None:
    names = [f"{CATALOG}.db.{name}" for name in ("t", "twin")]
    old = "(1, 'a1', '2026-01-01 10:00'), (2, 'b1', '2026-01-02 10:00'), (3, 'b2', '2026-01-02 11:00'), (7, NULL, NULL)"
    new = "SELECT id, day, timestamp(at) AS at FROM VALUES (2, 'b1', '2026-01-02 10:30'), (4, 'b3', '2026-01-01 23:00')"
    rows = spark.sql(f"{new} AS v(id, day, at)")
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} (id INT, day STRING, at TIMESTAMP) USING iceberg PARTITIONED BY ({transform})")
        spark.sql(f"INSERT INTO {name} SELECT id, day, timestamp(at) FROM VALUES {old} AS v(id, day, at)")
    table, twin = names
    output = output_of(spark, table, mode)
    assert output.prepare()
    with output.transaction():
        output.stage(rows)
    match mode:
        case OutputMode.APPEND:
            rows.writeTo(twin).append()
        case OutputMode.OVERWRITE:
            rows.writeTo(twin).overwrite(f.lit(True))
        case OutputMode.OVERWRITE_PARTITIONS:
            rows.writeTo(twin).overwritePartitions()
        case _:
            merge = rows.alias("new").mergeInto(twin, f.expr("twin.id = new.id"))
            merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    actual, expected = (sorted(map(tuple, spark.table(name).collect()), key=str) for name in names)
    assert actual == expected
    assert len(actual) == {OutputMode.APPEND: 6, OutputMode.OVERWRITE: 2, OutputMode.MERGE: 5}.get(mode, len(actual))
    assert not output_of(spark, table, mode).prepare()
    for name in names:
        spark.sql(f"DROP TABLE {name}")
