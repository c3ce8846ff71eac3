"""A table that the database does not have; the message names it."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import DatabaseRefusedError
from airflow_pushdown.operators import RemoteScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (DatabaseRefusedError, "no table no_such_table")

with DAG("remote_refused", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    RemoteScanOperator(
        task_id="scan",
        source_conn_id="must_fail_db",
        table="no_such_table",
        where="a = 2",
        output=f"{DATA}/out/remote_refused",
    )
