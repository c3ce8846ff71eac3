"""A query over several sources returns the rows of plain Spark, and each source receives its own predicates."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark import __version__ as pyspark_version
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JoinOptions
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.optimizer.statistics import collection_time
from pushdown_spark.optimizer.statistics.collection_time import AnalysisCosts
from pushdown_spark.relations import open as open_module
from pushdown_spark.relations.base_relation import Relation
from pushdown_spark.relations.open import open_relation
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession
from pushdown_spark.sources.declaration import AnySource

SCHEMAS = {
    "orders": "id int, customer int, day date, total double, note string",
    "customers": "id int, nation int, name string",
    "nations": "id int, name string, region int",
    "regions": "id int, name string",
}
FORMATS = {"orders": "json", "customers": "orc", "nations": "csv", "regions": "parquet"}
ALWAYS = JoinOptions(min_bytes=0)
NEVER = JoinOptions(reorder=False)


def records(name: str) -> list[dict[str, object]]:
    """Return rows with duplicates, nulls, and keys without a match."""
    if name == "orders":
        return [
            {
                "id": n,
                "customer": None if n % 11 == 0 else n % 37,
                "day": f"2024-01-{n % 28 + 1:02d}",
                "total": n / 8,
                "note": f"note {n % 5}",
            }
            for n in range(400)
        ] * 2
    if name == "customers":
        return [{"id": n, "nation": None if n % 7 == 0 else n % 9, "name": f"customer {n}"} for n in range(40)]
    if name == "nations":
        return [{"id": n, "name": f"nation {n}", "region": n % 3} for n in range(8)]
    return [{"id": n, "name": f"region {n}"} for n in range(3)]


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write four tables in four formats."""
    root = tmp_path_factory.mktemp("tables")
    for name, schema in SCHEMAS.items():
        lines = spark.sparkContext.parallelize([json.dumps(row) for row in records(name)], 2)
        frame = spark.read.schema(schema).json(lines)
        writer = frame.write.option("header", True) if FORMATS[name] == "csv" else frame.write
        writer.format(FORMATS[name]).save(str(root / name))
    return {name: str(root / name) for name in SCHEMAS}


Plan = Callable[..., PushdownResult]


@pytest.fixture
def plan(spark: SparkSession, tables: dict[str, str]) -> Plan:
    """Return a function that plans a query over the tables, by default with the pushdown readers."""
    sessions: dict[str, PushdownSession] = {}

    def plan_query(query: str, joins: JoinOptions = ALWAYS, reader: str = "pushdown") -> PushdownResult:
        if reader not in sessions:
            sessions[reader] = PushdownSession(spark)
            for name, path in tables.items():
                options = {"header": "true"} if FORMATS[name] == "csv" else {}
                sessions[reader].add_source(
                    name, path=path, format=FORMATS[name], schema=SCHEMAS[name], options=options, reader=reader
                )
        return sessions[reader].sql(query, joins)

    return plan_query


Oracle = Callable[[str], tuple[list[str], list[tuple[str, str]]]]


@pytest.fixture
def oracle(spark: SparkSession, tables: dict[str, str]) -> Oracle:
    """Return a function that runs a query with plain Spark and returns sorted rows, column names and types."""
    for name, path in tables.items():
        reader = spark.read.schema(SCHEMAS[name]).format(FORMATS[name]).option("header", FORMATS[name] == "csv")
        reader.load(path).createOrReplaceTempView(name)

    def ask(query: str) -> tuple[list[str], list[tuple[str, str]]]:
        frame = spark.sql(query)
        return sorted_rows(frame), frame.dtypes

    return ask


