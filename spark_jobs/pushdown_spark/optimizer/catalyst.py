"""Access to Spark's Catalyst: tree nodes, the SQL parser, session variables and plan equivalence."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.session_settings import session_name_rule
from pushdown_spark.runtime.jvm_gateway import elements, has_class, java_class, scala_map, scala_object, scala_seq
from pushdown_spark.runtime.spark_internals import analyzed_plan, plan_dataframe, session_state, sql_parser

CATALYST = "org.apache.spark.sql.catalyst"
LOGICAL = f"{CATALYST}.plans.logical"

_INDENT = re.compile(r"(?:[ :]  )*(?:[:+]- )?")
_INDENT_WIDTH = 3
_MAX_FIELDS = 25
"""Maximum number of columns that Spark prints for a node."""
_UNNAMED_RELATIONS = frozenset({"PlanWithUnresolvedIdentifier", "RelationTimeTravel"})
"""Nodes that read a relation whose name the parsed plan does not show."""

Analyze = Callable[[str], DataFrame]
"""Has Spark analyze SQL text."""

NameParts = tuple[str, ...]


@dataclass(frozen=True)
class TreeLine:
    """A node of a Catalyst tree as its tree string shows it.

    Children are one level deeper than their parent, the plans of sub-queries two levels.
    """

    depth: int
    text: str


def tree_lines(tree: JavaObject, text: str) -> list[TreeLine]:
    """Return the nodes of a tree by their numbers. `text` is its `treeString`.

    Spark numbers nodes by the lines of that string (`tree.apply(number)`). Parsing the string is faster than asking
    each node. If a constant adds line breaks, each node is asked.
    """
    lines = text.removesuffix("\n").split("\n")
    if tree.apply(len(lines) - 1) is None:
        return list(_walk(tree, 0))
    return [_tree_line(line) for line in lines]


def child_numbers(lines: list[TreeLine]) -> list[list[int]]:
    """Return the numbers of the children of each node."""
    return _descendants(lines, 1)


def subquery_numbers(lines: list[TreeLine]) -> list[list[int]]:
    """Return for each node the numbers of the plans of the sub-queries in its expressions, in their order."""
    return _descendants(lines, 2)


def _descendants(lines: list[TreeLine], levels: int) -> list[list[int]]:
    """Return for each node the numbers of the nodes this many levels deeper that have no other node in between."""
    descendants: list[list[int]] = [[] for _ in lines]
    ancestors: list[int] = []
    for number, line in enumerate(lines):
        while ancestors and lines[ancestors[-1]].depth >= line.depth:
            ancestors.pop()
        if ancestors and lines[ancestors[-1]].depth == line.depth - levels:
            descendants[ancestors[-1]].append(number)
        ancestors.append(number)
    return descendants


def _tree_line(text: str) -> TreeLine:
    indent = _INDENT.match(text)
    length = 0 if indent is None else indent.end()
    return TreeLine(length // _INDENT_WIDTH, text[length:])


def _walk(tree: JavaObject, depth: int) -> Iterator[TreeLine]:
    yield TreeLine(depth, str(tree.simpleString(_MAX_FIELDS)))
    for query in elements(tree.innerChildren()):
        yield from _walk(query, depth + 2)
    for child in elements(tree.children()):
        yield from _walk(child, depth + 1)


def is_same_query(left: DataFrame, right: DataFrame) -> bool:
    """Return whether Spark considers two DataFrames the same query."""
    if left.sameSemantics(right):
        return True
    session = left.sparkSession
    if not isinstance(session, SparkSession) or "CTERelation" not in str(analyzed_plan(left)):
        return False
    # Each analysis gives common table expressions new ids. Without this class (Spark 4.0), plans cannot be compared.
    normalizer_name = f"{CATALYST}.normalizer.NormalizeCTEIds"
    if not has_class(session, normalizer_name):
        return False
    normalizer = java_class(session, normalizer_name)
    plans = [normalizer.apply(analyzed_plan(frame)) for frame in (left, right)]
    return bool(plans[0].sameResult(plans[1]))


def has_same_parse(spark: SparkSession, left: str, right: str) -> bool:
    """Return whether Spark parses two queries to the same plan. That takes a third of the time of an analysis."""
    normalizer_name = f"{CATALYST}.plans.NormalizePlan"
    if not has_class(spark, normalizer_name):
        return False
    # Each parse gives aliases new ids.
    normalizer, parser = java_class(spark, normalizer_name), sql_parser(spark)
    plans = [normalizer.normalizeExprIds(parser.parseQuery(sql)) for sql in (left, right)]
    return bool(plans[0].equals(plans[1]))


def is_lossless(original_sql: str, new_sql: str, analyze: Analyze) -> bool:
    """Return whether Spark reads the SQL that sqlglot wrote as the same query as the original SQL."""
    original = analyze(original_sql)
    session = original.sparkSession
    try:
        if isinstance(session, SparkSession) and has_same_parse(session, original_sql, new_sql):
            return True
        return is_same_query(original, analyze(new_sql))
    except PySparkException:
        return False


def is_query(spark: SparkSession, sql: str) -> bool:
    """Return whether Spark parses SQL text as a query, as opposed to a command."""
    return _parsed_query(spark, sql) is not None


def relation_names_in(spark: SparkSession, sql: str, *, name_rule: NameRule) -> tuple[NameParts, ...] | None:
    """Return the names of the relations that SQL text reads, without common table expressions.

    The order is arbitrary. Return None if the text is not a query, or if it reads a relation without naming it.
    """
    plan = _parsed_query(spark, sql)
    if plan is None:
        return None
    names: dict[NameParts, None] = {}
    for node, kind, ctes in _parsed_nodes(plan, name_rule):
        if kind in _UNNAMED_RELATIONS:
            return None
        if kind == "UnresolvedRelation":
            name = tuple(str(part) for part in elements(node.multipartIdentifier()))
            if len(name) > 1 or name_rule.key(name[0]) not in ctes:
                names[name] = None
    return tuple(names)


def query_with_metadata(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Return SQL over DataFrames of files, by their names, with Spark's column `_metadata`, which views do not have.

    The plan of a DataFrame replaces each relation of its name. Raises Spark's errors of a wrong query.
    """
    name_rule = session_name_rule(spark)
    plans = {name_rule.key(name): analyzed_plan(frame) for name, frame in frames.items()}
    # Common table expressions take precedence over relations of the same name, so Spark finds them first.
    query = scala_object(spark, f"{CATALYST}.analysis.CTESubstitution").apply(sql_parser(spark).parseQuery(sql))
    alias = scala_object(spark, f"{LOGICAL}.SubqueryAlias")
    bound = {}
    for node, kind, _ in _parsed_nodes(query, name_rule):
        if kind == "UnresolvedRelation":
            parts = node.multipartIdentifier()
            plan = plans.get(name_rule.key(".".join(map(str, elements(parts)))))
            if plan is not None:
                bound[node] = alias.apply(parts, plan)
    return plan_dataframe(spark, query.transformUpWithSubqueries(scala_map(spark, bound)))


