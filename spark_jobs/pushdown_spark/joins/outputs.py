"""Names of the columns that tables, sub-queries and common table expressions of a query have."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from pushdown_spark.joins.text import expression_of

_DEEPEST = 20


class OutputNames:
    """Lower-case column names; None where they cannot be told from the text and the sources' schemas."""

    def __init__(self, sources: Mapping[str, frozenset[str]]) -> None:
        """`sources` holds the columns of the tables that the text refers to, by the names it has for them."""
        self._sources = sources

    def of(self, relation: exp.Expr) -> frozenset[str] | None:
        """The columns of a relation in a FROM clause."""
        return self._relation(relation, 0)

    def _relation(self, relation: exp.Expr, depth: int) -> frozenset[str] | None:
        renamed = relation.args.get("alias")
        if isinstance(renamed, exp.TableAlias) and renamed.columns:
            return frozenset(column.name.lower() for column in renamed.columns)
        if isinstance(relation, exp.Subquery):
            return self._query(relation.this, depth + 1)
        if not isinstance(relation, exp.Table) or not isinstance(relation.this, exp.Identifier):
            return None
        expression = expression_of(relation)
        if expression is None:
            return self._sources.get(relation.name)
        if expression.args["alias"].columns:
            return frozenset(column.name.lower() for column in expression.args["alias"].columns)
        return self._query(expression.this, depth + 1)

    def _query(self, query: exp.Expr, depth: int) -> frozenset[str] | None:
        if depth > _DEEPEST:
            return None
        while isinstance(query, exp.SetOperation | exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return None
        names: set[str] = set()
        for item in query.expressions:
            found = self._item(item, query, depth)
            if found is None:
                return None
            names |= found
        return frozenset(names)

    def _item(self, item: exp.Expr, select: exp.Select, depth: int) -> frozenset[str] | None:
        """The names that one item of a SELECT list gives."""
        if isinstance(item, exp.Star):
            return self._everything(select, depth) if not any(item.args.values()) else None
        if isinstance(item, exp.Column) and isinstance(item.this, exp.Star):
            return self._everything(select, depth, item.table.lower()) if not any(item.this.args.values()) else None
        name = item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else ""
        return frozenset({name.lower()}) if name else None

    def _everything(self, select: exp.Select, depth: int, only: str | None = None) -> frozenset[str] | None:
        source = select.args.get("from_")
        if source is None or select.args.get("laterals") or select.args.get("pivots"):
            return None
        names: set[str] = set()
        for relation in (source.this, *(join.this for join in select.args.get("joins") or ())):
            if only is not None and relation.alias_or_name.lower() != only:
                continue
            found = self._relation(relation, depth) if relation.alias_or_name else None
            if found is None:
                return None
            names |= found
        return frozenset(names) if names else None
