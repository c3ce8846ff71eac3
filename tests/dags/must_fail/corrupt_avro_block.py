"""An Avro file whose second block is damaged: the error names the file, the block and its first byte."""

from __future__ import annotations

import os
from datetime import datetime

from airflow.sdk import DAG

from airflow_pushdown.exceptions import InputError
from airflow_pushdown.operators import PushdownScanOperator

DATA = os.environ.get("MUST_FAIL_DATA", "/nowhere")
EXPECTED = (InputError, "damaged.avro, block 1 at byte ")

with DAG("corrupt_avro_block", schedule=None, start_date=datetime(2026, 1, 1), catchup=False) as dag:
    PushdownScanOperator(
        task_id="scan",
        path=f"{DATA}/avro",
        format="avro",
        where="a >= 0",
        reader="pushdown",
        output=f"{DATA}/out/corrupt_avro_block",
    )
