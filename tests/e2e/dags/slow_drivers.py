"""The scan of `slow_scan` with a driver on the cluster: the task waits for it, or is deferred, or has a timeout."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
AGAIN = {"retries": 1, "retry_delay": timedelta(seconds=1)}
MODES: dict[str, dict[str, object]] = {
    "driver_wait": {"deferrable": False},
    "driver_defer": {"deferrable": True},
    "driver_timeout": {"deferrable": True, "retries": 0, "execution_timeout": timedelta(seconds=90)},
}

for name, options in MODES.items():
    with DAG(name, schedule=None, start_date=datetime(2026, 1, 1), catchup=False, default_args=AGAIN):
        RemoteScanOperator(
            task_id="scan",
            conn_id="spark_cluster",
            exchange_dir=f"{DATA}/exchange",
            source_conn_id="flights_db",
            table="slow_rows",
            where="number > 10",
            fetch_size=10,
            output=f"{DATA}/output/{name}/{{{{ ds }}}}",
            **options,
        )
