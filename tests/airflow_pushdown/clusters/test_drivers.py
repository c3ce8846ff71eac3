"""Drivers of a real standalone master without workers, so that each driver waits until it is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from airflow.sdk.execution_time.timeout import timeout
from standalone_master import (
    OTHER_HOST,
    START_SECONDS,
    MakeHook,
    connect,
    is_active,
    is_standby,
    runs,
    scan_on_cluster,
    start_master,
)

from airflow_pushdown.clusters import tracking
from airflow_pushdown.clusters.drivers import ClusterUnreachableError, DriverPhase, DriverStatus, DriverWatch
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.exceptions import ConfigError, DriverKilledError, SubmitFailedError
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.triggers.driver import drivers_of
from airflow_pushdown.version_compat import AirflowTaskTimeout
from e2e.ports import HOST, free_port, free_ports
from e2e.processes import Programs, wait_for
from pushdown_spark.contract import JobError, JobResult, JobSpec
from pushdown_spark.contract.driver_claim import REPLACED, claim
from pushdown_spark.contract.job_result import ErrorCode
from pushdown_spark.contract.progress import Progress, progress_path


def test_a_driver_is_submitted_continued_and_killed(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    first = make_hook()
    driver_id = first.submit()
    assert driver_id is not None
    first.release()
    assert drivers.status(driver_id).phase is DriverPhase.ACTIVE
    assert not any("hush-7" in " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))

    retry = make_hook()
    assert retry.phase_of(driver_id) is DriverPhase.ACTIVE

    retry.on_kill()
    retry.release()
    assert drivers.status(driver_id) == DriverStatus(DriverPhase.FAILED, "KILLED")
    assert runs(tmp_path) == []


def test_a_waiting_task_reads_the_progress_of_its_driver(
    make_hook: MakeHook, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "PROGRESS_SECONDS", 0.0)
    reports = []

    def end(progress: Progress) -> None:
        reports.append(progress)
        hook.on_kill()

    hook = make_hook(on_progress=end)
    driver_id = hook.submit()
    assert driver_id is not None
    (directory,) = runs(tmp_path)
    spec = JobSpec.model_validate_json((directory / "spec.json").read_bytes())
    Path(progress_path(str(spec.result_path))).write_text('{"tasks_done": 3, "tasks_total": 4}')
    hook.wait_for_driver(driver_id)
    assert reports == [Progress(tasks_done=3, tasks_total=4)]
    hook.release()
    assert runs(tmp_path) == []


def test_a_cleared_task_replaces_the_driver(make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path) -> None:
    driver_id = str(make_hook("0 now").submit())
    assert make_hook("1 now").phase_of(driver_id) is DriverPhase.MISSING
    assert drivers.status(driver_id).state == "KILLED"


def test_a_retry_continues_with_a_driver_whose_id_was_not_stored(
    make_hook: MakeHook, drivers: StandaloneDrivers
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    # The driver claims its submission when it starts.
    assert claim(hook.exchange.result_location, driver_id) == driver_id

    assert make_hook().earlier_driver() == driver_id
    assert make_hook("1 cleared").earlier_driver() is None
    assert drivers.status(driver_id).state == "KILLED"
    assert make_hook().earlier_driver() is None


def test_a_killed_try_leaves_the_driver_and_the_files_to_the_later_try_that_waits_for_them(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    first = make_hook()
    driver_id = str(first.submit())
    second = make_hook(try_number=2)
    assert second.phase_of(driver_id) is DriverPhase.ACTIVE

    first.on_kill()
    first.release()
    with pytest.raises(SubmitFailedError, match="the next try of this task continues"):
        first.collect()
    assert drivers.status(driver_id).phase is DriverPhase.ACTIVE
    assert len(runs(tmp_path)) == 1

    second.on_kill()
    second.release()
    assert drivers.status(driver_id).state == "KILLED"
    assert runs(tmp_path) == []


def test_a_killed_try_leaves_the_driver_and_the_files_to_a_next_try_that_has_not_started(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    first = make_hook(leaves_driver=lambda: True)
    driver_id = str(first.submit())

    first.on_kill()
    first.release()
    with pytest.raises(SubmitFailedError, match="the next try of this task continues"):
        first.collect()

    second = make_hook(try_number=2, leaves_driver=lambda: False)
    assert second.phase_of(driver_id) is DriverPhase.ACTIVE
    second.on_kill()
    second.release()
    assert drivers.status(driver_id).state == "KILLED"
    assert runs(tmp_path) == []


def test_a_try_that_is_late_does_not_replace_the_driver_of_the_next_try(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    first, second = make_hook(), make_hook(try_number=2)
    driver_id = str(second.submit())
    result = second.exchange.result_location

    for step in (first.earlier_driver, first.submit, lambda: first.phase_of(driver_id)):
        with pytest.raises(SubmitFailedError, match="the next try of this task has begun"):
            step()
    first.on_kill()
    first.release()

    assert drivers.status(driver_id).phase is DriverPhase.ACTIVE
    assert second.exchange.result_location == result
    second.on_kill()
    second.release()
    assert runs(tmp_path) == []


def test_the_first_try_of_a_new_dag_run_owns_the_files_of_a_deleted_one(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    lost = make_hook("0 monday", try_number=2)
    lost.submit()
    hook = make_hook("0 tuesday")
    driver_id = str(hook.submit())

    hook.on_kill()
    hook.release()

    assert drivers.status(driver_id).state == "KILLED"
    assert runs(tmp_path) == []
    lost.on_kill()


def test_a_driver_that_has_not_started_does_not_start_after_a_retry(make_hook: MakeHook) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    assert make_hook().earlier_driver() is None
    assert claim(hook.exchange.result_location, driver_id) == REPLACED
    hook.on_kill()
    hook.release()


def test_without_an_earlier_try_there_is_no_driver(make_hook: MakeHook) -> None:
    assert make_hook().earlier_driver() is None


def test_a_try_that_does_not_continue_ends_the_earlier_driver(make_hook: MakeHook, drivers: StandaloneDrivers) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    claim(hook.exchange.result_location, driver_id)

    retry = make_hook()
    other_id = str(retry.submit())

    assert (drivers.status(driver_id).state, drivers.status(other_id).state) == ("KILLED", "SUBMITTED")
    retry.on_kill()
    retry.release()


def test_a_result_that_was_not_read_yet_needs_no_other_driver(make_hook: MakeHook) -> None:
    hook = make_hook()
    assert hook.phase_of("driver-of-another-master") is DriverPhase.MISSING
    hook.exchange.prepare(hook._submission.spec, hook._submission.secrets)
    assert hook.phase_of("driver-of-another-master") is DriverPhase.FAILED
    Path(hook.exchange.result_location).write_text(JobResult(rows=3).model_dump_json())
    assert hook.phase_of("driver-of-another-master") is DriverPhase.SUCCEEDED
    error = JobError(code=ErrorCode.SPARK, message="m", retryable=True)
    Path(hook.exchange.result_location).write_text(JobResult(error=error).model_dump_json())
    assert hook.phase_of("driver-of-another-master") is DriverPhase.FAILED


def test_a_driver_that_ended_without_a_result_is_an_error_with_its_state(make_hook: MakeHook) -> None:
    hook = make_hook()
    hook.take_status("driver-1", DriverStatus(DriverPhase.FAILED, "FAILED", "exit code 1"))
    with pytest.raises(DriverKilledError, match=r"driver driver-1 ended without a result \(FAILED: exit code 1\)"):
        hook.collect()


def test_a_master_without_a_rest_server_is_an_error_that_names_its_setting(make_hook: MakeHook, tmp_path: Path) -> None:
    hook = make_hook()
    hook._connection["rest_port"] = free_port()
    with pytest.raises(SubmitFailedError, match=r"set spark\.master\.rest\.enabled=true"):
        hook.submit()
    hook.release()
    assert runs(tmp_path) == []


def test_settings_that_look_secret_are_refused_because_they_would_be_on_a_command_line(
    make_hook: MakeHook, tmp_path: Path
) -> None:
    hook = make_hook(conf={"spark.my.password": "hush"})
    with pytest.raises(ConfigError, match=r"conf: spark\.my\.password: a standalone cluster"):
        hook.submit()
    hook.release()
    assert runs(tmp_path) == []


class TimeLimitedScan(PushdownScanOperator):
    """A scan that exceeds its execution timeout while it waits for its driver."""

    def poll_until_complete(self, external_id: object, context: object) -> None:
        """Wait a very short time."""
        with timeout(0.1):
            super().poll_until_complete(external_id, context)  # type: ignore[arg-type]


def test_a_task_that_waits_too_long_leaves_neither_driver_nor_files(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, spark_python: str
) -> None:
    task = TimeLimitedScan(**scan_on_cluster(tmp_path, spark_python), do_xcom_push=False)
    ti = SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1, try_number=1, stats_tags={})
    ti.xcom_push = lambda **_link: None
    with pytest.raises(AirflowTaskTimeout):
        task.execute({"ti": ti})  # type: ignore[typeddict-item]
    # Airflow calls it after `execute`.
    task.on_kill()
    assert drivers.status(str(task._submit_hook().driver_id)).state == "KILLED"
    assert runs(tmp_path) == []


def test_a_cluster_manager_that_does_not_respond_for_too_long_is_an_error(make_hook: MakeHook) -> None:
    nowhere = StandaloneDrivers([f"http://{HOST}:{free_port()}"])
    log = make_hook().log
    assert DriverWatch(nowhere, "driver-1").poll(log).phase is DriverPhase.ACTIVE
    with pytest.raises(ClusterUnreachableError, match="Connection refused"):
        DriverWatch(nowhere, "driver-1", patience_seconds=0).poll(log)


def test_the_second_master_is_asked_if_the_first_does_not_respond(drivers: StandaloneDrivers) -> None:
    (address,) = drivers.settings()["addresses"]  # type: ignore[misc,attr-defined]
    both = drivers_of("standalone", {"addresses": [f"http://{HOST}:{free_port()}", address]})
    assert both.status("driver-1").phase is DriverPhase.MISSING


@pytest.fixture
def masters(spark_python: str, tmp_path: Path) -> Iterator[tuple[StandaloneDrivers, StandaloneDrivers]]:
    """Run two masters, one of which ZooKeeper makes the active one. Return the drivers of the other one and of this."""
    jars = next(Path(spark_python).parents[1].glob("lib/python3.*/site-packages/pyspark/jars"))
    zookeeper, rest_port = free_ports(2)
    election = ("recoveryMode=ZOOKEEPER", f"zookeeper.url={HOST}:{zookeeper}")
    options = [f"-Dspark.deploy.{option}" for option in election]
    programs = Programs(tmp_path, dict(os.environ))
    try:
        server = ["-cp", f"{jars}/*", "-Dzookeeper.admin.enableServer=false"]
        server += ["org.apache.zookeeper.server.ZooKeeperServerMain", str(zookeeper), str(tmp_path / "zookeeper")]
        programs.start("zookeeper", [f"{os.environ['JAVA_HOME']}/bin/java", *server])
        active = StandaloneDrivers([start_master(programs, spark_python, HOST, rest_port, *options)])
        wait_for("the active master", lambda: is_active(active), START_SECONDS, programs.check)
        standby = StandaloneDrivers([start_master(programs, spark_python, OTHER_HOST, rest_port, *options)])
        wait_for("the standby", lambda: is_standby(standby), START_SECONDS, programs.check)
        yield standby, active
    finally:
        programs.stop()


def test_the_active_master_ends_a_driver_although_the_standby_is_asked_first(
    masters: tuple[StandaloneDrivers, StandaloneDrivers],
    make_hook: MakeHook,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    standby, active = masters
    connect(monkeypatch, [address for drivers in masters for address in drivers.settings()["addresses"]])  # type: ignore[attr-defined]
    hook = make_hook()
    driver_id = str(hook.submit())
    assert active.status(driver_id).phase is DriverPhase.ACTIVE
    with pytest.raises(ClusterUnreachableError, match="STANDBY"):
        standby.kill(driver_id)

    hook.on_kill()
    hook.release()

    assert active.status(driver_id).state == "KILLED"
