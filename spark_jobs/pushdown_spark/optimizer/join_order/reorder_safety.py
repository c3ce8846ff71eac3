"""Reasons to keep the joins of a query in their written order.

In ANSI mode an expression may fail on a value. In another join order it may be evaluated on rows that the written order
filters out first, so conditions that may fail keep the written order.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property

from py4j.java_gateway import JavaObject
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t
from sqlglot import exp

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.expressions.predicate import is_deterministic
from pushdown_spark.expressions.session_settings import is_enabled, session_name_rule
from pushdown_spark.expressions.types import DECLARED_TYPE
from pushdown_spark.optimizer.catalyst import CATALYST, Analyze, tree_lines
from pushdown_spark.optimizer.plans.logical_plan import JoinChain
from pushdown_spark.optimizer.plans.select_block import SelectBlock, merges_columns
from pushdown_spark.optimizer.plans.sql_dialect import is_typed_literal
from pushdown_spark.optimizer.plans.sql_reader import ParsedQuery
from pushdown_spark.runtime.jvm_gateway import class_name, elements, java_class, java_string
from pushdown_spark.runtime.spark_internals import analyzed_plan

_EXACT_TYPES = (
    *(t.BooleanType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.DecimalType),
    *(t.DateType, t.TimestampType, t.TimestampNTZType),
)
"""Types whose equal values are identical, unlike doubles with their two zeros."""
_ANY_RELATION = ""
"""Stands for the relation of an unqualified column."""

NO_CROSS_JOINS = "implicit cross joins are disabled (spark.sql.crossJoin.enabled)"
MAY_FAIL = "a condition over several relations may fail on rows that the written order filters out first"
NONDETERMINISTIC = "a condition is not deterministic"
OTHER_COLUMNS = "the columns of the rewritten query would differ"

_NEVER_FAIL = (
    *(exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null),
    *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is),
    *(exp.Lower, exp.Upper, exp.Trim, exp.Substring, exp.Left, exp.Right, exp.Concat, exp.DPipe, exp.Length),
    *(exp.StartsWith, exp.EndsWith, exp.Contains),
    *(exp.Coalesce, exp.Case, exp.If, exp.Nullif, exp.Greatest, exp.Least, exp.DataType),
)
_SAFE_CAST = re.compile(
    r"\bcast\((?:(?:[\d.-]+|null) as [a-z]+(?:\(\d+,\d+\))?|\w+#\d+L as decimal\(20,0\))\)|\(0 [-+*/] 0\)"
)
"""Casts and sums of constants, and casts of bigint columns to a decimal that has room for every bigint."""
_CONDITION_NODES = ("Join", "Filter")


@dataclass(frozen=True)
class ColumnTypes:
    """Types of the columns of those relations of a block whose schemas are known, by their names in the block."""

    schemas: Mapping[str, t.StructType] = field(default_factory=dict)
    name_rule: NameRule = field(default=ANY_CASE, kw_only=True)

    @cached_property
    def _types(self) -> Mapping[tuple[str, str], list[t.DataType]]:
        types: dict[tuple[str, str], list[t.DataType]] = {}
        for relation, schema in self.schemas.items():
            for column in schema.fields:
                # Spark pads values that a catalog declares as char(n) in comparisons.
                data_type = t.NullType() if DECLARED_TYPE in column.metadata else column.dataType
                for qualifier in (relation, _ANY_RELATION):
                    types.setdefault((qualifier, self.name_rule.key(column.name)), []).append(data_type)
        return types

    def is_exact_equality(self, left: exp.Column, right: exp.Column) -> bool:
        """Return whether both columns have one type whose equal values are identical."""
        left_types, right_types = self._types_of(left), self._types_of(right)
        return len(left_types) == 1 and left_types == right_types and _is_exact(left_types[0])

    def is_date(self, column: exp.Column) -> bool:
        """Return whether a column is a date."""
        types = self._types_of(column)
        return bool(types) and all(isinstance(data_type, t.DateType) for data_type in types)

    def _types_of(self, column: exp.Column) -> list[t.DataType]:
        """Return the types that `column` or `relation.column` may have."""
        if len(column.parts) > 2:
            return []
        return self._types.get((column.table.lower() or _ANY_RELATION, self.name_rule.key(column.name)), [])


def _is_exact(data_type: t.DataType) -> bool:
    if isinstance(data_type, t.StringType):
        return type(data_type) is t.StringType and data_type.collation == "UTF8_BINARY"
    return isinstance(data_type, _EXACT_TYPES)


def check_session(spark: SparkSession) -> None:
    """Raise UnsupportedError if no query of a session may be rewritten."""
    ansi = is_enabled(spark, "spark.sql.ansi.enabled", default=True)
    if ansi and is_enabled(spark, "spark.sql.ansi.relationPrecedence"):
        raise UnsupportedError("commas bind weaker than JOIN (spark.sql.ansi.relationPrecedence)")
    if not is_enabled(spark, "spark.sql.crossJoin.enabled", default=True):
        raise UnsupportedError(NO_CROSS_JOINS)
    if session_name_rule(spark).case_sensitive:
        raise UnsupportedError("names are case-sensitive (spark.sql.caseSensitive)")


def check_block(block: SelectBlock, chain: JoinChain, types: ColumnTypes, *, ansi: bool) -> None:
    """Raise UnsupportedError if the joins of a SELECT must keep their order."""
    if any(join.hint or join.args.get("match_condition") for join in block.joins):
        raise UnsupportedError("a join has a hint")
    if block.select.args.get("hint") is not None:
        raise UnsupportedError("the query has its own hints")
    if block.has_ambiguous_names:
        raise UnsupportedError("an unqualified name in an ON clause could refer to another relation")
    _check_stars(block)
    if not all(is_deterministic(conjunct.node) for conjunct in chain.conjuncts):
        raise UnsupportedError(NONDETERMINISTIC)
    if ansi and any(len(conjunct.names) > 1 and may_fail(conjunct.node, types) for conjunct in chain.conjuncts):
        raise UnsupportedError(MAY_FAIL)


def _check_stars(block: SelectBlock) -> None:
    """Raise UnsupportedError if the columns of a star, or their order, depend on the order of the joins."""
    has_merged_columns = any(map(merges_columns, block.joins))
    for item in block.select.expressions:
        if isinstance(item, exp.Star) and (has_merged_columns or any(item.args.values())):
            raise UnsupportedError("the columns of the star depend on USING, NATURAL or EXCEPT")
    if any(_is_argument(star, block.select) for star in block.select.find_all(exp.Star)):
        raise UnsupportedError("`*` is an argument, and the order of its columns is that of the joins")


def check_rewrite(query: ParsedQuery, new_sql: str, analyze: Analyze, *, check_casts: bool) -> None:
    """Raise UnsupportedError if a rewritten query must not replace the original.

    `check_casts` also rejects implicit casts in conditions that may fail.
    """
    try:
        original = analyze(query.sql)
        if check_casts and casts_may_fail(original):
            raise UnsupportedError(
                "an implicit cast in a condition may fail on rows that the written order filters out first"
            )
        if _output_columns(analyze(new_sql)) != _output_columns(original):
            raise UnsupportedError(OTHER_COLUMNS)
    except PySparkException as problem:
        raise UnsupportedError(f"Spark rejects the rewritten query: {str(problem).splitlines()[0]}") from problem


def _output_columns(frame: DataFrame) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.json()) for field in frame.schema.fields]


def _is_argument(star: exp.Star, select: exp.Select) -> bool:
    """Return whether a star of this SELECT is an argument of a function other than count."""
    parent = star.parent
    if star.find_ancestor(exp.Select) is not select or isinstance(parent, exp.Count):
        return False
    item = parent if isinstance(parent, exp.Column) else star
    return item.parent is not select


def may_fail(condition: exp.Expr, types: ColumnTypes) -> bool:
    """Return whether a condition does more than compare columns and constants. Implicit casts are not seen here.

    >>> import sqlglot
    >>> [may_fail(sqlglot.condition(sql), ColumnTypes()) for sql in ("a.x < b.y", "a.x / b.y > 1")]
    [False, True]
    """
    return any(not _accepts_all_values(node, types) for node in condition.walk())


def _accepts_all_values(node: exp.Expr, types: ColumnTypes) -> bool:
    if isinstance(node, exp.Add | exp.Sub):
        # Spark's date arithmetic wraps around instead of failing.
        date, days = node.left.unnest(), node.right.unnest()
        return isinstance(date, exp.Column) and types.is_date(date) and isinstance(days, exp.Literal) and days.is_int
    if isinstance(node, exp.Neg):
        # The negation of the smallest integer overflows.
        return isinstance(node.this, exp.Literal)
    if isinstance(node, exp.Like | exp.ILike):
        # A pattern that ends with the escape character is an error.
        return isinstance(node.expression, exp.Literal)
    return isinstance(node, _NEVER_FAIL) or is_typed_literal(node)


def casts_may_fail(frame: DataFrame) -> bool:
    """Return whether a condition of a query has a cast, explicit or implicit, that fails on some values."""
    session = frame.sparkSession
    if not isinstance(session, SparkSession):
        return _explained_casts_may_fail(frame)
    plan = analyzed_plan(frame)
    can_widen = java_class(session, f"{CATALYST}.expressions.Cast").canUpCast
    return any(
        class_name(expression) == "Cast"
        and not expression.child().foldable()
        and not can_widen(expression.child().dataType(), expression.dataType())
        for node in _matching_nodes(plan, java_string(session, plan), _has_unsafe_cast)
        if node.nodeName() in _CONDITION_NODES
        for condition in elements(node.expressions())
        for expression in _matching_nodes(condition, str(condition.treeString()), lambda line: line.startswith("cast("))
    )


def _explained_casts_may_fail(frame: DataFrame) -> bool:
    """Return the same for Spark Connect, from the output of explain(). Every cast that may fail by its text counts."""
    output = io.StringIO()
    with redirect_stdout(output):
        frame.explain(extended=True)
    analyzed_plan = (
        output.getvalue().partition("== Analyzed Logical Plan ==")[2].partition("== Optimized Logical Plan ==")[0]
    )
    return not analyzed_plan or any(_has_unsafe_cast(line.lstrip(" :+-")) for line in analyzed_plan.splitlines())


def _matching_nodes(tree: JavaObject, text: str, matches: Callable[[str], bool]) -> Iterator[JavaObject]:
    """Yield the nodes of a tree, including sub-queries, whose lines in the tree string match."""
    return (tree.apply(number) for number, line in enumerate(tree_lines(tree, text)) if matches(line.text))


def _has_unsafe_cast(line: str) -> bool:
    """Return whether a line of a plan is a condition with a cast that may fail."""
    if not line.startswith(_CONDITION_NODES):
        return False
    before = ""
    while before != line:
        before, line = line, _SAFE_CAST.sub("0", line)
    return "cast(" in line
