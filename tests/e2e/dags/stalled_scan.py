"""A scan whose Python workers hang, so that a test can kill it."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("E2E_DATA", "/nowhere")

with DAG("stalled_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/rows/*.json",
        format="json",
        schema="id int, event struct<type: string>",
        where="event.type = 'needle'",
        output=f"{DATA}/stalled",
        reader="pushdown",
        env_vars={
            "PYTHONPATH": os.environ.get("E2E_HOSTILE", ""),
            "HOSTILE_TO": "pyspark.daemon",
            "HOSTILE_HOW": "stall",
        },
    )
