from __future__ import annotations

import pytest
import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.projection.needed import needed

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
def test_a_predicate_needs_the_members_that_it_names(
    spark: SparkSession, predicate: str, tree: str, pruned: str | None
) -> None:
    schema = StructType.fromDDL(SCHEMA)
    found = needed(sqlglot.parse_one(predicate, read="spark"), schema, case_sensitive=False)
    assert sorted(str(found).split(", ")) == sorted(tree.split(", "))
    if pruned is not None:
        assert found.pruned(schema, case_sensitive=False).simpleString() == pruned
