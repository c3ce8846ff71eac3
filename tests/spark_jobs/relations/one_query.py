"""A program that joins tables of four kinds of stores, and compares the rows with those of Spark's readers alone.

It prints a JSON object: the rows, Spark's rows, and what the report says about each source. Spark has one catalog per
process, so it runs alone. Its argument is a JSON object: the root of HDFS, the port of the S3 server, the connection
to PostgreSQL, and a directory for Iceberg, Hive and the files of the mounted bucket.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from cloud_servers import S3Server, mount
from pyspark.sql import SparkSession

from pushdown_spark.contract import JoinOptions, SourceReport
from pushdown_spark.session import PushdownSession

QUERY = """
SELECT o.id, u.name, c.at.page, s.city
FROM orders o JOIN users u ON u.id = o.user_id JOIN clicks c ON c.order_id = o.id JOIN shops s ON s.id = o.shop_id
WHERE o.day = 2 AND o.amount > 900 AND u.country = 'NL' AND u.id > 110 AND c.at.kind = 'buy' AND s.city LIKE 'A%'
"""
ICEBERG = {
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "hadoop",
}
CLICKS = "order_id BIGINT, at STRUCT<page: STRING, kind: STRING>"


def start(directory: Path) -> SparkSession:
    """Start Spark with Hive's metastore and Iceberg's catalog in a directory."""
    builder = SparkSession.builder.master("local[2]")
    settings = ICEBERG | {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.catalog.lake.warehouse": str(directory / "lake"),
        "spark.hadoop.hive.exec.dynamic.partition.mode": "nonstrict",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:{directory / 'metastore'};create=true",
    }
    for key, value in settings.items():
        builder.config(key, value)
    return builder.enableHiveSupport().getOrCreate()


def create_tables(spark: SparkSession, hdfs: str) -> None:
    """Create the Iceberg table `lake.db.orders` in several files, and the Hive table `users` on HDFS."""
    spark.sql(
        "CREATE TABLE lake.db.orders (id BIGINT, user_id BIGINT, shop_id INT, amount INT, day INT) "
        "USING iceberg PARTITIONED BY (day)"
    )
    orders = "id", "id % 200 AS user_id", "CAST(id % 50 AS INT) AS shop_id", "CAST(id % 1000 AS INT) AS amount"
    for first in range(0, 20_000, 5_000):
        rows = spark.range(first, first + 5_000, 1, 1).selectExpr(*orders, "CAST(id % 7 AS INT) AS day")
        rows.writeTo("lake.db.orders").append()
    spark.sql(
        "CREATE TABLE users (id BIGINT, name STRING) PARTITIONED BY (country STRING) STORED AS ORC "
        f"LOCATION '{hdfs}/users'"
    )
    spark.sql(
        "INSERT INTO users SELECT id, concat('user ', id), element_at(array('NL', 'DE', 'AT'), "
        "CAST(id % 3 AS INT) + 1) FROM range(200)"
    )


def sources(spark: SparkSession, store: S3Server, places: dict[str, Any]) -> PushdownSession:
    """Declare the four tables."""
    session = PushdownSession(spark)
    session.add_table("orders", "lake.db.orders")
    session.add_table("users", "users")
    session.add_source("clicks", path=store.path("data"), format="json", schema=CLICKS, reader="pushdown")
    session.add_remote("shops", places["connection"], table=places["table"])
    return session


def expected(spark: SparkSession, clicks: Path, shops: list[list[object]]) -> list[list[object]]:
    """Return the rows of the query over Spark's own readers."""
    spark.table("lake.db.orders").createOrReplaceTempView("orders")
    spark.read.schema(CLICKS).json(str(clicks)).createOrReplaceTempView("clicks")
    spark.createDataFrame(shops, "id INT, city STRING").createOrReplaceTempView("shops")  # type: ignore[type-var]
    return sorted(map(list, spark.sql(QUERY).collect()))


def summary(report: SourceReport) -> dict[str, object]:
    """Return the parts of a report that show the pushdown."""
    parts = {"reader", "carrier", "reason", "files_total", "files_read", "skipped", "statements", "rows_returned"}
    return {"pushed": report.pushed, **report.model_dump(mode="json", include=parts)}


def main(places: dict[str, Any]) -> None:
    """Create the tables, run the query with and without join reordering, and print the result."""
    directory, store = Path(places["directory"]), S3Server(places["s3_port"])
    spark = start(directory)
    create_tables(spark, places["hdfs"])
    clicks = directory / "clicks"
    with mount(spark, store, clicks):
        session = sources(spark, store, places)
        results = []
        for reorder in (True, False):
            result = session.sql(QUERY, JoinOptions(reorder=reorder))
            rows = result.run(lambda frame: sorted(map(list, frame.collect())))
            reports = {name: summary(report) for name, report in result.report().items()}
            results.append({"rows": rows, "reports": reports})
    print(json.dumps({"found": results, "expected": expected(spark, clicks, places["shops"])}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
