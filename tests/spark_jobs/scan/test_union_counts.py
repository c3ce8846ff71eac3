"""Spark's counts belong to the report of a union only if Spark's reader reads all of its groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import ReaderChoice, SourceFormat
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.relations.open import open_relation
from pushdown_spark.runtime.query_metrics import StageCounts
from pushdown_spark.scan.base_scan import Scan
from pushdown_spark.scan.union import GroupScan, UnionScan
from pushdown_spark.scan_planner import plan_scan
from pushdown_spark.sources.declaration import Source

COUNTS = StageCounts(seconds=1.0, bytes_read=10, rows=5)


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "rows.json").write_text("".join(f'{{"id": {number}}}\n' for number in range(5)))
    return str(tmp_path)


def scan(spark: SparkSession, path: str, reader: ReaderChoice) -> Scan:
    source = Source(name="s", format=SourceFormat.JSON, paths=(path,), schema="id bigint", reader=reader)
    relation = open_relation(spark, source)
    request = relation.request(relation.projection(None), Predicate.parse("id = 3"))
    return plan_scan(spark, relation, request).scan


def union(*scans: Scan) -> UnionScan:
    schema = scans[0].frame().schema
    return UnionScan([GroupScan(each, schema) for each in scans], schema, (), name_rule=ANY_CASE)


def test_a_union_of_sparks_readers_has_the_counts_of_spark(spark: SparkSession, path: str) -> None:
    groups = union(scan(spark, path, ReaderChoice.SPARK), scan(spark, path, ReaderChoice.SPARK))
    report = groups.add_spark_counts(groups.report(), COUNTS)
    assert (report.bytes_read, report.rows_after_pushdown) == (10, 5)
    assert groups.counts_result_rows(has_predicate=False)


def test_a_union_of_both_readers_has_no_counts_of_spark(spark: SparkSession, path: str) -> None:
    pushdown = scan(spark, path, ReaderChoice.PUSHDOWN)
    assert not pushdown.is_by_spark
    mixed = union(pushdown, scan(spark, path, ReaderChoice.SPARK))
    assert mixed.add_spark_counts(mixed.report(), COUNTS) == mixed.report()
    assert not mixed.counts_result_rows(has_predicate=False)
