"""Columns and struct members that a predicate may read."""

from __future__ import annotations

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.projection.required_columns import required_columns

SCHEMA = (
    "id int, event struct<type:string,detail:struct<code:int,text:string>>, items array<struct<sku:string,n:int>>, "
    "m map<string,struct<p:int,q:int>>, e int"
)


@pytest.mark.parametrize(
    ("predicate", "tree"),
    [
        ("id = 1", "id"),
        ("event.type = 'x' AND id > 2", "event(type), id"),
        ("event.DETAIL.code = 1", "event(detail(code))"),
        ("t.event.detail.text = ''", "event(detail(text))"),
        ("event IS NULL", "event"),
        ("event.nothing = 1", "event"),
        ("array_contains(items.sku, 'a')", "items(sku)"),
        ("items[0].sku = 'a'", "items"),
        ("m['k'].p = 1", "m"),
        ("e.id = 1", "e, id"),
        ("event.type = 'x' OR event.detail.code = 2", "event(type, detail(code))"),
        ("EXISTS(SELECT * FROM x)", "id, event, items, m, e"),
        ("filename = 'x'", ""),
    ],
)
def test_predicates_require_the_members_that_they_name(spark: SparkSession, predicate: str, tree: str) -> None:
    columns = required_columns(sqlglot.parse_one(predicate, read="spark"), table_schema(), name_rule=ANY_CASE)
    assert sorted(str(columns).split(", ")) == sorted(tree.split(", "))


@pytest.mark.parametrize(
    ("predicate", "ddl"),
    [
        ("event.type = 'x' AND id > 2", "struct<id:int,event:struct<type:string>>"),
        ("event.DETAIL.code = 1", "struct<event:struct<detail:struct<code:int>>>"),
        ("array_contains(items.sku, 'a')", "struct<items:array<struct<sku:string>>>"),
        ("filename = 'x'", "struct<>"),
    ],
)
def test_a_pruned_schema_has_only_the_required_members(spark: SparkSession, predicate: str, ddl: str) -> None:
    schema = table_schema()
    columns = required_columns(sqlglot.parse_one(predicate, read="spark"), schema, name_rule=ANY_CASE)
    assert columns.prune(schema).simpleString() == ddl


def table_schema() -> StructType:
    return StructType.fromDDL(SCHEMA)
