"""A program that compares scans of Hive tables with `spark.table`. Spark has one catalog per process, so it runs alone.

It prints a JSON object: the differences, and the reader and the reason for each table.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.session import PushdownSession

SERDES = {
    "parquet": "STORED AS PARQUET",
    "orc": "STORED AS ORC",
    "text": "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE",
    "avro": "STORED AS AVRO",
    "rcfile": "STORED AS RCFILE",
}
PREDICATES = (
    "id = 13",
    "v = 'v13' AND p = 1",
    "p IS NULL AND id IN (3, 7, 100)",
    "d = 1.50 OR id = 5",
    "added IS NULL AND id = 7",
    "P = 77 AND ID = 500",
)
COLUMNS = "id BIGINT, V STRING, d DECIMAL(9, 2), l ARRAY<INT>"
ROWS = "SELECT id, concat('v', id), CAST(id / 4 AS DECIMAL(9, 2)), array(CAST(id AS INT)), "
WITH_NULL = ("parquet", "orc")
"""Tables with NULL as a partition. With a SerDe, Spark 4.3 fails to read such a partition of an integer."""


def start(directory: Path) -> SparkSession:
    """Start Spark with a Hive metastore in a directory."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.hadoop.hive.exec.dynamic.partition.mode", "nonstrict")
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", f"jdbc:derby:{directory / 'metastore'};create=true")
        .enableHiveSupport()
        .getOrCreate()
    )


def create(spark: SparkSession, directory: Path, serde: str) -> str:
    """Create a Hive table with partitions in and outside its directory, and a column that old files lack."""
    name, partition = f"hive_{serde}", "nullif(id % 4, 3)" if serde in WITH_NULL else "id % 4"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) PARTITIONED BY (p INT) {SERDES[serde]}")
    for start_id in (0, 60):
        spark.sql(f"INSERT INTO {name} {ROWS} {partition} FROM range({start_id}, {start_id + 60})")
    spark.sql(f"ALTER TABLE {name} ADD PARTITION (p = 77) LOCATION '{(directory / f'{name} outside').as_uri()}'")
    spark.sql(f"INSERT INTO {name} PARTITION (p = 77) VALUES (500, 'x', 1.5, NULL), (501, NULL, NULL, NULL)")
    spark.sql(f"ALTER TABLE {name} DROP PARTITION (p = 2)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (added INT)")
    return name


def create_other(spark: SparkSession, directory: Path) -> list[str]:
    """Create tables of Spark's own formats in the metastore, and tables over files of other writers."""
    columns = "id BIGINT, v STRING, d DECIMAL(9, 2), added INT, p INT"
    spark.sql(f"CREATE TABLE own ({columns}) USING parquet PARTITIONED BY (p)")
    spark.sql("INSERT INTO own SELECT id, concat('v', id), CAST(id / 4 AS DECIMAL(9, 2)), NULL, id % 3 FROM range(60)")
    files = directory / "by position"
    items = "id AS _col0", "concat('v', id) AS _col1", "CAST(id / 4 AS DECIMAL(9, 2)) AS _col2"
    spark.range(60).selectExpr(*items).write.orc(str(files))
    spark.sql(f"CREATE EXTERNAL TABLE positions ({columns}) STORED AS ORC LOCATION '{files.as_uri()}'")
    spark.sql("CREATE VIEW seen AS SELECT * FROM hive_parquet WHERE id < 100")
    return ["own", "positions", "seen"]


def differences(spark: SparkSession, names: list[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the scans with other rows than `spark.table`, and the readers and reasons by table."""
    session, messages, readers = PushdownSession(spark), [], {}
    for name in names:
        session.add_table(name, name, reader=ReaderChoice.PUSHDOWN.value)
        for where in PREDICATES:
            for columns in (["*"], ["p", "v"]):
                result = session.scan(name, columns=columns, where=where)
                actual = result.run(sorted_rows)
                expected = sorted_rows(spark.table(name).where(where).select(*columns))
                report = result.report()[name]
                readers.setdefault(name, [])
                if report.reader == "pushdown" or not readers[name]:
                    readers[name] = [report.reader, report.reason]
                if actual != expected:
                    messages.append(f"{name}: {where} of {columns}: {actual} instead of {expected}; {report}")
    return messages, readers


def main(directory: Path) -> None:
    """Compare the scans of all tables."""
    spark = start(directory)
    names = [*(create(spark, directory, serde) for serde in SERDES), *create_other(spark, directory)]
    messages, readers = differences(spark, names)
    print(json.dumps({"differences": messages, "readers": readers}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
