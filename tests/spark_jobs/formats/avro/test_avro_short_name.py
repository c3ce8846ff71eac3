"""With the short name `avro` registered, as by Spark's jar, the pushdown readers use the same source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import fastavro
import pytest

from pushdown_spark.runtime.spark_internals import AVRO_CLASS

SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from pushdown_spark.session import PushdownSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark_frame = spark.read.format("avro").load(sys.argv[1]).where("k = 77")
found = {"spark": [row.k for row in spark_frame.collect()]}
for reader in ("spark", "pushdown"):
    session = PushdownSession(spark)
    session.add_source("t", path=sys.argv[1], format="avro", reader=reader)
    result = session.scan("t", where="k = 77")
    rows = result.run(lambda frame: frame.collect())
    report = result.report()["t"]
    found[reader] = [[row.k for row in rows], report.reader, report.conjuncts[0].pushed_as, report.bytes_read]
print(json.dumps(found))
"""
SCHEMA = {"type": "record", "name": "t", "fields": [{"name": "k", "type": "long"}]}


@pytest.mark.nightly
def test_both_readers_find_the_source_with_a_registered_short_name(project: Path, tmp_path: Path) -> None:
    """A jar that registers nothing but the name, so that the test needs no network."""
    jar = tmp_path / "spark-avro.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/services/org.apache.spark.sql.sources.DataSourceRegister", f"{AVRO_CLASS}\n")
    file = tmp_path / "t" / "a.avro"
    file.parent.mkdir()
    with file.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(SCHEMA), ({"k": key} for key in range(1_000)), sync_interval=100)
    environment = {
        **os.environ,
        "PYTHONPATH": str(project),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--jars {jar} pyspark-shell",
    }
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file.parent)], env=environment, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    actual = json.loads(process.stdout.splitlines()[-1])
    assert actual["spark"] == [77]
    rows, reader, pushed_as, size = actual["spark"]
    assert (rows, reader) == ([77], "spark")
    assert "EqualTo(k,77)" in pushed_as
    assert size > 0
    rows, reader, pushed_as, size = actual["pushdown"]
    assert (rows, reader) == ([77], "pushdown")
    assert "vector filter" in pushed_as
    assert 0 < size <= file.stat().st_size
