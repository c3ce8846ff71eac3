"""Two scans of one job that name one table of a database in two ways, which is an error before any scan runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from table_databases import KINDS, Database, open_database

from pushdown_spark.contract import JobSpec, RemoteConnection, SecretValues
from pushdown_spark.errors import BadSpecError
from pushdown_spark.output.shared_targets import check_shared_targets


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database(request.param, request, tmp_path)


def check(spark: SparkSession, connection: RemoteConnection, *tables: str, mode: str = "overwrite") -> None:
    """Check a job with a scan for each table."""
    names = [f"scan_{number}" for number in range(len(tables))]
    spec = JobSpec.model_validate(
        {
            "run_key": "run",
            "sources": {name: {"format": "json", "path": ["/in"]} for name in names},
            "scans": {
                name: {"output": {"table": table, "mode": mode}} for name, table in zip(names, tables, strict=True)
            },
        }
    )
    check_shared_targets(spark, spec, SecretValues(outputs=dict.fromkeys(names, connection)))


SCHEMAS = {"sqlite": "main", "postgresql": "public", "mariadb": "shop", "mysql": "shop"}


@pytest.mark.parametrize("exists", [True, False])
def test_two_names_of_one_table_are_an_error(spark: SparkSession, database: Database, exists: bool) -> None:
    if exists:
        database.execute("CREATE TABLE t (id int)")
    schema = SCHEMAS[database.product]
    for name in ("t", f"{schema}.t", f'"{schema}"."t"', '"t"'):
        with pytest.raises(BadSpecError, match=r"scans: 'scan_0' and 'scan_1' write to one place \(t, "):
            check(spark, database.connection, "t", name)
        check(spark, database.connection, "t", name, mode="append")
    check(spark, database.connection, "t", "u", f"{schema}.v")


@pytest.mark.parametrize("name", ["T", "main.T"])
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_names_of_sqlite_tables_differ_only_in_more_than_case(
    spark: SparkSession, database: Database, tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadSpecError, match="write to one place"):
        check(spark, database.connection, "t", name)
    link = tmp_path / "link.db"
    link.symlink_to(database.connection.database)
    connections = {"a": database.connection, "b": RemoteConnection(kind="sqlite", database=str(link))}
    spec = {
        "run_key": "run",
        "sources": {scan: {"format": "json", "path": ["/in"]} for scan in "ab"},
        "scans": {"a": {"output": {"table": "t"}}, "b": {"output": {"table": name}}},
    }
    with pytest.raises(BadSpecError, match="write to one place"):
        check_shared_targets(spark, JobSpec.model_validate(spec), SecretValues(outputs=connections))


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_names_of_postgresql_tables_differ_in_case_and_in_schema(spark: SparkSession, database: Database) -> None:
    database.execute("DROP SCHEMA IF EXISTS archive CASCADE", "CREATE SCHEMA archive")
    check(spark, database.connection, "t", "T", "archive.t")
    database.execute("DROP SCHEMA archive")


def test_a_scan_cannot_read_the_table_that_another_one_writes(spark: SparkSession, database: Database) -> None:
    spec = JobSpec.model_validate(
        {
            "run_key": "run",
            "sources": {"a": {"format": "json", "path": ["/in"]}, "b": {"format": "remote", "table": "t"}},
            "scans": {"a": {"output": {"table": f"{SCHEMAS[database.product]}.t", "mode": "append"}}, "b": {}},
        }
    )
    secrets = SecretValues(outputs={"a": database.connection}, remote={"b": database.connection})
    with pytest.raises(BadSpecError, match="'b' reads t, which 'a' writes; give one of them a task of its own"):
        check_shared_targets(spark, spec, secrets)
