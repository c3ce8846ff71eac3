"""Columns and struct members that a predicate may read."""

from __future__ import annotations

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.projection.required_columns import required_columns

SCHEMA = (
    "id int, event struct<type:string,detail:struct<code:int,text:string>>, items array<struct<sku:string,n:int>>, "
    "m map<string,struct<p:int,q:int>>, e int"
)


@pytest.mark.parametrize(
    ("predicate", "tree", "pruned"),
    [
        ("id = 1", "id", "struct<id:int>"),
        ("event.type = 'x' AND id > 2", "event(type), id", "struct<id:int,event:struct<type:string>>"),
        ("event.DETAIL.code = 1", "event(detail(code))", "struct<event:struct<detail:struct<code:int>>>"),
        ("t.event.detail.text = ''", "event(detail(text))", "struct<event:struct<detail:struct<text:string>>>"),
        ("event IS NULL", "event", None),
        ("event.nothing = 1", "event", None),
        ("array_contains(items.sku, 'a')", "items(sku)", "struct<items:array<struct<sku:string>>>"),
        ("items[0].sku = 'a'", "items", None),
        ("m['k'].p = 1", "m", None),
        ("e.id = 1", "e, id", None),
        ("event.type = 'x' OR event.detail.code = 2", "event(type, detail(code))", None),
        ("EXISTS(SELECT * FROM x)", "id, event, items, m, e", None),
        ("filename = 'x'", "", "struct<>"),
    ],
)
def test_predicates_require_the_members_that_they_name(
    spark: SparkSession, predicate: str, tree: str, pruned: str | None
) -> None:
    schema = StructType.fromDDL(SCHEMA)
    required = required_columns(sqlglot.parse_one(predicate, read="spark"), schema, case_sensitive=False)
    assert sorted(str(required).split(", ")) == sorted(tree.split(", "))
    if pruned is not None:
        assert required.prune(schema).simpleString() == pruned
