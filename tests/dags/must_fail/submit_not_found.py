"""A spark-submit that is not installed."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.spark_submit.spark_installation import SparkSubmitNotFoundError

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (SparkSubmitNotFoundError, "spark-submit not found")

with DAG("submit_not_found", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        format="json",
        schema="a int, b string",
        where="a = 2",
        output=f"{DATA}/out/submit_not_found",
        spark_binary="no-such-spark-submit",
    )
