"""Evaluation of constants by Spark, with one query for many predicates."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Sequence

from bisection import split_failures
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp

from pushdown_spark.expressions.binder import bind
from pushdown_spark.expressions.scope import Fold, Scope


class ConstantCache:
    """A cache of constants that Spark evaluates."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[str, object] = {}

    def __call__(self, sql: str) -> object:
        """Return the value of a constant expression, or None if Spark raises an error for it."""
        if sql not in self._known:
            self._fetch([sql])
        return self._known[sql]

    def prepare(self, predicates: Iterable[exp.Expr], schema: StructType) -> None:
        """Evaluate the constants of predicates in one query."""
        self.prepare_for(
            lambda fold: [bind(each, Scope(schema, has_plain_strings=True, fold=fold)) for each in predicates]
        )

    def prepare_for(self, asking: Callable[[Fold], object]) -> None:
        """Evaluate the constants that an action requests in one query."""
        texts: dict[str, None] = {}

        def note(sql: str) -> None:
            texts[sql] = None

        asking(note)
        self._fetch([sql for sql in texts if sql not in self._known])

    def _fetch(self, expressions: list[str]) -> None:
        values, failures = split_failures(expressions, self._evaluate, (PySparkException, ValueError, OverflowError))
        self._known |= {**ChainMap(*values), **dict.fromkeys(failures)}

    def _evaluate(self, expressions: Sequence[str]) -> dict[str, object]:
        if not expressions:
            return {}
        row = self._spark.sql(f"SELECT {', '.join(expressions)}").head()
        assert row is not None
        return dict(zip(expressions, row, strict=True))
