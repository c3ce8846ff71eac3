"""The predicate of a scan, and the outcome of pushing one conjunct."""

from __future__ import annotations

import pytest
import sqlglot
from pyspark.sql import SparkSession

from pushdown_spark.contract import Exactness
from pushdown_spark.expressions.predicate import ROW_FUNCTIONS, Predicate, is_deterministic
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.runtime.jvm_gateway import elements, java_class


def test_predicate_is_split_into_conjuncts() -> None:
    predicate = Predicate.parse("a = 1 AND (b = 2 OR c = 3) AND (d > 4 AND e < 5)")
    assert predicate.conjunct_texts == ("a = 1", "b = 2 OR c = 3", "d > 4", "e < 5")
    assert predicate.conjuncts is predicate.conjuncts


def test_predicate_that_only_spark_parses_has_one_text_and_no_conjunct() -> None:
    sql = "a = 'x' 'y'"
    predicate = Predicate.parse(sql)
    assert predicate.tree is None
    assert predicate.conjuncts == ()
    assert predicate.conjunct_texts == (sql,)


def test_keep_conjuncts_keeps_the_original_sql() -> None:
    predicate = Predicate.parse("a = 1 AND b = 2 AND c = 3")
    rest = predicate.keep_conjuncts(predicate.conjuncts[1:])
    assert rest is not None
    assert rest.conjunct_texts == ("b = 2", "c = 3")
    assert rest.sql == predicate.sql
    assert predicate.keep_conjuncts(()) is None


@pytest.mark.parametrize(
    ("sql", "needs_every_row", "reads_file_metadata", "has_backslashes"),
    [
        ("a = 1", False, False, False),
        ("rand() < 0.5 AND a = 1", True, False, False),
        ("uuid = 'x'", False, False, False),
        ("assert_true /* b */ (a > 0) IS NULL", True, False, False),
        ("builtin.RAND() < 0.5", True, False, False),
        ("`rand`() < 0.5", True, False, False),
        ("name = 'uuid()' AND a = 1", False, False, False),
        ("input_file_name() LIKE '%x'", False, True, False),
        ("_metadata.file_size > 1", False, True, False),
        ("t.`_METADATA`.file_size > 1", False, True, False),
        ("IDENTIFIER('_metadata.file_size') > 1", False, True, False),
        ("name = '_metadata' OR name = 'input_file_name()'", False, False, False),
        ("rand() < 0.5 AND _metadata.file_size > 1 AND b = 'x' 'y'", True, True, False),
        (r"a = 'b\\c'", False, False, True),
    ],
)
def test_predicate_properties_follow_from_the_tree_or_else_from_the_text(
    sql: str, needs_every_row: bool, reads_file_metadata: bool, has_backslashes: bool
) -> None:
    predicate = Predicate.parse(sql)
    assert predicate.needs_every_row is needs_every_row
    assert predicate.reads_file_metadata is reads_file_metadata
    assert predicate.has_backslashes is has_backslashes


@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_row_functions_are_recognized_in_texts_and_trees(name: str) -> None:
    arguments = {"randstr": "3", "uniform": "0, 9", "shuffle": "array(1, 2)"}.get(name, "")
    predicate = Predicate.parse(f"{name}({arguments}) IS NULL")
    assert predicate.needs_every_row
    assert predicate.tree is not None
    assert not is_deterministic(predicate.tree)


def test_only_exact_outcomes_have_no_residual() -> None:
    conjunct = sqlglot.parse_one("a = 1", dialect="spark")
    outcomes: list[Pushdown[int]] = [
        Pushdown.exact(conjunct, 1),
        Pushdown.inexact(conjunct, 1, "a part"),
        Pushdown.unsupported(conjunct, "why"),
    ]
    assert [outcome.is_exact for outcome in outcomes] == [True, False, False]
    reports = [outcome.report("a test") for outcome in outcomes]
    assert [report.exactness for report in reports] == [Exactness.EXACT, Exactness.INEXACT, Exactness.UNSUPPORTED]
    assert [report.pushed_as for report in reports] == ["a test", "a test", None]
    assert [report.reason for report in reports] == [None, "a part", "why"]


def test_functions_that_spark_calls_nondeterministic_are_recognized(spark: SparkSession) -> None:
    """Reflection overrides a property instead of using one of Spark's two traits."""
    find_class, loader = java_class(spark, "java.lang.Class").forName, spark._jsparkSession.getClass().getClassLoader()
    traits = [
        find_class(f"org.apache.spark.sql.catalyst.expressions.{name}", False, loader)
        for name in ("Nondeterministic", "ExpressionWithRandomSeed")
    ]
    registry = spark._jsparkSession.sessionState().functionRegistry()
    classes = {
        function.funcName(): find_class(registry.lookupFunction(function).get().getClassName(), False, loader)
        for function in elements(registry.listFunction())
    }
    names = {
        name
        for name, kind in classes.items()
        if any(trait.isAssignableFrom(kind) for trait in traits) or "Reflect" in kind.getSimpleName()
    }
    assert {"rand", "uuid", "uniform", "reflect"} <= names
    for name in names:
        node = sqlglot.parse_one(f"{name}()", dialect="spark", error_level=sqlglot.ErrorLevel.IGNORE)
        assert not is_deterministic(node), name
        for tree in (node, None):
            predicate = Predicate(f"{name}() = 1", tree)
            assert predicate.needs_every_row or predicate.reads_file_metadata, name
