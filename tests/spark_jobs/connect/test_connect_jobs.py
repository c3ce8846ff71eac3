"""Jobs over Spark Connect: outputs are written all or nothing, and what needs a JVM is refused in one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from connect_server import ConnectServer, run_connect_server

from pushdown_spark.contract import ErrorCode, JobResult, JobSpec, SecretValues

ROOT = Path(__file__).parents[3]
PROGRAM = ROOT / "spark_jobs" / "pushdown_spark" / "job.py"
SCHEMA = "id int, kind string"
SLOW = "reflect('java.lang.Thread', 'sleep', 50L) IS NOT NULL"
"""A predicate that is true, after a while."""

Run = Callable[..., JobResult]
nightly = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    pytest.importorskip("grpc")
    with run_connect_server(sys.executable, tmp_path_factory.mktemp("server")) as instance:
        yield instance


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events"
    path.mkdir()
    rows = ({"id": number, "kind": "rare" if number % 100 == 7 else "common"} for number in range(400))
    (path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def start(server: ConnectServer, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts the program of a job."""

    def start_job(spec: dict[str, object], url: str = server.url, cwd: Path = tmp_path) -> subprocess.Popen[str]:
        secrets = tmp_path / "secrets.json"
        secrets.write_text(SecretValues(spark_connect=url).model_dump_json())
        paths = {"secrets_path": str(secrets), "result_path": str(tmp_path / "result.json")}
        job = JobSpec.model_validate({"run_key": "run", **spec, **paths})
        (tmp_path / "spec.json").write_text(job.model_dump_json(by_alias=True))
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "spark_jobs")}
        command = [sys.executable, str(PROGRAM), "--spec", str(tmp_path / "spec.json")]
        return subprocess.Popen(
            command, env=environment, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return start_job


@pytest.fixture
def run(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> Run:
    """Return a function that runs a job to its end."""

    def run_job(spec: dict[str, object], **options: object) -> JobResult:
        process = start(spec, **options)
        log, _ = process.communicate(timeout=120)
        result = JobResult.from_json((tmp_path / "result.json").read_bytes())
        assert result is not None, log
        assert (process.returncode == 0) == (result.error is None), log
        assert "to/ken" not in log + result.model_dump_json()
        return result

    return run_job


def scan(events: Path, where: str | None = None, output: Path | None = None, **options: object) -> dict[str, object]:
    """Return the spec of a scan of the events into an output."""
    source = {"format": "json", "path": [str(events)], "schema": SCHEMA}
    target = None if output is None else {"path": str(output), "format": "parquet", **options}
    return {
        "sources": {"source": source},
        "query": {"source": "source", "columns": ["id"], "where": where},
        "output": target,
    }


def ids(output: Path) -> list[int]:
    return sorted(pq.read_table(output)["id"].to_pylist())


def hidden_files(output: Path) -> list[Path]:
    """Return the hidden files of an attempt. The record of a commit stays."""
    return [path for path in output.parent.glob(".*.pushdown/**/*") if path.suffix != ".committed"]


def test_rows_are_written_and_a_retry_replaces_its_own(run: Run, events: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    spec = scan(events, "kind = 'rare'", out, mode="append")
    spec["sources"]["source"]["reader"] = "pushdown"
    result = run(spec)
    assert result.error is None, result.error
    assert (result.rows, ids(out)) == (4, [7, 107, 207, 307])
    assert (result.sources["source"].reader, result.sources["source"].carrier) == ("pushdown", "jvm")
    assert result.output_summary is not None
    assert result.output_summary.files == len(list(out.glob("part-*")))
    result = run(scan(events, "kind = 'rare' AND id > 200", out, mode="append"))
    assert (result.rows, ids(out), hidden_files(out)) == (2, [207, 307], [])
    assert result.sources["source"].reason == "over Spark Connect, only reader='pushdown' searches lines"


def test_a_failed_check_keeps_the_partitions_of_an_earlier_run(run: Run, events: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    spec = scan(events, None, out, mode="overwrite", partition_by=["kind"], checks={"min_rows": 1, "unique": [["id"]]})
    spec["query"]["columns"] = None
    result = run(spec)
    assert result.error is None, result.error
    assert [check.passed for check in result.checks] == [True, True]
    assert result.output_summary is not None
    assert result.output_summary.partitions == ("kind=common", "kind=rare")
    failure = run(scan(events, None, out, mode="overwrite", checks={"max_rows": 3}))
    assert failure.error is not None
    assert failure.error.code is ErrorCode.CHECK_FAILED
    assert len(ids(out)) == 400
    assert hidden_files(out) == []


def test_an_output_that_is_a_link_stays_one(run: Run, events: Path, tmp_path: Path) -> None:
    link, directory = tmp_path / "link", tmp_path / "elsewhere" / "directory"
    directory.parent.mkdir()
    link.symlink_to(directory)
    for number in (8, 9):
        result = run(scan(events, f"id = {number}", tmp_path / "none" / ".." / "link", mode="overwrite"))
        assert result.error is None, result.error
    assert link.is_symlink()
    assert (ids(directory), hidden_files(directory), hidden_files(link)) == ([9], [], [])


def has_staged_rows(output: Path) -> bool:
    """Return whether the server has begun to write rows."""
    return any(path.is_dir() for path in output.parent.glob(".*.pushdown/staging-*/*"))


def start_and_kill(process: subprocess.Popen[str], output: Path, number: signal.Signals) -> None:
    end = time.monotonic() + 60
    while not has_staged_rows(output):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.05)
    process.send_signal(number)
    process.communicate(timeout=15)


def test_a_stopped_job_leaves_no_rows(
    start: Callable[..., subprocess.Popen[str]], run: Run, events: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start(scan(events, SLOW, out))
    start_and_kill(process, out, signal.SIGTERM)
    result = JobResult.from_json((tmp_path / "result.json").read_bytes())
    assert result is not None
    assert result.error is not None
    assert result.error.code is ErrorCode.DRIVER_KILLED
    assert not out.exists()
    # A task of the server may end after the job, and leave its hidden file to the next attempt.
    assert run(scan(events, "id = 8", out)).error is None
    assert (ids(out), hidden_files(out)) == ([8], [])


def test_a_retry_after_a_killed_job_leaves_its_own_rows(
    start: Callable[..., subprocess.Popen[str]], run: Run, events: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run(scan(events, "kind = 'rare'", out, mode="append") | {"run_key": "earlier"})
    start_and_kill(start(scan(events, SLOW, out, mode="append")), out, signal.SIGKILL)
    assert ids(out) == [7, 107, 207, 307]
    result = run(scan(events, "id = 8", out, mode="append"))
    assert result.error is None, result.error
    assert ids(out) == [7, 8, 107, 207, 307]


def test_a_join_runs_as_written(run: Run, events: Path, tmp_path: Path) -> None:
    source = {"format": "json", "path": [str(events)], "schema": SCHEMA}
    spec = {"sources": {"a": source, "b": source}, "output": {"path": str(tmp_path / "out"), "format": "parquet"}}
    sql = "SELECT a.id FROM a JOIN b ON a.id = b.id + 100 WHERE b.kind = 'rare'"
    result = run(spec | {"query": {"sql": sql}})
    assert result.error is None, result.error
    assert ids(tmp_path / "out") == [107, 207, 307]
    assert {report.reason for report in result.sources.values()} == {
        "Spark Connect has no JVM gateway, so the query runs as written"
    }
    wrong = run(spec | {"output": None, "query": {"sql": "SELECT * FROM a JOIN c USING (id)"}})
    assert wrong.error is not None
    assert wrong.error.message == "query: no source is named 'c'; there are a, b"
    dotted = {"sources": {"db.a": source}, "output": None, "query": {"sql": "SELECT * FROM db.a"}}
    wrong = run(dotted)
    assert wrong.error is not None
    assert wrong.error.message.endswith("put the name of source 'db.a' into one pair of backticks: `db.a`")
    assert run(dotted | {"query": {"sql": "SELECT * FROM `db.a` WHERE 1 = 0"}}).rows == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": {"path": "hdfs://node/out"}}, "output: over Spark Connect, 'hdfs://node/out' must be the"),
        ({"output": {"path": "/proc/self/cwd/out"}}, "output: the Spark Connect server does not see "),
        ({"output": {"path": "{events}", "mode": "overwrite"}}, "output: overwriting {events} would delete {events}/"),
        ({"conf": {"spark.executor.memory": "1g"}}, "conf: spark.executor.memory cannot be set for a session of"),
        ({"where": "knd = 'a'"}, "where: "),
        nightly(
            {"output": {"catalog_table": "t"}}, "output_table: a table cannot be written all or nothing over Spark"
        ),
        nightly({"where": "kind = "}, "where: "),
        nightly({"columns": ["filename"]}, "source 'source' is read over Spark Connect and has no implicit columns"),
        nightly({"source": {"max_malformed": 1}}, "max_malformed: not possible over Spark Connect"),
        nightly({"source": {"path": ["/no/such/path"]}}, "path: "),
        nightly({"source": {"schema": "id nothing"}}, "schema: "),
    ],
    ids=str,
)
def test_wrong_inputs_raise_and_delete_no_source(
    run: Run, events: Path, change: dict[str, object], message: str
) -> None:
    spec = scan(events)
    for name in ("where", "columns"):
        spec["query"] |= {name: change[name]} if name in change else {}
    spec["sources"]["source"] |= change.get("source", {})
    output = {key: value.replace("{events}", str(events)) for key, value in change.get("output", {}).items()}
    result = run(spec | {"output": output or None, "conf": change.get("conf", {})})
    assert result.error is not None
    assert result.error.message.startswith(message.replace("{events}", str(events))), result.error.message
    assert not result.error.retryable or "path" in change.get("source", {})
    assert (events / "rows.json").exists()


@pytest.mark.nightly
def test_a_server_that_does_not_run_is_a_retryable_error_with_its_address(run: Run, events: Path) -> None:
    result = run(scan(events), url="sc://localhost:1")
    assert result.error is not None
    assert result.error.message.startswith("conn_id: the Spark Connect server localhost:1 did not accept a connection")
    assert result.error.retryable
