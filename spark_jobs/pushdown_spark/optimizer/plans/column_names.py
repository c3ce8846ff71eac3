"""The column names of the tables, sub-queries and common table expressions of a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from pushdown_spark.optimizer.plans.sql_reader import referenced_cte

_MAX_NESTING = 20
"""Maximum nesting of sub-queries whose column names are resolved."""


class ColumnNameResolver:
    """Column names of the tables, sub-queries and common table expressions of a query.

    All names are in lower case. None stands for names that the text and the table schemas do not determine.
    """

    def __init__(self, tables: Mapping[str, frozenset[str]]) -> None:
        """Create a resolver. `tables` holds the columns of the tables by the names that the query uses."""
        self._tables = tables

    def columns_of(self, relation: exp.Expr) -> frozenset[str] | None:
        """Return the columns of a relation in a FROM clause."""
        return self._relation(relation, 0)

    def _relation(self, relation: exp.Expr, depth: int) -> frozenset[str] | None:
        alias = relation.args.get("alias")
        if isinstance(alias, exp.TableAlias) and alias.columns:
            return frozenset(column.name.lower() for column in alias.columns)
        if isinstance(relation, exp.Subquery):
            return self._query(relation.this, depth + 1)
        if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
            return None
        cte = referenced_cte(relation)
        if cte is None:
            return self._tables.get(relation.name)
        if cte.args["alias"].columns:
            return frozenset(column.name.lower() for column in cte.args["alias"].columns)
        return self._query(cte.this, depth + 1)

    def _query(self, query: exp.Expr, depth: int) -> frozenset[str] | None:
        if depth > _MAX_NESTING:
            return None
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        return _union(self._item(item, query, depth) for item in query.expressions)

    def _item(self, item: exp.Expr, select: exp.Select, depth: int) -> frozenset[str] | None:
        """Return the names that one item of a SELECT list produces."""
        if isinstance(item, exp.Star):
            return self._star(select, depth) if not any(item.args.values()) else None
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            return self._star(select, depth, item.table.lower()) if not any(item.this.args.values()) else None
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
        return frozenset({name.lower()}) if name else None

    def _star(self, select: exp.Select, depth: int, only: str | None = None) -> frozenset[str] | None:
        source = select.args.get("from_")
        if source is None or select.args.get("laterals") or select.args.get("pivots"):
            return None
        relations = [source.this, *(join.this for join in select.args.get("joins") or ())]
        if only is not None:
            relations = [relation for relation in relations if relation.alias_or_name.lower() == only]
        names = _union(self._relation(node, depth) if node.alias_or_name else None for node in relations)
        return names or None


def _union(groups: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    names: set[str] = set()
    for group in groups:
        if group is None:
            return None
        names |= group
    return frozenset(names)
