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
from pushdown_spark.databases.column_conditions import ColumnConditions, Polarity
from pushdown_spark.databases.remote_table import Dialect, RemoteTable
from pushdown_spark.databases.sql_builder import (
    all_of,
    any_of,
    is_null,
    is_true,
    longest_path,
    negated,
    parser_depth,
    to_sql,
)
from pushdown_spark.databases.sql_expressions import ExpressionWriter, no_equivalent
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.bound import Node
from pushdown_spark.expressions.conjuncts import column_path, has_subquery
from pushdown_spark.expressions.pushdown import Pushdown
from pushdown_spark.expressions.scope import Scope

_MAX_DEPTH = 200
"""Nested operators of a conjunct. Spark evaluates deeper ones."""
_MAX_PARSER_DEPTH = {Dialect.SQLITE: 80}
"""Tokens on the parser's stack. SQLite's has room for 100, including those of the SELECT."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_MAX_SQL = {Dialect.SQLITE: 900_000}
"""Characters of a condition. By default, a statement of SQLite has up to a million bytes."""


@dataclass(frozen=True)
class SparkRules:
    """Settings of the Spark session that decide what a predicate means.

    `trusted` is set if the tree has the meaning that Spark gives the text. `fold` evaluates a constant expression in
    Spark and returns None if it is not constant. Without it, conjuncts that need it are unsupported.
    """

    case_sensitive: bool = False
    trusted: bool = True
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
        """The condition to send, None if there is none."""
        parts = [conjunct.artifact.copy() for conjunct in self.conjuncts if conjunct.artifact is not None]
        return all_of(parts) if parts else None

    @property
    def reports(self) -> tuple[ConjunctReport, ...]:
        """The conjuncts for the report."""
        return tuple(
            ConjunctReport(
                sql=conjunct.conjunct.sql(dialect="spark", copy=False),
                exactness=conjunct.exactness,
                pushed_as=None if conjunct.artifact is None else to_sql(conjunct.artifact, self.dialect),
                reason=conjunct.reason,
            )
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
    if not rules.trusted:
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
        self._scope = Scope(table.spark_schema, rules.case_sensitive, fold=rules.fold)
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
        conditions = ColumnConditions(self._table)
        tree = _LeafWriter(conditions, self._scope).write(node, polarity)
        if not conditions.guards:
            return tree
        self.reasons.append("rows for which Spark may raise, overflow or read another value are returned to Spark")
        return any_of([*conditions.guards, tree])


class _LeafWriter:
    """A writer of conditions other than AND, OR and NOT. Inside them, every part needs its exact value."""

    def __init__(self, conditions: ColumnConditions, scope: Scope) -> None:
        self._conditions = conditions
        self._scope = scope
        self._expressions = ExpressionWriter(conditions, self._value, case_sensitive=scope.case_sensitive)

    def _value(self, node: exp.Expr) -> exp.Expr:
        """Return a boolean expression with its exact value, including NULL."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return negated(self._value(node.this))
        if isinstance(node, exp.And | exp.Or):
            join = all_of if isinstance(node, exp.And) else any_of
            return join([self._value(part) for part in node.flatten()])
        return self.write(node, Polarity.VALUE)

    def write(self, node: exp.Expr, polarity: Polarity) -> exp.Expr:
        """Return a leaf: as a test of a column if possible, otherwise as a comparison of expressions."""
        if self._conditions.dialect is Dialect.SQLITE and isinstance(node, exp.Like) and "\\" in node.expression.name:
            raise UnsupportedError("SQLite's LIKE has no default escape character, so Spark evaluates it")
        bound = bind(node, self._scope)
        if bound.artifact is not None and bound.is_exact:
            return self._conditions.write(bound.artifact, polarity)
        guards = list(self._conditions.guards)
        try:
            tree = self._comparison(node)
        except UnsupportedError as problem:
            self._conditions.guards[:] = guards
            raise UnsupportedError(self._reason(node, bound, problem)) from problem
        return negated(tree) if polarity is Polarity.FALSE_ROWS else tree

    def _reason(self, node: exp.Expr, bound: Pushdown[Node], problem: UnsupportedError) -> str:
        """Return why the leaf is unsupported. The binder's reason is better if it compares a column."""
        subject = node.this.this if isinstance(node, exp.Escape) else node.this
        compares_column = isinstance(subject, exp.Expr) and column_path(subject) is not None
        return bound.reason if compares_column and bound.artifact is None and bound.reason else str(problem)

    def _comparison(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, _COMPARISONS):
            return self._expressions.compare(node)
        match node:
            case exp.Is():
                return self._is_test(node)
            case exp.Between():
                return self._between(node)
            case exp.In() if node.expressions and not node.args.get("query"):
                return self._membership(node)
            case exp.Case() | exp.If() | exp.Coalesce():
                return self._boolean(node)
        raise no_equivalent(node)

    def _boolean(self, node: exp.Expr) -> exp.Expr:
        value = self._expressions.value(node)
        if value.type.simpleString() != "boolean":
            raise no_equivalent(node)
        return value.tree

    def _is_test(self, node: exp.Is) -> exp.Expr:
        """Return IS NULL, IS TRUE or IS FALSE of an expression."""
        subject, expected = node.this, node.expression
        if isinstance(subject, exp.Predicate | exp.Not | exp.Connector):
            raise UnsupportedError("IS follows a comparison without parentheses, which Spark may parse differently")
        if isinstance(expected, exp.Null):
            return is_null(self._expressions.value(subject).tree)
        if not isinstance(expected, exp.Boolean):
            raise no_equivalent(node)
        value = self._value(subject)
        return is_true(value if expected.this else negated(value))

    def _between(self, node: exp.Between) -> exp.Expr:
        sides: tuple[tuple[type[exp.Binary], str], ...] = ((exp.GTE, "low"), (exp.LTE, "high"))
        return all_of([self._pair(op, node.this, node.args[side]) for op, side in sides])

    def _pair(self, op: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return self._expressions.compare(op(this=left.copy(), expression=right.copy()))

    def _membership(self, node: exp.In) -> exp.Expr:
        """Return `expression IN (items)`. Raises UnsupportedError for items of several types."""
        has_null = any(isinstance(item.unnest(), exp.Null) for item in node.expressions)
        items = [item for item in node.expressions if not isinstance(item.unnest(), exp.Null)]
        if not items:
            raise no_equivalent(node)
        return self._expressions.among(node.this, items, has_null=has_null)
