"""Twenty scans at the same time, each with its own driver on the cluster."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
TASKS = 20

with DAG("many_drivers", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    PushdownScanOperator.partial(
        task_id="scan",
        conn_id="spark_cluster",
        path=f"{DATA}/many/*.json",
        format="json",
        schema="id int, part int",
        deferrable=True,
        retries=1,
        retry_delay=timedelta(seconds=1),
    ).expand(where=[f"part = {part}" for part in range(TASKS)])
