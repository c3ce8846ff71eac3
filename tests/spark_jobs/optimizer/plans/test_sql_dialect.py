"""Spark parses SQL that sqlglot has read and written as the same query."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.errors import BadSpecError
from pushdown_spark.optimizer.catalyst import is_same_query
from pushdown_spark.optimizer.plans.sql_dialect import to_sql
from pushdown_spark.optimizer.plans.sql_reader import parse_query

EXPRESSIONS = {
    "negations": """v IS NOT NULL|NOT v IS NULL|NOT (v IS NOT NULL)|(v IS NULL) IS NOT NULL|(v = 1) IS NOT TRUE|
        (v = 1) IS NOT UNKNOWN|v = 1 AND NOT s IS NOT NULL|NOT v IN (1, 2)|v NOT BETWEEN 1 AND 2|s NOT LIKE 'a%'|
        CASE WHEN s IS NOT NULL THEN 1 END|v IS NOT DISTINCT FROM 1|NOT v <=> 1|! (v = 1)""",
    "numbers": "1L|-1L|v > 3S|1Y|1.5D|CAST(1 AS BIGINT)|CAST(1 AS DOUBLE)|TRY_CAST(1 AS SMALLINT)|1.5|1e3",
    "dates": """DATE '2000-01-01'|TIMESTAMP '2000-01-01 00:00:00'|day + INTERVAL 1 DAY|day - INTERVAL '1' MONTH|
        date_sub(day, 3)|date_add(day, -3)|date_trunc('month', ts)|date_trunc('YEAR', day)|trunc(day, 'MM')|
        extract(YEAR FROM day)|year(day)|datediff(day, day)|to_date(s)|date_format(day, 'yyyy')|add_months(day, 1)""",
    "strings": """instr(s, 'a')|locate('a', s)|position('a' IN s)|substr(s, 1, 2)|trim(s)|concat_ws(',', s, s)|
        regexp_replace(s, 'a', 'b')|s RLIKE 'a'|s ILIKE 'a%'|split(s, ',')|contains(s, 'a')|startswith(s, 'a')|
        nvl(s, 'a')|coalesce(s, 'a')|CAST(s AS INT)""",
    "arithmetic": "log2(v)|log10(v)|log(2, v)|ln(v)|v DIV 2|v % 2|v / 2|power(v, 2)|round(v, 2)|greatest(v, 1)|~v",
    "aggregates": """count(*)|count(DISTINCT v, k)|sum(v) FILTER (WHERE v > 1)|max_by(v, k)|count_if(v = 1)|stddev(v)|
        percentile_approx(v, 0.5)|collect_list(v)|row_number() OVER (PARTITION BY max(k) ORDER BY 1)""",
}


@pytest.fixture
def views(spark: SparkSession) -> Iterator[None]:
    spark.sql("SELECT 1 AS k, 2 AS v, 's' AS s").createOrReplaceTempView("kept_f")
    spark.sql("SELECT DATE '2000-01-01' AS day, now() AS ts").createOrReplaceTempView("kept_d")
    yield
    for name in ("kept_f", "kept_d"):
        spark.catalog.dropTempView(name)


FROM = [
    "(SELECT 1 AS x), kept_f",
    "((SELECT 1 AS x)), kept_f",
    "kept_d JOIN ((SELECT k AS x FROM kept_f) AS r JOIN kept_f ON r.x = kept_f.k) ON r.x = 1",
    "kept_d JOIN ((SELECT k AS x FROM kept_f) JOIN kept_f ON x = kept_f.k) ON x = 1",
    "kept_d, (kept_f AS r CROSS JOIN (SELECT 2 AS x))",
    "(SELECT k AS x FROM kept_f UNION SELECT 3), kept_d",
]


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("relations", FROM)
def test_subqueries_in_parentheses_get_aliases(relations: str, spark: SparkSession) -> None:
    text = f"SELECT x FROM {relations}"
    assert is_same_query(spark.sql(text), spark.sql(to_sql(parse_query(text))))


@pytest.mark.usefixtures("views")
@pytest.mark.parametrize("kind", list(EXPRESSIONS))
def test_expressions_are_written_as_they_were_read(kind: str, spark: SparkSession) -> None:
    others = []
    for expression in map(str.strip, EXPRESSIONS[kind].split("|")):
        text = f"SELECT {expression} AS c FROM kept_f, kept_d"
        again = to_sql(parse_query(text))
        if not is_same_query(spark.sql(text), spark.sql(again)):
            others.append(again)
    assert others == []


def test_the_compiled_build_of_sqlglot_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pushdown_spark.optimizer.plans.sql_dialect.IS_COMPILED", True)
    with pytest.raises(BadSpecError, match="uninstall the package sqlglotc"):
        parse_query("SELECT 1")
