"""Python workers that are killed the hard way."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import WorkerKilledError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (WorkerKilledError, "worker")

with DAG("worker_killed", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/out/worker_killed",
        reader="pushdown",
        env_vars={"PYTHONPATH": os.environ.get("MUST_FAIL_HOSTILE", ""), "HOSTILE_TO": "pyspark.daemon"},
    )
