"""The scan of `slow_scan` over Arrow, in two partitions that read one snapshot."""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from airflow.sdk import DAG

from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("AIRFLOW_PUSHDOWN_DEMO_DIR", "/nowhere")
AGAIN = {"retries": 1, "retry_delay": timedelta(seconds=1)}

with DAG("slow_copy", schedule=None, start_date=datetime(2026, 1, 1), catchup=False, default_args=AGAIN):
    RemoteScanOperator(
        task_id="scan",
        source_conn_id="flights_db",
        table="slow_rows",
        where="number > 10",
        partition_column="number",
        num_partitions=2,
        lower_bound=1,
        upper_bound=2500,
        output=f"{DATA}/output/slow_copy/{{{{ ds }}}}",
    )
