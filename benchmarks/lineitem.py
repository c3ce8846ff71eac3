"""TPC-H lineitem, generated once for each scale factor: as Parquet, and from that in the formats of the benchmarks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

SCHEMA = (
    "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
    "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
    "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
    "l_shipmode string, l_comment string"
)
NESTED_SCHEMA = f"{SCHEMA}, part struct<key bigint, supplier struct<key bigint>>"


def generate(scale: float, target: Path, table: str | None = "lineitem") -> Path:
    """Generate a table of TPC-H (None for all) as Parquet files in a directory. Return the directory."""
    tool = Path(sys.executable).with_name("tpchgen-cli")
    print(f"TPC-H at scale {scale:g}: generating {table or 'all tables'}", flush=True)
    tables = [] if table is None else ["-T", table]
    subprocess.run([tool, "parquet", "-s", f"{scale:g}", *tables, "-o", target], check=True)
    return target


def convert(spark: SparkSession, scale: float, target: Path, write: Callable[[DataFrame], None]) -> None:
    """Generate lineitem and write it with `write`, unless `target` is complete. It is in the order of `l_orderkey`."""
    if not (target / "_SUCCESS").exists():
        parquet = generate(scale, target.with_name(f"{target.name}.parquet"))
        write(spark.read.parquet(str(parquet / "lineitem.parquet")))
        shutil.rmtree(parquet)


def nest_keys(table: DataFrame) -> DataFrame:
    """Add a nested copy of two keys as the last column, with which the schema is `NESTED_SCHEMA`."""
    keys = f.col("l_partkey").alias("key"), f.struct(f.col("l_suppkey").alias("key")).alias("supplier")
    return table.withColumn("part", f.struct(*keys))


def prepare(spark: SparkSession, scale: int, cache: Path) -> dict[str, Path]:
    """Return the directories of the data as `json` (with a nested copy of two keys) and `csv`."""
    home = cache / f"lineitem-{scale}"
    made = {name: home / name for name in ("json", "csv")}
    convert(spark, scale, made["json"], lambda table: nest_keys(table).write.mode("overwrite").json(str(made["json"])))
    convert(
        spark,
        scale,
        made["csv"],
        lambda table: table.write.mode("overwrite").option("header", "true").csv(str(made["csv"])),
    )
    return made
