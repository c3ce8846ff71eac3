"""Reading SQL queries: a lossless dialect, syntax trees, the tables they name, and the columns of relations in FROM.

The dialect is a variant of sqlglot's Spark dialect that writes every expression so that Spark parses it as before.
sqlglot normalizes some expressions: it reads `DATE '2024-01-31'` as a cast and `DATE_SUB` as an addition. Spark plans
the normalized form differently. The parser therefore marks these nodes, and the generator writes the original form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import isfunction
from itertools import count

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser

from pushdown_spark.errors import BadSpecError
from pushdown_spark.expressions.parser import with_intervals_grouped
from pushdown_spark.projection.paths import quote_name

_SAMPLE_SEED = re.compile(r"\s*REPEATABLE\s*\(\s*-?\d+\s*\)", re.IGNORECASE)
"""What may follow the size of a TABLESAMPLE clause."""
_MAX_NESTING = 20
"""Nesting of sub-queries down to which column names are resolved."""

# Keys of the marks in the `meta` dictionary of a node.
_TYPED_LITERAL = "typed_literal"
_IS_NOT = "is_not"
_FUNCTION_NAME = "function_name"
_UNIT = "unit"
_EXPLICIT_CAST = "explicit_cast"

_NUMBER_SUFFIXES = {exp.DType.TINYINT: "Y", exp.DType.SMALLINT: "S", exp.DType.BIGINT: "L", exp.DType.DOUBLE: "D"}
"""Suffixes of typed numbers. sqlglot reads `1L` as a cast of 1."""
_TYPED_LITERALS = (
    exp.DType.DATE,
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPNTZ,
)

_Arguments = Callable[[exp.Expr], Sequence[exp.Expr]]
_RENAMED_FUNCTIONS: dict[str, tuple[type[exp.Expr], _Arguments]] = {
    "DATE_TRUNC": (exp.TimestampTrunc, lambda node: (node.meta[_UNIT], node.this)),
    "DATE_SUB": (exp.TsOrDsAdd, lambda node: (node.this, node.expression.this)),
    "INSTR": (exp.StrPosition, lambda node: (node.this, node.args["substr"])),
    "LOG2": (exp.Log, lambda node: (node.expression,)),
    "LOG10": (exp.Log, lambda node: (node.expression,)),
}
"""Functions that sqlglot reads as other functions: the resulting node type, and how to get the arguments back."""


def _mark_typed_literal(_parser: object, literal: exp.Expr, data_type: exp.DataType) -> exp.Expr:
    # Spark folds `DATE '2024-01-31'` while parsing, but not `CAST('2024-01-31' AS DATE)`.
    cast = exp.Cast(this=literal, to=data_type)
    cast.meta[_TYPED_LITERAL] = True
    return cast


def _mark_function(name: str, node_type: type[exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return sqlglot's reader of a function, extended to mark the node with the function's original name."""
    read = SparkParser.FUNCTIONS[name]

    def read_and_mark(arguments: list[exp.Expr]) -> exp.Expr:
        node: exp.Expr = read(arguments)
        if type(node) is node_type:
            node.meta[_FUNCTION_NAME] = name
            if node_type is exp.TimestampTrunc:
                # sqlglot turns the unit into upper case.
                node.meta[_UNIT] = arguments[0]
        return node

    return read_and_mark


