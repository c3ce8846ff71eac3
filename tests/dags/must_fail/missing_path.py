"""An input that is not there."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import InputError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (InputError, "no/such")

with DAG("missing_path", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/no/such/*.json",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/out/missing_path",
    )