QUERIES = {
    "inner joins": """SELECT o.id, c.name, n.name FROM orders o JOIN customers c ON o.customer = c.id
        JOIN nations n ON c.nation = n.id WHERE n.name = 'nation 3' AND o.total < 20""",
    "commas": """SELECT * FROM regions r, orders o, nations n, customers c
        WHERE o.customer = c.id AND c.nation = n.id AND n.region = r.id AND r.name = 'region 1' AND o.id < 100""",
    "star of one": """SELECT c.*, o.total FROM orders o, customers c WHERE o.customer = c.id AND c.id IN (3, 4)""",
    "using": "SELECT * FROM nations JOIN customers USING (id) JOIN regions USING (id)",
    "natural": "SELECT * FROM nations NATURAL JOIN regions",
    "left join": """SELECT c.id, n.name, o.id FROM customers c LEFT JOIN nations n ON c.nation = n.id AND n.id > 3
        LEFT JOIN orders o ON o.customer = c.id AND o.total > 90 WHERE c.id < 20""",
    "null supplied": """SELECT c.id, n.id FROM customers c LEFT JOIN nations n ON c.nation = n.id
        WHERE n.id IS NULL OR n.name = 'nation 2'""",
    "right join": """SELECT c.id, n.id FROM customers c RIGHT JOIN nations n ON c.nation = n.id AND c.id > 5
        WHERE n.id < 7""",
    "full join": "SELECT c.id, n.id FROM customers c FULL JOIN nations n ON c.nation = n.id AND c.id > 5 AND n.id > 2",
    "semi join": "SELECT c.id FROM customers c LEFT SEMI JOIN orders o ON o.customer = c.id AND o.note = 'note 1'",
    "anti join": "SELECT c.id FROM customers c LEFT ANTI JOIN orders o ON o.customer = c.id AND o.id > 30",
    "outer in the middle": """SELECT * FROM nations n JOIN regions r ON n.region = r.id
        LEFT JOIN customers c ON c.nation = n.id JOIN orders o ON o.customer = c.id WHERE o.id < 50 AND r.id = 1""",
    "exists": """SELECT id FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.id = 3)
        AND c.nation NOT IN (SELECT id FROM nations WHERE region = 2)""",
    "scalar": "SELECT id, (SELECT max(total) FROM orders WHERE customer = c.id) AS top FROM customers c WHERE id > 30",
    "cte": """WITH small AS (SELECT * FROM orders WHERE id < 40), big AS (SELECT * FROM small JOIN customers
        ON small.customer = customers.id) SELECT count(*), max(name) FROM big JOIN nations USING (name)
        UNION ALL SELECT id, name FROM nations""",
    "cte with the name of a source": """WITH orders AS (SELECT id, customer FROM orders WHERE id < 9)
        SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id""",
    "self join": """SELECT a.id, b.id FROM customers a JOIN customers b ON a.nation = b.nation AND a.id < b.id
        JOIN nations n ON n.id = a.nation WHERE b.id = 20""",
    "self join of orders": """SELECT count(*) FROM orders a, orders b, customers c
        WHERE a.id = b.id AND b.customer = c.id AND a.total > 40 AND b.note = 'note 2'""",
    "aggregates": """SELECT n.name, count(*) AS orders, sum(o.total) AS total FROM orders o
        JOIN customers c ON o.customer = c.id JOIN nations n ON c.nation = n.id JOIN regions r ON n.region = r.id
        WHERE r.name LIKE 'region%' GROUP BY n.name HAVING count(*) > 3 ORDER BY n.name""",
    "windows": """SELECT o.id, rank() OVER (PARTITION BY c.nation ORDER BY o.total DESC, o.id) AS place FROM orders o
        JOIN customers c ON o.customer = c.id JOIN nations n ON c.nation = n.id WHERE o.day < DATE '2024-01-09'""",
    "set operations": """SELECT customer FROM orders WHERE id > 390 INTERSECT SELECT id FROM customers
        EXCEPT SELECT id FROM nations""",
    "derived tables": """SELECT d.n, c.name FROM (SELECT customer AS k, count(*) AS n FROM orders GROUP BY customer) d
        JOIN customers c ON c.id = d.k JOIN nations n ON n.id = c.nation WHERE d.n > 20 AND n.region = 1""",
    "parentheses": """SELECT o.id FROM orders o JOIN (customers c JOIN nations n ON c.nation = n.id)
        ON o.customer = c.id WHERE n.name = 'nation 4'""",
    "inequalities": """SELECT a.id, b.id, r.id FROM nations a JOIN nations b ON a.id < b.id
        JOIN regions r ON r.id = b.region WHERE a.region > r.id""",
    "or over relations": """SELECT c.id, n.id FROM orders o, customers c, nations n WHERE o.customer = c.id
        AND (c.nation = n.id AND n.id = 1 OR c.nation = n.id AND o.id = 7)""",
    "null safe": """SELECT a.id, b.id FROM customers a JOIN customers b ON a.nation <=> b.nation AND a.id > b.id,
        regions""",
    "random": """SELECT o.id FROM orders o JOIN customers c ON o.customer = c.id JOIN nations n ON n.id = c.nation
        WHERE rand() >= 0""",
    "cross products": "SELECT * FROM nations CROSS JOIN regions CROSS JOIN (SELECT 1 AS one) AS x WHERE nations.id = 2",
    "lateral view": """SELECT c.id, x FROM customers c JOIN nations n ON n.id = c.nation
        LATERAL VIEW explode(array(1, 2)) t AS x""",
    "hints": """SELECT /*+ BROADCAST(nations), MERGE(c) */ c.id FROM customers c JOIN nations ON c.nation = nations.id
        JOIN regions r ON r.id = nations.region""",
    "values": "SELECT * FROM nations n JOIN (VALUES (1, 'a'), (2, 'b')) AS v(id, letter) ON v.id = n.id, regions r",
    "sample": """SELECT count(*) >= 0 FROM orders TABLESAMPLE (50 PERCENT) JOIN customers c ON c.id = customer
        WHERE orders.id = 1""",
    "backslash": "SELECT c.name FROM customers c, nations n WHERE c.nation = n.id AND c.name = '\\u0063ustomer 3'",
    "nothing": """SELECT o.id FROM orders o, customers c, nations n WHERE o.customer = c.id AND c.nation = n.id
        AND n.id > 99""",
    "pivot": """SELECT p.a FROM (SELECT * FROM nations) PIVOT (max(name) FOR region IN (1 AS a, 2 AS b)) AS p""",
    "pivot of a join": """SELECT p.a FROM nations PIVOT (max(name) FOR region IN (1 AS a, 2 AS b)) AS p, regions r""",
}


