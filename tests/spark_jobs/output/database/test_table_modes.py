"""Modes of outputs that are tables of a database, their errors, and their retries."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from table_databases import KINDS, Database, open_database, output_of, write

from pushdown_spark.contract import RemoteSourceSpec, TableOutputSpec
from pushdown_spark.databases.write.write_connection import connect_to_write
from pushdown_spark.errors import (
    BadPredicateError,
    BadSpecError,
    CheckFailedError,
    OutputExistsError,
    OutputTakenError,
    RemoteFailedError,
    RemoteRefusedError,
    UnknownColumnError,
    UnwritableValueError,
)
from pushdown_spark.session import PushdownSession

OLD = [(1, "a", "2024-01-01"), (2, "b", "2024-01-02"), (3, None, "2024-01-02")]
NEW = [(2, "new", "2024-01-02"), (4, "four", "2024-01-02")]


MYSQL_KINDS = ["mariadb", pytest.param("mysql", marks=pytest.mark.nightly)]


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


def frame(spark: SparkSession, rows: list[tuple[int, str | None, str]]) -> DataFrame:
    return spark.createDataFrame(rows, "id int, x string, day string")


def wide_frame(spark: SparkSession) -> DataFrame:
    """Return one row of a thousand columns with long names."""
    return spark.range(1).select(*(f.lit(number).alias(f"{'c' * 56}_{number:03}") for number in range(1_000)))


def stored_rows(database: Database) -> list[tuple[object, object, str]]:
    rows = [(number, x, str(day)) for number, x, day in database.rows("SELECT id, x, day FROM t")]
    return sorted(rows, key=str)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"mode": "append"}, [*OLD, *NEW]),
        ({"mode": "overwrite"}, NEW),
        ({"mode": "overwrite_partitions", "replace_where": "day = '2024-01-02'"}, [OLD[0], *NEW]),
        ({"mode": "overwrite_partitions", "replace_where": "id > 1 AND id < 10"}, [OLD[0], *NEW]),
        ({"mode": "merge", "merge_keys": ["id"]}, [OLD[0], NEW[0], OLD[2], NEW[1]]),
        ({"mode": "merge", "merge_keys": ["ID", "day"]}, [OLD[0], NEW[0], OLD[2], NEW[1]]),
        ({"mode": "merge", "merge_keys": ["id", "x", "day"]}, [*OLD, *NEW]),
    ],
)
def test_each_mode_writes_the_rows_once(
    spark: SparkSession, database: Database, spec: dict[str, object], expected: list[tuple[int, str | None, str]]
) -> None:
    assert write(output_of(spark, database, "old", mode="errorifexists"), frame(spark, OLD))
    assert write(output_of(spark, database, **spec), frame(spark, NEW))
    assert stored_rows(database) == sorted(expected, key=str)
    assert database.tables() == ["t"]
    again = output_of(spark, database, **spec)
    assert not write(again, frame(spark, [(9, "not written", "2024-01-02")]))
    assert (again.committed_rows, again.summary.is_from_earlier_try) == (2, True)  # type: ignore[union-attr]
    assert stored_rows(database) == sorted(expected, key=str)


def test_the_summary_has_mode_table_and_columns(spark: SparkSession, database: Database) -> None:
    output = output_of(spark, database, mode="overwrite")
    assert write(output, frame(spark, NEW))
    assert output.summary is not None
    assert output.summary.mode == "overwrite"
    assert output.summary.table in ("t", "public.t", "shop.t")
    assert output.summary.columns == {"id": "int", "x": "string", "day": "string"}


def test_overwrite_keeps_the_old_rows_for_an_older_snapshot(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    database = open_database("postgresql", request, tmp_path)
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    with closing(connect_to_write(database.address)) as reader:
        reader.rows("BEGIN ISOLATION LEVEL REPEATABLE READ")
        reader.rows("SELECT 1")
        assert write(output_of(spark, database, mode="overwrite"), frame(spark, NEW))
        assert reader.rows("SELECT count(*) FROM t") == [(len(OLD),)]
    assert stored_rows(database) == sorted(NEW, key=str)


REPLACE_TIMES = {
    "mode": "overwrite_partitions",
    "replace_where": "day = DATE '2024-01-02' AND at < TIMESTAMP_NTZ'2024-01-03 00:00:00'",
}


def times(spark: SparkSession) -> DataFrame:
    return spark.sql("SELECT 1 AS id, DATE'2024-01-02' AS day, TIMESTAMP_NTZ'2024-01-02 12:00:00' AS at")


@pytest.mark.parametrize("database", [kind for kind in KINDS if kind != "sqlite"], indirect=True)
def test_replace_where_selects_rows_by_date_and_time(spark: SparkSession, database: Database) -> None:
    rows = times(spark)
    assert write(output_of(spark, database, "first", **REPLACE_TIMES), rows)
    assert write(output_of(spark, database, "second", **REPLACE_TIMES), rows.withColumn("id", rows.id + 1))
    assert database.rows("SELECT id FROM t") == [(2,)]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_replace_where_by_date_is_an_error_in_sqlite_because_columns_hold_any_type(
    spark: SparkSession, database: Database
) -> None:
    with pytest.raises(BadPredicateError, match="rows for which Spark may raise"):
        write(output_of(spark, database, **REPLACE_TIMES), times(spark))


def test_existing_tables_are_an_error_or_are_ignored(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE t (id int, x varchar(9), day varchar(10))")
    with pytest.raises(OutputExistsError, match="already exists; drop it, or choose another output mode"):
        write(output_of(spark, database, mode="errorifexists"), frame(spark, NEW))
    assert not write(output_of(spark, database, mode="ignore"), frame(spark, NEW))
    assert stored_rows(database) == []
    database.execute("DROP TABLE t")
    assert write(output_of(spark, database, mode="ignore"), frame(spark, NEW))
    assert len(stored_rows(database)) == 2


def test_a_table_that_another_run_creates_during_staging_is_treated_by_mode(
    spark: SparkSession, database: Database
) -> None:
    outputs = {mode: output_of(spark, database, mode, mode=mode) for mode in ("append", "errorifexists", "ignore")}
    for output in outputs.values():
        assert output.prepare()
        output.stage(frame(spark, NEW))
    assert write(output_of(spark, database, "other"), frame(spark, OLD))
    for output in outputs.values():
        output.check()
    with pytest.raises(OutputExistsError), outputs["errorifexists"].transaction():
        pass
    outputs["ignore"].commit()
    assert outputs["ignore"].summary is None
    assert len(stored_rows(database)) == len(OLD)
    outputs["append"].commit()
    assert stored_rows(database) == sorted([*OLD, *NEW], key=str)
    assert database.tables() == ["t"]


@pytest.mark.parametrize(
    "changed", ["id int, x varchar(3), day varchar(10)", "id int, day varchar(10), x varchar(9)"], ids=["type", "order"]
)
def test_columns_that_change_while_rows_are_staged_are_an_error(
    spark: SparkSession, database: Database, changed: str
) -> None:
    database.execute("CREATE TABLE t (id int, x varchar(9), day varchar(10))")
    output = output_of(spark, database)
    assert output.prepare()
    output.stage(frame(spark, NEW))
    database.execute("DROP TABLE t", f"CREATE TABLE t ({changed})")
    with pytest.raises(RemoteFailedError, match="have changed while the rows were loaded"), output.transaction():
        pass
    assert database.rows("SELECT * FROM t") == []
    assert database.tables() == ["t"]


def test_table_that_is_dropped_while_rows_are_staged_is_an_error(spark: SparkSession, database: Database) -> None:
    """The staging table lacks the constraints of the table, and may not survive a crash of the database."""
    database.execute("CREATE TABLE t (id int, x varchar(9), day varchar(10))")
    output = output_of(spark, database)
    assert output.prepare()
    output.stage(frame(spark, NEW))
    database.execute("DROP TABLE t")
    with pytest.raises(RemoteFailedError, match="was dropped while its rows were loaded"), output.transaction():
        pass
    assert database.tables() == []


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_view_of_a_table_that_does_not_exist_yet_shows_the_created_table(
    spark: SparkSession, database: Database
) -> None:
    database.execute("CREATE VIEW v AS SELECT id FROM t")
    assert write(output_of(spark, database), frame(spark, NEW))
    assert database.rows("SELECT id FROM v ORDER BY id") == [(2,), (4,)]
    database.execute("DROP VIEW v")


@pytest.mark.parametrize(
    ("database", "query", "value"),
    [
        ("postgresql", "SELECT relpersistence::text FROM pg_class WHERE relname = 't'", "p"),
        *(
            pytest.param(
                product,
                "SELECT engine FROM information_schema.tables WHERE table_schema = database() AND table_name = 't'",
                "InnoDB",
                marks=pytest.mark.nightly,
            )
            for product in ("mariadb", "mysql")
        ),
    ],
    indirect=["database"],
    ids=["postgresql", "mariadb", "mysql"],
)
def test_a_created_table_is_of_a_kind_that_survives_a_crash(
    spark: SparkSession, database: Database, query: str, value: str
) -> None:
    assert write(output_of(spark, database), frame(spark, NEW))
    assert database.rows(query) == [(value,)]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_sqlite_tables_in_another_spelling_or_encoding_are_the_same_table(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, encoding: str
) -> None:
    database = open_database("sqlite", request, tmp_path)
    database.execute(f"PRAGMA encoding = '{encoding}'", "CREATE TABLE T (id int, X varchar(9), day varchar(10))")
    with pytest.raises(OutputExistsError):
        write(output_of(spark, database, mode="errorifexists"), frame(spark, NEW))
    assert not write(output_of(spark, database, mode="ignore"), frame(spark, NEW))
    assert write(output_of(spark, database), frame(spark, [*NEW, (5, "é😀", "2024-01-02")]))
    assert stored_rows(database) == [*NEW, (5, "é😀", "2024-01-02")]
    assert database.tables() == ["T"]


def test_cleared_run_replaces_its_rows(spark: SparkSession, database: Database) -> None:
    spec = {"mode": "overwrite_partitions", "replace_where": "day = '2024-01-02'"}
    assert write(output_of(spark, database, **spec), frame(spark, OLD[1:]))
    assert write(output_of(spark, database, generation="cleared", **spec), frame(spark, NEW))
    assert stored_rows(database) == sorted(NEW, key=str)
    assert write(output_of(spark, database, "append"), frame(spark, OLD))
    cleared = output_of(spark, database, "append", generation="cleared")
    assert not write(cleared, frame(spark, OLD))
    assert cleared.committed_rows == len(OLD)


@pytest.mark.parametrize("mode", ["append", "errorifexists"])
def test_a_table_of_many_columns_with_long_names_is_written_once(
    spark: SparkSession, database: Database, mode: str
) -> None:
    """The ledger of MySQL has no space for the names. MariaDB has none for the definition of the table."""
    if database.product == "mariadb":
        with pytest.raises(RemoteRefusedError, match="Table definition is too large"):
            write(output_of(spark, database, mode=mode), wide_frame(spark))
        return
    rows = wide_frame(spark)
    assert write(output_of(spark, database, mode=mode), rows)
    retry = output_of(spark, database, mode=mode)
    assert not write(retry, rows)
    assert retry.committed_rows == 1
    assert database.rows("SELECT count(*) FROM t") == [(1,)]


@pytest.mark.parametrize("mode", ["append", "errorifexists", "ignore", "overwrite"])
def test_a_run_whose_table_was_dropped_writes_it_again(spark: SparkSession, database: Database, mode: str) -> None:
    for generation in ("", "", "cleared"):
        assert write(output_of(spark, database, mode=mode, generation=generation), frame(spark, NEW))
        assert stored_rows(database) == sorted(NEW, key=str)
        database.execute("DROP TABLE t")


@pytest.mark.parametrize(
    ("spec", "rows", "message"),
    [
        ({"mode": "merge", "merge_keys": ["id"]}, [NEW[0], NEW[0]], "merge_keys: 1 values of id are repeated"),
        ({"mode": "merge", "merge_keys": ["x"]}, [OLD[2]], "merge_keys: 1 rows to write have NULL in x"),
        (
            {"mode": "overwrite_partitions", "replace_where": "day = '2024-01-03'"},
            NEW,
            "replace_where: 2 rows to write do not satisfy the predicate",
        ),
        ({"checks": {"min_rows": 3}}, NEW, "min_rows requires at least 3, found 2"),
        ({"checks": {"not_null": ["x"]}}, OLD, "not_null: x requires no NULL, found 1 NULL"),
        ({"checks": {"unique": ["day"]}}, NEW, "unique: day requires no repeated key, found 1 repeated"),
    ],
)
def test_failed_checks_leave_the_table_unchanged(
    spark: SparkSession,
    database: Database,
    spec: dict[str, object],
    rows: list[tuple[int, str | None, str]],
    message: str,
) -> None:
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    with pytest.raises(CheckFailedError, match=message):
        write(output_of(spark, database, **spec), frame(spark, rows))
    assert stored_rows(database) == sorted(OLD, key=str)
    assert database.tables() == ["t"]


def test_passed_checks_are_reported_and_the_rows_written(spark: SparkSession, database: Database) -> None:
    checks = {"min_rows": 2, "max_rows": 2, "not_null": ["id", "X"], "unique": ["id", ["x", "day"]]}
    output = output_of(spark, database, checks=checks)
    assert write(output, frame(spark, NEW))
    assert [(check.check, check.passed) for check in output.checks] == [
        ("min_rows", True),
        ("max_rows", True),
        ("not_null: id", True),
        ("not_null: X", True),
        ("unique: id", True),
        ("unique: x, day", True),
    ]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("upper(x) = 'A'", 'cannot select exactly the rows of "upper'),
        ("day = ", "cannot select exactly"),
        ("rand() > 0.5", "cannot select exactly"),
        ("nothing = 1", "cannot select exactly"),
    ],
)
def test_inexact_replace_where_is_an_error(spark: SparkSession, database: Database, where: str, message: str) -> None:
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    with pytest.raises(BadPredicateError, match=message):
        write(output_of(spark, database, mode="overwrite_partitions", replace_where=where), frame(spark, NEW))
    assert stored_rows(database) == sorted(OLD, key=str)
    assert database.tables() == ["t"]


def test_unknown_merge_key_is_an_error(spark: SparkSession, database: Database) -> None:
    with pytest.raises(UnknownColumnError, match="merge_keys: the table has no column 'nothing'"):
        write(output_of(spark, database, mode="merge", merge_keys=["nothing"]), frame(spark, NEW))
    assert database.tables() == []


def test_a_view_as_the_target_is_an_error(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE base (id int)", "CREATE VIEW t AS SELECT * FROM base")
    try:
        with pytest.raises(BadSpecError, match="is not a table"):
            write(output_of(spark, database), frame(spark, NEW))
    finally:
        database.execute("DROP VIEW t")


@pytest.mark.parametrize("spec", [{"mode": "append"}, {"mode": "merge", "merge_keys": ["id"]}])
def test_trigger_that_suppresses_a_row_leaves_the_table_unchanged(
    spark: SparkSession, database: Database, spec: dict[str, object]
) -> None:
    if database.is_mysql:
        pytest.skip("a trigger of MySQL cannot suppress a row")
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    if database.product == "sqlite":
        database.execute("CREATE TRIGGER skip BEFORE INSERT ON t WHEN NEW.id = 4 BEGIN SELECT RAISE(IGNORE); END")
    else:
        database.execute(
            "CREATE OR REPLACE FUNCTION skip() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN IF NEW.id = 4 THEN RETURN NULL; END IF; RETURN NEW; END'",
            "CREATE TRIGGER skip BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION skip()",
        )
    with pytest.raises(RemoteFailedError, match="got 1 of 2 rows, for example because of a trigger"):
        write(output_of(spark, database, **spec), frame(spark, NEW))
    assert stored_rows(database) == sorted(OLD, key=str)


@pytest.mark.parametrize(
    ("event", "spec", "message"),
    [
        ("DELETE", {"mode": "overwrite"}, "kept rows that were to be replaced"),
        ("DELETE", {"mode": "overwrite_partitions", "replace_where": "id > 1"}, "kept rows that were to be replaced"),
        ("UPDATE", {"mode": "merge", "merge_keys": ["id"]}, "changed 0 of 1 rows"),
    ],
)
@pytest.mark.parametrize("kind", ["trigger", "rule"])
def test_trigger_or_rule_that_keeps_an_old_row_leaves_the_table_unchanged(
    spark: SparkSession, database: Database, kind: str, event: str, spec: dict[str, object], message: str
) -> None:
    if database.is_mysql or (kind, database.product) == ("rule", "sqlite"):
        pytest.skip("the database has nothing that suppresses a change")
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    if kind == "rule":
        database.execute(f"CREATE RULE keep AS ON {event} TO t DO INSTEAD NOTHING")
    elif database.product == "sqlite":
        database.execute(f"CREATE TRIGGER keep BEFORE {event} ON t BEGIN SELECT RAISE(IGNORE); END")
    else:
        database.execute(
            "CREATE OR REPLACE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            f"CREATE TRIGGER keep BEFORE {event} ON t FOR EACH ROW EXECUTE FUNCTION keep()",
        )
    with pytest.raises(RemoteFailedError, match=f"{message}, for example because of a trigger"):
        write(output_of(spark, database, **spec), frame(spark, NEW))
    assert stored_rows(database) == sorted(OLD, key=str)
    assert database.tables() == ["t"]


@pytest.mark.parametrize("table", ["airflow_pushdown_runs", "AIRFLOW_PUSHDOWN_mine"])
def test_names_of_the_ledger_and_of_staging_tables_are_an_error(
    spark: SparkSession, database: Database, table: str
) -> None:
    """Later runs delete staging tables that are older than two days."""
    with pytest.raises(BadSpecError, match="has a name for the ledger and staging tables; use another name"):
        write(output_of(spark, database, table=table), frame(spark, NEW))
    assert database.tables() == []


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_names_that_postgresql_would_cut_off_are_an_error(spark: SparkSession, database: Database) -> None:
    assert write(output_of(spark, database, table="é" * 31), frame(spark, NEW))
    with pytest.raises(BadSpecError, match="is longer than 63 bytes; use a shorter name"):
        write(output_of(spark, database, table="é" * 32), frame(spark, NEW))
    assert database.tables() == ["é" * 31]


@pytest.mark.parametrize("database", MYSQL_KINDS, indirect=True)
def test_settings_of_the_server_change_no_row(spark: SparkSession, database: Database) -> None:
    settings = {"sql_select_limit": 1, "sql_safe_updates": 1, "autocommit": 0, "sql_mode": "''"}
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    try:
        database.execute(*(f"SET GLOBAL {name} = {value}" for name, value in settings.items()))
        assert write(output_of(spark, database, mode="overwrite", checks={"unique": ["id"]}), frame(spark, NEW))
        with pytest.raises(CheckFailedError, match="unique: day requires no repeated key"):
            write(output_of(spark, database, "check", checks={"unique": ["day"]}), frame(spark, NEW))
    finally:
        database.execute(*(f"SET GLOBAL {name} = DEFAULT" for name in settings))
    assert stored_rows(database) == sorted(NEW, key=str)


@pytest.mark.parametrize("database", ["mysql"], indirect=True)
@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.nightly
def test_a_server_that_replicates_by_transaction_identifiers_takes_rows(
    spark: SparkSession, database: Database, mode: str
) -> None:
    """MySQL before 8.0.21 then refuses CREATE TABLE ... SELECT."""
    keys = ["id"] if mode == "merge" else []
    database.execute("SET GLOBAL enforce_gtid_consistency = ON")
    try:
        assert write(output_of(spark, database, mode=mode, merge_keys=keys), frame(spark, OLD[:1]))
        assert write(output_of(spark, database, "more", mode=mode, merge_keys=keys), frame(spark, NEW).repartition(2))
    finally:
        database.execute("SET GLOBAL enforce_gtid_consistency = OFF")
    assert stored_rows(database) == sorted([OLD[0], *NEW], key=str)
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", MYSQL_KINDS, indirect=True)
@pytest.mark.parametrize("setting", ["foreign_key_checks", "check_constraint_checks"])
def test_a_table_keeps_its_constraints_if_the_server_does_not_check_them(
    spark: SparkSession, database: Database, setting: str
) -> None:
    if setting == "check_constraint_checks" and database.product == "mysql":
        pytest.skip("a setting of MariaDB")
    database.execute(
        "CREATE TABLE parent (day varchar(10) CHARACTER SET utf8mb4 PRIMARY KEY)",
        "CREATE TABLE t (id int UNIQUE CHECK (id < 9), x varchar(9), day varchar(10) CHARACTER SET utf8mb4, "
        "FOREIGN KEY (day) REFERENCES parent (day))",
        "INSERT INTO parent VALUES ('2024-01-02')",
        f"SET GLOBAL {setting} = 0",
    )
    wrong = {"foreign_key_checks": (5, "", "2024-01-03"), "check_constraint_checks": (9, "", "2024-01-02")}
    try:
        with pytest.raises((RemoteRefusedError, UnwritableValueError)):
            write(output_of(spark, database), frame(spark, [*NEW, wrong[setting]]))
        assert write(output_of(spark, database, "valid"), frame(spark, NEW))
    finally:
        database.execute(f"SET GLOBAL {setting} = DEFAULT")
        rows = stored_rows(database)
        database.execute("DROP TABLE t", "DROP TABLE parent")
    assert rows == sorted(NEW, key=str)


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_settings_of_the_database_change_no_array(spark: SparkSession, database: Database) -> None:
    settings = {
        "array_nulls": "off",
        "datestyle": "'SQL, DMY'",
        "timezone": "'Asia/Tokyo'",
        "bytea_output": "escape",
        "quote_all_identifiers": "on",
    }
    query = "SELECT array('a', NULL) AS a, array(DATE'2024-02-01') AS b, array(TIMESTAMP'2024-02-01 00:00:00Z') AS c"
    try:
        database.execute(*(f"ALTER DATABASE shop SET {name} = {value}" for name, value in settings.items()))
        for mode in ("errorifexists", "append"):
            assert write(output_of(spark, database, mode, mode=mode), spark.sql(query))
        session = PushdownSession(spark)
        session.add("t", RemoteSourceSpec(table="t"), database.connection)
        assert session.scan("t").df.dtypes[:2] == [("a", "array<string>"), ("b", "array<date>")]
    finally:
        database.execute(*(f"ALTER DATABASE shop RESET {name}" for name in settings))
    row = ("{a,NULL}", "a", True, "2024-02-01", "2024-02-01 00:00:00+00")
    assert database.rows("SELECT a::text, a[1], a[2] IS NULL, b[1]::text, c[1]::text FROM t") == [row, row]


def test_violated_constraint_leaves_the_table_unchanged(spark: SparkSession, database: Database) -> None:
    database.execute("CREATE TABLE t (id int PRIMARY KEY, x varchar(9), day varchar(10))")
    assert write(output_of(spark, database, "old"), frame(spark, OLD))
    with pytest.raises(RemoteRefusedError):
        write(output_of(spark, database), frame(spark, NEW))
    assert stored_rows(database) == sorted(OLD, key=str)
    assert write(output_of(spark, database, mode="merge", merge_keys=["id"]), frame(spark, NEW))
    assert stored_rows(database) == sorted([OLD[0], NEW[0], OLD[2], NEW[1]], key=str)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize(
    "columns",
    [
        "day varchar(10), x varchar(9), id int",
        "day varchar(10) NOT NULL, x varchar(9) DEFAULT 'none', id int CHECK (id > 0)",
        "day varchar(10), twice int GENERATED ALWAYS AS (id * 2) STORED, x varchar(9), id int",
        "day varchar(10), x varchar(9), id int PRIMARY KEY",
    ],
    ids=["order", "constraints", "generated", "key"],
)
def test_values_are_written_to_the_table_columns_of_the_same_name(
    spark: SparkSession, database: Database, mode: str, columns: str
) -> None:
    database.execute(f"CREATE TABLE t ({columns})", "INSERT INTO t (id, x, day) VALUES (9, 'old', '2024-01-09')")
    assert write(output_of(spark, database, mode=mode), frame(spark, NEW))
    old = [(9, "old", "2024-01-09")] if mode == "append" else []
    assert stored_rows(database) == sorted([*NEW, *old], key=str)


COMPUTED = [
    *(("g", f"id int, g int GENERATED ALWAYS AS (id * 2) {kind}", 8) for kind in ("STORED", "VIRTUAL")),
    ("g", "id int, g int GENERATED ALWAYS AS IDENTITY (START WITH 5)", 5),
]


@pytest.mark.parametrize(("column", "columns", "value"), COMPUTED, ids=["stored", "virtual", "identity"])
def test_a_column_that_the_database_computes_is_refused_before_rows_are_staged(
    spark: SparkSession, database: Database, column: str, columns: str, value: int
) -> None:
    if "IDENTITY" in columns and database.product != "postgresql":
        pytest.skip("the database has no identity columns")
    if "VIRTUAL" in columns and database.product == "postgresql":
        pytest.skip("PostgreSQL has virtual columns since version 18")
    database.execute(f"CREATE TABLE t ({columns})")
    output = output_of(spark, database)
    assert output.prepare()
    with pytest.raises(BadSpecError, match="the database computes the column G"), output.transaction():
        output.stage(spark.sql("SELECT 4 AS id, 1 AS G"))
    assert database.tables() == ["t"]
    assert write(output_of(spark, database), spark.sql("SELECT 4 AS id"))
    assert database.rows("SELECT id, g FROM t") == [(4, value)]


CASE_INSENSITIVE = {"sqlite": "COLLATE NOCASE", "postgresql": "COLLATE any_case"}
"""The declaration of a collation in which `a` equals `A`."""


def test_a_merge_stores_the_keys_of_the_rows_where_the_collation_has_others_for_equal(
    spark: SparkSession, database: Database
) -> None:
    collation = CASE_INSENSITIVE.get(database.product, "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    if database.product == "postgresql":
        database.execute(
            "CREATE COLLATION IF NOT EXISTS any_case "
            "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
        )
    database.execute(
        f"CREATE TABLE t (x varchar(9) {collation} PRIMARY KEY, id int, day varchar(10))",
        "INSERT INTO t VALUES ('a', 1, 'old'), ('b', 2, 'old')",
    )
    spec = {"mode": "merge", "merge_keys": ["x"]}
    assert write(output_of(spark, database, **spec), frame(spark, [(3, "A", "new"), (4, "c", "new")]))
    assert stored_rows(database) == [(2, "b", "old"), (3, "A", "new"), (4, "c", "new")]
    with pytest.raises(CheckFailedError, match="merge_keys: 1 values of x are repeated in the rows"):
        write(output_of(spark, database, "equal", **spec), frame(spark, [(3, "A", "new"), (4, "a", "new")]))


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_merge_by_both_zeros_is_an_error(spark: SparkSession, database: Database, kind: str) -> None:
    def merge(run: str, *keys: float) -> None:
        rows = spark.createDataFrame([(key, run) for key in keys], f"k {kind}, x string")
        assert write(output_of(spark, database, run, mode="merge", merge_keys=["k"]), rows)

    merge("first", 0.0, 1.5)
    with pytest.raises(CheckFailedError, match="merge_keys: 1 values of k are repeated"):
        merge("both", -0.0, 0.0)
    merge("other zero", -0.0)
    assert sorted(database.rows("SELECT k, x FROM t")) == [(0.0, "other zero"), (1.5, "first")]


@pytest.mark.parametrize("database", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_keys_of_a_created_table_that_differ_by_a_space_are_two_keys(spark: SparkSession, database: Database) -> None:
    spec = {"mode": "merge", "merge_keys": ["x"]}
    assert write(output_of(spark, database, **spec), frame(spark, [(1, "a", "old")]))
    assert write(output_of(spark, database, "space", **spec), frame(spark, [(2, "a ", "new")]))
    assert stored_rows(database) == [(1, "a", "old"), (2, "a ", "new")]


@pytest.mark.parametrize("database", MYSQL_KINDS, indirect=True)
def test_a_user_who_may_not_drop_tables_is_refused_before_rows_are_staged(
    spark: SparkSession, database: Database
) -> None:
    database.execute(
        "CREATE USER IF NOT EXISTS keeper IDENTIFIED BY 'keeper'",
        "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER ON shop.* TO keeper",
    )
    login = database.connection.model_copy(update={"user": "keeper", "password": "keeper"})
    try:
        with pytest.raises(RemoteRefusedError, match=r"DROP command denied.*Grant the user DROP on all tables of shop"):
            write(output_of(spark, replace(database, connection=login)), frame(spark, NEW))
        assert database.tables() == []
        database.execute("GRANT DROP ON shop.* TO keeper")
        assert write(output_of(spark, replace(database, connection=login)), frame(spark, NEW))
    finally:
        database.execute("DROP USER keeper")
    assert stored_rows(database) == sorted(NEW, key=str)
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_a_server_that_accepts_no_table_without_a_primary_key_needs_a_table_with_one(
    spark: SparkSession, database: Database
) -> None:
    """MySQL has such a setting since 8.0.13."""
    database.execute("SET GLOBAL innodb_force_primary_key = 1")
    try:
        with pytest.raises(BadSpecError, match=r"no table without a primary key; create shop\.t with one"):
            write(output_of(spark, database), frame(spark, OLD))
        assert database.tables() == []
        database.execute("CREATE TABLE t (id int PRIMARY KEY, x varchar(9), day varchar(10))")
        rows = frame(spark, OLD).repartition(3)
        assert write(output_of(spark, database, checks={"unique": ["id"]}), rows)
        assert write(output_of(spark, database, "merge", mode="merge", merge_keys=["id"]), frame(spark, NEW))
    finally:
        database.execute("SET GLOBAL innodb_force_primary_key = 0")
    assert stored_rows(database) == sorted([OLD[0], NEW[0], OLD[2], NEW[1]], key=str)
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["mariadb"], indirect=True)
def test_invisible_columns_get_their_defaults(spark: SparkSession, database: Database) -> None:
    """Spark's own reader and writer leave them out, too."""
    database.execute(
        "CREATE TABLE t (n int INVISIBLE AUTO_INCREMENT PRIMARY KEY, id int, x varchar(9), "
        "h int INVISIBLE NOT NULL DEFAULT 7, day varchar(10))",
        "INSERT INTO t (id, x, day) VALUES (2, 'old', '2024-01-02')",
    )
    with pytest.raises(BadSpecError, match="the table has no column h"):
        write(output_of(spark, database, "given"), frame(spark, NEW).selectExpr("*", "1 AS h"))
    assert write(output_of(spark, database, mode="merge", merge_keys=["id"]), frame(spark, NEW))
    assert write(output_of(spark, database, "more"), frame(spark, OLD).repartition(2))
    assert stored_rows(database) == sorted([*NEW, *OLD], key=str)
    assert database.rows("SELECT count(DISTINCT n), min(h), max(h) FROM t") == [(5, 7, 7)]
    session = PushdownSession(spark)
    session.add("t", RemoteSourceSpec(table="t"), database.connection)
    assert session.scan("t").df.columns == ["id", "x", "day"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_merge_by_a_column_whose_equal_strings_sqlites_joins_miss_is_an_error(
    spark: SparkSession, database: Database
) -> None:
    database.execute(
        "CREATE TABLE t (x text COLLATE RTRIM, id int, day varchar(10))", "INSERT INTO t VALUES ('a', 1, '')"
    )
    with pytest.raises(BadSpecError, match="merge_keys: column x has the collation RTRIM"):
        write(output_of(spark, database, mode="merge", merge_keys=["x"]), frame(spark, [(2, "a ", "")]))
    assert stored_rows(database) == [(1, "a", "")]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("declaration", "key", "same", "other"),
    [
        ("timestamp", "TIMESTAMP_NTZ'2024-01-01 00:00:00'", "'2024-01-01 00:00:00.000000'", "'2024-01-01 00:00:00'"),
        ("datetime", "TIMESTAMP_NTZ'2024-01-01 00:00:00'", "'2024-01-01 00:00:00.000000'", "'2024-01-01T00:00:00'"),
        ("date", "DATE'2024-01-01'", "'2024-01-01'", "'2024-1-1'"),
        ("decimal(9,2)", "0.30BD", "0.3", "0.1 + 0.2"),
        ("decimal(20,0)", "7BD", "7", "'7x'"),
        ("bigint", "7L", "'7'", "'7x'"),
        ("double", "7D", "7", "'7x'"),
        ("boolean", "true", "1", "2"),
        ("text", "'7'", "7", "x'37'"),
        ("blob", "x'37'", "x'37'", "'7'"),
        ("", "'7'", "'7'", "7"),
    ],
)
def test_a_merge_into_a_column_with_keys_of_another_form_is_an_error(
    spark: SparkSession, database: Database, declaration: str, key: str, same: str, other: str
) -> None:
    """Readers of SQLite see equal keys, and SQLite itself different ones."""
    old_rows = f"INSERT INTO t VALUES ({same}, 'old'), (NULL, 'old')"
    database.execute(f"CREATE TABLE t (k {declaration}, x text)", old_rows)
    rows = spark.sql(f"SELECT {key} AS k, 'new' AS x")
    spec = {"mode": "merge", "merge_keys": ["k"]}
    assert write(output_of(spark, database, **spec), rows)
    assert database.rows("SELECT x FROM t ORDER BY k IS NULL") == [("new",), ("old",)]
    database.execute(f"INSERT INTO t VALUES ({other}, 'other')")
    with pytest.raises(RemoteRefusedError, match=r"merge_keys: column k of t holds .*, which is not the form of"):
        write(output_of(spark, database, "other", **spec), rows)
    assert database.rows("SELECT x FROM t ORDER BY x") == [("new",), ("old",), ("other",)]
    assert database.tables() == ["t"]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("spec", [{"mode": "append"}, {"mode": "merge", "merge_keys": ["id"]}], ids=["append", "merge"])
