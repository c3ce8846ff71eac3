"""Triggers that wait for drivers of a real standalone master."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance
from airflow.triggers.base import TriggerEvent
from asgiref.sync import async_to_sync
from standalone_master import SECRETS, MakeHook, runs, scan_on_cluster

from airflow_pushdown.clusters.drivers import DriverPhase, end_driver_or_warn
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.triggers import driver as trigger_module
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from airflow_pushdown.version_compat import TaskDeferralError
from pushdown_spark.contract import JobSpec
from pushdown_spark.contract.driver_claim import claim
from pushdown_spark.contract.progress import progress_path


def test_a_trigger_shows_the_progress_of_its_driver(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    (directory,) = runs(tmp_path)
    spec = JobSpec.model_validate_json((directory / "spec.json").read_bytes())
    Path(progress_path(str(spec.result_path))).write_text('{"tasks_done": 3, "tasks_total": 4}')
    reports = []

    def store(_ti: object, value: Mapping[str, object]) -> None:
        reports.append(value)
        drivers.kill(driver_id)

    monkeypatch.setattr(trigger_module, "_PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(trigger_module, "store_progress", store)
    for stores_progress in (False, True):
        location = asdict(hook.shared_location)
        end_time = None if stores_progress else time.time() + 1
        trigger = DriverTrigger(
            drivers.kind,
            drivers.settings(),
            driver_id,
            location,
            poll_seconds=0.1,
            end_time=end_time,
            stores_progress=stores_progress,
        )
        trigger.task_instance = SimpleNamespace(task_id="t")
        event = DriverEvent.from_payload(asyncio.run(anext(trigger.run())).payload)  # type: ignore[arg-type]
        assert event.is_timeout is not stores_progress
    assert reports[0] == {"tasks_done": 3, "tasks_total": 4}
    hook.release()


DELETED = "deleted"
UNKNOWN = "unknown"


def trigger_of(
    hook: PushdownSubmitHook, driver_id: str, state: str | None, monkeypatch: pytest.MonkeyPatch
) -> DriverTrigger:
    """Return the trigger of a deferred task that has a state in Airflow now."""

    def states(**_given: object) -> dict[str, dict[str, str | None]]:
        if state == UNKNOWN:
            raise ConnectionError("the API server restarts")
        # Airflow 3.1 needs the event loop of the triggerer for a response.
        return {} if state == DELETED else {"r": {"t": async_to_sync(value_in_loop)(state)}}

    async def value_in_loop(value: str | None) -> str | None:
        assert asyncio.get_running_loop() is trigger_loops[0]
        return value

    trigger_loops: list[asyncio.AbstractEventLoop] = []

    class Trigger(DriverTrigger):
        async def on_kill(self) -> None:
            trigger_loops.append(asyncio.get_running_loop())
            await super().on_kill()

    monkeypatch.setattr(RuntimeTaskInstance, "get_task_states", states)
    drivers = hook.drivers()
    assert drivers is not None
    location = asdict(hook.shared_location)
    trigger = Trigger(drivers.kind, drivers.settings(), driver_id, location, poll_seconds=0.1)
    trigger.task_instance = SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)
    return trigger


@pytest.mark.parametrize("state", [None, "failed", DELETED])
def test_a_trigger_ends_the_driver_of_a_task_that_a_user_has_ended_or_cleared(
    make_hook: MakeHook,
    drivers: StandaloneDrivers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str | None,
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    asyncio.run(trigger_of(hook, driver_id, state, monkeypatch).on_kill())
    assert drivers.status(driver_id).state == "KILLED"
    assert runs(tmp_path) == []


@pytest.mark.parametrize("state", ["deferred", "running", UNKNOWN])
def test_a_trigger_leaves_the_driver_to_another_triggerer_or_the_next_try(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    asyncio.run(trigger_of(hook, driver_id, state, monkeypatch).on_kill())
    assert drivers.status(driver_id).phase is DriverPhase.ACTIVE
    assert len(runs(tmp_path)) == 1
    hook.on_kill()
    hook.release()


def test_repeated_cancels_of_a_trigger_do_not_keep_the_driver(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    trigger = trigger_of(hook, driver_id, "failed", monkeypatch)

    async def cancel() -> None:
        wait_task = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert not wait_task.done()
        wait_task.cancel()
        kill_task = asyncio.create_task(trigger.on_kill())
        # Airflow cancels again each second.
        await asyncio.sleep(0.1)
        kill_task.cancel()
        while runs(tmp_path):
            await asyncio.sleep(0.1)

    asyncio.run(cancel())
    assert drivers.status(driver_id).state == "KILLED"


def test_a_trigger_keeps_the_files_of_the_next_try(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = make_hook("0 now")
    driver_id = str(hook.submit())
    following = make_hook("1 cleared", try_number=2)

    def end_slowly(*arguments: object) -> None:
        following.exchange.prepare(following._submission.spec, SECRETS)
        end_driver_or_warn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(trigger_module, "end_driver_or_warn", end_slowly)
    asyncio.run(trigger_of(hook, driver_id, None, monkeypatch).on_kill())

    assert drivers.status(driver_id).state == "KILLED"
    spec = following.exchange.read_spec()
    assert spec is not None
    assert spec.generation == "1 cleared"
    following.on_kill()
    following.release()
    assert runs(tmp_path) == []


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "before Airflow 3.3"])
def test_a_trigger_that_failed_leaves_no_driver(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path, spark_python: str, is_stored: bool
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    claim(hook.exchange.result_location, driver_id)
    operator = PushdownScanOperator(**scan_on_cluster(tmp_path, spark_python), deferrable=True)
    context = {
        "ti": SimpleNamespace(dag_id="d", task_id="t", run_id="r", map_index=-1),
        "task_state_store": {operator.external_id_key: driver_id} if is_stored else None,
    }
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "the trigger failed"}, context)  # type: ignore[arg-type]
    assert drivers.status(driver_id).state == "KILLED"
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
    event = first_event(
        DriverTrigger(
            drivers.kind, drivers.settings(), "driver-9", {"exchange_dir": None, "run_key": "k"}, poll_seconds=0.1
        )
    )
    assert event.status is not None
    assert (event.driver_id, event.status.phase) == ("driver-9", DriverPhase.MISSING)


def test_a_trigger_reports_a_timeout(make_hook: MakeHook, drivers: StandaloneDrivers) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    event = first_event(
        DriverTrigger(
            drivers.kind, drivers.settings(), driver_id, asdict(hook.shared_location), poll_seconds=0.1, end_time=1.0
        )
    )
    assert event == DriverEvent(driver_id, is_timeout=True)
    hook.on_kill()
    hook.release()
