"""The predicate of a scan: parsed once, split into conjuncts once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sqlglot import exp

from pushdown_spark.expressions.conjuncts import conjuncts, nodes_of
from pushdown_spark.expressions.parser import parse_predicate

METADATA_COLUMN = "_metadata"
"""A column of Spark's file readers, which describes the file of a row. `SELECT *` does not include it."""
_METADATA_FUNCTIONS = frozenset({"input_file_name", "input_file_block_start", "input_file_block_length", "identifier"})
"""Functions of the file of a row. `IDENTIFIER('_metadata.file_path')` is a column."""
_FILE_METADATA = re.compile(r"\b(?:_metadata|input_file_(?:name|block_start|block_length))\b", re.IGNORECASE)
ROW_FUNCTIONS = (
    *("assert_true", "raise_error", "reflect", "try_reflect", "java_method"),
    *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
    *("monotonically_increasing_id", "spark_partition_id"),
)
"""Functions with side effects on a row, and functions whose value depends on the rows before."""
_ROW_NODES = tuple(exp.FUNCTION_BY_NAME.get(name.upper(), exp.Anonymous) for name in ROW_FUNCTIONS)
_GAP = r"(?:[\s`]|/\*.*?\*/|--[^\n]*)*"
"""Blanks and comments between the name of a function and its parenthesis, and the end of a quoted name."""
_ROW_CALL = re.compile(rf"\b(?:{'|'.join(ROW_FUNCTIONS)}){_GAP}\(", re.IGNORECASE | re.DOTALL)

_NAME = r"(?:\w+|`(?:[^`]|``)*`)"
_CALL = re.compile(rf"({_NAME}(?:\s*\.\s*{_NAME})*){_GAP}\(", re.DOTALL)
_SQL_FUNCTION = "sqlFunction."
"""The class of a function in Spark's catalog whose body is SQL."""

UNPARSED = "sqlglot cannot parse the predicate, so only Spark evaluates it"
"""The reason for a predicate without a tree."""
FILE_METADATA = "only Spark's own reader supports input_file_name() and _metadata"
"""The reason for a predicate or query that reads file metadata."""
EVERY_ROW = "the predicate calls a function that must see every row or depends on earlier rows"
"""The reason for a predicate that needs every row, so that no conjunct may drop rows before the others."""


@dataclass(frozen=True)
class Predicate:
    """The condition of a WHERE clause.

    `sql` is the whole text, which Spark evaluates again in any case. `tree` is None if only Spark can parse the text.
    """

    sql: str
    tree: exp.Expr | None

    @classmethod
    def parse(cls, sql: str) -> Predicate:
        """Parse a predicate. Never raises: Spark's parser decides whether it is valid."""
        return cls(sql, parse_predicate(sql))

    @cached_property
    def conjuncts(self) -> tuple[exp.Expr, ...]:
        """The operands of the top-level ANDs, or an empty tuple if only Spark can parse the predicate."""
        return () if self.tree is None else tuple(conjuncts(self.tree))

    @cached_property
    def conjunct_texts(self) -> tuple[str, ...]:
        """The conjuncts as Spark SQL: the whole text if only Spark can parse it."""
        if self.tree is None:
            return (self.sql,)
        return tuple(conjunct.sql(dialect="spark", copy=False) for conjunct in self.conjuncts)

    @property
    def has_backslashes(self) -> bool:
        """Whether string literals may have escapes, so that their text may differ from their value."""
        return "\\" in self.sql

    @cached_property
    def reads_file_metadata(self) -> bool:
        """Whether the predicate may refer to the file of a row, which only Spark's own readers know."""
        return reads_file_metadata(self.sql, self.tree)

    @cached_property
    def needs_every_row(self) -> bool:
        """Whether results may change if some conjuncts drop rows before the others are evaluated."""
        return needs_every_row(self.sql, self.tree)

    def keep_conjuncts(self, conjuncts: Sequence[exp.Expr]) -> Predicate | None:
        """Return the predicate with some of its conjuncts; None without any. `sql` remains the whole text."""
        return replace(self, tree=exp.and_(*conjuncts, copy=True)) if conjuncts else None


def reads_file_metadata(sql: str, tree: exp.Expr | None) -> bool:
    """Return whether SQL may refer to the file of a row, which only Spark's own readers know.

    Without its tree, the text decides.
    """
    # Most text has none of the words, and a search is faster than a walk.
    if _FILE_METADATA.search(sql) is None:
        return False
    if tree is None:
        return True
    names = {node.name.lower() for node in nodes_of(tree, exp.Identifier)}
    return METADATA_COLUMN in names or not _METADATA_FUNCTIONS.isdisjoint(_called_functions(tree))


def needs_every_row(sql: str, tree: exp.Expr | None) -> bool:
    """Return whether SQL calls a function with side effects, or one whose value depends on the rows before.

    Without its tree, the text decides.

    >>> [Predicate.parse(sql).needs_every_row for sql in ("assert_true(a > 0) IS NULL AND b = 1", "b = 'uuid()'")]
    [True, False]
    """
    # A search for substrings is much faster than a regular expression in lists of thousands of values.
    lower_sql = sql.lower()
    if not any(name in lower_sql for name in ROW_FUNCTIONS):
        return False
    if tree is None:
        return _ROW_CALL.search(sql) is not None
    return not _called_functions(tree).isdisjoint(ROW_FUNCTIONS)


def sql_function(spark: SparkSession, sql: str, tree: exp.Expr | None) -> str | None:
    """Return the first function in SQL whose body is SQL itself (`CREATE FUNCTION ... RETURN`), or None.

    Without its tree, the text decides. `IDENTIFIER(...)` may be the name of any function.
    """
    if tree is None:
        names = dict.fromkeys(_CALL.findall(sql))
    else:
        # sqlglot knows no function of a user, and none whose name is qualified.
        names = dict.fromkeys(map(_qualified_name, nodes_of(tree, exp.Anonymous)))
    return next((name for name in names if _is_sql_function(spark, name)), None)


def _qualified_name(function: exp.Anonymous) -> str:
    name = exp.to_identifier(function.name, quoted=True).sql(dialect="spark")
    parent = function.parent
    return f"{parent.this.sql(dialect='spark')}.{name}" if isinstance(parent, exp.Dot) else name


def _is_sql_function(spark: SparkSession, name: str) -> bool:
    if name.lower() == "identifier":
        return True
    try:
        return spark.catalog.getFunction(name).className == _SQL_FUNCTION
    except (PySparkException, Py4JError):
        # The query itself raises the error.
        return False


def _called_functions(tree: exp.Expr) -> set[str]:
    """Return the names of the functions of a tree in lower case, with other names of those that sqlglot knows."""
    return {
        name.lower()
        for node in nodes_of(tree, exp.Func)
        for name in ((node.name,) if isinstance(node, exp.Anonymous) else node.sql_names())
    }


def is_deterministic(node: exp.Expr) -> bool:
    """Return whether an expression has the same value wherever it is evaluated for a row.

    Functions that sqlglot does not know count as others, because they may be any function of the user.

    >>> import sqlglot
    >>> [is_deterministic(sqlglot.condition(sql)) for sql in ("abs(a) = 1", "a = uniform(0, 9)", "a = my_function(b)")]
    [True, False, False]
    """
    return node.find(*_ROW_NODES, exp.Anonymous, exp.AnonymousAggFunc) is None
