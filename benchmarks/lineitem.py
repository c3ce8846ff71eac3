"""TPC-H lineitem as JSON lines and CSV, created once for each scale factor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

SCHEMA = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
    "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
    "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
    "l_shipmode string, l_comment string"
)
NESTED_SCHEMA = f"{SCHEMA}, part struct<key bigint, supplier struct<key bigint>>"


def prepare(spark: SparkSession, scale: int, cache: Path) -> dict[str, Path]:
    """Return the directories of the data as `json` (with a nested copy of two keys) and `csv`."""
    home = cache / f"lineitem-{scale}"
    made = {name: home / name for name in ("json", "csv")}
    if all((path / "_SUCCESS").exists() for path in made.values()):
        return made
    parquet = home / "parquet"
    tool = Path(sys.executable).with_name("tpchgen-cli")
    print(f"lineitem at scale {scale}: generating", flush=True)
    subprocess.run([tool, "parquet", "-s", str(scale), "-T", "lineitem", "-o", parquet], check=True)
    table = spark.read.parquet(str(parquet / "lineitem.parquet"))
    nested = table.withColumn(
        "part", f.struct(f.col("l_partkey").alias("key"), f.struct(f.col("l_suppkey").alias("key")).alias("supplier"))
    )
    print(f"lineitem at scale {scale}: writing JSON and CSV", flush=True)
    nested.write.mode("overwrite").json(str(made["json"]))
    table.write.mode("overwrite").option("header", "true").csv(str(made["csv"]))
    shutil.rmtree(parquet)
    return made
