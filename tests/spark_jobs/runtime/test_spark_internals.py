"""DataFrames that are made in the JVM, and the end of Spark."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from arrow_schemas import utc_arrow_schema
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.runtime.spark_internals import arrow_dataframe

KINDS = (
    "i int, l bigint, f float, d double, n decimal(20,3), b boolean, s string, y binary, day date, at timestamp, "
    "clock timestamp_ntz, a array<int>"
)
ROW = (
    *(7, -(2**63), 1.5, float("-inf"), Decimal("12345678901234567.125"), True, "é 🙂", b"\x00\xff", date(1500, 3, 1)),
    *(datetime(2024, 5, 15, 10, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999), [1, None]),
)

TWO_SESSIONS = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from pushdown_spark.runtime.spark_internals import stop_spark

sockets = "spark.python.unix.domain.socket.enabled"
for _ in range(2):
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config(sockets, sys.argv[1])
    spark = builder.getOrCreate()
    address = spark.sparkContext._accumulatorServer.server_address
    total = spark.sparkContext.accumulator(0)
    spark.range(3).rdd.foreach(lambda row: total.add(row.id))
    print(total.value)
    stop_spark(spark)
    assert not isinstance(address, str) or not Path(address).exists()
"""


@pytest.mark.nightly
@pytest.mark.parametrize("sockets", ["true", "false"])
def test_stopped_spark_can_start_again(sockets: str) -> None:
    """Both sessions get the accumulators of Python workers, and leave no socket file."""
    program = [sys.executable, "-c", TWO_SESSIONS, sockets]
    output = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["3", "3"]


@pytest.mark.parametrize("count", [0, 1, 50, 5000])
@pytest.mark.parametrize("large", ["false", "true"])
def test_arrow_dataframe_equals_create_dataframe(spark: SparkSession, count: int, large: str) -> None:
    """The last count is above the size limit of an argument."""
    rows = [ROW if number % 3 else (None,) * len(ROW) for number in range(count)]
    schema = t.StructType.fromDDL(KINDS)
    columns = list(zip(*rows, strict=True)) or [()] * len(ROW)
    kinds = utc_arrow_schema(schema)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, kinds.types, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=kinds)
    setting = "spark.sql.execution.arrow.useLargeVarTypes"
    before = spark.conf.get(setting)
    spark.conf.set(setting, large)
    try:
        # A reader yields no batch if there are no rows.
        fetched = table if count else pa.Table.from_batches([], kinds)
        ours, theirs = arrow_dataframe(spark, fetched, schema), spark.createDataFrame(table, schema)
        assert ours.collect() == theirs.collect()
        assert (ours.schema, ours._jdf.schema().json()) == (theirs.schema, theirs._jdf.schema().json())
    finally:
        spark.conf.set(setting, str(before))
