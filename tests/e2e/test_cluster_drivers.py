"""Drivers on a standalone cluster and on YARN: parts are killed while a task waits for its driver, or is deferred."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from e2e.checks import REPORT_LINK, rows_of, wait_for_dags, wait_for_run
from e2e.expected import Row
from e2e.ports import free_port
from e2e.processes import wait_for

pytest.importorskip("psycopg2", reason="installed for end-to-end runs alone")
from test_cluster_kills import SLOW_ROWS, is_one, set_pace  # type: ignore[import-not-found]

from e2e import local as standalone
from e2e import yarn
from e2e.local import Local, open_connections
from pushdown_spark.contract.encryption import KEY_VARIABLE

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

WAIT, DEFER, TASK = "driver_wait", "driver_defer", "scan"
TIMEOUT_WAIT, TIMEOUT_DEFER = "driver_timeout_wait", "driver_timeout_defer"
LOST_EARLY, LOST_LATE = "driver_lost_early", "driver_lost_late"
DAGS = {WAIT, DEFER, TIMEOUT_WAIT, TIMEOUT_DEFER, LOST_EARLY, LOST_LATE}
SECONDS_PER_ROW = 0.1
START_SECONDS = 300.0
END_SECONDS = 180.0
CONNECTION_SECONDS = 120.0
DRIVER_JVMS = ("org.apache.spark.deploy.worker.DriverWrapper", "org.apache.spark.deploy.yarn.ApplicationMaster")
PROGRAMS = ("pushdown_spark-", "job.py --spec")
READING = re.compile("active (FETCH|COPY)")
ROWS = 2490


@dataclass
class Run:
    """One run of a DAG whose driver runs on the cluster."""

    local: Local
    dag: str
    day: int
    earlier: frozenset[str] = field(init=False)
    """The drivers before the run."""

    def __post_init__(self) -> None:
        self.earlier = frozenset(self.local.cluster.drivers())
        date = datetime(2026, 1, self.day, tzinfo=UTC)
        self.output: Path = self.local.deployment.data_dir / "output" / self.dag / f"{date:%Y-%m-%d}"
        self.run_id = self.local.deployment.api.trigger(self.dag, date)

    @property
    def task(self) -> dict[str, object]:
        return self.local.deployment.api.tasks(self.dag, self.run_id)[TASK]

    @property
    def drivers(self) -> dict[str, str]:
        """The states of the drivers of the run by their ids."""
        return {name: state for name, state in self.local.cluster.drivers().items() if name not in self.earlier}

    @property
    def log(self) -> str:
        """The log of the last try, or empty before the first one."""
        number = int(str(self.task["try_number"]))
        return self.local.deployment.api.log(self.dag, self.run_id, TASK, number) if number else ""

    def wait_for_middle(self) -> None:
        """Wait until rows arrive, and until the task waits for its driver as its DAG says."""
        state = "running" if self.dag in (WAIT, TIMEOUT_WAIT) else "deferred"
        self.wait_for("the middle of the scan", lambda: self._reads() and self.task["state"] == state)
        assert not self.output.exists()

    def wait_for(self, what: str, is_done: object) -> None:
        """Wait for a condition, and fail with the log of the task."""
        try:
            wait_for(what, is_done, START_SECONDS, self.local.deployment.watch, poll_seconds=1.0)  # type: ignore[arg-type]
        except Exception as error:
            pytest.fail(f"{error}\n{self.task}\n{self.drivers}\n{self.log[-6000:]}")

    def rows(self) -> Counter[Row]:
        """Wait for the end of the run, which must leave only its output. Return the rows of the output."""
        api = self.local.deployment.api
        wait_for_run(self.local.deployment, self.dag, self.run_id)
        assert api.run_state(self.dag, self.run_id) == "success", self.log[-6000:]
        assert_nothing_left(self.local)
        return rows_of(self.output, ("number", "label"))

    def result(self) -> dict[str, object]:
        """Return the XCom of the task."""
        value = self.local.deployment.api.return_value(self.dag, self.run_id, TASK)
        result = json.loads(value) if isinstance(value, str) else value
        assert isinstance(result, dict)
        return result

    def _reads(self) -> bool:
        return any(READING.match(doing) for doing in open_connections(self.local.database).values())


@pytest.fixture(scope="module", params=["standalone", "yarn"])
def local(request: pytest.FixtureRequest) -> Iterator[Local]:
    """Run the product with the DAGs of these tests, and a table with slow rows."""
    dags = Path(__file__).with_name("dags")
    with yarn.product("client", dags) if request.param == "yarn" else standalone.product(dags) as instance:
        instance.database.execute(*SLOW_ROWS)
        wait_for_dags(instance.deployment, DAGS)
        yield instance
        assert_no_secret(instance)


@pytest.fixture
def slowly(local: Local) -> Iterator[None]:
    """Slow the rows down during a test. The runs of a failed test finish afterward, also those without a driver yet."""
    set_pace(local, SECONDS_PER_ROW)
    yield
    set_pace(local, 0)
    api = local.deployment.api
    wait_for(
        "the end of all runs",
        lambda: not {"queued", "running"} & {state for dag in DAGS for state in api.runs(dag).values()},
        START_SECONDS,
    )
    wait_for("the end of all drivers", lambda: not jobs(local), END_SECONDS)


def jobs(local: Local) -> list[psutil.Process]:
    """Return the processes of drivers."""
    return [process for process in local.programs.members() if is_one(process, *DRIVER_JVMS, *PROGRAMS)]


def assert_nothing_left(local: Local) -> None:
    """Check that no driver runs, and that only the program of all jobs is in the exchange directory."""
    wait_for(
        "the end of all drivers", lambda: not jobs(local) and not local.cluster.running_applications(), END_SECONDS
    )
    # The server takes a moment to see that a killed worker has gone. Reading to the end would take longer than this.
    wait_for("the end of all connections", lambda: not open_connections(local.database), CONNECTION_SECONDS)
    wait_for("the end of the exchange", lambda: not local.cluster.exchange_files(), END_SECONDS)
    assert not list((local.deployment.data_dir / "output").glob("*/.*.pushdown/staging-*/*"))


def assert_no_secret(local: Local) -> None:
    """Check that no log, event, program or other file has the password of the database or the key of the exchange."""
    secrets = [str(local.database.connection()["password"])]
    # A standalone cluster has no key, because its exchange directory is private.
    secrets += [value for name, value in local.services.settings.items() if name == KEY_VARIABLE]
    files = [path for path in local.deployment.data_dir.parent.rglob("*") if path.is_file()]
    assert [path for path in files if any(secret.encode() in path.read_bytes() for secret in secrets)] == []


def ended_by_kill(run: Run, *parts: str) -> None:
    """Kill the process of the run whose command line contains one of `parts`."""
    actual = (process for process in run.local.programs.members() if is_one(process, *parts))
    # YARN starts the JVM of a driver by a shell with the same words in its command line.
    next(process for process in actual if process.name() == "java").kill()


def machine_of_driver(local: Local) -> str:
    """Return the name of the machine that runs the only driver."""
    return next(
        name
        for name in local.cluster.machines
        if any(is_one(process, *DRIVER_JVMS) for process in local.programs.by_name(name).tree())
    )


@pytest.mark.parametrize("dag", [WAIT, DEFER])
def test_a_driver_on_the_cluster_leaves_one_result_and_no_file(local: Local, dag: str) -> None:
    run = Run(local, dag, 1)
    assert run.rows().total() == ROWS
    assert list(run.drivers.values()) == ["FINISHED"]
    result = run.result()
    assert result["rows"] == ROWS
    assert str(result["application_id"]).startswith(local.deployment.application_prefix)
    assert "Pushdown report" in run.log


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("dag", [WAIT, DEFER])
def test_the_log_and_the_page_of_a_task_show_the_progress_of_its_driver(local: Local, dag: str) -> None:
    run = Run(local, dag, 13)
    run.wait_for("two groups with the progress", lambda: run.log.count("::group::Progress after ") >= 2)
    assert re.search(r"::group::Progress after [^\n]*\n[^\n]*\b0 of 1 task", run.log)
    page = local.deployment.api.linked_page(run.dag, run.run_id, TASK, REPORT_LINK)
    assert re.search(r"<h2>Progress</h2>.*\b0 of 1 task\b.*As of ", page, re.DOTALL)
    set_pace(local, 0)
    assert run.rows().total() == ROWS


@pytest.mark.usefixtures("slowly")
def test_a_retry_continues_with_the_driver_of_a_killed_task(local: Local) -> None:
    run = Run(local, WAIT, 2)
    run.wait_for_middle()
    pid = run.task["pid"]

    psutil.Process(int(str(pid))).kill()

    run.wait_for("the next try", lambda: run.task["try_number"] == 2 and run.task["state"] == "running")
    run.wait_for("the reconnection", lambda: "of an earlier try: RUNNING" in run.log)
    run.wait_for("the progress that the driver wrote", lambda: "Progress after " in run.log)
    set_pace(local, 0)
    assert run.rows().total() == ROWS
    assert list(run.drivers.values()) == ["FINISHED"]


@pytest.mark.usefixtures("slowly")
def test_a_retry_continues_with_a_running_driver_whose_id_died_with_its_worker(local: Local) -> None:
    run = Run(local, LOST_LATE, 9)
    run.wait_for("the next try", lambda: run.task["try_number"] == 2 and run.task["state"] == "running")
    run.wait_for("the reconnection", lambda: "of an earlier try: RUNNING" in run.log)
    set_pace(local, 0)
    assert run.rows().total() == ROWS
    assert list(run.drivers.values()) == ["FINISHED"]


def test_a_retry_reads_the_result_of_a_driver_whose_id_died_with_its_worker(local: Local) -> None:
    run = Run(local, LOST_LATE, 10)
    run.wait_for("the end of the driver", lambda: list(run.drivers.values()) == ["FINISHED"])
    if run.task["try_number"] == 1:
        assert run.rows().total() == ROWS
        assert list(run.drivers.values()) == ["FINISHED"]


def test_only_one_of_two_drivers_runs_if_the_next_try_precedes_the_start_of_the_first(local: Local) -> None:
    run = Run(local, LOST_EARLY, 11)
    assert run.rows().total() == ROWS
    wait_for("the end of all drivers", lambda: not {"SUBMITTED", "RUNNING"} & set(run.drivers.values()), END_SECONDS)
    assert list(run.drivers.values()).count("FINISHED") == 1


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("dag", [WAIT, DEFER])
def test_another_scheduler_continues_with_the_driver(local: Local, dag: str) -> None:
    run = Run(local, dag, 12)
    run.wait_for_middle()

    local.programs.kill(local.programs.by_name("airflow-scheduler"))
    # The new scheduler takes over the tasks after this many seconds without a heartbeat of the old one.
    local.services.start_service(
        "scheduler",
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD="10",
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="5",
        # Processes of the old scheduler still use its port.
        AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=str(free_port()),
    )
    if dag == WAIT:
        run.wait_for("the reconnection", lambda: "of an earlier try: RUNNING" in run.log)
    set_pace(local, 0)

    assert run.rows().total() == ROWS
    assert list(run.drivers.values()) == ["FINISHED"]


@pytest.mark.usefixtures("slowly")
def test_another_triggerer_continues_the_wait_of_a_killed_one(local: Local) -> None:
    run = Run(local, DEFER, 3)
    run.wait_for_middle()

    local.programs.kill_machine("airflow-triggerer")
    local.services.start_service("triggerer")
    set_pace(local, 0)

    assert run.rows().total() == ROWS
    assert list(run.drivers.values()) == ["FINISHED"]
    assert run.task["try_number"] == 1


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("dag", [WAIT, DEFER])
def test_a_retry_replaces_a_killed_driver(local: Local, dag: str) -> None:
    run = Run(local, dag, 4)
    run.wait_for_middle()

    ended_by_kill(run, *DRIVER_JVMS)

    run.wait_for("the next driver", lambda: len(run.drivers) == 2)
    set_pace(local, 0)
    assert run.rows().total() == ROWS
    assert sorted(run.drivers.values()) == ["FAILED", "FINISHED"]


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("dag", [WAIT, DEFER])
def test_a_retry_replaces_the_driver_of_a_lost_machine(local: Local, dag: str) -> None:
    run = Run(local, dag, 14)
    run.wait_for_middle()

    machine = machine_of_driver(local)
    local.programs.kill_machine(machine)

    run.wait_for("the next driver", lambda: len(run.drivers) == 2)
    set_pace(local, 0)
    assert run.rows().total() == ROWS
    # A standalone cluster calls a driver whose worker is lost an error.
    assert sorted(run.drivers.values()) in (["FAILED", "FINISHED"], ["ERROR", "FINISHED"])
    local.cluster.start_machine(machine)


@pytest.mark.usefixtures("slowly")
def test_a_deferred_task_that_is_marked_as_failed_ends_its_driver(local: Local) -> None:
    run = Run(local, DEFER, 5)
    run.wait_for_middle()

    local.deployment.api.fail_task(run.dag, run.run_id, TASK)

    assert_nothing_left(local)
    assert list(run.drivers.values()) == ["KILLED"]
    assert not run.output.exists()
    set_pace(local, 0)
    local.deployment.api.clear_task(run.dag, run.run_id, TASK)
    assert run.rows().total() == ROWS
    assert sorted(run.drivers.values()) == ["FINISHED", "KILLED"]


@pytest.mark.usefixtures("slowly")
def test_a_cleared_deferred_task_starts_again_with_another_driver(local: Local) -> None:
    run = Run(local, DEFER, 6)
    run.wait_for_middle()

    local.deployment.api.clear_task(run.dag, run.run_id, TASK)

    run.wait_for("the next driver", lambda: len(run.drivers) == 2)
    set_pace(local, 0)
    assert run.rows().total() == ROWS
    assert sorted(run.drivers.values()) == ["FINISHED", "KILLED"]


@pytest.mark.usefixtures("slowly")
def test_a_task_that_succeeded_runs_again_when_it_is_cleared(local: Local) -> None:
    set_pace(local, 0)
    run = Run(local, WAIT, 7)
    assert run.rows().total() == ROWS
    local.deployment.api.clear_task(run.dag, run.run_id, TASK)
    run.wait_for("the next driver", lambda: len(run.drivers) == 2)


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize(
    ("dag", "message"), [(TIMEOUT_WAIT, "Timeout, PID: "), (TIMEOUT_DEFER, "ran longer than execution_timeout")]
)
def test_the_execution_timeout_ends_the_driver(local: Local, dag: str, message: str) -> None:
    run = Run(local, dag, 8)
    run.wait_for_middle()

    wait_for_run(local.deployment, run.dag, run.run_id)

    assert run.task["state"] == "failed"
    assert message in run.log
    assert_nothing_left(local)
    assert list(run.drivers.values()) == ["KILLED"]
    assert not run.output.exists()
