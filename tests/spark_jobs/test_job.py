"""The program of a job, as a process: result, exit code, secrets and signals."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from job_process import CHECKOUT, LOCAL, ROOT, command, environment, result_of, run_command, save_spec
from pyspark import __version__ as pyspark_version

from pushdown_spark.contract import ErrorCode, JobResult
from pushdown_spark.driver.job_exchange import read_secrets, write_result
from pushdown_spark.errors import BadSpecError
from pushdown_spark.job import main, read_spec

pytestmark = pytest.mark.starts

SECRET = "hunter2-secret-value"


def small_job(directory: Path) -> dict[str, Any]:
    (directory / "in").mkdir()
    (directory / "in" / "a.json").write_text('{"id": 1, "t": "x"}\n{"id": 2, "t": "y"}\n{"id": 3, "t": "y"}\n')
    return {
        "run_key": "dag.task.2026-01-01",
        "sources": {"events": {"format": "json", "path": [str(directory / "in")], "schema": "id int, t string"}},
        "query": {"source": "events", "columns": ["id", "filename"], "where": "t = 'y'"},
        "output": {"path": str(directory / "out"), "format": "json"},
        "conf": LOCAL,
        "result_path": str(directory / "result.json"),
    }


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    """Return the spec of a small job, which tests modify."""
    return small_job(tmp_path)


def with_secrets(spec: dict[str, Any], tmp_path: Path, **entries: str) -> Path:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"hadoop": {"fs.s3a.secret.key": SECRET, **entries}}))
    spec["secrets_path"] = str(path)
    return path


def visible(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.startswith((".", "_")))


@dataclass(frozen=True)
class Submitted:
    """A job that spark-submit has run from a copied program and a zipped package, with entries in a file of secrets."""

    directory: Path
    secrets: Path
    process: subprocess.CompletedProcess[str]
    result: JobResult


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Submitted:
    directory = tmp_path_factory.mktemp("submitted")
    job = small_job(directory)
    secrets = with_secrets(job, directory, **{"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"})
    submit = shutil.which("spark-submit", path=str(Path(sys.executable).parent))
    assert submit is not None
    library = directory / "library.zip"
    with zipfile.ZipFile(library, "w") as archive:
        for path in (ROOT / "spark_jobs" / "pushdown_spark").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT / "spark_jobs"))
    program = directory / "job.py"
    shutil.copy(ROOT / "spark_jobs" / "pushdown_spark" / "job.py", program)
    settings = [part for key, value in LOCAL.items() for part in ("--conf", f"{key}={value}")]
    del job["conf"]
    call = [submit, *settings, "--py-files", str(library), str(program), "--spec", save_spec(job, directory)]
    process = subprocess.run(call, env=environment(), cwd=directory, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return Submitted(directory, secrets, process, result_of(job))


def test_a_submitted_job_writes_its_result(submitted: Submitted) -> None:
    result = submitted.result
    assert (result.rows, result.output, result.error) == (2, str(submitted.directory / "out"), None)
    assert result.sources["events"].rows_returned == 2
    assert result.seconds > 0


def test_a_submitted_job_prints_its_application(submitted: Submitted) -> None:
    assert submitted.result.application_id is not None
    assert f"application {submitted.result.application_id}, UI off" in submitted.process.stdout


def test_a_submitted_job_writes_the_matching_rows(submitted: Submitted) -> None:
    parts = (submitted.directory / "out").glob("part-*")
    rows = [json.loads(line) for part in parts for line in part.read_text().splitlines()]
    assert sorted(row["id"] for row in rows) == [2, 3]
    assert {row["filename"] for row in rows} == {"a.json"}


def test_secrets_of_a_submitted_job_reach_hadoop_and_are_deleted(submitted: Submitted) -> None:
    assert not (submitted.directory / "out" / "_SUCCESS").exists(), "the entries did not reach the Hadoop configuration"
    assert not submitted.secrets.exists()


def test_secrets_of_a_submitted_job_are_neither_in_its_log_nor_in_its_result(submitted: Submitted) -> None:
    process = submitted.process
    assert SECRET not in process.stdout + process.stderr + json.dumps(submitted.result.as_xcom())


def test_a_submitted_job_logs_only_warnings(submitted: Submitted) -> None:
    assert " INFO " not in submitted.process.stderr.partition('Setting Spark log level to "WARN"')[2]


def test_failed_job_prints_one_line_and_writes_a_result(tmp_path: Path, job: dict[str, Any]) -> None:
    with_secrets(job, tmp_path)
    job["query"]["columns"] = [f"`{SECRET}`", "id"]
    done = run_command("run", job, tmp_path)
    assert done.returncode == 1
    result = result_of(job)
    assert result.error is not None
    assert (result.error.code, result.error.retryable) == (ErrorCode.UNKNOWN_COLUMN, False)
    assert result.error.message.startswith("columns: there is no column '***'")
    assert [line for line in done.stderr.splitlines() if line.startswith("Error: ")] == [
        f"Error: {result.error.message} (unknown_column)"
    ]
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stdout + done.stderr + result.model_dump_json()
    assert (result.rows, result.output) == (None, None)
    assert visible(tmp_path) == ["in", "result.json", "spec.json"]


def test_explain_keeps_the_secrets_and_runs_nothing(tmp_path: Path, job: dict[str, Any]) -> None:
    secrets = with_secrets(job, tmp_path)
    done = run_command("explain", job, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "events: " in done.stdout
    assert "t = 'y'" in done.stdout
    assert secrets.exists()
    assert visible(tmp_path) == ["in", "secrets.json", "spec.json"]


def test_errors_of_explain_have_no_secrets(tmp_path: Path, job: dict[str, Any]) -> None:
    with_secrets(job, tmp_path)
    job["query"]["columns"] = [f"`{SECRET}`"]
    done = run_command("explain", job, tmp_path)
    assert done.returncode == 1
    assert "columns: there is no column '***'" in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.skipif(pyspark_version.startswith("4.0."), reason="Spark 4.0 logs this warning itself")
def test_glob_logs_no_warning(tmp_path: Path, job: dict[str, Any]) -> None:
    job["sources"]["events"]["path"] = [str(tmp_path / "in" / "*.json")]
    done = run_command("explain", job, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "FileStreamSink" not in done.stderr
    assert "FileNotFoundException" not in done.stderr


def test_report_is_printed_without_a_result_path(tmp_path: Path, job: dict[str, Any]) -> None:
    del job["output"], job["result_path"]
    done = run_command("run", job, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 rows returned; the job has no output" in done.stdout
    assert "Source events: " in done.stdout
    assert visible(tmp_path) == ["in", "spec.json"]


def test_ignored_output_reads_nothing(tmp_path: Path, job: dict[str, Any]) -> None:
    (tmp_path / "out").mkdir()
    job["output"]["mode"] = "ignore"
    job["sources"]["events"]["path"] = ["/nowhere"]
    done = run_command("run", job, tmp_path)
    assert done.returncode == 0, done.stderr
    result = result_of(job)
    assert (result.rows, result.output, result.sources) == (None, job["output"]["path"], {})
    assert visible(tmp_path / "out") == []


def test_a_retry_reports_the_output_of_an_attempt_whose_result_was_lost(tmp_path: Path, job: dict[str, Any]) -> None:
    result_path = job["result_path"]
    (tmp_path / "file").touch()
    lost = run_command("run", {**job, "result_path": str(tmp_path / "file" / "result.json")}, tmp_path)
    assert lost.returncode == 1, lost.stderr
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert run_command("run", {**job, "result_path": result_path}, tmp_path).returncode == 0
    result = result_of(job)
    assert (result.rows, result.output_summary.is_from_earlier_try) == (2, True)  # type: ignore[union-attr]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    again = run_command("run", {**job, "generation": "repeated on purpose"}, tmp_path)
    assert again.returncode == 1, "another run is not its retry"
    assert "already exists" in again.stderr


def test_overwrite_that_would_delete_the_source_fails(tmp_path: Path, job: dict[str, Any]) -> None:
    job["output"] = {"path": str(tmp_path), "format": "json", "mode": "overwrite"}
    job["result_path"] = None
    done = run_command("run", job, tmp_path)
    assert done.returncode == 1
    assert f"overwriting {tmp_path} would delete the source {tmp_path / 'in'}" in done.stderr
    assert visible(tmp_path) == ["in", "spec.json"]
    assert visible(tmp_path / "in") == ["a.json"]


def test_terminated_job_writes_a_result_and_no_output(tmp_path: Path, job: dict[str, Any]) -> None:
    endless = "aggregate(transform(sequence(1, 90000), x -> size(filter(sequence(1, 90000), y -> y > x + id))), 0L, "
    job["query"]["where"] = f"t = 'y' AND {endless} (a, b) -> a + b) > 0"
    call = command("run", job, tmp_path)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(call, env=environment(**CHECKOUT), cwd=tmp_path, start_new_session=True, **quiet)
    try:
        deadline = time.monotonic() + 180
        while not any(tmp_path.glob(".out.pushdown/staging-*/*/_temporary/0/_temporary")):
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        # As the hook does it: SIGTERM goes first to the driver, then to all processes.
        running.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        os.killpg(running.pid, signal.SIGTERM)
        assert running.wait(timeout=60) != 0
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    error = result_of(job).error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.DRIVER_KILLED, True)
    assert visible(tmp_path) == ["in", "result.json", "spec.json"]


def test_invalid_spec_writes_a_result(tmp_path: Path, job: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    job["query"]["limit"] = -1
    assert main(["--spec", save_spec(job, tmp_path)]) == 1
    error = result_of(job).error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.BAD_SPEC, False)
    assert error.message.startswith("the job spec is not valid: query.limit: ")
    assert capsys.readouterr().err == f"Error: {error.message} (bad_spec)\n"


@pytest.mark.parametrize("text", [None, "{", "[]"])
def test_unreadable_spec_prints_one_line(tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.json"
    if text is not None:
        path.write_text(text)
    assert main(["--spec", str(path)]) == 1
    error_output = capsys.readouterr().err
    assert error_output.startswith("Error: ")
    assert error_output.endswith(" (bad_spec)\n")
    assert error_output.count("\n") == 1


def test_an_invalid_spec_writes_a_result_to_a_uri(tmp_path: Path) -> None:
    result = tmp_path / "result.json"
    spec = save_spec({"result_path": result.as_uri()}, tmp_path)
    with pytest.raises(ValueError, match="run_key"):
        read_spec(spec)
    error = JobResult.model_validate_json(result.read_text()).error
    assert error is not None
    assert error.code is ErrorCode.BAD_SPEC


def test_secrets_are_read_once(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text('{"hadoop": {"a": "b"}}')
    assert read_secrets(str(path), keep=True).hadoop == {"a": "b"}
    assert read_secrets(str(path)).hadoop == {"a": "b"}
    with pytest.raises(BadSpecError, match="can only be used once"):
        read_secrets(str(path))
    path.write_text(f'{{"hadoop": "{SECRET}"}}')
    with pytest.raises(BadSpecError, match="expected form") as caught:
        read_secrets(str(path))
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not path.exists()


def test_result_replaces_an_older_one(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    target.write_text("older")
    write_result(f"file://{target}", JobResult(rows=7))
    assert JobResult.model_validate_json(target.read_text()).rows == 7
    assert list(tmp_path.iterdir()) == [target]


def test_unsupported_spark_raises_before_the_session_starts(
    tmp_path: Path, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pushdown_spark.job.pyspark_version", "3.5.9")
    assert main(["--spec", save_spec(job, tmp_path)]) == 1
    result = result_of(job)
    assert result.application_id is None
    assert result.error is not None
    assert result.error.code is ErrorCode.BAD_SPEC
    assert "jobs need Spark 4.0 to 4.3, and this is Spark 3.5.9" in result.error.message
