"""Kills parts of the product in the middle of a scan: nothing half done may be left, and the retry must be complete."""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil  # type: ignore[import-untyped]

from e2e.checks import Deployment, rows_of, wait_for_dags, wait_for_run
from e2e.expected import Row, flights
from e2e.processes import E2eError, Programs, wait_for
from e2e.services import AirflowServices
from e2e.spark import WORKERS, SparkCluster

DAG, TASK = "halting_scan", "scan"
_COLUMNS = ("month", "day", "carrier", "flight", "origin")
_HALT_SECONDS = 300.0
_END_SECONDS = 180.0
_KILL_SECONDS = 60.0


@dataclass(frozen=True)
class Victim:
    """What a kill may reach: the deployment and its parts."""

    deployment: Deployment
    cluster: SparkCluster
    services: AirflowServices
    programs: Programs


def check_kills(victim: Victim) -> list[str]:
    """Kill the task, the driver, a Spark worker and the scheduler, each in the middle of a scan; a line for each.

    Raises `E2eError` when a kill leaves part of an output, an application or a process, or when the rows that the task
    gives in the end are not those of an undisturbed run.
    """
    wait_for_dags(victim.deployment, {DAG})
    data = victim.deployment.data_dir / "data"
    expected = Counter(tuple(flight[name] for name in _COLUMNS) for flight in flights(data) if flight["dest"] == "HDN")
    kills: dict[str, Callable[[_Scan], None]] = {
        "task": _kill_task,
        "driver": _kill_driver,
        "Spark worker": _kill_worker,
        "scheduler": _kill_scheduler,
    }
    lines = []
    for day, (name, kill) in enumerate(kills.items(), start=1):
        scan = _Scan(victim, datetime(2026, 2, day, tzinfo=UTC), expected)
        with _naming(name):
            scan.start()
            kill(scan)
            lines.append(f"{name} killed: {scan.finish()}")
    return lines


class _Scan:
    """One run of the scan, halted in its middle until `resume`."""

    def __init__(self, victim: Victim, day: datetime, expected: Counter[Row]) -> None:
        self.victim = victim
        self._day = day
        self._expected = expected
        self._halt = victim.deployment.data_dir / "halt"
        self.output = victim.deployment.data_dir / "output" / day.strftime("%Y%m%dT%H%M%S")
        self.run_id = ""

    def start(self) -> None:
        """Trigger the run and wait until a Python worker has come to a halt in the middle of the files."""
        self._halt.mkdir()
        (self._halt / "wanted").touch()
        self.run_id = self.victim.deployment.api.trigger(DAG, self._day)
        wait_for("the scan's halt", self._halted, _HALT_SECONDS, self.victim.deployment.watch)
        self.require_no_output()

    def resume(self) -> None:
        """Let workers open files again, those that halt now included."""
        shutil.rmtree(self._halt, ignore_errors=True)

    def finish(self) -> str:
        """Wait for the end of the run and check what it left; says how it came to it."""
        self.resume()
        state = wait_for_run(self.victim.deployment, DAG, self.run_id)
        task = self.task()
        said = f"run {state}, try {task['try_number']}, {sum(self._expected.values())} rows"
        if state != "success":
            log = self.victim.deployment.api.log(DAG, self.run_id, TASK, int(str(task["try_number"])))
            raise E2eError(f"{said}\n{log[-6000:]}")
        if rows_of(self.output, _COLUMNS) != self._expected:
            raise E2eError(f"{said}: the rows are not those of an undisturbed run")
        if left := [path.name for path in self.output.parent.glob(f".{self.output.name}.*")]:
            raise E2eError(f"{said}: {left} were left beside the output")
        self.require_nothing_running()
        return said

    def task(self) -> dict[str, object]:
        """The task instance as the API shows it."""
        return self.victim.deployment.api.tasks(DAG, self.run_id)[TASK]

    def driver(self) -> psutil.Process:
        """The JVM of the job."""
        return next(process for process in self.job() if process.name() == "java" and _is_one(process, "SparkSubmit"))

    def job(self) -> Iterator[psutil.Process]:
        """Every process of the job on this machine: the driver's two, executors, Python workers."""
        for process in self.victim.programs.members():
            with contextlib.suppress(psutil.Error):
                if _is_one(process, *_JOB):
                    yield process

    def require_no_output(self) -> None:
        """Raise `E2eError` where the output has begun to exist."""
        if self.output.exists():
            raise E2eError(f"{self.output} exists before its job has ended")

    def require_nothing_running(self) -> None:
        """Raise `E2eError` unless application and processes of the job are soon gone."""
        wait_for(
            f"the end of {[' '.join(process.cmdline())[:200] for process in self.job()]}",
            lambda: not self.victim.cluster.running_applications() and not list(self.job()),
            _KILL_SECONDS,
        )

    def _halted(self) -> bool:
        return any(self._halt.glob("halted-*"))


_EXECUTOR = "CoarseGrainedExecutorBackend"
_JOB = ("SparkSubmit", "spark_jobs/run.py", _EXECUTOR, "pyspark.daemon")
_OWN_SESSION = (*_JOB, "spark-submit", "hooks/processes.py")
"""What a task starts in sessions of their own: the job, and the guard that ends it when the task is gone."""


def _is_one(process: psutil.Process, *parts: str) -> bool:
    """Whether the command line of a process holds one of `parts`; not that of a process that has gone."""
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return False
    return any(part in command for part in parts)


def _kill_task(scan: _Scan) -> None:
    """As the button on the page does; then as the button that has it run again."""
    api = scan.victim.deployment.api
    api.fail_task(DAG, scan.run_id, TASK)
    scan.require_nothing_running()
    scan.require_no_output()
    scan.resume()
    api.clear_task(DAG, scan.run_id, TASK)
    wait_for("the cleared task", lambda: scan.task()["state"] != "failed", _END_SECONDS)


def _kill_driver(scan: _Scan) -> None:
    scan.driver().kill()
    wait_for("the retry", lambda: scan.task()["state"] != "running" or scan.task()["try_number"] != 1, _END_SECONDS)
    scan.require_no_output()


def _kill_worker(scan: _Scan) -> None:
    """The worker with its executors and their Python workers, as a machine that is gone: the others do its tasks."""
    trees = {name: worker.tree() for name, worker in scan.victim.cluster.workers.items()}
    name = next(name for name, tree in trees.items() if any(_is_one(each, _EXECUTOR) for each in tree))
    worker, executors = scan.victim.cluster.workers[name], trees[name][1:]
    scan.victim.programs.kill(worker)
    for process in executors:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    scan.require_no_output()
    scan.resume()
    scan.victim.cluster.start_worker(name)
    wait_for("the worker", lambda: scan.victim.cluster.alive_workers() == WORKERS, _END_SECONDS)


def _kill_scheduler(scan: _Scan) -> None:
    """With LocalExecutor the scheduler's children run the tasks: all of them go at once, so that none can clean up."""
    scheduler = scan.victim.services.service("scheduler")
    children = [process for process in scheduler.tree()[1:] if not _is_one(process, *_OWN_SESSION)]
    scan.victim.programs.kill(scheduler)
    for process in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    scan.require_nothing_running()
    scan.require_no_output()
    scan.resume()
    # The new one takes over what the old one ran as soon as that has not been heard of for so many seconds.
    scan.victim.services.start_service(
        "scheduler",
        AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD="10",
        AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL="5",
    )


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except E2eError as problem:
        raise E2eError(f"{name} killed: {problem}") from problem
