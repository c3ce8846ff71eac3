"""Queries that sqlglot cannot read, and unusual sessions, return Spark's rows and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import JoinOptions
from pushdown_spark.errors import BadSpecError, UnknownColumnError
from pushdown_spark.optimizer.dataframe_helper import reorder_joins
from pushdown_spark.session import PushdownSession

TABLES = {
    "a": "SELECT CAST(id AS INT) AS k, CAST(id % 7 AS INT) AS x, concat('text ', id % 3) AS t, "
    "sequence(1, id + 1) AS many FROM range(20)",
    "b": "SELECT CAST(id AS INT) AS k, CAST(id % 5 AS INT) AS y FROM range(12)",
    "c": "SELECT CAST(id AS INT) AS k, CAST(id AS INT) AS z FROM range(5)",
}
ALWAYS, NEVER = JoinOptions(min_bytes=0), JoinOptions(reorder=False)

Rows = tuple[list[tuple[str, str]], Counter[str]]


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("as_written")
    for name, query in TABLES.items():
        spark.sql(query).coalesce(1).write.json(str(root / name))
    return root


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Return a function that changes a setting for the duration of the test."""
    queries = []

    def change(key: str, value: str) -> None:
        queries.append(key)
        spark.conf.set(key, value)

    yield change
    for key in queries:
        spark.conf.unset(key)


def schema_of(spark: SparkSession, name: str) -> str:
    return ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in spark.sql(TABLES[name]).schema)


def count_rows(frame: DataFrame) -> Rows:
    return frame.dtypes, Counter(str(row) for row in frame.collect())


def by_spark(spark: SparkSession, root: Path, query: str, **names: str) -> Rows:
    """Return the rows of plain Spark over views. `names` are alternative names of tables."""
    views = {names.get(name, name): name for name in TABLES}
    for view, name in views.items():
        spark.read.schema(schema_of(spark, name)).json(str(root / name)).createOrReplaceTempView(f"`{view}`")
    try:
        return count_rows(spark.sql(query))
    finally:
        for view in views:
            spark.catalog.dropTempView(view)


def session_over(spark: SparkSession, root: Path, **names: str) -> PushdownSession:
    session = PushdownSession(spark)
    for name in TABLES:
        schema = schema_of(spark, name)
        session.add_source(
            names.get(name, name), path=str(root / name), format="json", schema=schema, reader="pushdown"
        )
    return session


def deep(functions: int) -> str:
    return "replace(" * functions + "a.t" + ", 'e', 'z')" * functions


QUERIES = {
    "many functions in each other, one source": f"SELECT {deep(100)} AS r FROM a WHERE k < 5",
    "many functions in each other": f"SELECT {deep(100)} AS r FROM a JOIN b ON a.k = b.k WHERE a.x = 1",
    "many cases in each other": f"SELECT {'CASE WHEN k = 1 THEN 1 ELSE ' * 100} 0 {'END ' * 100} AS r FROM a",
    "a query that is a table": "SELECT s.x FROM (TABLE a) s JOIN b ON s.k = b.k",
    "a table": "TABLE a",
    "a relation that is called OUTER": "SELECT OUTER.k FROM a OUTER JOIN b ON OUTER.k = b.k",
    "a relation that is called OUTER, unnamed": "SELECT x, y FROM a OUTER JOIN b ON x = y",
    "a function with more arguments than is known": "SELECT shuffle(many, 3) AS s FROM a JOIN b ON a.k = b.k",
    "the same over one source": "SELECT shuffle(many, 3) AS s FROM a WHERE k = 4",
    "a common table expression with a source's name": "WITH b AS (SELECT * FROM (TABLE b) WHERE y = 1) "
    "SELECT a.k FROM a JOIN (TABLE b) s ON a.k = s.k",
    "sub-queries": "SELECT (SELECT max(z) FROM (TABLE c)) AS m FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
}