@pytest.mark.parametrize("action", ["REPLACE", "IGNORE", "ROLLBACK"])
def test_a_constraint_of_sqlite_neither_replaces_nor_skips_rows(
    spark: SparkSession, database: Database, action: str, spec: dict[str, object]
) -> None:
    database.execute(f"CREATE TABLE t (id int, x varchar(9), day text UNIQUE ON CONFLICT {action})")
    database.execute("INSERT INTO t VALUES (1, 'old', 'a'), (2, 'old', 'b')")
    for run, key in (("new key", 3), ("same key", 1)):
        with pytest.raises(RemoteRefusedError, match=r"UNIQUE constraint failed: t\.day"):
            write(output_of(spark, database, run, **spec), frame(spark, [(key, "new", "b")]))
    assert stored_rows(database) == [(1, "old", "a"), (2, "old", "b")]


def test_earlier_attempt_cannot_commit_after_a_later_one_has_begun(spark: SparkSession, database: Database) -> None:
    slow, retry = output_of(spark, database), output_of(spark, database)
    assert slow.prepare()
    slow.stage(frame(spark, OLD))
    assert retry.prepare()
    with pytest.raises((OutputTakenError, RemoteRefusedError)), slow.transaction():
        pass
    with retry.transaction():
        retry.stage(frame(spark, NEW))
    assert stored_rows(database) == sorted(NEW, key=str)


