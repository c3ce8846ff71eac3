"""Predicate pushdown to databases: the exactness of each conjunct, and the remote SQL that replaces it.

Conjuncts are walked from the top. A part of AND without an equivalent is dropped, which keeps a superset of the rows.
An OR needs an equivalent of every part. Under NOT, the roles of AND and OR are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract import ConjunctReport
from pushdown_spark.databases.sql.builder import all_of, any_of, longest_path, parser_depth, to_sql
from pushdown_spark.databases.sql.column_conditions import Polarity
from pushdown_spark.databases.sql.expressions import ExpressionWriter
from pushdown_spark.databases.sql.remote_table import Dialect, RemoteTable
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.conjuncts import has_subquery
from pushdown_spark.expressions.names import ANY_CASE, NameRule
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope

_MAX_DEPTH = 200
"""Nested operators of a conjunct. Spark evaluates deeper ones."""
_MAX_PARSER_DEPTH = {Dialect.SQLITE: 80}
"""Tokens on the parser's stack. SQLite's has room for 100, including those of the SELECT."""
_MAX_SQL = {Dialect.SQLITE: 900_000}
"""Characters of a condition. By default, a statement of SQLite has up to a million bytes."""


@dataclass(frozen=True)
class SparkRules:
    """Settings of the Spark session that decide what a predicate means.

    `is_trusted` is whether the tree has the meaning that Spark gives the text. `fold` evaluates a constant expression
    in Spark and returns None if it is not constant. Without it, conjuncts that need it are unsupported.
    """

    is_trusted: bool
    name_rule: NameRule = ANY_CASE
    fold: Callable[[str], object] | None = None


@dataclass(frozen=True)
class PushedPredicate:
    """A predicate with the outcomes for its conjuncts, whose artifacts are the conditions that the database gets."""

    dialect: Dialect
    conjuncts: tuple[Pushdown[exp.Expr], ...]

    @property
    def is_exact(self) -> bool:
        """Whether the database returns exactly the rows that Spark would keep."""
        return all(conjunct.is_exact for conjunct in self.conjuncts)

    @property
    def where(self) -> exp.Expr | None:
        """The condition to send, or None if there is none."""
        parts = [conjunct.artifact.copy() for conjunct in self.conjuncts if conjunct.artifact is not None]
        return all_of(parts) if parts else None

    @property
    def reports(self) -> tuple[ConjunctReport, ...]:
        """The conjuncts for the report."""
        return tuple(
            conjunct.report(None if conjunct.artifact is None else to_sql(conjunct.artifact, self.dialect))
            for conjunct in self.conjuncts
        )


def push_predicate(conjuncts: Iterable[exp.Expr], table: RemoteTable, rules: SparkRules) -> PushedPredicate:
    """Push the conjuncts of a predicate in Spark's dialect to the database of a table. Never raises.

    An exact conjunct drops the rows that Spark drops, including for NULL and errors. An inexact conjunct drops no row
    that Spark keeps or for which Spark raises. All others are unsupported.
    """
    return PushedPredicate(table.dialect, tuple(_conjunct(part, table, rules) for part in conjuncts))


def _conjunct(node: exp.Expr, table: RemoteTable, rules: SparkRules) -> Pushdown[exp.Expr]:
    writer = _ConjunctWriter(table, rules)
    try:
        _check_readable(node, rules)
        remote = writer.rows(node, Polarity.TRUE_ROWS)
        if len(to_sql(remote, table.dialect)) > _MAX_SQL.get(table.dialect, 16_000_000):
            raise UnsupportedError("the condition is longer than the database accepts")
        if parser_depth(remote) > _MAX_PARSER_DEPTH.get(table.dialect, _MAX_DEPTH * 10):
            raise UnsupportedError("the condition is nested more deeply than the database accepts")
    except (UnsupportedError, SqlglotError) as problem:
        return Pushdown.unsupported(node, _join_reasons([*writer.reasons, str(problem)]))
    if writer.reasons:
        return Pushdown.inexact(node, remote, _join_reasons(writer.reasons))
    return Pushdown.exact(node, remote)


def _check_readable(node: exp.Expr, rules: SparkRules) -> None:
    """Raise UnsupportedError for a conjunct that the writer must not read."""
    if not rules.is_trusted:
        raise UnsupportedError("Spark may read the text differently")
    if has_subquery(node):
        raise UnsupportedError("it has a subquery")
    if _depth(node) > _MAX_DEPTH:
        raise UnsupportedError("it is nested too deeply")


def _depth(node: exp.Expr) -> int:
    """Return the levels of a tree. A chain of ANDs or ORs is one level."""

    def step(node: exp.Expr, child: exp.Expr) -> int:
        return 0 if isinstance(node, exp.Connector) and type(child) is type(node) else 1

    return longest_path(node, step)


def _join_reasons(reasons: list[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))


class _ConjunctWriter:
    """A writer of one conjunct. `reasons` explain why the condition is true for more rows than the conjunct."""

    def __init__(self, table: RemoteTable, rules: SparkRules) -> None:
        self._table = table
        self._scope = Scope(table.spark_schema, has_plain_strings=True, name_rule=rules.name_rule, fold=rules.fold)
        self.reasons: list[str] = []

    def rows(self, node: exp.Expr, polarity: Polarity) -> exp.Expr:
        """Return a condition that meets the requirement. Raises UnsupportedError if there is none."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self.rows(node.this, polarity.opposite)
        if isinstance(node, exp.And | exp.Or):
            return self._junction(list(node.flatten()), polarity, is_and=isinstance(node, exp.And))
        return self._leaf(node, polarity)

    def _junction(self, parts: list[exp.Expr], polarity: Polarity, *, is_and: bool) -> exp.Expr:
        """Return an AND or OR. If all parts restrict the result, parts without an equivalent are dropped."""
        if is_and is (polarity is Polarity.FALSE_ROWS):
            return any_of([self.rows(part, polarity) for part in parts])
        conditions, failures = [], []
        for part in parts:
            try:
                conditions.append(self.rows(part, polarity))
            except UnsupportedError as problem:
                failures.append(str(problem))
        if not conditions:
            raise UnsupportedError(_join_reasons(failures))
        self.reasons += failures
        return all_of(conditions)

    def _leaf(self, node: exp.Expr, polarity: Polarity) -> exp.Expr:
        writer = ExpressionWriter(self._table, self._scope)
        tree = writer.leaf(node, polarity)
        if not writer.rechecks:
            return tree
        self.reasons.append("rows for which Spark may raise, overflow or read another value are returned to Spark")
        return any_of([*writer.rechecks, tree])
