"""Predicates that reach each relation, column names, and required columns, read from SQL without Spark."""

from __future__ import annotations

import pytest

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.optimizer.passes.prune_columns import ColumnPruner
from pushdown_spark.optimizer.passes.push_predicates import pushdown_predicates
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.logical_plan import extract_chain
from pushdown_spark.optimizer.plans.select_block import SelectBlock, select_blocks
from pushdown_spark.optimizer.plans.sql_dialect import to_sql
from pushdown_spark.optimizer.plans.sql_reader import named_tables, parse_query, replace_table_names

COLUMNS = {
    "a": frozenset({"k", "x", "s"}),
    "b": frozenset({"k", "y"}),
    "c": frozenset({"y", "z"}),
    "d": frozenset({"z", "w", "a"}),
}


def read(query: str) -> SelectBlock:
    return next(iter(select_blocks(parse_query(query), ColumnNameResolver(COLUMNS).columns_of)))


def push_where(query: str, typed_equal: bool = True) -> dict[str, list[str]]:
    block = read(query)
    actual = pushdown_predicates(block.plan, block.columns, lambda left, right: typed_equal)
    return {name: [to_sql(part) for part in parts] for name, parts in actual.items() if parts}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM a, b WHERE a.x = 1 AND b.y > 2", {"a": ["a.x = 1"], "b": ["b.y > 2"]}),
        ("SELECT * FROM a JOIN b ON a.x = 1 AND y > 2", {"a": ["a.x = 1"], "b": ["y > 2"]}),
        ("SELECT * FROM a LEFT JOIN b ON a.x = 1 AND b.y = 2 WHERE a.s = 's' AND b.k = 3",
         {"a": ["a.s = 's'"], "b": ["b.y = 2"]}),
        ("SELECT * FROM a RIGHT JOIN b ON a.x = 1 AND b.y = 2 WHERE a.s = 's' AND b.k = 3",
         {"a": ["a.x = 1"], "b": ["b.k = 3"]}),
        ("SELECT * FROM a FULL JOIN b ON a.x = 1 AND b.y = 2 WHERE a.s = 's' AND b.k = 3", {}),
        ("SELECT * FROM a LEFT SEMI JOIN b ON a.x = 1 AND b.y = 2 WHERE a.s = 's'",
         {"a": ["a.s = 's'", "a.x = 1"], "b": ["b.y = 2"]}),
        ("SELECT * FROM a LEFT ANTI JOIN b ON a.x = 1 AND b.y = 2 WHERE a.s = 's'",
         {"a": ["a.s = 's'"], "b": ["b.y = 2"]}),
        ("SELECT * FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.y = b.y WHERE a.x = 1 AND c.z = 2", {"a": ["a.x = 1"]}),
        ("SELECT * FROM a JOIN b USING (k) WHERE x = 1 AND k = 2", {"a": ["x = 1"]}),
        ("SELECT * FROM a CROSS JOIN (b JOIN c ON b.y = c.y AND c.z = 4) WHERE b.k = 1",
         {"b": ["b.k = 1"], "c": ["c.z = 4"]}),
        ("SELECT * FROM a, b WHERE a.x = 1 OR b.y = 2", {}),
        ("SELECT * FROM a, b WHERE a.x > rand() AND udf(b.y) = 1 AND a.x IN (SELECT z FROM c)", {}),
        ("SELECT * FROM a, b WHERE k = 1", {}),
        ("SELECT * FROM a, d WHERE a.w = 1", {}),
    ],
)  # fmt: skip
def test_predicates_reach_relations_where_the_result_stays_the_same(query: str, expected: dict[str, list[str]]) -> None:
    actual = push_where(query)
    assert {name: sorted(parts) for name, parts in actual.items()} == {
        name: sorted(parts) for name, parts in expected.items()
    }


@pytest.mark.parametrize("call", ["rand()", "uniform(0, 9)", "randstr(1)", "shuffle(array(1, 2))[0]", "my_function(1)"])
def test_conditions_with_another_value_in_each_evaluation_are_not_pushed(call: str) -> None:
    assert push_where(f"SELECT * FROM a JOIN b ON a.k = b.k WHERE a.x = {call} AND b.y = 1") == {"b": ["b.y = 1"]}


