"""A task that writes a table of a database, from Airflow's connection to the rows."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from airflow.sdk import DAG

from airflow_pushdown.operators import PushdownScanOperator


def test_a_task_writes_a_table(
    register_dag: Callable[[DAG], None],
    local_spark: str,
    spark_python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, path = tmp_path / "in.json", tmp_path / "shop.db"
    source.write_text('{"id": 1, "day": "2026-01-01"}\n{"id": 2, "day": "2026-01-02"}\n')
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE daily (id bigint, day text)")
        connection.execute("INSERT INTO daily VALUES (7, '2025-12-31'), (8, '2026-01-01')")
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "sqlite", "host": str(path)}))
    with DAG("table_output", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        PushdownScanOperator(
            task_id="daily",
            conn_id=local_spark,
            spark_python=spark_python,
            path=str(source),
            format="json",
            schema="id bigint, day string",
            where="day = '{{ ds }}'",
            output_conn_id="shop",
            output_table="daily",
            output_mode="overwrite_partitions",
            replace_where="id IN (1, 8)",
            checks={"min_rows": 1},
        )
    register_dag(dag)
    run = dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    assert run.state == "success"
    with closing(sqlite3.connect(path)) as connection:
        assert sorted(connection.execute("SELECT * FROM daily")) == [(1, "2026-01-01"), (7, "2025-12-31")]
        ((key, generation),) = connection.execute("SELECT run_key, generation FROM airflow_pushdown_runs")
    assert key.startswith("table_output/daily/")
    assert generation.startswith("0 ")
