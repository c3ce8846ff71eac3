"""Prune columns: which columns of each source a query may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from pushdown_spark.expressions.names import NameRule
from pushdown_spark.expressions.session_settings import hides_names
from pushdown_spark.optimizer.catalyst import SessionVariables
from pushdown_spark.optimizer.query_context import QueryContext, QueryPlan, RequiredColumns
from pushdown_spark.projection.implicit_columns import BUILT_IN, ImplicitCatalog, defined_names
from pushdown_spark.projection.required_columns import words_outside_names


def prune_columns(context: QueryContext, plan: QueryPlan) -> QueryPlan:
    """Return the plan with the columns that each source reference of a query has to read."""
    tree, sql = context.query.tree, context.sql
    pruner = ColumnPruner(
        tree,
        SessionVariables(context.spark).has,
        name_rule=context.name_rule,
        uses_unnamed_columns=hides_names(context.spark, sql),
        words=words_outside_names(sql, tree),
    )
    required = {}
    for reference in context.references:
        names = reference.relation.schema.fieldNames()
        implicit: tuple[str, ...] = ()
        if reference.is_of_files:
            catalog = reference.relation.source.implicit_catalog
            implicit = pruner.implicit_columns(reference.table, names, context.columns_by_view, catalog)
        required[reference.view] = RequiredColumns(pruner.columns(reference.table, names), implicit)
    return replace(plan, required=required)


class ColumnPruner:
    """Columns that a query mentions. Every name that could refer to a column counts.

    >>> from pushdown_spark.expressions.names import ANY_CASE, NameRule
    >>> from pushdown_spark.optimizer.plans.sql_reader import named_tables, parse_query
    >>> tree = parse_query("SELECT a.x, count(*) FROM a JOIN b ON a.k = b.k WHERE y > 1 GROUP BY a.x")
    >>> pruner = ColumnPruner(tree, name_rule=ANY_CASE)
    >>> [pruner.columns(table, ["k", "x", "y", "z"]) for table in named_tables(tree)]
    [('k', 'x', 'y'), ('k', 'y')]
    """

    def __init__(
        self,
        tree: exp.Expr,
        is_variable: Callable[[str], bool] = lambda _: False,
        *,
        name_rule: NameRule,
        uses_unnamed_columns: bool = False,
        words: Iterable[str] = (),
    ) -> None:
        """Collect the names of a query.

        `is_variable` recognizes session variables. `uses_unnamed_columns` means that the query may use columns that it
        does not name. `words` are words of the text that may be names as well.
        """
        self._is_variable = is_variable
        self._uses_unnamed_columns = uses_unnamed_columns
        # The alias of joins in parentheses stands for all relations in them.
        relations = tree.find_all(exp.Table, exp.Subquery, exp.CTE)
        aliases = [relation.alias_or_name for relation in relations if not isinstance(relation.this, exp.Table)]
        self._name_rule = name_rule
        self._aliases = {alias.lower() for alias in aliases}
        self._has_natural_join = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        self._has_pivot = tree.find(exp.Pivot) is not None
        self._stars = tuple(tree.find_all(exp.Star))
        self._paths = [
            tuple(part.name for part in column.parts if isinstance(part, exp.Identifier))
            for column in tree.find_all(exp.Column)
        ]
        self._paths += [(name.name,) for join in tree.find_all(exp.Join) for name in join.args.get("using") or ()]
        self._members = {dot.expression.name for dot in tree.find_all(exp.Dot)}
        self._words = frozenset(words)
        self._given_names = defined_names(tree) | {alias.alias.lower() for alias in tree.find_all(exp.Alias)}

    def columns(self, table: exp.Table, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of a table that the query may use."""
        keys = {name: self._name_rule.key(name) for name in names}
        if self._uses_all_columns(table):
            return tuple(keys)
        own_name, own_keys = table.alias_or_name.lower(), frozenset(keys.values())
        mentioned_keys = {part for path in self._paths for part in self._column_keys(path, own_name, own_keys)}
        mentioned_keys |= set(map(self._name_rule.key, self._members))
        return tuple(name for name, key in keys.items() if key in mentioned_keys or name.lower() in self._words)

    def implicit_columns(
        self,
        table: exp.Table,
        names: Iterable[str],
        columns_of_tables: Mapping[str, frozenset[str]],
        catalog: ImplicitCatalog = BUILT_IN,
    ) -> tuple[str, ...]:
        """Return the implicit columns that the query uses of a table.

        An unqualified name counts only if it is neither a column of any table nor an alias nor a session variable.
        """
        if table.alias_column_names:
            return ()
        own_name, own_columns = table.alias_or_name.lower(), {name.lower() for name in names}
        other_names = frozenset[str]().union(*columns_of_tables.values()) | self._given_names
        used_names = set()
        for path in self._paths:
            is_qualified = len(path) > 1 and path[0].lower() == own_name
            column = catalog.find(path[1] if is_qualified else path[0])
            name = "" if column is None else column.name.lower()
            if column is None or name in own_columns:
                continue
            is_free = len(path) == 1 and name not in other_names and not self._is_variable(path[0])
            if is_qualified or is_free:
                used_names.add(column.name)
        return tuple(sorted(used_names))

    def _uses_all_columns(self, table: exp.Table) -> bool:
        if self._has_natural_join or self._has_pivot or self._uses_unnamed_columns or table.alias_column_names:
            return True
        return any(self._star_includes(star, table) for star in self._stars)

    def _star_includes(self, star: exp.Star, table: exp.Table) -> bool:
        parent = star.parent
        if isinstance(parent, exp.Count):
            return False
        if isinstance(parent, exp.Column):
            return parent.table.lower() == table.alias_or_name.lower() or parent.table.lower() not in self._aliases
        select = star.find_ancestor(exp.Select)
        return select is None or table.find_ancestor(exp.Select) is select

    def _column_keys(self, path: tuple[str, ...], own_name: str, own_keys: frozenset[str]) -> Iterator[str]:
        """Yield the parts of a path that may be columns of a table, whose name and columns are given."""
        first = path[0]
        is_other_relation = first.lower() in self._aliases and first.lower() != own_name
        if len(path) > 1 and is_other_relation and self._name_rule.key(first) not in own_keys:
            return
        yield from map(self._name_rule.key, path)
