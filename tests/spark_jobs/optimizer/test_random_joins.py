"""Random joins in any order and with any pushdown return the rows, names and types of plain Spark SQL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from random_joins import TABLES, RandomQueries, rows_of
from sqlglot import exp

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.optimizer.catalyst import is_lossless
from pushdown_spark.optimizer.join_order import static_semi_joins
from pushdown_spark.optimizer.join_order.decision import ReorderSettings
from pushdown_spark.optimizer.join_order.reorder_safety import ColumnTypes
from pushdown_spark.optimizer.passes.reorder_joins import JoinReordering
from pushdown_spark.optimizer.plans.column_names import ColumnNameResolver
from pushdown_spark.optimizer.plans.sql_reader import ParsedQuery
from pushdown_spark.optimizer.statistics.relation_statistics import JoinColumnStatistics, RelationStatistics
from pushdown_spark.session import PushdownSession

FORMATS = {"ta": "json", "tb": "orc", "tc": "parquet", "td": "csv", "te": "json", "tf": "parquet"}
COLUMNS = {name: frozenset(column.split()[0] for column in ddl.split(", ")) for name, ddl in TABLES.items()}
STAR = JoinOptions(min_bytes=0, star_schema=True)
ORDERED = JoinOptions(min_bytes=0)
AS_WRITTEN = JoinOptions(reorder=False)
NOT_ANALYSED = JoinOptions(min_bytes=1 << 40)
nightly = partial(pytest.param, marks=pytest.mark.nightly)


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the tables as files, and register views with the rows that Spark's own readers return."""
    root = tmp_path_factory.mktemp("random")
    for name, schema in TABLES.items():
        frame = spark.createDataFrame(rows_of(name, 7), schema).coalesce(1)
        frame.write.option("header", True).format(FORMATS[name]).save(str(root / name))
    return {name: str(root / name) for name in TABLES}


@pytest.fixture(scope="module")
def views(spark: SparkSession, files: dict[str, str]) -> Iterator[None]:
    for name, path in files.items():
        frame = spark.read.schema(TABLES[name]).format(FORMATS[name]).option("header", True).load(path)
        rows = [tuple(row) for row in frame.collect()]
        spark.createDataFrame(rows, TABLES[name]).coalesce(1).createOrReplaceTempView(name)
    yield
    for name in files:
        spark.catalog.dropTempView(name)


@pytest.fixture
def session(spark: SparkSession, files: dict[str, str]) -> PushdownSession:
    session = PushdownSession(spark)
    for name, path in files.items():
        options = {"header": "true"} if FORMATS[name] == "csv" else {}
        reader = "spark" if name in ("tc", "te", "tf") else "pushdown"
        session.add_source(name, path=path, format=FORMATS[name], schema=TABLES[name], options=options, reader=reader)
    return session


def contents(frame: DataFrame) -> tuple[list[tuple[str, str]], Counter[tuple[object, ...]]]:
    return frame.dtypes, Counter(tuple(row) for row in frame.collect())


def valid(spark: SparkSession, queries: RandomQueries) -> tuple[str, DataFrame]:
    """Return the next valid query and its DataFrame."""
    while True:
        query = queries.query()
        try:
            return query, spark.sql(query)
        except AnalysisException:
            continue


def random_order(spark: SparkSession, query: str, seed: int) -> tuple[str, tuple[JoinReport, ...]]:
    """Return the query in an order that follows from random statistics."""
    random = Random(seed)

    def statistics(
        table: exp.Table, name: str, conditions: tuple[exp.Expr, ...], keys: frozenset[str]
    ) -> RelationStatistics:
        rows = random.choice((3.0, 100.0, 1e4, 1e7))
        columns = {(name, key): JoinColumnStatistics(rows * random.choice((0.001, 0.1, 1.0))) for key in keys}
        return RelationStatistics(rows, rows * random.choice((0.001, 0.5, 1.0)), columns, max_bytes=rows)

    class Named(ColumnTypes):
        """Columns of the same name have the same type, except for one with two widths."""

        def is_exact_equality(self, left: exp.Column, right: exp.Column, /) -> bool:
            return left.name == right.name and left.name != "k"

    settings = ReorderSettings.of_session(spark, random.choice((ORDERED, STAR)))
    reordering = JoinReordering(
        spark, settings, resolver=ColumnNameResolver(COLUMNS), table_statistics=statistics, types_of=lambda _: Named()
    )
    parsed = ParsedQuery.of(query)
    is_same = partial(is_lossless, parsed.sql, parsed.generated_sql, spark.sql)
    optimized = reordering.reorder(parsed, spark.sql, is_same)
    return optimized.sql, optimized.joins


def check_orders(spark: SparkSession, seed: int, count: int, *, only_inner: bool) -> None:
    """Compare reordered queries with the written ones until `count` have another order."""
    queries, reordered = RandomQueries(seed, only_inner=only_inner), 0
    for number in range(30 * count):
        if reordered == count:
            return
        query, plain = valid(spark, queries)
        text, joins = random_order(spark, query, number)
        reordered += any(join.reordered for join in joins)
        if text != query:
            # Another order, hints, or fewer redundant equalities.
            assert "BROADCAST" in text or any(join.after != join.before for join in joins), f"{query}\n{text}"
            assert contents(spark.sql(text)) == contents(plain), f"{query}\n{text}"
    raise AssertionError(f"only {reordered} of {30 * count} queries had another order")


@pytest.mark.parametrize(("seed", "inner", "outer"), [(0, 2, 1), *(nightly(seed, 60, 40) for seed in range(1, 12))])
def test_any_join_order_returns_the_same_rows(
    spark: SparkSession, views: None, seed: int, inner: int, outer: int
) -> None:
    check_orders(spark, seed, inner, only_inner=True)
    check_orders(spark, seed + 100, outer, only_inner=False)


def check_pushed(spark: SparkSession, session: PushdownSession, seed: int, count: int) -> None:
    """Compare queries over files, with pushdown and reordering, with plain Spark over the same rows."""
    queries, random = RandomQueries(seed, favoured=["tf"] * 4), Random(seed)
    for _ in range(count):
        query, plain = valid(spark, queries)
        options = random.choice((ORDERED, STAR, ORDERED, AS_WRITTEN, NOT_ANALYSED))
        actual = session.sql(query, options).run(contents)
        assert actual == contents(plain), f"{query}\n{options}"


@pytest.fixture
def keys_always_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_semi_joins, "_MIN_SKIPPED_ROWS", 0.0)


@pytest.mark.usefixtures("views", "keys_always_pay")
@pytest.mark.parametrize(("seed", "queries"), [(0, 3), *(nightly(seed, 60) for seed in range(1, 12))])
def test_pushdown_does_not_change_results(
    spark: SparkSession, session: PushdownSession, seed: int, queries: int
) -> None:
    check_pushed(spark, session, seed, queries)


def test_the_tables_have_nulls_and_duplicates() -> None:
    for name in TABLES:
        rows = rows_of(name, 7)
        assert any(None in row for row in rows), name
        assert max(Counter(rows).values()) > 1, name
