"""A scan of a table in a PostgreSQL server. A test checks that the password is not visible."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("E2E_DATA", "/nowhere")

with DAG("remote_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    RemoteScanOperator(
        task_id="scan",
        source_conn_id="shop",
        table="orders",
        columns=["id", "label"],
        where="id % 10 = 3 AND upper(label) LIKE 'O%'",
        num_partitions=2,
        output=f"{DATA}/remote/{{{{ ds }}}}",
        output_mode="overwrite",
        conf={
            "spark.eventLog.enabled": "true",
            "spark.eventLog.compress": "false",
            "spark.eventLog.dir": f"file://{DATA}/events",
        },
    )
