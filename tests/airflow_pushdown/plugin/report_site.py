"""A real api-server with the database of this test run, and tasks whose reports it shows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from airflow.sdk import DAG, Context

import airflow_pushdown
from airflow_pushdown.operators import PushdownJoinOperator, PushdownScanOperator
from e2e.ports import free_port
from pushdown_spark.contract import (
    CheckReport,
    ConjunctReport,
    ErrorCode,
    Exactness,
    FileReport,
    JobError,
    JobResult,
    JoinReport,
    JoinTree,
    OutputFormat,
    OutputMode,
    OutputSummary,
    SourceReport,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
READER, STRANGER, ADMIN = "viewer", "guest", "admin"
PASSWORD = "only-for-this-test"
REPORTS = Path(__file__).parent / "reports"
HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
_UP_SECONDS = 300


@dataclass(frozen=True)
class Site:
    """The address of the api-server."""

    address: str

    def get(self, path: str, user: str | None = None) -> tuple[int, str, dict[str, str]]:
        """Return status, body and headers of a page, requested by a user or without login."""
        headers = {"Authorization": f"Bearer {self.token(user)}"} if user else {}
        try:
            with urlopen(Request(self.address + path, headers=headers)) as response:
                return response.status, response.read().decode(), dict(response.headers)
        except HTTPError as refusal:
            return refusal.code, refusal.read().decode(), dict(refusal.headers)

    def token(self, user: str) -> str:
        """Return a user's token for the API."""
        request = Request(
            f"{self.address}/auth/token",
            data=json.dumps({"username": user, "password": PASSWORD}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urlopen(request) as response:
            return str(json.load(response)["access_token"])


@contextmanager
def api_server(root: Path, scratch: Path) -> Iterator[Site]:
    """Run an api-server over this process's database, with users who may read, nothing, and everything."""
    passwords = scratch / "passwords.json"
    passwords.write_text(json.dumps(dict.fromkeys((READER, STRANGER, ADMIN), PASSWORD)))
    site = Site(f"http://127.0.0.1:{free_port()}")
    environment = {
        **os.environ,
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{READER}:viewer,{STRANGER}:,{ADMIN}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of this test alone, long enough for HS512 which wants sixty-four",
        "AIRFLOW__API__SECRET_KEY": "a secret of this test alone",
        "AIRFLOW__API__BASE_URL": site.address,
        "PYTHONPATH": os.pathsep.join(map(str, (_install_metadata(root, scratch), root, root / "spark_jobs"))),
    }
    command = ["api-server", "--host", "127.0.0.1", "--port", site.address.rpartition(":")[2], "--workers", "1"]
    log = scratch / "api-server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", *command], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        _wait_until_up(site, process, log)
        yield site
    finally:
        process.terminate()
        process.wait(300)


def _install_metadata(root: Path, scratch: Path) -> Path:
    """Write the metadata of an installed package, by which Airflow finds the plugin. Return its directory."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    metadata = scratch / "site" / f"airflow_pushdown-{airflow_pushdown.__version__}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {airflow_pushdown.__version__}\n"
    )
    points = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(points))
    return metadata.parent


def _wait_until_up(site: Site, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(_UP_SECONDS * 4):
        assert process.poll() is None, log.read_text("utf-8", errors="replace")[-3000:]
        try:
            if site.get("/api/v2/version")[0] == 200:
                return
        except URLError:
            time.sleep(0.25)
    raise AssertionError(log.read_text("utf-8", errors="replace")[-3000:])


class RecordedScan(PushdownScanOperator):
    """An operator that returns a given result instead of running a job."""

    pending: ClassVar[list[JobResult]] = []

    def _run(self, context: Context) -> JobResult:
        self.history_page = "http://history.example:18080/history/local-1/"
        return self.pending.pop(0)


class RecordedJoin(PushdownJoinOperator):
    """The same as `RecordedScan` for a join."""

    result: ClassVar[JobResult]

    def _run(self, context: Context) -> JobResult:
        return self.result


class RecordedReport(PushdownScanOperator):
    """An operator that returns the report in `reports/` which has the name of its path."""

    def _run(self, context: Context) -> JobResult:
        return stored_result(str(self.path))


def stored_result(name: str) -> JobResult:
    """Return a report that a real job left. `make_reports.py` makes them."""
    return JobResult.from_xcom(json.loads((REPORTS / f"{name}.json").read_text("utf-8")))


def orc_result(bytes_read: int, seconds: float) -> JobResult:
    """Return the result of an ORC scan that skipped most stripes."""
    source = SourceReport(
        reader="pushdown",
        reason="reads 2 of 40 stripes",
        conjuncts=(
            ConjunctReport(sql="tailnum = 'N328AA'", exactness=Exactness.EXACT, pushed_as="bloom filter"),
            ConjunctReport(sql="month < 8", exactness=Exactness.INEXACT, pushed_as="statistics", reason="by row group"),
            ConjunctReport(
                sql="upper(dest) = 'LAX'", exactness=Exactness.UNSUPPORTED, reason="a function of the column"
            ),
        ),
        columns=("month", "tailnum", HOSTILE),
        files_total=12,
        files_read=2,
        bytes_total=48_000_000,
        bytes_read=bytes_read,
        rows_decoded=12_000,
        rows_returned=41,
        skipped={"bytes never read": 48_000_000 - bytes_read},
        units={"stripes": {"read": 2, "skipped by statistics": 30, "skipped by bloom filters": 8}},
        files=(
            FileReport(
                path=f"s3a://lake/flights/{HOSTILE}.orc",
                bytes_read=700_000,
                rows_decoded=9_000,
                units={"stripes": {"read": 1, "skipped by statistics": 3, "skipped by bloom filters": 0}},
            ),
            FileReport(path="s3a://lake/flights/2.orc", bytes_read=60_000, rows_decoded=3_000),
        ),
        bytes_by_purpose={"footers": 9_000, "filter columns": 900_000, "select columns": bytes_read - 909_000},
        notes=(HOSTILE,),
    )
    summary = OutputSummary(
        mode=OutputMode.OVERWRITE_PARTITIONS,
        format=OutputFormat.PARQUET,
        columns={"tailnum": "string", "day": "date"},
        files=3,
        bytes=4096,
        partitions=("day=2026-01-01", "day=2026-01-02"),
        partitions_total=2,
    )
    return JobResult(
        rows=41,
        output="s3a://marts/needle",
        output_summary=summary,
        checks=(CheckReport(check="not_null: tailnum", required="no NULL", found="0 NULL", passed=True),),
        application_id="local-1",
        seconds=seconds,
        sources={"source": source},
    )


def failed_result() -> JobResult:
    """Return the result of a job that failed before it opened its source, with HTML in the message."""
    return JobResult(
        seconds=1.5,
        error=JobError(
            code=ErrorCode.UNKNOWN_COLUMN, message=f"where: no column {HOSTILE}", retryable=False, traceback=HOSTILE
        ),
    )


def join_result() -> JobResult:
    """Return the result of a join of three relations that was reordered."""
    flights, airlines, planes = (
        JoinTree(relation=name, estimated=row_estimate, actual=actual, hint=hint)
        for name, row_estimate, actual, hint in (
            ("flights", 336_776.0, 86_326, None),
            ("airlines", 16.0, 16, "BROADCAST"),
            (f"planes {HOSTILE}", 3_322.0, 9, "BROADCAST"),
        )
    )
    inner = JoinTree(kind="INNER", condition="f.carrier = a.carrier", left=flights, right=airlines, estimated=336_776.0)
    before = JoinTree(kind="INNER", condition="f.tailnum = p.tailnum", left=inner, right=planes, estimated=912.0)
    first = JoinTree(kind="INNER", condition="f.tailnum = p.tailnum", left=flights, right=planes, estimated=912.0)
    after = JoinTree(kind="INNER", condition="f.carrier = a.carrier", left=first, right=airlines, estimated=912.0)
    report = JoinReport(before=before, after=after, reason="9 planes leave few flights", reordered=True, method="dp")
    source = SourceReport(
        reader="remote", reason="a table", bytes_read=5_000, rows_returned=9, statements=("SELECT 1 < 2",)
    )
    return JobResult(rows=9, seconds=4.0, application_id="local-2", sources={"planes": source}, joins=(report,))


def _of_another_task() -> dict[str, object]:
    return {"version": 1, "sources": {}, "value": "of another task"}


def report_dag() -> DAG:
    """Return a DAG with two tasks that have reports, and one without."""
    from airflow.providers.standard.operators.python import PythonOperator

    with DAG("reports", schedule=None, start_date=START, catchup=False) as dag:
        RecordedScan(task_id="needle", path="/data/*.orc", format="orc")
        RecordedJoin(task_id="mart", sources={"f": {"path": "/f", "format": "csv"}}, query="SELECT 1")
        PythonOperator(task_id="other", python_callable=_of_another_task)
    return dag


def gallery_dag(names: Sequence[str]) -> DAG:
    """Return a DAG with one mapped task, whose instances return the reports of real jobs."""
    with DAG("gallery", schedule=None, start_date=START, catchup=False) as dag:
        RecordedReport.partial(task_id="scan", format="json", map_index_template="{{ task.path }}").expand(
            path=list(names)
        )
    return dag


def pipeline_dag() -> DAG:
    """Return a DAG with four tasks that return the reports of real jobs. A run's `needle` names that of one task."""
    with DAG("sales", schedule=None, start_date=START, catchup=False) as dag:
        for task_id, name in (
            ("late", "orc"),
            ("needle", "{{ dag_run.conf['needle'] }}"),
            ("spelling", "fallback"),
            ("mart", "join_8"),
        ):
            RecordedReport(task_id=task_id, path=name, format="json")
    return dag


def states_dag() -> DAG:
    """Return a DAG whose tasks have no report: one pushes none, one pushes another value, and two are to run."""
    from airflow.providers.standard.operators.python import PythonOperator

    with DAG("states", schedule=None, start_date=START, catchup=False) as dag:
        RecordedReport(task_id="silent", path="orc", format="json", do_xcom_push=False)
        PythonOperator(task_id="other", python_callable=_of_another_task)
        for task_id in ("running", "deferred"):
            RecordedReport(task_id=task_id, path="orc", format="json", do_xcom_push=False)
    return dag


def idle_dag() -> DAG:
    """Return a DAG without runs."""
    with DAG("idle", schedule=None, start_date=START, catchup=False) as dag:
        RecordedReport(task_id="scan", path="orc", format="json")
    return dag
