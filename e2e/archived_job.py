"""A Spark job with a little of everything: run once, it has the JVM load the classes that an archive is to hold.

`make` runs it by spark-submit; with the archive every later job of a few seconds takes a third less of them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

_FORMATS = ("json", "csv", "orc", "parquet")


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def main() -> None:
    """Read and write each file format, through Python as well; filter, join, group, sort and limit."""
    spark = SparkSession.builder.appName("classes").getOrCreate()
    with tempfile.TemporaryDirectory() as directory:
        lines = Path(directory) / "lines.json"
        lines.write_text("".join(json.dumps({"a": n, "b": f"x{n}", "c": {"d": [n]}}) + "\n" for n in range(100)))
        flat = (
            spark.read.schema("a long, b string, c struct<d: array<int>>")
            .json(f"{lines}")
            .where("a < 50")
            .select("a", "b")
        )
        flat.mapInArrow(_same, flat.schema).write.mode("overwrite").parquet(f"{directory}/through_python")
        for name in _FORMATS:
            place = f"{directory}/{name}"
            flat.write.format(name).mode("overwrite").save(place)
            spark.read.format(name).schema(flat.schema).load(place).where("a = 7").createOrReplaceTempView(name)
        joined = spark.sql(
            "SELECT j.b, count(*) AS n, sum(o.a) AS s FROM json j JOIN orc o ON j.a = o.a JOIN csv c ON c.b = o.b "
            "WHERE j.b LIKE 'x%' AND o.a IN (1, 7, 9) GROUP BY j.b ORDER BY j.b LIMIT 10"
        )
        joined.collect()
        joined.explain()
    spark.stop()


if __name__ == "__main__":
    main()