@pytest.mark.parametrize("options", [ALWAYS, NEVER], ids=["reordered", "not reordered"])
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_unreadable_queries_run_as_written(spark: SparkSession, files: Path, query: str, options: JoinOptions) -> None:
    spark.range(3).createOrReplaceTempView("a")
    try:
        result = session_over(spark, files).sql(query, options)
        assert result.run(count_rows) == count_rows(result.df)
        assert spark.table("a").columns == ["id"]
    finally:
        spark.catalog.dropTempView("a")
    assert count_rows(result.df) == by_spark(spark, files, query)
    assert "the query runs as it is written, because sqlglot cannot read it: " in result.explain()


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
def test_the_helper_leaves_unreadable_queries_unchanged(spark: SparkSession, files: Path, query: str) -> None:
    expected = by_spark(spark, files, query)
    for name in TABLES:
        spark.read.schema(schema_of(spark, name)).json(str(files / name)).createOrReplaceTempView(name)
    try:
        actual = reorder_joins(spark, query)
    finally:
        for name in TABLES:
            spark.catalog.dropTempView(name)
    assert count_rows(actual.df) == expected


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT shuffle(many, 3) FROM a JOIN other ON a.k = other.k", BadSpecError, "no source is named 'other'"),
        ("SELECT * FROM (TABLE other) s JOIN a ON a.k = s.k", BadSpecError, "no source is named 'other'"),
        ("SELECT shuffle(many, 3), nothing FROM a", UnknownColumnError, "nothing"),
        ("SELECT shuffle(many, 3) FROM a VERSION AS OF 1", BadSpecError, "^query: "),
        ("CREATE TABLE t AS SELECT shuffle(many, 3) FROM a", BadSpecError, "^query: "),
        ("SELECT shuffle(many, 3) FROM a; DROP TABLE a", BadSpecError, "^query: "),
    ],
)
def test_other_statements_are_rejected(
    spark: SparkSession, files: Path, query: str, error: type[Exception], message: str
) -> None:
    spark.range(3).createOrReplaceTempView("other")
    try:
        with pytest.raises(error, match=message) as caught:
            session_over(spark, files).sql(query)
    finally:
        spark.catalog.dropTempView("other")
    assert type(caught.value) is error


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n, sum(A.k) AS s FROM A",
        "WITH a AS (SELECT 3 AS k) SELECT A.k, A.x FROM A JOIN b ON A.k = b.k JOIN a q ON q.k = b.k",
        "WITH a AS (SELECT 3 AS k) SELECT A.k, A.x FROM A JOIN b ON A.k = b.k JOIN c ON c.k = b.k",
    ],
)
def test_case_sensitive_common_table_expressions_return_sparks_rows(
    spark: SparkSession, files: Path, setting: Callable[[str, str], None], query: str
) -> None:
    setting("spark.sql.caseSensitive", "true")
    actual = session_over(spark, files, a="A").sql(query, ALWAYS)
    assert count_rows(actual.df) == by_spark(spark, files, query, a="A")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k FROM A",
        "SELECT k FROM A WHERE x = 1 ORDER BY k",
        "SELECT a.k FROM a JOIN B ON a.k = B.k",
        "SELECT k FROM a WHERE k IN (SELECT k FROM B)",
        "TABLE A",
    ],
)
def test_names_of_sources_are_compared_like_those_of_views(
    spark: SparkSession, files: Path, setting: Callable[[str, str], None], query: str
) -> None:
    assert count_rows(session_over(spark, files).sql(query).df) == by_spark(spark, files, query)
    setting("spark.sql.caseSensitive", "true")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        by_spark(spark, files, query)
    with pytest.raises(BadSpecError, match=r"no source is named '[AB]'; there are a, b, c"):
        session_over(spark, files).sql(query)


