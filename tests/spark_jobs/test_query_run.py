"""Runs of one query in this process."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import JobSpec, SecretValues
from pushdown_spark.query_run import ClassicQueryRun, SharedApplication
from pushdown_spark.result import PushdownResult


class OvertakenRun(ClassicQueryRun):
    """A run whose output another program creates while the run computes its rows."""

    create: Callable[[], None]

    def plan(self) -> PushdownResult:
        """Create the output, after the run has seen that there is none."""
        self.create()
        return super().plan()


@pytest.mark.parametrize("kind", ["files", "table"])
def test_ignore_reports_no_rows_if_the_output_appears_during_the_run(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "rows.json").write_text('{"id": 1}\n{"id": 2}\n')
    directory, database = tmp_path / "out", tmp_path / "shop.db"
    database.touch()
    output: dict[str, Any] = {"path": str(directory)} if kind == "files" else {"table": "out"}
    spec: dict[str, Any] = {
        "run_key": "run",
        "sources": {"rows": {"format": "json", "path": [str(tmp_path / "rows.json")], "schema": "id int"}},
        "query": {"source": "rows"},
        "output": {**output, "mode": "ignore"},
    }
    secrets = {"output": {"kind": "sqlite", "database": str(database)}}
    run = OvertakenRun(SharedApplication(spark), JobSpec.model_validate(spec), SecretValues.model_validate(secrets))

    def create() -> None:
        if kind == "files":
            spark.range(7, 8).write.parquet(str(directory))
        else:
            with sqlite3.connect(database) as connection:
                connection.executescript("CREATE TABLE out (id int); INSERT INTO out VALUES (7)")

    run.create = create
    assert run.run() is None
    assert run.report(None, 1.0, None).output_summary is None
    if kind == "files":
        assert [row.id for row in spark.read.parquet(str(directory)).collect()] == [7]
    else:
        assert sqlite3.connect(database).execute("SELECT id FROM out").fetchall() == [(7,)]


@pytest.mark.parametrize(("reader", "starts_workers"), [("pushdown", True), ("spark", False)])
def test_workers_are_started_for_scans_that_need_them(
    spark: SparkSession, tmp_path: Path, reader: str, starts_workers: bool
) -> None:
    (tmp_path / "rows.json").write_text('{"id": 1}\n{"id": 2}\n')
    rows = {"format": "json", "path": [str(tmp_path / "rows.json")], "schema": "id int", "reader": reader}
    spec = {"run_key": "run", "sources": {"rows": rows}, "query": {"source": "rows", "where": "id = 2"}}
    application = SharedApplication(spark)
    assert ClassicQueryRun(application, JobSpec.model_validate(spec), SecretValues()).run() == 1
    assert application.has_workers == starts_workers
