"""Says which columns of a source the rest of a query may need, and which file columns beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sqlglot import exp

from pushdown_spark.expressions.names import name_key
from pushdown_spark.projection.catalog import BUILT_IN, ImplicitCatalog
from pushdown_spark.projection.implicit import given_names


class Used:
    """What a query mentions. Every name counts that could mean a column, so that none is ever missed."""

    def __init__(
        self,
        tree: exp.Expr,
        is_variable: Callable[[str], bool] = lambda _: False,
        *,
        case_sensitive: bool,
        hides_names: bool = False,
        words: Iterable[str] = (),
    ) -> None:
        """`is_variable` tells the names of session variables.

        `hides_names` tells that the query may mean columns that it does not name; `words` may be names as well.
        """
        self._tree = tree
        self._is_variable = is_variable
        self._hides_names = hides_names
        # Joins in parentheses that have a name are none: it stands for all relations in them.
        relations = tree.find_all(exp.Table, exp.Subquery, exp.CTE)
        aliases = [each.alias_or_name for each in relations if not isinstance(each.this, exp.Table)]
        self._case_sensitive = case_sensitive
        self._aliases = {alias.lower() for alias in aliases}
        self._natural = any(join.method == "NATURAL" for join in tree.find_all(exp.Join))
        self._pivots = tree.find(exp.Pivot) is not None
        self._paths = [tuple(part.name for part in _parts(node)) for node in tree.find_all(exp.Column)]
        self._paths += [(name.name,) for join in tree.find_all(exp.Join) for name in _using(join)]
        self._members = {dot.expression.name for dot in tree.find_all(exp.Dot)}
        self._words = frozenset(words)
        self._given = given_names(tree) | {alias.alias.lower() for alias in tree.find_all(exp.Alias)}

    def columns(self, table: exp.Table, names: Iterable[str]) -> tuple[str, ...]:
        """Those of a table's columns that the query may mean."""
        keys = {name: self._key(name) for name in names}
        if self._takes_all(table):
            return tuple(keys)
        own, known = table.alias_or_name.lower(), frozenset(keys.values())
        mentioned = {part for path in self._paths for part in self._meant(path, own, known)}
        mentioned |= set(map(self._key, self._members))
        return tuple(name for name, key in keys.items() if key in mentioned or name.lower() in self._words)

    def implicit(
        self,
        table: exp.Table,
        names: Iterable[str],
        others: Mapping[str, frozenset[str]],
        catalog: ImplicitCatalog = BUILT_IN,
    ) -> tuple[str, ...]:
        """The file columns that the query asks of a table with these columns; `others` are those of all tables.

        One without the table's name counts only if no table and no alias of the query goes by it, and no variable.
        """
        if table.alias_column_names:
            return ()
        own, mine = table.alias_or_name.lower(), {name.lower() for name in names}
        known = frozenset[str]().union(*others.values()) | self._given
        found = set()
        for path in self._paths:
            qualified = len(path) > 1 and path[0].lower() == own
            column = catalog.find(path[1] if qualified else path[0])
            name = "" if column is None else column.name.lower()
            if column is None or name in mine:
                continue
            if qualified or (len(path) == 1 and name not in known and not self._is_variable(path[0])):
                found.add(column.name)
        return tuple(sorted(found))

    def _takes_all(self, table: exp.Table) -> bool:
        """Whether the query wants every column: by a star, a join on all common names, or groups by all others."""
        if self._natural or self._pivots or self._hides_names or table.alias_column_names:
            return True
        return any(self._covers(star, table) for star in self._tree.find_all(exp.Star))

    def _covers(self, star: exp.Star, table: exp.Table) -> bool:
        holder = star.parent
        if isinstance(holder, exp.Count):
            return False
        if isinstance(holder, exp.Column):
            return holder.table.lower() == table.alias_or_name.lower() or holder.table.lower() not in self._aliases
        around = star.find_ancestor(exp.Select)
        return around is None or table.find_ancestor(exp.Select) is around

    def _meant(self, path: tuple[str, ...], own: str, known: frozenset[str]) -> Iterator[str]:
        """The keys of a path's parts that may name a column of the table `own`, whose columns are known by theirs."""
        first = path[0]
        elsewhere = first.lower() in self._aliases and first.lower() != own
        if len(path) > 1 and elsewhere and self._key(first) not in known:
            return
        yield from map(self._key, path)

    def _key(self, name: str) -> str:
        return name_key(name, case_sensitive=self._case_sensitive)


def _parts(node: exp.Column) -> Iterator[exp.Expr]:
    yield from (part for part in node.parts if isinstance(part, exp.Identifier))


def _using(join: exp.Join) -> Iterator[exp.Expr]:
    yield from join.args.get("using") or ()
