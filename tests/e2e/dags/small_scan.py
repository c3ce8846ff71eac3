"""A scan with object store credentials that it does not need. A test checks that they are not visible."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("E2E_DATA", "/nowhere")

with DAG("small_scan", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/rows/*.json",
        format="json",
        schema="id int, event struct<type: string>",
        columns=["id", "event.type"],
        where="event.type = 'needle'",
        output=f"{DATA}/out/{{{{ ds }}}}",
        output_mode="overwrite",
        source_conn_id="store",
        reader="pushdown",
        conf={"spark.hadoop.fs.example.token": "{{ var.value.get('e2e_token', 'none') }}"},
    )
