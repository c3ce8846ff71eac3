"""An output on a disk that is too small for it."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import DiskFullError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (DiskFullError, "space")

with DAG("disk_full", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/many",
        format="json",
        schema="a int, b string",
        output=f"{DATA}/tiny/out",
    )