def test_queries_with_lateral_views_have_no_blocks_that_could_take_predicates() -> None:
    query = parse_query("SELECT * FROM a LATERAL VIEW explode(array(1)) t AS x WHERE x = 1")
    assert list(select_blocks(query, ColumnNameResolver(COLUMNS).columns_of)) == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM a, b WHERE a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4",
         {"a": ["a.x = 1 OR a.x = 3"], "b": ["b.y = 2 OR b.y = 4"]}),
        ("SELECT * FROM a, b WHERE (a.x = 1 AND b.y = 2 AND a.s = 's') OR a.x IN (3, 4)",
         {"a": ["(a.x = 1 AND a.s = 's') OR a.x IN (3, 4)"]}),
        ("SELECT * FROM a, b WHERE a.x = 1 AND (a.s = 's' OR a.x = 5 AND b.y = 2) OR a.x < 0 AND b.y = 7",
         {"a": ["(a.x = 1 AND (a.s = 's' OR a.x = 5)) OR a.x < 0"]}),
        ("SELECT * FROM a, b WHERE a.k = b.k AND (a.k = 1 AND b.y = 2 OR b.k = 3 AND a.k = 4)",
         {"a": ["a.k = 1 OR a.k = 4"], "b": ["b.y = 2 OR b.k = 3", "b.k = 1 OR b.k = 4"]}),
        ("SELECT * FROM a, b WHERE NOT (a.x = 1 AND b.y = 2)", {}),
        ("SELECT * FROM a, b WHERE a.x = b.y AND a.x > 2 OR a.x = 1 AND a.s < 's'",
         {"a": ["a.x > 2 OR (a.x = 1 AND a.s < 's')"]}),
        ("SELECT * FROM a LEFT JOIN b ON a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4", {"b": ["b.y = 2 OR b.y = 4"]}),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4",
         {"a": ["a.x = 1 OR a.x = 3"]}),
        ("SELECT * FROM a FULL JOIN b ON a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4", {}),
        ("SELECT * FROM a, b WHERE a.x = 1 AND k = 2 AND b.y = 3 OR a.x = 4 AND b.y = 5", {}),
        ("SELECT * FROM a, b WHERE a.x = 1 AND rand() < 0.5 AND b.y = 3 OR a.x = 4 AND b.y = 5", {}),
    ],
)  # fmt: skip
def test_predicates_are_inferred_from_or(query: str, expected: dict[str, list[str]]) -> None:
    assert push_where(query) == expected


def test_predicates_are_inferred_from_thousands_of_alternatives() -> None:
    pairs = " OR ".join(f"a.x = {number} AND b.y = {number}" for number in range(3000))
    actual = push_where(f"SELECT * FROM a, b WHERE {pairs}")
    assert actual["a"] == [" OR ".join(f"a.x = {number}" for number in range(3000))]


def test_equalities_transfer_predicates_across_inner_joins_of_equal_types() -> None:
    query = "SELECT * FROM a JOIN b ON a.k = b.k JOIN c ON b.y = c.y WHERE a.k IN (1, 2) AND c.y > 3"
    actual = {name: sorted(parts) for name, parts in push_where(query).items()}
    assert actual == {"a": ["a.k IN (1, 2)"], "b": ["b.k IN (1, 2)", "b.y > 3"], "c": ["c.y > 3"]}
    assert push_where(query, typed_equal=False) == {"a": ["a.k IN (1, 2)"], "c": ["c.y > 3"]}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE a.k = 1",
        "SELECT * FROM a JOIN b ON a.k <=> b.k WHERE a.k = 1",
        "SELECT * FROM a JOIN b ON a.k = b.k OR a.x = 1 WHERE a.k = 1",
        "SELECT * FROM a JOIN b ON a.k = b.k + 1 WHERE a.k = 1",
    ],
)
def test_other_conditions_transfer_no_predicates(query: str) -> None:
    assert push_where(query) == {"a": ["a.k = 1"]}


def test_a_chain_ends_at_using_and_at_outer_joins() -> None:
    for query, items in (
        ("SELECT * FROM a JOIN b ON a.k = b.k JOIN c ON b.y = c.y JOIN d ON c.z = d.z", 4),
        ("SELECT * FROM a JOIN b USING (k) JOIN c ON b.y = c.y JOIN d ON c.z = d.z", 3),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k JOIN c ON b.y = c.y JOIN d ON c.z = d.z", 3),
        ("SELECT * FROM a JOIN (b JOIN c ON b.y = c.y) ON a.k = b.k JOIN d ON c.z = d.z", 3),
    ):
        chain = extract_chain(read(query).plan)
        assert chain is not None
        assert len(chain.items) == items, query