def _parsed_query(spark: SparkSession, sql: str) -> JavaObject | None:
    try:
        return sql_parser(spark).parseQuery(sql)
    except ParseException:
        return None


def _parsed_nodes(plan: JavaObject, name_rule: NameRule) -> Iterator[tuple[JavaObject, str, frozenset[str]]]:
    """Yield the nodes of a plan and its sub-queries, their kinds, and the common table expressions in scope."""
    pending = [(plan, frozenset[str]())]
    while pending:
        node, ctes = pending.pop()
        kind = str(node.nodeName())
        yield node, kind, ctes
        if kind == "UnresolvedWith":
            for cte in elements(node.cteRelations()):
                name = name_rule.key(str(cte._1()))
                pending.append((cte._2(), ctes | {name} if node.allowRecursion() else ctes))
                ctes |= {name}
        else:
            pending += [(query, ctes) for query in elements(node.innerChildren())]
        pending += [(child, ctes) for child in elements(node.children())]


class SessionVariables:
    """The variables of a session (`DECLARE VARIABLE`). An unqualified name that is not a column may refer to one."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._variables = session_state(spark).catalogManager().tempVariableManager()
        self._is_empty = bool(self._variables.isEmpty())

    def has(self, name: str) -> bool:
        """Return whether the session has a variable of this name."""
        if self._is_empty:
            return False
        key = scala_seq(self._spark, [session_name_rule(self._spark).key(name)])
        return bool(self._variables.get(key).isDefined())
