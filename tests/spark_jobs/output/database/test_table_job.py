"""A whole job that writes a table of a database: its report, its retry, and its credentials."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from job_process import LOCAL, result_of, run_command
from table_databases import Database, open_database

from pushdown_spark.contract import ErrorCode, JobResult
from pushdown_spark.contract.report_text import render_text


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    return open_database("postgresql", request, tmp_path)


def run(database: Database, directory: Path, **output: object) -> tuple[JobResult, str]:
    """Run the job in a new process. Return its result and everything that it printed."""
    source = directory / "in.json"
    source.write_text('{"id": 1, "t": "x"}\n{"id": 2, "t": "y"}\n{"id": 3, "t": "y"}\n')
    secrets = directory / "secrets.json"
    secrets.write_text(json.dumps({"output": database.connection.model_dump(mode="json")}))
    spec = {
        "run_key": "dag.task.2026-01-01",
        "sources": {"events": {"format": "json", "path": [str(source)], "schema": "id int, t string"}},
        "query": {"source": "events", "where": "t = 'y'"},
        "output": {"table": "t", "mode": "append", **output},
        "conf": LOCAL,
        "result_path": str(directory / "result.json"),
        "secrets_path": str(secrets),
    }
    process = run_command("run", spec, directory)
    assert not secrets.exists()
    result = result_of(spec)
    return result, process.stdout + process.stderr + result.model_dump_json()


def test_job_writes_a_table_once(database: Database, tmp_path: Path) -> None:
    result, text = run(database, tmp_path, checks={"min_rows": 1})
    assert (result.error, result.rows, result.output) == (None, 2, "t")
    assert result.output_summary is not None
    assert (result.output_summary.table, result.output_summary.is_from_earlier_try) == ("public.t", False)
    assert "Output: table public.t, mode append" in render_text(result)
    again, printed_again = run(database, tmp_path)
    assert (again.error, again.rows) == (None, 2)
    assert "An earlier try of the run had committed these rows" in render_text(again)
    assert sorted(database.rows("SELECT id, t FROM t")) == [(2, "y"), (3, "y")]
    assert str(database.connection.password) not in text + printed_again


def test_job_with_a_wrong_password_fails_without_showing_it(database: Database, tmp_path: Path) -> None:
    wrong = database.connection.model_copy(update={"password": "hunter2-wrong"})
    result, text = run(Database("postgresql", wrong), tmp_path)
    assert result.error is not None
    assert result.error.code is ErrorCode.REMOTE_REFUSED
    assert "hunter2-wrong" not in text