AS_WRITTEN = ("using", "left join", "exists", "cte", "self join of orders", "set operations")
SPARK_S = [
    pytest.param(name, ALWAYS, "spark", marks=[pytest.mark.nightly] if number % 3 else [])
    for number, name in enumerate(QUERIES)
]
"""Most of these queries run nightly, because they take long."""


@pytest.mark.parametrize(
    ("name", "joins", "reader"),
    [*SPARK_S, *((name, NEVER, "pushdown") for name in AS_WRITTEN)],
)
def test_the_result_equals_that_of_spark(
    name: str, joins: JoinOptions, reader: str, plan: Plan, oracle: Oracle
) -> None:
    query = QUERIES[name]
    if name == "pivot of a join" and pyspark_version.startswith(("4.0.", "4.1.")):
        pytest.skip("Spark 4.0 and 4.1 do not parse AS after PIVOT")
    result = plan(query, joins, reader)
    actual = result.run(lambda frame: (sorted_rows(frame), frame.dtypes))
    assert actual == oracle(query)
    assert result.rows == len(actual[0])


def test_file_columns_can_be_selected_and_compared_in_a_join(plan: Plan) -> None:
    query = "SELECT n.name, r.suffix FROM nations n JOIN regions r ON n.region = r.id AND r.filename LIKE 'part%'"
    assert len(plan(query, ALWAYS, "spark").run(sorted_rows)) == 8


CHAIN = """SELECT count(*) FROM orders o, customers c, nations n, regions r
    WHERE o.customer = c.id AND c.nation = n.id AND n.region = r.id AND r.name = 'region 1' AND n.id IN (1, 4, 5)"""


def test_conditions_reach_the_readers_of_their_sources(plan: Plan) -> None:
    result = plan(CHAIN + " AND o.total > 3 AND o.note = 'note 1'", NEVER)
    reports = result.report()
    assert set(reports) == {"orders", "customers", "nations", "regions"}
    conjuncts = {name: [conjunct.sql for conjunct in report.conjuncts] for name, report in reports.items()}
    assert conjuncts["orders"] == ["total > 3", "note = 'note 1'"]
    assert conjuncts["nations"] == ["id IN (1, 4, 5)"]
    assert conjuncts["customers"] == ["nation IN (1, 4, 5)"], "an equality transfers the predicate"
    assert conjuncts["regions"] == ["name = 'region 1'"]
    assert reports["orders"].columns == ("customer", "total", "note")
    assert reports["orders"].reader == "pushdown"


def test_predicates_inferred_from_or_reach_each_reader(plan: Plan, oracle: Oracle) -> None:
    query = """SELECT o.id, c.name, n.id FROM orders o, customers c, nations n
        WHERE o.customer = c.id AND c.nation = n.id
        AND (n.id = 1 AND o.note = 'note 1' AND o.total > c.id OR n.id = 4 AND o.note = 'note 2' AND c.name > 'd')"""
    result = plan(query, NEVER)
    actual = result.run(sorted_rows)
    assert actual == oracle(query)[0]
    reports = result.report()
    conjuncts = {name: [conjunct.sql for conjunct in report.conjuncts] for name, report in reports.items()}
    assert conjuncts == {
        "orders": ["note = 'note 1' OR note = 'note 2'"],
        "customers": ["nation = 1 OR nation = 4"],
        "nations": ["id = 1 OR id = 4"],
    }
    assert reports["nations"].rows_decoded == 2