@pytest.mark.parametrize(
    ("query", "is_refused"),
    [
        ("SELECT * FROM a, b, c WHERE a.x = c.z", True),
        ("SELECT * FROM a CROSS JOIN b JOIN c ON a.x = c.z", False),
        ("SELECT * FROM a, b, c WHERE a.x = c.z AND b.k = c.z", False),
        ("SELECT * FROM a, b, c WHERE a.x + b.k + c.z = 3 AND a.k = c.k AND b.y = c.z AND a.k = 1", False),
    ],
)
def test_disabled_cross_joins_fail_like_in_spark(
    spark: SparkSession, files: Path, setting: Callable[[str, str], None], query: str, is_refused: bool
) -> None:
    setting("spark.sql.crossJoin.enabled", "false")

    def outcome(frame: Callable[[], DataFrame]) -> Rows | str:
        try:
            return count_rows(frame())
        except AnalysisException as problem:
            return str(problem).splitlines()[0]

    def helped() -> DataFrame:
        return reorder_joins(spark, query).df

    def framed() -> DataFrame:
        return reorder_joins(spark, spark.sql(query)).df

    session = session_over(spark, files)
    ours = [outcome(lambda each=each: session.sql(query, each).df) for each in (ALWAYS, NEVER)]  # type: ignore[misc]
    for name in TABLES:
        spark.read.schema(schema_of(spark, name)).json(str(files / name)).createOrReplaceTempView(name)
    try:
        expected = outcome(lambda: spark.sql(query))
        ours += [outcome(helped), outcome(framed)]
    finally:
        for name in TABLES:
            spark.catalog.dropTempView(name)
    assert isinstance(expected, str) is is_refused
    assert ours == [expected] * 4


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM {a} WHERE k = 3",
        "SELECT a.x, b.y FROM {a} JOIN b ON a.k = b.k WHERE a.x = 2",
        "SELECT q.x, b.y FROM {a} AS q JOIN b ON q.k = b.k JOIN c ON c.k = q.x",
        "SELECT x.* FROM b JOIN {a} TABLESAMPLE (100 PERCENT) AS x ON x.k = b.k",
    ],
)
@pytest.mark.parametrize("name", ["db.a", "`db`.`a`", "db /* of */ . a", "spark_catalog.db.a"])
def test_source_names_may_contain_dots(spark: SparkSession, files: Path, query: str, name: str) -> None:
    name_with_dots = "spark_catalog.db.a" if "catalog" in name else "db.a"
    actual = session_over(spark, files, a=name_with_dots).sql(query.format(a=name), ALWAYS)
    assert count_rows(actual.df) == by_spark(spark, files, query.format(a="a"))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, size FROM a",
        "SELECT k FROM a WHERE size = 7",
        "SELECT k FROM a WHERE x < size AND SIZE < k",
        "SELECT k, size FROM a JOIN b USING (k)",
        "SELECT a.k, b.y FROM a JOIN b ON a.k = b.k AND modified = 'x' WHERE size = 7",
        "SELECT a.k, size, z FROM a JOIN (SELECT k AS size, z FROM c) s ON a.k = s.size",
        "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.k < size)",
        "SELECT k, x FROM a WHERE x = 1",
        "SELECT k, session.x AS v FROM a WHERE session.x > k",
    ],
)
def test_names_of_session_variables_mean_the_same_as_in_spark(spark: SparkSession, files: Path, query: str) -> None:
    variables = {"size": "INT DEFAULT 7", "modified": "STRING DEFAULT 'x'", "x": "INT DEFAULT 9"}
    for name, kind in variables.items():
        spark.sql(f"DECLARE OR REPLACE VARIABLE {name} {kind}")
    try:
        for options in (ALWAYS, NEVER):
            actual = session_over(spark, files).sql(query, options)
            assert count_rows(actual.df) == by_spark(spark, files, query)
    finally:
        for name in variables:
            spark.sql(f"DROP TEMPORARY VARIABLE {name}")


@pytest.mark.parametrize("query", ["SELECT a.size FROM a LIMIT 1", "SELECT a.size FROM a JOIN b USING (k) LIMIT 1"])
def test_qualified_implicit_columns_are_not_variables(spark: SparkSession, files: Path, query: str) -> None:
    (file,) = (files / "a").glob("*.json")
    spark.sql("DECLARE OR REPLACE VARIABLE size INT DEFAULT 7")
    try:
        assert session_over(spark, files).sql(query).df.collect() == [(file.stat().st_size,)]
    finally:
        spark.sql("DROP TEMPORARY VARIABLE size")
