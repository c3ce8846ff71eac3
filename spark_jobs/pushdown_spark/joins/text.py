"""Reads queries in Spark's dialect so that they can be written again as they were, and swaps their table names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.errors import BadSpecError
from pushdown_spark.joins.kept import KeptSpark, read
from pushdown_spark.projection.paths import quote_name

_SEED = re.compile(r"\s*REPEATABLE\s*\(\s*-?\d+\s*\)", re.IGNORECASE)
"""What may follow the size of a sample."""


class UnreadError(BadSpecError):
    """A text is no query to us; Spark may take it for one."""


def refusal(problem: UnreadError | RecursionError) -> BadSpecError:
    """What to say of a query that we cannot read where Spark cannot take it either."""
    if isinstance(problem, RecursionError):
        return BadSpecError("query: its expressions lie too deep in each other to be planned")
    return BadSpecError(str(problem))


@dataclass(frozen=True)
class ReadQuery:
    """A query's text, and the tree that it was read as."""

    text: str
    tree: exp.Query

    @classmethod
    def of(cls, text: str) -> ReadQuery:
        """Raises UnreadError where the text is no query."""
        return cls(text, parsed(text))

    @cached_property
    def again(self) -> str:
        """The tree as text."""
        return written(self.tree)


def parsed(sql: str) -> exp.Query:
    """The query's tree. Raises UnreadError where the text is not one SELECT, with or without set operations.

    Sub-queries in FROM that have no name get one, so that stars and columns can be told by it.
    """
    try:
        tree = read(sql)
    except SqlglotError as problem:
        raise UnreadError(f"query: {str(problem).splitlines()[0]}") from problem
    if not isinstance(tree, exp.Query):
        raise UnreadError("query: only SELECT is possible")
    _name_subqueries(tree)
    return tree


def _name_subqueries(tree: exp.Expr) -> None:
    taken = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    free = (name for number in count(1) if (name := f"sub-query {number}") not in taken)
    for node in tree.find_all(exp.Subquery):
        is_relation = isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this"
        if is_relation and not node.alias and _is_query(node):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(next(free), quoted=True)))


def _is_query(node: exp.Subquery) -> bool:
    """Whether parentheses hold a query, and not joins of relations, the first of which may be a query with a name."""
    inner = node.this
    while isinstance(inner, exp.Subquery) and not inner.alias and not inner.args.get("joins"):
        inner = inner.this
    return isinstance(inner, exp.Select | exp.SetOperation)


def written(tree: exp.Expr) -> str:
    """A tree as Spark SQL."""
    return str(tree.sql(dialect=KeptSpark))


def named_tables(tree: exp.Expr) -> list[exp.Table]:
    """References to tables by a plain or dotted name which no common table expression of the query explains.

    Names in hints are none: they stand for relations of the query.
    """
    return [
        table
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
        and table.find_ancestor(exp.Hint) is None
        and expression_of(table) is None
    ]


def expression_of(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a reference names, None for a table; one does not see itself or later ones."""
    if table.args.get("db") is not None:
        return None
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        clause = above.args.get("with_")
        if clause is not None:
            found = _visible(clause, below, table.name)
            if found is not None:
                return found
        if not isinstance(above, exp.With):
            below = above
        above = above.parent
    return None


def _visible(clause: exp.With, below: exp.Expr, name: str) -> exp.CTE | None:
    for each in reversed(_before(clause, below)):
        if each.alias.lower() == name.lower():
            return each
    return None


def _before(clause: exp.With, below: exp.Expr) -> list[exp.CTE]:
    """The expressions of a clause that are seen from a node below its query: inside one of them, those before it."""
    listed = list(clause.expressions)
    for place, each in enumerate(listed):
        if each is below:
            return listed[: place + bool(clause.args.get("recursive"))]
    return listed


def swapped(sql: str, tables: Mapping[int, exp.Table], name_of: Callable[[int], str]) -> str:
    """The text with table names replaced, every other character as it was; a table without alias keeps its name as one.

    Raises UnreadError where a name cannot be found in the text.
    """
    edits = []
    for number, table in tables.items():
        spans = [_span(sql, part) for part in table.parts]
        (start, _), (last, end) = spans[0], spans[-1]
        edits.append((start, end, last, name_of(number), _alias_place(sql, table, end)))
    for start, end, last, name, place in sorted(edits, reverse=True):
        if place is not None:
            sql = f"{sql[:place]} AS {sql[last:end]}{sql[place:]}"
        sql = sql[:start] + quote_name(name) + sql[end:]
    return sql


def _span(sql: str, part: exp.Expr) -> tuple[int, int]:
    """Where a part of a table's name begins and ends in the text."""
    start, end = part.meta.get("start"), part.meta.get("end")
    if start is None or end is None or sql[start : end + 1].strip("`") != part.name.replace("`", "``"):
        raise UnreadError(f"query: the name {part.name!r} is not where it seems to be; write it plainly")
    return start, end + 1


def _alias_place(sql: str, table: exp.Table, end: int) -> int | None:
    """Where an alias goes, None where there is one: behind the name, or behind the sample taken of it."""
    if table.alias:
        return None
    if table.args.get("sample") is None:
        return end
    depth = 0
    for place in range(end, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[place], 0)
        if sql[place] == ")" and depth == 0:
            seed = _SEED.match(sql, place + 1)
            return place + 1 if seed is None else seed.end()
    return end