def test_each_scan_of_a_source_has_its_own_report(plan: Plan) -> None:
    query = "SELECT a.id FROM customers a JOIN customers b ON a.id = b.nation WHERE b.id < 5 AND a.name LIKE 'c%'"
    result = plan(query, NEVER)
    result.run(sorted_rows)
    reports = result.report()
    assert set(reports) == {"customers as a", "customers as b"}
    assert [conjunct.sql for conjunct in reports["customers as b"].conjuncts] == ["id < 5"]
    assert reports["customers as a"].rows_decoded == 40
    assert reports["customers as b"].rows_decoded == 20, "the other file has no such row"


@pytest.mark.skipif(
    pyspark_version.startswith(("4.0.", "4.1.")), reason="the rows of each join are unknown in Spark 4.0 and 4.1"
)
@pytest.mark.usefixtures("no_broadcasts")
def test_a_reordered_chain_is_reported_with_row_counts(plan: Plan, oracle: Oracle) -> None:
    query = CHAIN.replace("orders o, customers c, nations n, regions r", "orders o, customers c, regions r, nations n")
    result = plan(query, ALWAYS, "spark")
    (planned,) = result.joins()
    assert planned.reordered
    assert planned.method == "dynamic programming"
    assert [node.relation for node in planned.before.nodes() if node.relation] == ["o", "c", "n", "r"]
    assert planned.after != planned.before
    assert result.run(sorted_rows) == oracle(query)[0]
    (ran,) = result.joins()
    counts = {node.relation: node.actual for node in ran.after.nodes() if node.relation}
    assert (counts["n"], counts["r"]) == (3, 1)
    sizes = [node.actual for node in ran.after.nodes() if not node.relation]
    assert None not in sizes
    assert sizes[-1] == 2, "of the three nations asked for, two lie in the region"
    assert "Reordered: about" in result.explain()


@pytest.mark.parametrize(
    ("joins", "reason"),
    [
        (JoinOptions(), "collecting statistics would take about"),
        (JoinOptions(min_bytes=1 << 30), "fewer than join_reorder_min_bytes"),
    ],
)
def test_no_statistics_are_collected_for_small_sources(
    joins: JoinOptions, reason: str, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collection_time, "_RELATION_SECONDS", 0.0)
    # The time of the first query of a session would be enough to sample a few small files.
    monkeypatch.setattr(collection_time, "MAX_ANALYSIS_FRACTION", 0.01)
    (report,) = plan(CHAIN, joins).joins()
    assert reason in report.reason
    assert not report.reordered
    assert report.before == report.after
    assert {node.estimated for node in report.after.nodes()} == {None}


def test_a_source_with_several_references_counts_once_as_new(spark: SparkSession, tables: dict[str, str]) -> None:
    session = PushdownSession(spark)
    session.add_source("n", path=tables["nations"], format="csv", schema=SCHEMAS["nations"], options={"header": "true"})
    session._sql_planner().optimizer.samples.analysis_costs = AnalysisCosts(new=1.0, cached=0.1, warmup=0.0)
    (report,) = session.sql("SELECT a.id FROM n a, n b, n c WHERE a.id = b.id AND b.id = c.region").joins()
    assert "would take about 1.20 s" in report.reason


LOOP = """SELECT o.id, n.id FROM orders o, nations n, customers c
    WHERE o.customer = c.id AND c.nation = n.id AND (n.name = 'nation 3' OR o.total > 45)"""
"""In the written order, Spark compares all orders with all nations."""


def test_a_nested_loop_is_reordered_even_with_small_sources(plan: Plan, oracle: Oracle) -> None:
    result = plan(LOOP, JoinOptions(), "spark")
    (report,) = result.joins()
    assert report.reordered
    assert [node.relation for node in report.before.nodes() if node.relation] == ["o", "n", "c"]
    assert all(" = " in (node.condition or " = ") for node in report.after.nodes())
    assert result.run(sorted_rows) == oracle(LOOP)[0]


