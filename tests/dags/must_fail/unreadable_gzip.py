"""A file that is called a gzip file and is none."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import InputError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (InputError, "rows.json.gz: it is not a gzip file")

with DAG("unreadable_gzip", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/unreadable",
        format="json",
        schema="a int, b string",
        where="b = 'x'",
        reader="pushdown",
        output=f"{DATA}/out/unreadable_gzip",
    )
