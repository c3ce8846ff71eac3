"""Decides for every conjunct of a predicate what of it the remote can answer, and writes that as remote SQL.

The tree is walked from the top and left at the first part that has no equal there. Parts of an AND go one by one, an OR
goes whole or not at all; under NOT it is the other way round (seafowl's remote tables split at the ANDs alone).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pushdown_spark.contract import ConjunctReport, Exactness
from pushdown_spark.databases.conditions import Conditions, Want, written
from pushdown_spark.databases.expressions import Expressions, beyond
from pushdown_spark.databases.model import Dialect, RemoteTable
from pushdown_spark.databases.patterns import pattern_test
from pushdown_spark.databases.render import (
    all_of,
    any_of,
    is_null,
    is_true,
    longest_path,
    negated,
    parser_depth,
    to_sql,
)
from pushdown_spark.databases.rules import SparkRules
from pushdown_spark.predicates.compile import compile_filter
from pushdown_spark.predicates.constants import UnsupportedError
from pushdown_spark.predicates.derive import Scope
from pushdown_spark.predicates.parse import column_path, conjuncts, has_subquery

_DEEPEST = 200
"""Nested operators beyond this are left to Spark."""
_MOST_WAITING = {Dialect.SQLITE: 80}
"""Words that may wait while the database's parser reads on: SQLite's has room for 100, those of the SELECT included."""
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_MAX_SQL = {Dialect.SQLITE: 900_000}
"""Characters of one statement; SQLite takes a million bytes by default."""


@dataclass(frozen=True)
class Conjunct:
    """What became of one conjunct. `remote` is what the remote is asked instead, None where nothing is."""

    sql: str
    node: exp.Expr
    exactness: Exactness
    reason: str | None
    remote: exp.Expr | None


@dataclass(frozen=True)
class Classified:
    """A predicate, conjunct by conjunct."""

    dialect: Dialect
    conjuncts: tuple[Conjunct, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the remote answers with just the rows that Spark would keep."""
        return all(conjunct.exactness is Exactness.EXACT for conjunct in self.conjuncts)

    @property
    def where(self) -> exp.Expr | None:
        """The condition that is sent, None where there is none."""
        parts = [conjunct.remote.copy() for conjunct in self.conjuncts if conjunct.remote is not None]
        return all_of(parts) if parts else None

    @property
    def residual(self) -> tuple[exp.Expr, ...]:
        """What Spark must evaluate on the rows that come back, in its own dialect."""
        return tuple(each.node.copy() for each in self.conjuncts if each.exactness is not Exactness.EXACT)

    @property
    def reports(self) -> tuple[ConjunctReport, ...]:
        """The conjuncts as they are reported."""
        return tuple(
            ConjunctReport(
                sql=each.sql,
                exactness=each.exactness,
                pushed_as=None if each.remote is None else to_sql(each.remote, self.dialect),
                reason=each.reason,
            )
            for each in self.conjuncts
        )


def classify(predicate: exp.Expr | None, table: RemoteTable, rules: SparkRules) -> Classified:
    """Classify a predicate (Spark dialect) over the table's columns.

    What is exact drops every row that Spark drops and no other, `NULL` and errors included; what is inexact drops none
    that Spark keeps or would raise for. Never raises: what cannot be read is unsupported.
    """
    parts = [] if predicate is None else conjuncts(predicate)
    return Classified(table.dialect, tuple(_conjunct(part, table, rules) for part in parts))


def _conjunct(node: exp.Expr, table: RemoteTable, rules: SparkRules) -> Conjunct:
    sql = node.sql(dialect="spark", copy=False)
    refusal = _refusal(node, rules)
    if refusal is not None:
        return Conjunct(sql, node, Exactness.UNSUPPORTED, refusal, None)
    walker = _Walker(table, rules)
    try:
        remote = walker.rows(node, Want.TRUE_ROWS)
        if len(to_sql(remote, table.dialect)) > _MAX_SQL.get(table.dialect, 16_000_000):
            raise UnsupportedError("the condition is longer than the database reads")
        if parser_depth(remote) > _MOST_WAITING.get(table.dialect, _DEEPEST * 10):
            raise UnsupportedError("it is nested more deeply than the database reads")
    except (UnsupportedError, SqlglotError) as problem:
        return Conjunct(sql, node, Exactness.UNSUPPORTED, _joined([*walker.reasons, str(problem)]), None)
    if walker.reasons:
        return Conjunct(sql, node, Exactness.INEXACT, _joined(walker.reasons), remote)
    return Conjunct(sql, node, Exactness.EXACT, None, remote)


def _refusal(node: exp.Expr, rules: SparkRules) -> str | None:
    if not rules.trusted:
        return "the text may mean something else to Spark"
    if has_subquery(node):
        return "it has a subquery"
    if _depth(node) > _DEEPEST:
        return "it is nested too deeply"
    return None


def _depth(node: exp.Expr) -> int:
    """Levels of the tree, with chains of ANDs and ORs as one."""

    def step(here: exp.Expr, child: exp.Expr) -> int:
        return 0 if isinstance(here, exp.Connector) and type(child) is type(here) else 1

    return longest_path(node, step)


def _joined(reasons: list[str]) -> str:
    return "; ".join(dict.fromkeys(reasons))


