"""A Spark connection that does not exist; it must not mean YARN."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (ConfigError, "no_such_spark")

with DAG("missing_connection", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/out/missing_connection",
        conn_id="no_such_spark",
    )
