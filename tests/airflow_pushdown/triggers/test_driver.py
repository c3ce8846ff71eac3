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
from airflow.triggers.base import TriggerEvent
from standalone_master import SECRETS, START_SECONDS, MakeHook, runs, scan_on_cluster

from airflow_pushdown.clusters.drivers import DriverPhase, end_driver_or_warn
from airflow_pushdown.clusters.standalone import StandaloneDrivers
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.triggers import driver as trigger_module
from airflow_pushdown.triggers.driver import DriverEvent, DriverTrigger
from airflow_pushdown.version_compat import TaskDeferralError
from e2e.processes import wait_for
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


def test_a_trigger_ends_the_driver_of_a_task_that_a_user_has_cleared(
    make_hook: MakeHook, drivers: StandaloneDrivers, tmp_path: Path
) -> None:
    hook = make_hook()
    driver_id = str(hook.submit())
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, asdict(hook.shared_location), poll_seconds=0.1)

    async def cancel() -> None:
        wait_task = asyncio.create_task(anext(trigger.run()))  # type: ignore[arg-type]
        await asyncio.sleep(0.5)
        assert not wait_task.done()
        wait_task.cancel()
        kill_task = asyncio.create_task(trigger.on_kill())
        # Airflow cancels again each second.
        await asyncio.sleep(0)
        kill_task.cancel()

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
        following.exchange.prepare(following._submission.spec, SECRETS)
        end_driver_or_warn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(trigger_module, "end_driver_or_warn", end_slowly)
    trigger = DriverTrigger(drivers.kind, drivers.settings(), driver_id, asdict(hook.shared_location), poll_seconds=0.1)
    asyncio.run(trigger.on_kill())

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
