"""Rows of tables in a Hive metastore: those of Hive's own formats, of Spark's, and of other writers' files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("hive_tables.py")


def has_hive() -> bool:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return any((Path(spec.origin).parent / "jars").glob("spark-hive_*.jar"))


@pytest.mark.nightly
@pytest.mark.skipif(not has_hive(), reason="this Spark has no Hive")
def test_hive_tables_have_the_rows_of_spark(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spark_jobs'}"}
    program = subprocess.run(
        [sys.executable, str(PROGRAM), str(tmp_path)], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert program.returncode == 0, program.stderr[-5000:]
    result = json.loads(program.stdout.splitlines()[-1])
    assert result["differences"] == []
    readers = {name: reader for name, (reader, _) in result["readers"].items()}
    assert readers == {
        "hive_parquet": "pushdown",
        "hive_orc": "pushdown",
        "hive_text": "spark",
        "hive_avro": "spark",
        "hive_rcfile": "spark",
        "own": "pushdown",
        "positions": "pushdown",
        "seen": "spark",
    }
    assert result["readers"]["hive_text"][1] == "it is a Hive table, which Spark reads with Hive's SerDe"