def test_min_bytes_also_applies_to_nested_loops(plan: Plan) -> None:
    (report,) = plan(LOOP, JoinOptions(min_bytes=1 << 30)).joins()
    assert "fewer than join_reorder_min_bytes" in report.reason


THRICE = """SELECT a.id, b.id, c.id FROM customers a, orders b, customers c
    WHERE a.{0} = b.{1} AND b.{1} = c.{0} AND c.{0} = a.{0} AND c.{2} = a.{2}"""
"""The third equality follows from the first two."""


@pytest.mark.parametrize("joins", [JoinOptions(min_bytes=1 << 40), ALWAYS], ids=["not analysed", "analysed"])
def test_redundant_equalities_are_removed(joins: JoinOptions, plan: Plan, oracle: Oracle) -> None:
    query = THRICE.format("id", "customer", "nation")
    result = plan(query, joins, "spark")
    assert result.run(sorted_rows) == oracle(query)[0]
    (report,) = result.joins()
    conditions = [node.condition or "" for node in report.after.nodes()]
    assert sum(condition.count("=") for condition in conditions) == 3, conditions
    assert sum((node.condition or "").count("=") for node in report.before.nodes()) == 4


@pytest.mark.parametrize("joins", [JoinOptions(min_bytes=1 << 40), ALWAYS], ids=["not analysed", "analysed"])
@pytest.mark.parametrize("second", ["c.id = o.id", "o.id = c.id"])
def test_two_columns_equal_to_one_are_compared_with_each_other(
    second: str, joins: JoinOptions, plan: Plan, oracle: Oracle
) -> None:
    query = f"SELECT c.id, c.name, o.total FROM customers c, orders o WHERE o.customer = c.id AND {second}"
    result = plan(query, joins, "spark")
    assert result.run(sorted_rows) == oracle(query)[0]
    (report,) = result.joins()
    conditions = (report.after.condition or "").replace("`", "").split(" AND ")
    assert conditions == ["o.customer = c.id", "o.customer = o.id"], "otherwise the key would have two equal parts"


@pytest.mark.parametrize(
    ("query", "joins"),
    [
        (THRICE.format("id", "customer", "nation"), NEVER),
        (THRICE.format("id", "total", "name"), JoinOptions(min_bytes=1 << 40)),
        (THRICE.format("id", "customer", "name") + " AND rand(3) >= 0", JoinOptions(min_bytes=1 << 40)),
    ],
    ids=["reordering is off", "of two types", "not deterministic"],
)
def test_other_equalities_are_not_removed(query: str, joins: JoinOptions, plan: Plan, oracle: Oracle) -> None:
    result = plan(query, joins, "spark")
    (report,) = result.joins()
    assert report.after == report.before
    assert result.run(sorted_rows) == oracle(query)[0]


BELOW = """SELECT {columns} FROM orders o JOIN customers c ON o.customer = c.id CROSS JOIN nations n JOIN regions r
    ON n.region = r.id {kind} JOIN orders p ON p.id = o.id AND p.note = 'note 1' {more}
    WHERE c.nation = n.id AND r.name = 'region 1' AND o.total < 40"""


@pytest.mark.usefixtures("no_broadcasts")
@pytest.mark.parametrize("kind", ["LEFT", "LEFT SEMI", "LEFT ANTI", "RIGHT", "FULL"])
@pytest.mark.parametrize("more", ["", "JOIN nations m ON m.id = n.region", "LEFT JOIN regions m ON m.id = c.id"])
def test_chains_below_joins_that_preserve_them_are_reordered(kind: str, more: str, plan: Plan, oracle: Oracle) -> None:
    query = BELOW.format(columns="o.id, c.name, n.name, r.name", kind=kind, more=more)
    result = plan(query, ALWAYS, "spark")
    below = [join for join in result.joins() if len([node for node in join.before.nodes() if node.relation]) == 4]
    assert [join.reordered for join in below] == ([True] if "LEFT" in kind else [])
    assert result.run(sorted_rows) == oracle(query)[0]


@pytest.mark.usefixtures("no_broadcasts")
def test_a_star_keeps_its_columns_if_a_chain_below_is_reordered(plan: Plan, oracle: Oracle) -> None:
    query = BELOW.format(columns="*", kind="LEFT", more="")
    result = plan(query, ALWAYS, "spark")
    assert result.run(lambda frame: (sorted_rows(frame), frame.dtypes)) == oracle(query)
    assert any(join.reordered for join in result.joins())


