"""An output that exists and must not be touched."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import ExistingOutputError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (ExistingOutputError, "existing")

with DAG("output_exists", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/existing",
        output_mode="errorifexists",
    )
