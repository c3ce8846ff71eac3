"""Drivers of a real standalone master without workers, so that each driver waits until it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from airflow.sdk.execution_time.timeout import timeout
from airflow.triggers.base import TriggerEvent

from airflow_pushdown.exceptions import ConfigError, DriverKilledError, SubmitFailedError
from airflow_pushdown.hooks import tracking
from airflow_pushdown.hooks.cluster_driver import Submission
from airflow_pushdown.hooks.drivers import (
    ClusterUnreachableError,
    DriverPhase,
    DriverStatus,
    DriverWatch,
    StandaloneDrivers,
    drivers_of,
    end_driver_or_warn,
)
from airflow_pushdown.hooks.processes import JobProcess, session_members
from airflow_pushdown.hooks.standalone import SharedProgram, standalone_command, standalone_environment
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.hooks.yarn import TAGS_KEY
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.triggers import driver as trigger_module
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from airflow_pushdown.version_compat import AirflowTaskTimeout, TaskDeferralError
from e2e import jvm
from e2e.ports import HOST, free_port
from e2e.processes import Programs, wait_for
from pushdown_spark.contract import JobError, JobResult, JobSpec, QuerySpec, SecretValues, SourceSpec
from pushdown_spark.contract.driver_claim import REPLACED, claim
from pushdown_spark.contract.job_result import ErrorCode
from pushdown_spark.contract.progress import Progress, progress_path

START_SECONDS = 120.0
OTHER_HOST = "127.0.0.2"
SPEC = JobSpec(
    run_key="d/t/r/-1",
    sources={"s": SourceSpec.model_validate({"format": "json", "path": ["/x"]})},
    query=QuerySpec(source="s"),
)
SECRETS = SecretValues(hadoop={"fs.s3a.access.key": "known", "fs.s3a.secret.key": "hush-7"})

MakeHook = Callable[..., PushdownSubmitHook]


@pytest.fixture(scope="module")
def drivers(spark_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneDrivers]:
    """Run a Spark master with a REST server, and return its drivers."""
    programs = Programs(tmp_path_factory.mktemp("master"), dict(os.environ))
    try:
        made = StandaloneDrivers([start_master(programs, spark_python, HOST, free_port())])
        wait_for("the Spark master", lambda: is_active(made), START_SECONDS, programs.check)
        yield made
    finally:
        programs.stop()


def start_master(programs: Programs, spark_python: str, host: str, rest_port: int, *options: str) -> str:
    """Start a Spark master with options of its JVM. Return the address of its REST server."""
    environment = Path(spark_python).parents[1]
    rest = (f"-Dspark.master.rest.{name}" for name in ("enabled=true", f"host={host}", f"port={rest_port}"))
    ports = ("--port", str(free_port()), "--webui-port", str(free_port()))
    launcher = str(environment / "bin" / "spark-class")
    programs.start(
        f"master-{host}",
        [launcher, "org.apache.spark.deploy.master.Master", "--host", host, *ports],
        PYSPARK_PYTHON=spark_python,
        SPARK_LOCAL_IP=host,
        SPARK_MASTER_OPTS=" ".join((jvm.jvm_options(environment), *rest, *options)),
    )
    return f"http://{host}:{rest_port}"


def is_active(drivers: StandaloneDrivers) -> bool:
    """Return whether a master responds and is the active one."""
    try:
        return drivers.status("none").phase is DriverPhase.MISSING
    except ClusterUnreachableError:
        return False


def is_standby(drivers: StandaloneDrivers) -> bool:
    """Return whether a master responds and is not the active one."""
    try:
        drivers.status("none")
    except ClusterUnreachableError as error:
        return "STANDBY" in str(error)
    return False


def connect(monkeypatch: pytest.MonkeyPatch, addresses: Sequence[str]) -> None:
    """Define the connection `cluster` to the masters with these REST servers."""
    parts = [urlsplit(address) for address in addresses]
    connection = {
        "conn_type": "spark",
        "host": f"spark://{':7077,'.join(str(part.hostname) for part in parts)}",
        "port": 7077,
        "extra": {"deploy-mode": "cluster", "rest-port": parts[0].port},
    }
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps(connection))


@pytest.fixture
def make_hook(
    drivers: StandaloneDrivers, spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeHook:
    """Return a function that makes a hook for the cluster."""
    connect(monkeypatch, drivers.settings()["addresses"])  # type: ignore[arg-type]

    def make(
        generation: str = "",
        on_progress: Callable[[Progress], None] | None = None,
        try_number: int = 1,
        leaves_driver: Callable[[], bool] | None = None,
        **options: object,
    ) -> PushdownSubmitHook:
        submission = Submission(
            spec=SPEC.model_copy(update={"generation": generation}),
            secrets=SECRETS,
            spark_python=spark_python,
            exchange_dir=str(tmp_path),
            on_progress=on_progress,
            leaves_driver=leaves_driver,
            try_number=try_number,
        )
        return PushdownSubmitHook(submission, conn_id="cluster", **options)  # type: ignore[arg-type]

    return make


def runs(tmp_path: Path) -> list[Path]:
    """Return the exchange directories of runs, without the directory of the program."""
    return [path for path in tmp_path.iterdir() if not path.name.startswith("airflow-pushdown-")]


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
    seen = []

    def end(progress: Progress) -> None:
        seen.append(progress)
        hook.on_kill()

    hook = make_hook(on_progress=end)
    driver_id = hook.submit()
    assert driver_id is not None
    (directory,) = runs(tmp_path)
    spec = JobSpec.model_validate_json((directory / "spec.json").read_bytes())
    Path(progress_path(str(spec.result_path))).write_text('{"tasks_done": 3, "tasks_total": 4}')
    hook.wait_for_driver(driver_id)
    assert seen == [Progress(tasks_done=3, tasks_total=4)]
    hook.release()
    assert runs(tmp_path) == []


def test_a_trigger_shows_the_progress_of_its_driver(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    (directory,) = runs(tmp_path)
    spec = JobSpec.model_validate_json((directory / "spec.json").read_bytes())
    Path(progress_path(str(spec.result_path))).write_text('{"tasks_done": 3, "tasks_total": 4}')
    stored = []

    def store(_ti: object, value: Mapping[str, object]) -> None:
        stored.append(value)
        drivers.kill(driver_id)

    monkeypatch.setattr(trigger_module, "_PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(trigger_module, "store_progress", store)
    for stores_progress in (False, True):
        place = list(hook.exchange_place)
        end_time = None if stores_progress else time.time() + 1
        trigger = DriverTrigger(
            drivers.kind, drivers.settings(), driver_id, place, 0.1, end_time, stores_progress=stores_progress
        )
        trigger.task_instance = SimpleNamespace(task_id="t")
        event = DriverEvent.from_payload(asyncio.run(anext(trigger.run())).payload)  # type: ignore[arg-type]
        assert event.is_timeout is not stores_progress
    assert stored[0] == {"tasks_done": 3, "tasks_total": 4}
    hook.release()


def test_a_trigger_ends_the_driver_of_a_task_that_a_user_has_cleared(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, list(hook.exchange_place), 0.1)

    async def cancel() -> None:
        waiting = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert not waiting.done()
        waiting.cancel()
        killing = asyncio.create_task(trigger.on_kill())
        # Airflow cancels again each second.
        await asyncio.sleep(0)
        killing.cancel()

    asyncio.run(cancel())
    wait_for("the end of the exchange", lambda: runs(tmp_path) == [], START_SECONDS)
    assert drivers.status(driver_id).state == "KILLED"


def test_a_trigger_keeps_the_files_of_the_next_try(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook("0 now")
    driver_id = str(hook.submit())
    following = make_hook("1 cleared", try_number=2)

    def end_slowly(*arguments: object) -> None:
        following._exchange.prepare(following._submission.spec, SECRETS)
        end_driver_or_warn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(trigger_module, "end_driver_or_warn", end_slowly)
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, list(hook.exchange_place), 0.1)
    asyncio.run(trigger.on_kill())

    assert drivers.status(driver_id).state == "KILLED"
    spec = following._exchange.read_spec()
    assert spec is not None
    assert spec.generation == "1 cleared"
    following.on_kill()
    following.release()
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
    assert claim(hook._exchange.result_location, driver_id) == driver_id

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
    result = second._exchange.result_location

    for step in (first.earlier_driver, first.submit, lambda: first.phase_of(driver_id)):
        with pytest.raises(SubmitFailedError, match="the next try of this task has begun"):
            step()
    first.on_kill()
    first.release()

    assert drivers.status(driver_id).phase is DriverPhase.ACTIVE
    assert second._exchange.result_location == result
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
    assert claim(hook._exchange.result_location, driver_id) == REPLACED
    hook.on_kill()
    hook.release()


def test_without_an_earlier_try_there_is_no_driver(make_hook: MakeHook) -> None:
    assert make_hook().earlier_driver() is None


@pytest.fixture
def make_yarn_hook(spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeHook:
    """Return a function that makes a hook for a try, with a resource manager that does not respond."""
    extra = {"deploy-mode": "cluster", "yarn_resourcemanager_webapp_address": f"http://{HOST}:{free_port()}"}
    connection = {"conn_type": "spark", "host": "yarn", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps(connection))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    def make(
        try_number: int, *, is_polled: bool = True, exchange_dir: Path = tmp_path, **options: str
    ) -> PushdownSubmitHook:
        submission = Submission(
            spec=SPEC, spark_python=spark_python, exchange_dir=str(exchange_dir), try_number=try_number
        )
        hook = PushdownSubmitHook(submission, conn_id="yarn", **options)
        assert not is_polled or hook.track_application()
        return hook

    return make


@pytest.mark.parametrize("is_polled", [True, False])
def test_a_retry_submits_nothing_while_it_is_not_known_whether_an_earlier_driver_runs(
    make_yarn_hook: MakeHook, is_polled: bool
) -> None:
    retry = make_yarn_hook(2, is_polled=is_polled)
    with pytest.raises(
        SubmitFailedError, match=r"of an earlier try may still run, and no other was submitted: http"
    ) as it:
        retry.submit()
    assert "check that workers reach the cluster manager" in str(it.value)
    assert retry._exchange.read_spec() is None


def test_the_deployments_of_airflow_on_one_cluster_tag_their_drivers_differently(
    make_yarn_hook: MakeHook, tmp_path: Path
) -> None:
    (tmp_path / "staging").mkdir()
    tags = [
        make_yarn_hook(number, exchange_dir=tmp_path / directory)._conf[TAGS_KEY]
        for number, directory in ((1, "."), (2, "."), (1, "staging"))
    ]
    assert tags[0] == tags[1] != tags[2]


def test_a_kill_without_access_to_the_cluster_ends_spark_submit(
    make_yarn_hook: MakeHook, capsys: pytest.CaptureFixture[str]
) -> None:
    """The package for Kerberos is not installed here."""
    hook = make_yarn_hook(1, is_polled=False, keytab="/airflow.keytab", principal="airflow")
    hook._job = JobProcess(["sleep", "600"], {"PATH": os.defpath})
    hook.on_kill()
    assert session_members(hook._job.session) == []
    assert "may still run on the cluster: conn_id: the connection uses Kerberos" in capsys.readouterr().out


def test_files_of_an_earlier_try_show_that_its_driver_may_run(make_yarn_hook: MakeHook) -> None:
    first = make_yarn_hook(1)
    assert first._tagged_earlier_drivers() == []
    first._exchange.prepare(SPEC, SecretValues())
    with pytest.raises(SubmitFailedError, match="of an earlier try may still run"):
        make_yarn_hook(1)._tagged_earlier_drivers()
    first._exchange.discard()


def test_a_try_that_does_not_continue_ends_the_earlier_driver(make_hook: MakeHook, drivers: StandaloneDrivers) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    claim(hook._exchange.result_location, driver_id)

    retry = make_hook()
    other_id = str(retry.submit())

    assert (drivers.status(driver_id).state, drivers.status(other_id).state) == ("KILLED", "SUBMITTED")
    retry.on_kill()
    retry.release()


def test_a_result_that_was_not_read_yet_needs_no_other_driver(make_hook: MakeHook) -> None:
    hook = make_hook()
    assert hook.phase_of("driver-of-another-master") is DriverPhase.MISSING
    hook._exchange.prepare(hook._submission.spec, hook._submission.secrets)
    assert hook.phase_of("driver-of-another-master") is DriverPhase.FAILED
    Path(hook._exchange.result_location).write_text(JobResult(rows=3).model_dump_json())
    assert hook.phase_of("driver-of-another-master") is DriverPhase.SUCCEEDED
    error = JobError(code=ErrorCode.SPARK, message="m", retryable=True)
    Path(hook._exchange.result_location).write_text(JobResult(error=error).model_dump_json())
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


def scan_on_cluster(exchange: Path, spark_python: str) -> dict[str, Any]:
    """Return the parameters of a scan by a driver on the cluster."""
    return {
        "task_id": "t",
        "path": "/x",
        "format": "json",
        "conn_id": "cluster",
        "exchange_dir": str(exchange),
        "spark_python": spark_python,
    }


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "before Airflow 3.3"])
def test_a_trigger_that_failed_leaves_no_driver(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, spark_python: str, is_stored: bool
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    claim(hook._exchange.result_location, driver_id)
    operator = PushdownScanOperator(**scan_on_cluster(tmp_path, spark_python), deferrable=True)
    context = {
        "ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1),
        "task_state_store": {operator.external_id_key: driver_id} if is_stored else None,
    }
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "the trigger failed"}, context)  # type: ignore[arg-type]
    assert drivers.status(driver_id).state == "KILLED"
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
    assert drivers.status(str(task._pushdown_hook().driver_id)).state == "KILLED"
    assert runs(tmp_path) == []


def first_event(trigger: DriverTrigger) -> DriverEvent:
    """Return the event of a trigger after its serialization, as a triggerer runs it."""
    path, arguments = trigger.serialize()
    assert path == "airflow_pushdown.triggers.driver.DriverTrigger"

    async def run() -> TriggerEvent:
        return await anext(DriverTrigger(**arguments).run())  # type: ignore[arg-type,no-any-return]

    payload: dict[str, Any] = asyncio.run(run()).payload
    return DriverEvent.from_payload(payload)


def test_a_trigger_reports_the_end_of_a_driver(drivers: StandaloneDrivers) -> None:
    event = first_event(DriverTrigger(drivers.kind, drivers.settings(), "driver-9", [None, "k"], 0.1))
    assert event.status is not None
    assert (event.driver_id, event.status.phase) == ("driver-9", DriverPhase.MISSING)


def test_a_trigger_reports_a_timeout(make_hook: MakeHook, drivers: StandaloneDrivers) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    event = first_event(DriverTrigger(drivers.kind, drivers.settings(), driver_id, list(hook.exchange_place), 0.1, 1.0))
    assert event == DriverEvent(driver_id, is_timeout=True)
    hook.on_kill()
    hook.release()


def test_a_cluster_manager_may_be_away_for_some_time(make_hook: MakeHook) -> None:
    nowhere = StandaloneDrivers([f"http://{HOST}:{free_port()}"])
    log = make_hook().log
    assert DriverWatch(nowhere, "driver-1").poll(log).phase is DriverPhase.ACTIVE
    with pytest.raises(ClusterUnreachableError, match="Connection refused"):
        DriverWatch(nowhere, "driver-1", patience_seconds=0).poll(log)


def test_a_second_master_is_asked_if_the_first_one_is_away(drivers: StandaloneDrivers) -> None:
    (address,) = drivers.settings()["addresses"]  # type: ignore[misc,attr-defined]
    both = drivers_of("standalone", {"addresses": [f"http://{HOST}:{free_port()}", address]})
    assert both.status("driver-1").phase is DriverPhase.MISSING


@pytest.fixture
def masters(spark_python: str, tmp_path: Path) -> Iterator[tuple[StandaloneDrivers, StandaloneDrivers]]:
    """Run two masters, one of which ZooKeeper makes the active one. Return the drivers of the other one and of this."""
    jars = next(Path(spark_python).parents[1].glob("lib/python3.*/site-packages/pyspark/jars"))
    zookeeper, rest_port = free_port(), free_port()
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


def test_the_command_runs_python_through_a_java_class() -> None:
    words = ["spark-submit", "--master", "spark://a:7077,b:7077", "--conf", "spark.x=1", "--files", "/f"]
    words += ["--py-files", "/tmp/p.zip,mine.zip", "--deploy-mode", "cluster", "job.py", "--spec", "/e/spec.json"]
    shared = SharedProgram(Path("/e/p.py"), Path("/e/p.zip"))
    made = standalone_command(words, shared, "/tmp/p.zip", 6066, "/opt/python")
    assert made[made.index("--master") + 1] == "spark://a:6066,b:6066"
    assert made.count("--files") == 1
    assert made[made.index("--files") + 1] == "/e/p.zip,mine.zip,/f"
    assert "spark.pyspark.python=/opt/python" in made
    assert made[-5:] == ["/e/p.zip", "/e/p.py", "/e/p.zip,mine.zip", "--spec", "/e/spec.json"]
    own = standalone_command([*words[:3], "--conf", "spark.pyspark.python=/mine", *words[7:]], shared, "/", 1, "/opt")
    assert "spark.pyspark.python=/opt" not in own


def test_the_driver_gets_no_variables_about_the_workers_machine() -> None:
    assert standalone_environment({"SPARK_LOCAL_IP": "10.0.0.1", "SPARK_USER": "me"}) == {"SPARK_USER": "me"}
