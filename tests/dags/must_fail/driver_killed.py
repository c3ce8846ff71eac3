"""A driver that is killed the hard way, as the kernel does it when memory runs out."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import DriverKilledError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (DriverKilledError, "SIGKILL")

with DAG("driver_killed", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/out/driver_killed",
        env_vars={"PYTHONPATH": os.environ.get("MUST_FAIL_HOSTILE", ""), "HOSTILE_TO": "job.py"},
    )
