"""The helper with Spark Connect, in a separate process: text is reordered, a DataFrame is rejected."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pushdown_spark.errors import BadSpecError
from pushdown_spark.optimizer.dataframe_helper import reorder_joins

spark = SparkSession.builder.remote("local[1]").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "1")
root = sys.argv[1]
items = {"o": ("id", "id % 200 AS c"), "c": ("id", "id % 20 AS n"), "n": ("id", "concat('n ', id) AS name")}
for (name, columns), count in zip(items.items(), (4000, 200, 20)):
    spark.range(count).selectExpr(*columns).write.parquet(f"{root}/{name}")
    spark.read.parquet(f"{root}/{name}").createOrReplaceTempView(name)
query = "SELECT o.id, name FROM o, c, n WHERE o.c = c.id AND c.n = n.id AND name = 'n 3'"
found = reorder_joins(spark, query)
assert found.joins[0].reordered, found.joins
rows = [sorted(map(str, frame.collect())) for frame in (found.df, spark.sql(query))]
assert rows[0] == rows[1] and len(rows[0]) == 200, len(rows[0])
doubtful = query + " AND o.id < name"
assert reorder_joins(spark, doubtful).sql == doubtful
try:
    reorder_joins(spark, spark.sql(query))
except BadSpecError as problem:
    print("refused:", problem)
spark.stop()
"""


@pytest.mark.nightly
def test_text_is_reordered_and_a_dataframe_is_rejected(project: Path, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "refused: query: with Spark Connect only SQL text" in done.stdout
