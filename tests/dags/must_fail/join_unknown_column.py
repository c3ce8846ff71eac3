"""A query over two sources that names a column neither has; the message suggests the nearest."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import ColumnError
from airflow_pushdown.operators import PushdownJoinOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (ColumnError, "tailnmu")

with DAG("join_unknown_column", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownJoinOperator(
        task_id="scan",
        sources={
            "flights": {"path": f"{DATA}/good", "format": "json", "schema": "tailnum string, b string"},
            "planes": {"path": f"{DATA}/good", "format": "json", "schema": "tailnum string, a int"},
        },
        query="SELECT p.a FROM flights AS f JOIN planes AS p ON f.tailnmu = p.tailnum WHERE f.b = 'x'",
        output=f"{DATA}/out/join_unknown_column",
    )
