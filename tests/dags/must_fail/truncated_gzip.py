"""A gzip file that breaks off in the middle."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import InputError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (InputError, "broken.json.gz")

with DAG("truncated_gzip", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/truncated",
        format="json",
        schema="a int, b string",
        output=f"{DATA}/out/truncated_gzip",
    )