class LosslessSpark(Spark):
    """Spark's dialect that preserves typed literals, `IS NOT NULL` and function names."""

    class Parser(SparkParser):
        """Marks nodes that sqlglot normalizes, and reads a comma in FROM as an inner join without a condition."""

        JOINS_HAVE_EQUAL_PRECEDENCE = False
        TYPE_LITERAL_PARSERS = {  # noqa: RUF012
            **SparkParser.TYPE_LITERAL_PARSERS,
            **dict.fromkeys(_TYPED_LITERALS, _mark_typed_literal),
        }
        FUNCTIONS = {  # noqa: RUF012
            **SparkParser.FUNCTIONS,
            **{name: _mark_function(name, node_type) for name, (node_type, _) in _RENAMED_FUNCTIONS.items()},
        }

        def _parse_cast(self, strict: bool, safe: bool | None = None) -> exp.Expr:
            cast: exp.Expr = super()._parse_cast(strict, safe)
            cast.meta[_EXPLICIT_CAST] = True
            return cast

        def _parse_is(self, this: exp.Expr | None) -> exp.Expr | None:
            node = super()._parse_is(this)
            if isinstance(node, exp.Not):
                node.meta[_IS_NOT] = True
            return node

    class Generator(SparkGenerator):
        """Writes marked nodes in their original form."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Return a typed literal, a number with a type suffix, or a cast."""
            if is_typed_literal(expression):
                return f"{self.sql(expression, 'to')} {self.sql(expression, 'this')}"
            is_explicit = expression.meta.get(_EXPLICIT_CAST)
            if expression.this.is_number and not is_explicit and expression.to.this in _NUMBER_SUFFIXES:
                return f"{self.sql(expression, 'this')}{_NUMBER_SUFFIXES[expression.to.this]}"
            return str(super().cast_sql(expression, safe_prefix))

        def not_sql(self, expression: exp.Not) -> str:
            """Return `x IS NOT NULL`, or any other negation."""
            inner = expression.this
            if expression.meta.get(_IS_NOT) and isinstance(inner, exp.Is):
                return f"{self.sql(inner, 'this')} IS NOT {self.sql(inner, 'expression')}"
            return str(super().not_sql(expression))

        def sql(self, expression: str | exp.Expr | None, key: str | None = None, comment: bool = True) -> str:
            """Return any expression as SQL. Marked functions keep their original name."""
            node = expression.args.get(key) if isinstance(expression, exp.Expr) and key else expression
            name = node.meta.get(_FUNCTION_NAME) if isinstance(node, exp.Expr) else None
            if isinstance(node, exp.Expr) and isinstance(name, str):
                return str(self.func(name, *_RENAMED_FUNCTIONS[name][1](node)))
            return str(super().sql(expression, key, comment))


def parse_sql(sql: str) -> exp.Expr:
    """Parse SQL into a tree that `to_sql` writes in a form that Spark parses as before.

    >>> to_sql(parse_sql("SELECT DATE_SUB(d, 1) FROM t WHERE d > DATE '2024-01-31' AND x IS NOT NULL"))
    "SELECT DATE_SUB(d, 1) FROM t WHERE d > DATE '2024-01-31' AND x IS NOT NULL"

    Raises sqlglot's ParseError for text that it cannot parse. Raises BadSpecError if sqlglot is its compiled build,
    whose classes cannot be extended.
    """
    if not isfunction(SparkParser._parse_is):
        raise BadSpecError(
            "query: the driver uses the compiled build of sqlglot, whose dialects cannot be extended; "
            "uninstall the package sqlglotc there (`pip install sqlglot[c]` installs it)"
        )
    return with_intervals_grouped(sqlglot.parse_one(sql, dialect=LosslessSpark))


def to_sql(tree: exp.Expr) -> str:
    """Return a tree as Spark SQL."""
    return str(tree.sql(dialect=LosslessSpark))


def truncation_unit(node: exp.TimestampTrunc) -> exp.Expr:
    """Return the unit argument of DATE_TRUNC or TRUNC as it was written."""
    unit = node.meta.get(_UNIT, node.args.get("unit"))
    assert isinstance(unit, exp.Expr)
    return unit


def is_typed_literal(node: exp.Expr) -> bool:
    """Return whether a node is a literal such as `DATE '2024-01-31'`."""
    return isinstance(node, exp.Cast) and bool(node.meta.get(_TYPED_LITERAL))


class UnreadableQueryError(BadSpecError):
    """sqlglot cannot read a query. Spark may still accept it."""


def as_spec_error(problem: UnreadableQueryError | RecursionError) -> BadSpecError:
    """Return the error to raise when neither sqlglot nor Spark accepts a query."""
    if isinstance(problem, RecursionError):
        return BadSpecError("query: its expressions are nested too deeply to be planned")
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
    def rewritten(self) -> str:
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
    taken = {node.alias_or_name.lower() for node in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    free = (name for number in count(1) if (name := f"sub-query {number}") not in taken)
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
    """Return where an alias belongs: after the name or the TABLESAMPLE clause. None if the table has an alias."""
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
        chosen = [each for each in relations if only is None or each.alias_or_name.lower() == only]
        names = _union(self._relation(each, depth) if each.alias_or_name else None for each in chosen)
        return names or None


def _union(groups: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    names: set[str] = set()
    for group in groups:
        if group is None:
            return None
        names |= group
    return frozenset(names)
