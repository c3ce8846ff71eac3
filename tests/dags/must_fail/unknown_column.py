"""A column that the schema does not have; the message suggests the nearest."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import ColumnError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (ColumnError, "tailnum")

with DAG("unknown_column", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="tailnum string, b string",
        output=f"{DATA}/out/unknown_column",
        columns=["tailnmu"],
    )
