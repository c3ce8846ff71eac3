"""Parts of the product are killed during a scan on its cluster: nothing remains, and the retry is complete."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from e2e.checks import rows_of, wait_for_dags, wait_for_run
from e2e.expected import Row
from e2e.ports import free_port
from e2e.processes import Program, wait_for

pytest.importorskip("psycopg2", reason="installed for end-to-end runs alone")
from e2e.local import Local, open_connections, product

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

SCAN, COPY, TASK = "slow_scan", "slow_copy", "scan"
SLOW_ROWS = (
    "CREATE SEQUENCE pace MINVALUE 0 START 0",
    "CREATE TABLE stored AS SELECT number, 'row ' || number AS label FROM generate_series(1, 2500) AS number",
    "ANALYZE stored",
    "CREATE FUNCTION delayed(number integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS "
    "'BEGIN PERFORM pg_sleep(last_value / 1000.0) FROM pace; RETURN number; END'",
    "CREATE VIEW slow_rows AS SELECT number, label, delayed(number) AS moment FROM stored",
)
"""The function looks at the pace for each row, so that rows can be slow before a kill and quick after it.

The pace is the value of a sequence, because that is not part of the snapshot of a read.
"""
SECONDS_PER_ROW = 0.1
START_SECONDS = 300.0
END_SECONDS = 180.0
DRIVER_JVM, EXECUTOR = "org.apache.spark.deploy.SparkSubmit", "CoarseGrainedExecutorBackend"
COPIED = "SELECT count(*) FROM pg_stat_progress_copy WHERE tuples_processed > 0"
JOB = (DRIVER_JVM, "pushdown_spark/job.py", EXECUTOR, "pyspark.daemon")


@dataclass(frozen=True)
class Traces:
    """The visible parts of running scans: applications, connections, processes of jobs, and staged files."""

    applications: frozenset[str] = frozenset()
    connections: frozenset[str] = frozenset()
    processes: frozenset[psutil.Process] = frozenset()
    staged: frozenset[Path] = frozenset()

    @classmethod
    def of(cls, local: Local) -> Traces:
        jobs = frozenset(process for process in local.programs.members() if is_one(process, *JOB))
        staged = frozenset((local.deployment.data_dir / "output").glob("*/.*.pushdown/staging-*/*"))
        return cls(local.cluster.running_applications(), frozenset(open_connections(local.database)), jobs, staged)

    def left(self, now: Traces) -> Traces:
        """Return the traces that still exist."""
        return Traces(
            self.applications & now.applications,
            self.connections & now.connections,
            self.processes & now.processes,
            self.staged & now.staged,
        )

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self != Traces()


class Scan:
    """One run of a DAG in a product."""

    def __init__(self, local: Local, day: int, dag: str = SCAN) -> None:
        """Start the run for a day of January."""
        self.local = local
        self.dag = dag
        date = datetime(2026, 1, day, tzinfo=UTC)
        self.output: Path = local.deployment.data_dir / "output" / dag / f"{date:%Y-%m-%d}"
        self.run_id = local.deployment.api.trigger(dag, date)

    @property
    def attempt(self) -> int:
        """The number of the current or last try of the task."""
        return int(str(self.local.deployment.api.tasks(self.dag, self.run_id)[TASK]["try_number"]))

    def staged(self) -> list[Path]:
        """Return the hidden files next to the output, without the records of runs that have committed."""
        hidden = self.output.parent.glob(f".{self.output.name}.*/*")
        return [path for path in hidden if path.suffix != ".committed"]

    def in_its_middle(self) -> Traces:
        """Wait until some rows have arrived, but not all. Return the traces."""
        wait_for("the middle of the scan", self._writes, START_SECONDS, self.local.deployment.watch)
        traces = Traces.of(self.local)
        assert traces.applications, "the scan does not run on the cluster"
        assert traces.connections, "the scan does not read"
        assert traces.processes, "the scan has no processes"
        assert traces.staged, "the scan has nowhere to write"
        assert not self.output.exists(), "the output exists before it is complete"
        return traces

    def rows(self) -> Counter[Row]:
        """Wait for the end of the run, which must leave only its output. Return the rows of the output."""
        wait_for_run(self.local.deployment, self.dag, self.run_id)
        api = self.local.deployment.api
        state = api.run_state(self.dag, self.run_id)
        assert state == "success", api.log(self.dag, self.run_id, TASK, self.attempt)[-6000:]
        assert (self.output / "_SUCCESS").is_file()
        assert self.staged() == []
        wait_until_gone(self.local, Traces.of(self.local))
        return rows_of(self.output, ("number", "label"))

    def rows_after(self, gone: Traces) -> Counter[Row]:
        """Wait until `gone` is gone without an output, then speed up the rows. Return the rows of the next try."""
        wait_until_gone(self.local, gone)
        assert not self.output.exists(), "there is an output of what was killed"
        set_pace(self.local, 0)
        return self.rows()

    def _writes(self) -> bool:
        parts = any(part for place in self.staged() for part in place.rglob("part-*"))
        return parts and self.local.database.execute(COPIED).strip() == "1"


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    """Run the product with the DAGs of these tests, and a table with slow rows."""
    with product(Path(__file__).with_name("dags")) as instance:
        instance.database.execute(*SLOW_ROWS)
        wait_for_dags(instance.deployment, {SCAN, COPY})
        yield instance


@pytest.fixture(scope="module")
def expected_rows(local: Local) -> Counter[Row]:
    """Return the rows of an undisturbed run."""
    rows = Scan(local, 1).rows()
    assert rows.total() == 2490
    return rows


@pytest.fixture
def slowly(local: Local, expected_rows: Counter[Row]) -> Iterator[None]:
    """Slow the rows down during a test. The runs of a failed test finish afterward."""
    set_pace(local, SECONDS_PER_ROW)
    yield
    set_pace(local, 0)
    wait_until_gone(local, Traces.of(local))


def set_pace(local: Local, seconds: float) -> None:
    """Set the time per row of the table."""
    local.database.execute(f"SELECT setval('pace', {round(seconds * 1000)})")


def is_one(process: psutil.Process, *parts: str) -> bool:
    """Return whether the command line of a process contains one of `parts`. False if the process has ended."""
    with contextlib.suppress(psutil.Error):
        command = " ".join(process.cmdline())
        return any(part in command for part in parts)
    return False


def the(traces: Traces, part: str) -> psutil.Process:
    """Return the process whose command line contains `part`."""
    return next(process for process in traces.processes if is_one(process, part))


def wait_until_gone(local: Local, traces: Traces) -> None:
    """Wait until no part of `traces` exists."""
    wait_for(f"the end of {traces}", lambda: not traces.left(Traces.of(local)), END_SECONDS)


def worker_of(local: Local) -> Program:
    """Return the Spark worker with the only executor."""
    workers = map(local.programs.by_name, local.cluster.machines)
    return next(worker for worker in workers if any(is_one(process, EXECUTOR) for process in worker.tree()))


@pytest.mark.usefixtures("slowly")
def test_marking_a_task_as_failed_ends_its_job_and_the_task_can_be_cleared(
    local: Local, expected_rows: Counter[Row]
) -> None:
    scan, api = Scan(local, 2), local.deployment.api
    traces = scan.in_its_middle()

    api.fail_task(scan.dag, scan.run_id, TASK)

    wait_until_gone(local, traces)
    assert not scan.output.exists()
    assert scan.staged() == []
    set_pace(local, 0)
    api.clear_task(scan.dag, scan.run_id, TASK)
    assert scan.rows() == expected_rows
    assert scan.attempt > 1


@pytest.mark.usefixtures("slowly")
def test_sigkill_of_a_task_closes_its_snapshot_and_partition_connections(
    local: Local, expected_rows: Counter[Row]
) -> None:
    scan = Scan(local, 6, COPY)
    traces = scan.in_its_middle()
    assert len(traces.connections) == 2, "one holds the snapshot that the other reads"

    the(traces, DRIVER_JVM).parent().kill()

    assert scan.rows_after(traces) == expected_rows
    assert scan.attempt > 1


@pytest.mark.usefixtures("slowly")
def test_a_killed_driver_ends_its_job_and_the_task_is_retried(local: Local, expected_rows: Counter[Row]) -> None:
    scan = Scan(local, 3)
    traces = scan.in_its_middle()

    the(traces, DRIVER_JVM).kill()

    assert scan.rows_after(traces) == expected_rows
    assert scan.attempt > 1


@pytest.mark.usefixtures("slowly")
def test_another_spark_worker_repeats_the_tasks_of_a_killed_worker(local: Local, expected_rows: Counter[Row]) -> None:
    scan = Scan(local, 5)
    traces = scan.in_its_middle()

    local.programs.kill(worker_of(local))

    assert scan.rows_after(Traces(connections=traces.connections)) == expected_rows
    assert scan.attempt == 1


@pytest.mark.usefixtures("slowly")
def test_another_scheduler_ends_the_scan_of_a_killed_scheduler_and_retries_it(
    local: Local, expected_rows: Counter[Row]
) -> None:
    scan = Scan(local, 4)
    traces = scan.in_its_middle()

    local.programs.kill(local.programs.by_name("airflow-scheduler"))
    # The new scheduler takes over the tasks after this many seconds without a heartbeat of the old one.
    local.services.start_service(
        "scheduler",
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD="10",
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="5",
        # Processes of the old scheduler still use its port.
        AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=str(free_port()),
    )

    assert scan.rows_after(traces) == expected_rows
    assert scan.attempt > 1