def test_rows_staged_again_replace_the_first(spark: SparkSession, database: Database) -> None:
    output = output_of(spark, database)
    assert output.prepare()
    with output.transaction():
        output.stage(frame(spark, OLD))
        output.stage(frame(spark, NEW))
    assert stored_rows(database) == sorted(NEW, key=str)
    assert database.tables() == ["t"]


def test_tables_and_columns_with_quotes_in_their_names_are_written_without_rows(
    spark: SparkSession, database: Database
) -> None:
    name = 'odd "name" `x` %s'
    column = 'a "b" `c` %'
    empty = spark.range(0).selectExpr("id AS ```x``` ").toDF(column)
    quoted_name = '"' + name.replace('"', '""') + '"'
    assert write(output_of(spark, database, table=quoted_name), empty)
    assert write(output_of(spark, database, "second", table=quoted_name, mode="merge", merge_keys=[column]), empty)
    assert database.tables() == [name]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"mode": "overwrite_partitions"}, "replace_where: mode overwrite_partitions needs the predicate"),
        ({"mode": "append", "replace_where": "id = 1"}, "replace_where: only mode overwrite_partitions uses it"),
        ({"mode": "merge"}, "merge_keys: mode merge needs the columns"),
        ({"merge_keys": ["id"]}, "merge_keys: only mode merge uses them"),
    ],
)
def test_a_spec_without_what_its_mode_needs_is_rejected(spec: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TableOutputSpec.model_validate({"table": "t", **spec})
