"""SQL queries as syntax trees, and the tables that they name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.errors import BadSpecError
from pushdown_spark.optimizer.plans.sql_dialect import parse_sql, to_sql
from pushdown_spark.projection.paths import quote_name

_SAMPLE_SEED = re.compile(r"\s*REPEATABLE\s*\(\s*-?\d+\s*\)", re.IGNORECASE)
"""What may follow the size of a TABLESAMPLE clause."""


class UnreadableQueryError(BadSpecError):
    """sqlglot cannot read a query. Spark may still accept it."""


def as_spec_error(problem: UnreadableQueryError | RecursionError) -> BadSpecError:
    """Return the error to raise when neither sqlglot nor Spark accepts a query."""
    if isinstance(problem, RecursionError):
        return BadSpecError("query: its expressions are nested too deeply to be planned; split the query")
    return BadSpecError(str(problem))


@dataclass(frozen=True)
class ParsedQuery:
    """SQL text and its syntax tree."""

    sql: str
    tree: exp.Query

    @classmethod
    def of(cls, sql: str) -> ParsedQuery:
        """Parse SQL text. Raises UnreadableQueryError if it is not a query."""
        return cls(sql, parse_query(sql))

    @cached_property
    def generated_sql(self) -> str:
        """The syntax tree, written as SQL without any change."""
        return to_sql(self.tree)


def parse_query(sql: str) -> exp.Query:
    """Parse one SELECT statement, with or without set operations.

    Sub-queries in FROM without an alias get one, so that columns and stars can be qualified with it.
    Raises UnreadableQueryError for any other text.
    """
    try:
        tree = parse_sql(sql)
    except SqlglotError as problem:
        raise UnreadableQueryError(f"query: {str(problem).splitlines()[0]}") from problem
    if not isinstance(tree, exp.Query):
        raise UnreadableQueryError("query: only SELECT statements are supported")
    _add_subquery_aliases(tree)
    return tree


def _add_subquery_aliases(tree: exp.Expr) -> None:
    used_names = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    free = (name for number in count(1) if (name := f"sub-query {number}") not in used_names)
    for node in tree.find_all(exp.Subquery):
        is_relation = isinstance(node.parent, exp.From | exp.Join) and node.arg_key == "this"
        if is_relation and not node.alias and _holds_query(node):
            node.set("alias", exp.TableAlias(this=exp.to_identifier(next(free), quoted=True)))


def _holds_query(node: exp.Subquery) -> bool:
    """Return whether parentheses enclose a query, as opposed to joins of relations."""
    inner = node.this
    while isinstance(inner, exp.Subquery) and not inner.alias and not inner.args.get("joins"):
        inner = inner.this
    return isinstance(inner, exp.Select | exp.SetOperation)


def named_tables(tree: exp.Expr) -> list[exp.Table]:
    """Return the references to tables by name, without those to common table expressions.

    Names in hints do not count: they refer to relations of the query.

    >>> tree = parse_query("WITH c AS (SELECT * FROM a) SELECT /*+ BROADCAST(c) */ * FROM c JOIN db.b USING (k)")
    >>> sorted(table.sql() for table in named_tables(tree))
    ['a', 'db.b']
    """
    return [
        table
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
        and table.find_ancestor(exp.Hint) is None
        and referenced_cte(table) is None
    ]


def referenced_cte(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression (CTE) that a table reference names, or None for a table.

    A CTE cannot refer to itself (unless it is recursive) or to later ones.
    """
    if table.args.get("db") is not None:
        return None
    below: exp.Expr = table
    above = table.parent
    while above is not None:
        clause = above.args.get("with_")
        if clause is not None:
            for cte in reversed(_visible_ctes(clause, below)):
                if cte.alias.lower() == table.name.lower():
                    return cte
        if not isinstance(above, exp.With):
            below = above
        above = above.parent
    return None


def _visible_ctes(clause: exp.With, node: exp.Expr) -> list[exp.CTE]:
    """Return the CTEs of a WITH clause that are visible inside a node: all, or those before it if it is one of them."""
    ctes = list(clause.expressions)
    for position, cte in enumerate(ctes):
        if cte is node:
            return ctes[: position + bool(clause.args.get("recursive"))]
    return ctes


def replace_table_names(sql: str, tables: Mapping[int, exp.Table], new_name: Callable[[int], str]) -> str:
    """Return the SQL text with table names replaced and every other character unchanged.

    A table without an alias gets its old name as alias. Raises UnreadableQueryError if the position of a name in the
    text is unknown.
    """
    edits = []
    for number, table in tables.items():
        spans = [_name_span(sql, part) for part in table.parts]
        (start, _), (last_start, end) = spans[0], spans[-1]
        edits.append((start, end, last_start, new_name(number), _alias_position(sql, table, end)))
    for start, end, last_start, name, alias_position in sorted(edits, reverse=True):
        if alias_position is not None:
            sql = f"{sql[:alias_position]} AS {sql[last_start:end]}{sql[alias_position:]}"
        sql = sql[:start] + quote_name(name) + sql[end:]
    return sql


def _name_span(sql: str, part: exp.Expr) -> tuple[int, int]:
    """Return where a part of a table's name starts and ends in the text."""
    start, end = part.meta.get("start"), part.meta.get("end")
    if start is None or end is None or sql[start : end + 1].strip("`") != part.name.replace("`", "``"):
        raise UnreadableQueryError(f"query: cannot find the table name {part.name!r} in the text; write it plainly")
    return start, end + 1


def _alias_position(sql: str, table: exp.Table, end: int) -> int | None:
    """Return where an alias belongs: after the name or the TABLESAMPLE clause, or None if the table has an alias."""
    if table.alias:
        return None
    if table.args.get("sample") is None:
        return end
    depth = 0
    for position in range(end, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[position], 0)
        if sql[position] == ")" and depth == 0:
            seed = _SAMPLE_SEED.match(sql, position + 1)
            return position + 1 if seed is None else seed.end()
    return end
