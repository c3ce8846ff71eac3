"""Checks of the staged rows before they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as f

from pushdown_spark.contract import CheckReport, OutputChecks
from pushdown_spark.errors import CheckFailedError, PushdownError
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.spark_internals import observation_counts

_ROWS = "rows"


@dataclass(frozen=True)
class RowObserver:
    """Counts of rows and of NULLs, taken while a DataFrame is written.

    `frame` is the DataFrame to write instead of the original.
    """

    frame: DataFrame
    _observation: Observation

    @classmethod
    def of(cls, frame: DataFrame, checks: OutputChecks) -> RowObserver:
        """Return an observer of a DataFrame that has the columns of the checks."""
        nulls = [
            f.count_if(f.col(name).isNull()).alias(f"null {number}") for number, name in enumerate(checks.not_null)
        ]
        observation = Observation()
        return cls(frame.observe(observation, f.count(f.lit(1)).alias(_ROWS), *nulls), observation)

    def counts(self) -> tuple[int, list[int]]:
        """Return the number of rows written, and the number of NULLs for each column of `not_null`.

        Raises PushdownError if Spark did not report them, which happens if it replaces the plan at run time.
        """
        metrics = self._metrics()
        if metrics is None:
            raise PushdownError("checks: Spark did not report the counts of the rows that it wrote; run the task again")
        rows, *nulls = metrics.values()
        return rows, nulls

    def row_count(self) -> int | None:
        """Return the number of rows written, or None if Spark did not report it.

        A Spark Connect server of Spark 4.0 does not report it for a DataFrame whose schema was requested before.
        """
        metrics = self._metrics()
        return None if metrics is None else metrics[_ROWS]

    def _metrics(self) -> dict[str, int] | None:
        return observation_counts(self.frame.sparkSession, self._observation)


def check_columns_exist(frame: DataFrame, checks: OutputChecks) -> None:
    """Raise a typed error that names the check if a DataFrame lacks one of its columns."""
    for name in checks.not_null:
        _check_column_exists(frame, name, "not_null")
    for key in checks.unique:
        for name in key:
            _check_column_exists(frame, name, "unique")


def evaluate_checks(checks: OutputChecks, observer: RowObserver, stored_rows: DataFrame) -> tuple[CheckReport, ...]:
    """Evaluate all checks. `stored_rows` is a DataFrame over the staged files, which only `unique` reads.

    The observer has the counts of rows and NULLs.
    """
    rows, nulls = observer.counts()
    reports = list(_row_checks(checks, rows))
    for name, count in zip(checks.not_null, nulls, strict=True):
        reports.append(_report(f"not_null: {name}", "no NULL", f"{count:,} NULL", passed=count == 0))
    for key in checks.unique:
        count = _duplicates(stored_rows, key)
        check = f"unique: {', '.join(key)}"
        reports.append(_report(check, "no repeated key", f"{count:,} repeated", passed=count == 0))
    return tuple(reports)


def raise_failures(reports: Sequence[CheckReport]) -> None:
    """Raise CheckFailedError, which names all failed checks, if a check has failed."""
    failures = [
        f"{report.check} requires {report.required}, found {report.found}" for report in reports if not report.passed
    ]
    if failures:
        raise CheckFailedError(f"checks: {'; '.join(failures)}. Nothing was committed and the output is unchanged")


def _row_checks(checks: OutputChecks, rows: int) -> Iterator[CheckReport]:
    if checks.min_rows is not None:
        yield _report("min_rows", f"at least {checks.min_rows:,}", f"{rows:,}", passed=rows >= checks.min_rows)
    if checks.max_rows is not None:
        yield _report("max_rows", f"at most {checks.max_rows:,}", f"{rows:,}", passed=rows <= checks.max_rows)


def _report(check: str, required: str, found: str, *, passed: bool) -> CheckReport:
    return CheckReport(check=check, required=required, found=found, passed=passed)


def _duplicates(rows: DataFrame, key: Sequence[str]) -> int:
    """Return the number of rows to remove to make the key unique. Keys with a NULL count as unique."""
    columns = [f.col(name).alias(f"key {number}") for number, name in enumerate(key)]
    has_key = reduce(and_, (f.col(name).isNotNull() for name in key))
    groups = rows.where(has_key).select(*columns).groupBy(*(f"key {number}" for number in range(len(key)))).count()
    total = groups.agg(f.sum(f.col("count") - 1)).head()
    return int(total[0] or 0) if total is not None else 0


def _check_column_exists(frame: DataFrame, name: str, check: str) -> None:
    try:
        frame.select(f.col(name))
    except AnalysisException as problem:
        raise typed_error(problem, about=f"checks.{check}") from problem
