"""A scan of a table whose rows arrive as slowly as a test requires, so that parts can be killed during the scan."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
AGAIN = {"retries": 1, "retry_delay": timedelta(seconds=1)}

with DAG("slow_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, default_args=AGAIN):
    RemoteScanOperator(
        task_id="scan",
        source_conn_id="flights_db",
        table="slow_rows",
        where="number > 10",
        # Without it, the driver fetches the few rows before it writes.
        num_partitions=1,
        output=f"{DATA}/output/slow_scan/{{{{ ds }}}}",
    )
