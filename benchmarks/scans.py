"""The queries of scan benchmarks, and how Spark's readers, ours and DuckDB run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.session import PushdownSession


@dataclass(frozen=True)
class Query:
    """One row of the results: a filter and columns (None for all) of a table."""

    name: str
    where: str | None = None
    columns: tuple[str, ...] | None = None
    table: str = ""

    def sql(self, source: str) -> str:
        """Return the query over a source in SQL."""
        where = f" WHERE {self.where}" if self.where else ""
        return f"SELECT {', '.join(self.columns) if self.columns else '*'} FROM {source}{where}"


def save(frame: DataFrame) -> None:
    """Compute all rows of a DataFrame, and discard them."""
    frame.write.format("noop").mode("overwrite").save()


def scan(spark: SparkSession, query: Query, **source: object) -> int:
    """Scan a source with a new session of ours. Return the number of rows."""
    session = PushdownSession(spark)
    session.add_source("t", **source)
    result = session.scan("t", columns=query.columns, where=query.where)
    result.run(save, single_pass=True)
    return result.rows or 0


def select(frame: DataFrame, columns: Sequence[str] | None, where: str | None) -> DataFrame:
    """Return columns and rows of a DataFrame, as users of Spark's reader write it."""
    rows = frame if where is None else frame.where(where)
    return rows if columns is None else rows.select(*columns)


def save_selected(frame: DataFrame, query: Query) -> int:
    """Run a query over a DataFrame as Spark's users do. Its rows are not counted."""
    save(select(frame, query.columns, query.where))
    return 0


def duckdb_rows(sql: str, setup: str = "") -> int:
    """Run a query in DuckDB with two threads, and read the rows in Arrow batches. Return the number of rows."""
    with duckdb.connect() as connection:
        connection.execute(f"SET threads = 2; {setup}")
        return sum(batch.num_rows for batch in connection.execute(sql).to_arrow_reader(100_000))
