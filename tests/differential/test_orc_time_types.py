"""Spark rejects ORC files whose timestamps have another type than the schema, even if a query does not read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.errors import PushdownError
from pushdown_spark.session import PushdownSession

STORED = {
    "timestamp": "timestamp'2024-01-01' AS at, id AS k",
    "timestamp_ntz": "timestamp_ntz'2024-01-01' AS at, id AS k",
    "bigint": "1000000 * id AS at, id AS k",
    "both": "timestamp'2024-01-01' AS at, id AS k, timestamp_ntz'2024-01-01' AS local",
    "a struct": "named_struct('at', timestamp'2024-01-01', 'local', timestamp_ntz'2024-01-01') AS s, id AS k",
    "an array": "array(timestamp'2024-01-01') AS list, id AS k",
    "a map": "map('a', array(timestamp_ntz'2024-01-01')) AS m, id AS k",
}
DECLARED = (
    "at timestamp, k bigint",
    "at timestamp_ntz, k bigint",
    "k bigint, at timestamp_ntz",
    "k bigint, at timestamp",
    "local timestamp_ntz, k bigint, at timestamp",
    "at timestamp, k bigint, local timestamp",
    "s struct<at: timestamp, local: timestamp_ntz>, k bigint",
    "s struct<local: timestamp_ntz, at: timestamp>, k bigint",
    "s struct<at: timestamp_ntz>, k bigint",
    "list array<timestamp_ntz>, k bigint",
    "list array<timestamp>, k bigint",
    "m map<string, array<timestamp>>, k bigint",
    "m map<string, array<timestamp_ntz>>, k bigint",
)


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("times")
    for name, columns in STORED.items():
        spark.range(3).selectExpr(*_items(columns)).coalesce(1).write.orc(str(root / name))
    return root


def _items(columns: str) -> list[str]:
    """Return select items, whose commas inside parentheses do not separate items."""
    head, _, last = columns.rpartition(", id AS k")
    return [head, "id AS k", *([last.removeprefix(", ")] if last else [])]


def _rows(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("stored", STORED)
def test_files_with_timestamps_of_another_type_fail_where_spark_fails(
    spark: SparkSession, root: Path, stored: str, declared: str
) -> None:
    path = str(root / stored)
    for columns in ("k", "*"):
        try:
            expected = _rows(spark.read.schema(declared).orc(path).where("k > 0").select(columns))
        except (PySparkException, Py4JJavaError):
            expected = None
        for reader in ("pushdown", "auto"):
            session = PushdownSession(spark)
            session.add_source("t", path=path, format="orc", schema=declared, reader=reader)
            result = session.scan("t", columns=[columns], where="k > 0")
            if expected is None:
                with pytest.raises((PushdownError, PySparkException, Py4JJavaError)):
                    result.run(_rows)
            else:
                assert result.run(_rows) == expected
