"""Prune columns: which columns of each source a query may use, and which columns leave each join."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from pushdown_spark.expressions.names import name_key
from pushdown_spark.expressions.session_settings import hides_names
from pushdown_spark.optimizer.catalyst import SessionVariables
from pushdown_spark.optimizer.join_order.equalities import ClassMember
from pushdown_spark.optimizer.logical_plan import JoinChain, RelationLeaf, owner
from pushdown_spark.optimizer.query_context import QueryContext, RequiredColumns
from pushdown_spark.optimizer.select_block import SelectBlock, merges_columns
from pushdown_spark.projection.metadata_columns import BUILT_IN, ImplicitCatalog, defined_names
from pushdown_spark.projection.required_columns import words_outside_names


def prune_columns(context: QueryContext) -> None:
    """Set the columns that each source reference of a query has to read."""
    tree, sql = context.query.tree, context.sql
    pruner = ColumnPruner(
        tree,
        SessionVariables(context.spark).has,
        case_sensitive=context.case_sensitive,
        uses_unnamed_columns=hides_names(context.spark, sql),
        words=words_outside_names(sql, tree),
    )
    for reference in context.references:
        names = reference.relation.schema.fieldNames()
        metadata: tuple[str, ...] = ()
        if reference.is_of_files:
            catalog = reference.relation.source.catalog
            metadata = pruner.metadata_columns(reference.table, names, context.columns_by_view, catalog)
        context.required[reference.view] = RequiredColumns(pruner.columns(reference.table, names), metadata)


class ColumnPruner:
    """Columns that a query mentions. Every name that could refer to a column counts.

    >>> from pushdown_spark.optimizer.sql_reader import named_tables, parse_query
    >>> tree = parse_query("SELECT a.x, count(*) FROM a JOIN b ON a.k = b.k WHERE y > 1 GROUP BY a.x")
    >>> pruner = ColumnPruner(tree, case_sensitive=False)
    >>> [pruner.columns(table, ["k", "x", "y", "z"]) for table in named_tables(tree)]
    [('k', 'x', 'y'), ('k', 'y')]
    """

    def __init__(
        self,
        tree: exp.Expr,
        is_variable: Callable[[str], bool] = lambda _: False,
        *,
        case_sensitive: bool,
        uses_unnamed_columns: bool = False,
        words: Iterable[str] = (),
    ) -> None:
        """Collect the names of a query.

        `is_variable` recognizes session variables. `uses_unnamed_columns` means that the query may use columns that it
        does not name. `words` are words of the text that may be names as well.
        """
        self._tree = tree
        self._is_variable = is_variable
        self._uses_unnamed_columns = uses_unnamed_columns
        # The alias of joins in parentheses stands for all relations in them.
        relations = tree.find_all(exp.Table, exp.Subquery, exp.CTE)
        aliases = [each.alias_or_name for each in relations if not isinstance(each.this, exp.Table)]
        self._case_sensitive = case_sensitive
        self._aliases = {alias.lower() for alias in aliases}
        self._has_natural_join = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        self._has_pivot = tree.find(exp.Pivot) is not None
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
        keys = {name: self._key(name) for name in names}
        if self._uses_all_columns(table):
            return tuple(keys)
        own_name, own_keys = table.alias_or_name.lower(), frozenset(keys.values())
        mentioned = {part for path in self._paths for part in self._column_keys(path, own_name, own_keys)}
        mentioned |= set(map(self._key, self._members))
        return tuple(name for name, key in keys.items() if key in mentioned or name.lower() in self._words)

    def metadata_columns(
        self,
        table: exp.Table,
        names: Iterable[str],
        columns_of_tables: Mapping[str, frozenset[str]],
        catalog: ImplicitCatalog = BUILT_IN,
    ) -> tuple[str, ...]:
        """Return the file metadata columns that the query uses of a table.

        An unqualified name counts only if it is neither a column of any table nor an alias nor a session variable.
        """
        if table.alias_column_names:
            return ()
        own_name, own_columns = table.alias_or_name.lower(), {name.lower() for name in names}
        other_names = frozenset[str]().union(*columns_of_tables.values()) | self._given_names
        used = set()
        for path in self._paths:
            is_qualified = len(path) > 1 and path[0].lower() == own_name
            column = catalog.find(path[1] if is_qualified else path[0])
            name = "" if column is None else column.name.lower()
            if column is None or name in own_columns:
                continue
            is_free = len(path) == 1 and name not in other_names and not self._is_variable(path[0])
            if is_qualified or is_free:
                used.add(column.name)
        return tuple(sorted(used))

    def _uses_all_columns(self, table: exp.Table) -> bool:
        if self._has_natural_join or self._has_pivot or self._uses_unnamed_columns or table.alias_column_names:
            return True
        return any(self._star_includes(star, table) for star in self._tree.find_all(exp.Star))

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
        if len(path) > 1 and is_other_relation and self._key(first) not in own_keys:
            return
        yield from map(self._key, path)

    def _key(self, name: str) -> str:
        return name_key(name, case_sensitive=self._case_sensitive)


class RequiredOutputColumns:
    """The columns that leave the joins of a chain. Spark drops the columns that nothing above a join needs."""

    def __init__(self, block: SelectBlock, chain: JoinChain, classes: Iterable[Sequence[ClassMember]]) -> None:
        """Collect the columns of a block. `classes` are equal columns, any of which may become a join key."""
        self._names = [item.plan.name if isinstance(item.plan, RelationLeaf) else None for item in chain.items]
        self._masks = {name: 1 << number for number, name in enumerate(self._names) if name is not None}
        conditions = [conjunct for conjunct in chain.conjuncts if conjunct.is_joinable]
        # Columns are needed above a join while a relation of the condition or class is not part of it.
        self._needed_by = [(self._mask(each.names), _referenced_columns(block, each.node)) for each in conditions]
        self._needed_by += [
            (sum({1 << member.relation for member in group}), {member.key for member in group}) for group in classes
        ]
        join_nodes = {id(node) for condition in conditions for node in condition.node.walk()}
        self._always_needed = set[tuple[str, str]]()
        for node in block.select.walk():
            if isinstance(node, exp.Column) and id(node) not in join_nodes:
                self._always_needed |= _referenced_columns(block, node)
        self._needs_all = _has_star_or_merged_columns(block)

    def columns(self, mask: int, number: int) -> frozenset[str] | None:
        """Return the lower-case columns of an item that leave the join of a set of items.

        Return None if all columns that are read do.
        """
        name = self._names[number]
        if name is None or self._needs_all:
            return None
        groups = [self._always_needed, *(columns for relations, columns in self._needed_by if relations & ~mask)]
        return frozenset(column for group in groups for relation, column in group if relation == name)

    def _mask(self, names: Iterable[str]) -> int:
        """Return the items of a condition. One bit stands for all relations inside items that are joins."""
        return sum({self._masks.get(name, 1 << len(self._names)) for name in names})


def _referenced_columns(block: SelectBlock, node: exp.Expr) -> set[tuple[str, str]]:
    """Return the columns in an expression with their relations. A column of unknown origin counts for all relations."""
    columns = set()
    for column in node.find_all(exp.Column):
        relation = owner(column, block.columns)
        names = [part.name.lower() for part in column.parts]
        if relation is not None:
            columns.add((relation, names[1] if len(names) > 1 and names[0] == relation else names[0]))
        else:
            columns |= {
                (candidate, name)
                for candidate, candidate_columns in block.columns.items()
                for name in names
                if candidate_columns is None or name in candidate_columns
            }
    return columns


def _has_star_or_merged_columns(block: SelectBlock) -> bool:
    if any(map(merges_columns, block.joins)):
        return True
    return any(not isinstance(star.parent, exp.Count) for star in block.select.find_all(exp.Star))