def test_duplicate_relation_names_are_not_planned() -> None:
    names = ColumnNameResolver(COLUMNS).columns_of
    for query in ("SELECT * FROM a JOIN a ON 1 = 1", "SELECT * FROM a JOIN VALUES (1)", "SELECT 1"):
        assert [each for each in select_blocks(parse_query(query), names) if each.select.args.get("joins")] == []


def test_output_columns_are_derived_from_the_text() -> None:
    query = """WITH e AS (SELECT k AS q, * FROM a), f(r) AS (SELECT y FROM b)
        SELECT * FROM e, f, (SELECT count(*) AS n, e.s FROM e) AS g, (SELECT y + 1 FROM b) AS h"""
    names = ColumnNameResolver(COLUMNS)
    select = parse_query(query)
    actual = [
        names.columns_of(select.args["from_"].this),
        *(names.columns_of(join.this) for join in select.args["joins"]),
    ]
    assert actual == [frozenset({"q", "k", "x", "s"}), frozenset({"r"}), frozenset({"n", "s"}), None]


def tables(query: str) -> list[str]:
    return [table.name for table in named_tables(parse_query(query))]


def test_common_table_expressions_are_not_tables_and_cannot_refer_to_themselves() -> None:
    assert sorted(tables("WITH a AS (SELECT * FROM a), e AS (SELECT * FROM a) SELECT * FROM e, b, a")) == ["a", "b"]
    assert tables("SELECT * FROM range(3), VALUES (1) AS v") == []
    assert tables("SELECT /*+ BROADCAST(x), SHUFFLE_HASH(a) */ * FROM a AS x, b") == ["a", "b"]


def test_only_table_names_are_replaced() -> None:
    query = """SELECT /* a */ 'a', a.k FROM a JOIN `b` AS b2 ON a.k=b2.k, c TABLESAMPLE (5 ROWS) -- a
        WHERE EXISTS (SELECT 1 FROM d WHERE d.z = 'd')"""
    actual = dict(enumerate(named_tables(parse_query(query))))
    text = replace_table_names(query, actual, lambda number: f"v_{actual[number].name}")
    assert text == """SELECT /* a */ 'a', a.k FROM `v_a` AS a JOIN `v_b` AS b2 ON a.k=b2.k, """ + (
        """`v_c` TABLESAMPLE (5 ROWS) AS c -- a
        WHERE EXISTS (SELECT 1 FROM `v_d` AS d WHERE d.z = 'd')"""
    )


@pytest.mark.parametrize("query", ["SELECT FROM WHERE", "DROP TABLE a", "INSERT INTO a SELECT * FROM b"])
def test_text_that_is_not_a_query_is_rejected(query: str) -> None:
    with pytest.raises(BadSpecError, match="query: "):
        parse_query(query)


def test_typed_literals_and_commas_are_preserved() -> None:
    query = "SELECT DATE '2024-01-31', CAST('2024-01-31' AS DATE) FROM a, b JOIN c ON b.y = c.y"
    assert to_sql(parse_query(query)) == query


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT a.x FROM a JOIN b ON a.k = b.k WHERE s = 1", ("k", "x", "s")),
        ("SELECT b.* FROM a JOIN b ON a.k = b.k", ("k",)),
        ("SELECT a.* FROM a JOIN b ON a.k = b.k", ("k", "x", "s")),
        ("SELECT b.x FROM a JOIN b USING (k)", ("k",)),
        ("SELECT b.y FROM a NATURAL JOIN b", ("k", "x", "s")),
        ("SELECT count(*) FROM a, b", ()),
        ("SELECT * FROM b WHERE EXISTS (SELECT 1 FROM a WHERE a.x = b.y)", ("x",)),
        ("SELECT struct(a.*) FROM a", ("k", "x", "s")),
    ],
)
def test_only_mentioned_columns_are_read(query: str, expected: tuple[str, ...]) -> None:
    tree = parse_query(query)
    table = next(each for each in named_tables(tree) if each.name == "a")
    assert ColumnPruner(tree, name_rule=ANY_CASE).columns(table, ("k", "x", "s")) == expected


def test_implicit_columns_belong_to_the_table_that_qualifies_them() -> None:
    tree = parse_query("SELECT a.filename, size, dir0 FROM a JOIN b ON a.k = b.k")
    pruner = ColumnPruner(tree, name_rule=ANY_CASE)
    by_name = {table.name: table for table in named_tables(tree)}
    others = {"a": frozenset({"k"}), "b": frozenset({"k", "size"})}
    assert pruner.implicit_columns(by_name["a"], ("k",), others) == ("dir0", "filename")
    assert pruner.implicit_columns(by_name["b"], ("k", "size"), others) == ("dir0",)
