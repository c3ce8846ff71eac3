"""A setting with which Spark's ORC reader would return no rows, asked for with that reader."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import LazyOrcScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (ConfigError, "use_selected=True needs reader='pushdown'")

with DAG("use_selected_by_spark", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    LazyOrcScanOperator(
        task_id="scan",
        path=f"{DATA}/good",
        schema="a int, b string",
        where="a = 2",
        use_selected=True,
        # Without a template, the file of the DAG would not load.
        reader="{{ 'spark' }}",
        output=f"{DATA}/out/use_selected_by_spark",
    )