class _Walker:
    """Walks one conjunct. `reasons` say why the condition it writes is true for more rows than Spark's."""

    def __init__(self, table: RemoteTable, rules: SparkRules) -> None:
        self._table = table
        self._rules = rules
        self._scope = Scope(table.spark_schema, rules.case_sensitive, fold=rules.fold)
        self.reasons: list[str] = []

    def rows(self, node: exp.Expr, want: Want) -> exp.Expr:
        """A condition that is true at least for the rows asked for. Raises UnsupportedError where there is none."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return self.rows(node.this, want.opposite)
        if isinstance(node, exp.And | exp.Or):
            return self._junction(list(node.flatten()), want, is_and=isinstance(node, exp.And))
        return self._atom(node, want)

    def _junction(self, parts: list[exp.Expr], want: Want, *, is_and: bool) -> exp.Expr:
        """What joins the rows asked for with AND may lack parts; what joins them with OR needs all."""
        if is_and is (want is Want.FALSE_ROWS):
            return any_of([self.rows(part, want) for part in parts])
        found, failures = [], []
        for part in parts:
            try:
                found.append(self.rows(part, want))
            except UnsupportedError as problem:
                failures.append(str(problem))
        if not found:
            raise UnsupportedError(_joined(failures))
        self.reasons += failures
        return all_of(found)

    def _atom(self, node: exp.Expr, want: Want) -> exp.Expr:
        conditions = Conditions(self._table)
        atom = _Atom(conditions, self._scope)
        tree = atom.write(node, want)
        if not conditions.guards:
            return tree
        self.reasons.append("rows on which Spark may raise, wrap or read another value are kept for it")
        return any_of([*conditions.guards, tree])


class _Atom:
    """Writes what is neither AND, OR nor NOT; inside of it values count, so that nothing may be left out."""

    def __init__(self, conditions: Conditions, scope: Scope) -> None:
        self._conditions = conditions
        self._scope = scope
        self._expressions = Expressions(conditions, self._value, case_sensitive=scope.case_sensitive)

    def _value(self, node: exp.Expr) -> exp.Expr:
        """A boolean expression with its three values."""
        node = node.unnest()
        if isinstance(node, exp.Not):
            return negated(self._value(node.this))
        if isinstance(node, exp.And | exp.Or):
            join = all_of if isinstance(node, exp.And) else any_of
            return join([self._value(part) for part in node.flatten()])
        return self.write(node, Want.VALUE)

    def write(self, node: exp.Expr, want: Want) -> exp.Expr:
        """An atom: as a test of columns where it is one, else as a comparison of expressions."""
        pattern = pattern_test(node, self._conditions, self._scope)
        if pattern is not None:
            like = node.this if isinstance(node, exp.Escape) else node
            return written(pattern, want.opposite if like.args.get("negate") else want)
        compiled = compile_filter(node, self._scope)
        if not isinstance(compiled, str) and compiled.is_exact:
            return self._conditions.write(compiled.root, want)
        guards = list(self._conditions.guards)
        try:
            tree = self._computed(node)
        except UnsupportedError as problem:
            self._conditions.guards[:] = guards
            raise UnsupportedError(self._reason(node, compiled, problem)) from problem
        return negated(tree) if want is Want.FALSE_ROWS else tree

    def _reason(self, node: exp.Expr, compiled: object, problem: UnsupportedError) -> str:
        """Why neither way leads there: about a comparison of a column with a constant the first knows more."""
        is_plain = column_path(node.this) is not None if isinstance(node.this, exp.Expr) else False
        return str(compiled) if is_plain and isinstance(compiled, str) else str(problem)

    def _computed(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, _COMPARISONS):
            return self._expressions.compare(node)
        match node:
            case exp.Is():
                return self._state(node)
            case exp.Between():
                return self._between(node)
            case exp.In() if node.expressions and not node.args.get("query"):
                return self._membership(node)
            case exp.Case() | exp.If() | exp.Coalesce():
                return self._boolean(node)
        raise beyond(node)

    def _boolean(self, node: exp.Expr) -> exp.Expr:
        value = self._expressions.value(node)
        if value.type.simpleString() != "boolean":
            raise beyond(node)
        return value.tree()

    def _state(self, node: exp.Is) -> exp.Expr:
        """IS NULL, IS TRUE and IS FALSE of an expression."""
        subject, expected = node.this, node.expression
        if isinstance(subject, exp.Predicate | exp.Not | exp.Connector):
            raise UnsupportedError("IS after a comparison, which Spark may group otherwise")
        if isinstance(expected, exp.Null):
            return is_null(self._expressions.value(subject).tree())
        if not isinstance(expected, exp.Boolean):
            raise beyond(node)
        value = self._value(subject)
        return is_true(value if expected.this else negated(value))

    def _between(self, node: exp.Between) -> exp.Expr:
        sides: tuple[tuple[type[exp.Binary], str], ...] = ((exp.GTE, "low"), (exp.LTE, "high"))
        return all_of([self._pair(op, node.this, node.args[side]) for op, side in sides])

    def _pair(self, op: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return self._expressions.compare(op(this=left.copy(), expression=right.copy()))

    def _membership(self, node: exp.In) -> exp.Expr:
        """An expression in a list is equal to any item; items of several types have been refused by then."""
        has_null = any(isinstance(item.unnest(), exp.Null) for item in node.expressions)
        items = [item for item in node.expressions if not isinstance(item.unnest(), exp.Null)]
        if not items:
            raise beyond(node)
        return self._expressions.among(node.this, items, has_null=has_null)


def unsupported_because(classified: Classified, reason: str) -> Classified:
    """The same predicate, none of which is sent, for a reason of the caller's."""
    left = tuple(
        replace(each, exactness=Exactness.UNSUPPORTED, reason=reason, remote=None) for each in classified.conjuncts
    )
    return replace(classified, conjuncts=left)
