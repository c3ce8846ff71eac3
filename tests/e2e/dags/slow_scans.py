"""Scans of a table whose rows arrive as slowly as a test requires, so that parts can be killed during the scan."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
AGAIN = {"retries": 1, "retry_delay": timedelta(seconds=1)}
PARTITIONS: dict[str, dict[str, object]] = {
    # Without it, the driver fetches the few rows before it writes.
    "slow_scan": {"num_partitions": 1},
    # Two partitions that read one snapshot.
    "slow_copy": {"partition_column": "number", "num_partitions": 2, "lower_bound": 1, "upper_bound": 2500},
}

for name, partitions in PARTITIONS.items():
    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False, default_args=AGAIN):
        RemoteScanOperator(
            task_id="scan",
            source_conn_id="flights_db",
            table="slow_rows",
            where="number > 10",
            output=f"{DATA}/output/{name}/{{{{ ds }}}}",
            **partitions,
        )
