"""What Spark's own parser finds in a text: whether it is a query, and the relations that it reads by name."""

from __future__ import annotations

from collections.abc import Iterator

from py4j.java_gateway import JavaObject
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from pushdown_spark.runtime.jvm_gateway import elements

_UNTOLD = frozenset({"PlanWithUnresolvedIdentifier", "RelationTimeTravel"})
"""What reads a relation without telling its name."""

Name = tuple[str, ...]
"""A name in its parts."""


def relations_of(spark: SparkSession, sql: str, *, case_sensitive: bool) -> tuple[Name, ...] | None:
    """The names of the relations that a text reads and that no common table expression explains, in no order.

    None where Spark takes the text for no query, or some relation is not told by name.
    """
    plan = _query(spark, sql)
    if plan is None:
        return None
    found: dict[Name, None] = {}
    for node, kind, hidden in _nodes(plan, case_sensitive):
        if kind in _UNTOLD:
            return None
        if kind == "UnresolvedRelation":
            name = tuple(str(part) for part in elements(node.multipartIdentifier()))
            if len(name) > 1 or _key(name[0], case_sensitive) not in hidden:
                found[name] = None
    return tuple(found)


def is_query(spark: SparkSession, sql: str) -> bool:
    """Whether Spark takes a text for a query, and for no command."""
    return _query(spark, sql) is not None


def _query(spark: SparkSession, sql: str) -> JavaObject | None:
    try:
        return spark._jsparkSession.sessionState().sqlParser().parseQuery(sql)
    except ParseException:
        return None


def _nodes(plan: JavaObject, case_sensitive: bool) -> Iterator[tuple[JavaObject, str, frozenset[str]]]:
    """The nodes of a plan and of the queries in its expressions, with the common table expressions that each sees."""
    pending = [(plan, frozenset[str]())]
    while pending:
        node, hidden = pending.pop()
        kind = str(node.nodeName())
        yield node, kind, hidden
        if kind == "UnresolvedWith":
            for each in elements(node.cteRelations()):
                name = _key(str(each._1()), case_sensitive)
                pending.append((each._2(), hidden | {name} if node.allowRecursion() else hidden))
                hidden |= {name}
        else:
            pending += [(query, hidden) for query in elements(node.innerChildren())]
        pending += [(child, hidden) for child in elements(node.children())]


def _key(name: str, case_sensitive: bool) -> str:
    return name if case_sensitive else name.lower()
