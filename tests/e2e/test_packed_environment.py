"""Executors without libraries run a scan with the packed environment of the task."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packable import packable_environment

from airflow_pushdown.environment_archive import environment_archive
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.hooks.submit import PushdownSubmitHook
from pushdown_spark.contract import JobSpec, OutputSpec, QuerySpec, SourceSpec

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]


def test_a_job_runs_with_a_packed_environment(
    spark_python: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "local-cluster[1,1,1024]"}))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("SPARK_WORKER_DIR", str(tmp_path / "work"))
    archive = environment_archive(packable_environment(spark_python, tmp_path / "copy"), tmp_path / "cache")
    lines = tmp_path / "lines.json"
    lines.write_text("".join(f'{{"k": {number}}}\n' for number in range(1000)))
    source = {"format": "json", "path": [str(lines)], "schema": "k int", "reader": "pushdown"}
    spec = JobSpec(
        run_key="d/t/r/-1",
        sources={"lines": SourceSpec.model_validate(source)},
        query=QuerySpec(source="lines", where="k = 77"),
        output=OutputSpec(path=str(tmp_path / "found")),
    )
    hook = PushdownSubmitHook.open(
        Submission(spec=spec, spark_python=spark_python),
        conn_id="cluster",
        archives=f"{archive}#environment",
        # There is such a file below the directory of an executor alone.
        env_vars={"PYSPARK_PYTHON": "./environment/bin/python", "PYSPARK_DRIVER_PYTHON": spark_python},
    )
    try:
        hook.submit()
        result = hook.collect()
    finally:
        hook.release()
    assert result.error is None
    assert result.rows == 1
    assert [source.reader for source in result.sources.values()] == ["pushdown"]