UNNAMED = {
    "one": """SELECT o.id, c.name, region_name FROM orders o, customers c, nations n,
        (SELECT id AS region_id, name AS region_name FROM regions WHERE name = 'region 1')
        WHERE o.customer = c.id AND c.nation = n.id AND n.region = region_id""",
    "two and a star": """SELECT * FROM orders o, (SELECT id AS nation_id, region FROM nations),
        (SELECT id AS region_id FROM regions WHERE id = 1), customers c
        WHERE o.customer = c.id AND c.nation = nation_id AND region = region_id""",
    "a name that is taken": """SELECT o.id, `sub-query 1`.name, region_name FROM orders o, customers c,
        nations AS `sub-query 1`, (SELECT id AS region_id, name AS region_name FROM regions WHERE id = 1)
        WHERE o.customer = c.id AND c.nation = `sub-query 1`.id AND `sub-query 1`.region = region_id""",
    "a set operation": """SELECT o.id, region_id FROM orders o, customers c, nations n,
        (SELECT id AS region_id FROM regions WHERE id = 1 UNION ALL SELECT 7)
        WHERE o.customer = c.id AND c.nation = n.id AND n.region = region_id""",
    "within parentheses": """SELECT o.id, region_id FROM orders o
        JOIN (customers c JOIN ((SELECT id AS nation_id, region FROM nations)) ON c.nation = nation_id)
        ON o.customer = c.id JOIN (SELECT id AS region_id FROM regions WHERE id = 1) ON region = region_id""",
}


@pytest.mark.usefixtures("no_broadcasts")
@pytest.mark.parametrize("name", UNNAMED)
def test_subqueries_without_an_alias_are_relations(name: str, plan: Plan, oracle: Oracle) -> None:
    result = plan(UNNAMED[name], ALWAYS, "spark")
    assert result.run(lambda frame: (sorted_rows(frame), frame.dtypes)) == oracle(UNNAMED[name])
    assert any(join.reordered for join in result.joins()) == (name in ("one", "two and a star", "a name that is taken"))


def test_a_source_with_several_references_is_opened_once(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def noting(spark: SparkSession, declared: AnySource) -> Relation:
        opened.append(declared.name)
        return open_relation(spark, declared)

    monkeypatch.setattr(open_module, "open_relation", noting)
    plan("SELECT a.id FROM nations a JOIN nations b ON a.id = b.region JOIN regions r ON r.id = a.region", NEVER)
    assert sorted(opened) == ["nations", "regions"]


def test_without_reordering_the_report_shows_the_written_joins(plan: Plan) -> None:
    (report,) = plan(CHAIN, NEVER).joins()
    assert not report.reordered
    assert report.reason == "join_reorder is off"
    assert report.before == report.after


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM orders, other", BadSpecError, "no source is named 'other'"),
        ("SELECT 1", BadSpecError, "none of the declared sources"),
        ("SELECT id FROM orders, customers", BadSpecError, "query: .*[Aa]mbiguous|`id` is ambiguous"),
        ("SELECT o.nam FROM orders o JOIN customers c ON o.customer = c.id", UnknownColumnError, "o.*nam"),
        ("DELETE FROM orders", BadSpecError, "only SELECT"),
    ],
)
def test_mistakes_in_a_query_raise_an_error_of_one_line(
    plan: Plan, query: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        plan(query)
    assert "\n" not in str(caught.value)


def test_views_of_the_session_are_restored(spark: SparkSession, plan: Plan) -> None:
    spark.range(3).createOrReplaceTempView("orders")
    before = {table.name for table in spark.catalog.listTables()}
    result = plan("SELECT count(*) AS n FROM orders a JOIN customers c ON a.customer = c.id", NEVER, "spark")
    assert result.df.collect()[0].n > 3
    assert {table.name for table in spark.catalog.listTables()} == before
    assert spark.table("orders").count() == 3


@pytest.mark.parametrize(
    "condition",
    ["o.id & 3 | 1 = 1", "o.note = 'no' 'te 1'", "o.id + +1 < 9", "NOT o.id = 1 IS NULL", "o.note || 'x' = 'note 1x'"],
)
def test_ambiguous_syntax_does_not_change_the_result(condition: str, plan: Plan, oracle: Oracle) -> None:
    query = f"SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id WHERE {condition} AND c.id < 20"
    assert plan(query, NEVER).run(lambda frame: (sorted_rows(frame), frame.dtypes)) == oracle(query)
