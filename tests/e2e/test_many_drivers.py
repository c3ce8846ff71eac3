"""Many tasks at the same time: each has its own rows, and none leaves a file."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_pushdown.exchange.exchange import Exchange, ExchangeLocation
from e2e.checks import wait_for_dags, wait_for_run
from pushdown_spark.contract import JobResult, JobSpec, QuerySpec, SecretValues, SourceSpec

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

DAG, TASKS, SMALL_TASKS = "many_drivers", 20, 10_000
ROWS = 40


def test_twenty_deferred_tasks_share_one_cluster() -> None:
    pytest.importorskip("psycopg2", reason="installed for end-to-end runs alone")
    from e2e.local import product

    # Each driver has a core, and the executors share the others.
    with product(Path(__file__).with_name("dags"), worker_cores=12, worker_memory="12g") as local:
        data = local.deployment.data_dir
        (data / "many").mkdir()
        rows = ({"id": number, "part": number % TASKS} for number in range(TASKS * ROWS))
        (data / "many" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        wait_for_dags(local.deployment, {DAG})
        api = local.deployment.api
        run = api.trigger(DAG, datetime(2026, 1, 1, tzinfo=UTC))
        wait_for_run(local.deployment, DAG, run)
        assert api.run_state(DAG, run) == "success"
        assert sorted(local.cluster.drivers().values()) == ["FINISHED"] * TASKS
        results = [api.return_value(DAG, run, "scan", part) for part in range(TASKS)]
        assert [result["rows"] for result in results if isinstance(result, dict)] == [ROWS] * TASKS
        assert local.cluster.exchange_files() == []


def test_ten_thousand_small_tasks_leave_no_file(tmp_path: Path) -> None:
    source = SourceSpec.model_validate({"format": "json", "path": ["/x"]})
    secrets = SecretValues(hadoop={"fs.s3a.access.key": "known", "fs.s3a.secret.key": "hush"})
    for number in range(SMALL_TASKS):
        spec = JobSpec(run_key=f"d/t/r/{number}", sources={"s": source}, query=QuerySpec(source="s"))
        exchange = Exchange.open_shared(ExchangeLocation(str(tmp_path), spec.run_key))
        exchange.prepare(spec, secrets)
        Path(exchange.result_location).write_text(JobResult(rows=number).model_dump_json())
        # A trigger and a worker open the directory again.
        again = Exchange.open_shared(ExchangeLocation(str(tmp_path), spec.run_key))
        assert again.read_result() == JobResult(rows=number)
        again.discard()
    assert list(tmp_path.iterdir()) == []
