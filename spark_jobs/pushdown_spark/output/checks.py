"""Checks of the staged rows before they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as f

from pushdown_spark.contract import CheckReport, OutputChecks
from pushdown_spark.errors import CheckFailedError, PushdownError
from pushdown_spark.failures import typed
from pushdown_spark.gateway import observed

_ROWS = "rows"


@dataclass(frozen=True)
class RowObserver:
    """Counts rows, and the NULLs of columns, while a DataFrame is written.

    `frame` is the DataFrame to write in place of the one that was given.
    """

    frame: DataFrame
    _observation: Observation

    @classmethod
    def of(cls, frame: DataFrame, checks: OutputChecks) -> RowObserver:
        """An observer of a DataFrame that has the columns of the checks."""
        nulls = [
            f.count_if(f.col(name).isNull()).alias(f"null {number}") for number, name in enumerate(checks.not_null)
        ]
        observation = Observation()
        return cls(frame.observe(observation, f.count(f.lit(1)).alias(_ROWS), *nulls), observation)

    def counts(self) -> tuple[int, list[int]]:
        """The rows that were written, and the NULLs among them for each column of `not_null`.

        Raises PushdownError if Spark did not report them, as it does not for a plan that it has replaced at run time.
        """
        found = observed(self.frame.sparkSession, self._observation)
        if found is None:
            raise PushdownError("checks: Spark did not report the counts of the rows that it wrote")
        rows, *nulls = found.values()
        return rows, nulls


def require_columns(frame: DataFrame, checks: OutputChecks) -> None:
    """Raise a typed error that names the check if a DataFrame lacks one of its columns."""
    for name in checks.not_null:
        _column(frame, name, "not_null")
    for key in checks.unique:
        for name in key:
            _column(frame, name, "unique")


def check_rows(checks: OutputChecks, observer: RowObserver, staged: DataFrame) -> tuple[CheckReport, ...]:
    """Evaluate all checks; `staged` are the staged rows, read back.

    Counts of rows and NULLs were taken while the rows were written. Only `unique` reads the staged files.
    """
    rows, nulls = observer.counts()
    reports = list(_row_checks(checks, rows))
    for name, count in zip(checks.not_null, nulls, strict=True):
        reports.append(_report(f"not_null: {name}", "no NULL", f"{count:,} NULL", passed=count == 0))
    for key in checks.unique:
        count = _repeated(staged, key)
        what = f"unique: {', '.join(key)}"
        reports.append(_report(what, "no repeated key", f"{count:,} repeated", passed=count == 0))
    return tuple(reports)


def refuse_failed(reports: Sequence[CheckReport]) -> None:
    """Raise CheckFailedError if a check has failed; the message names every one that has."""
    failed = [
        f"{report.check} requires {report.required}, found {report.found}" for report in reports if not report.passed
    ]
    if failed:
        raise CheckFailedError(f"checks: {'; '.join(failed)}. Nothing was committed, the output is as it was before")


def _row_checks(checks: OutputChecks, rows: int) -> Iterator[CheckReport]:
    if checks.min_rows is not None:
        yield _report("min_rows", f"at least {checks.min_rows:,}", f"{rows:,}", passed=rows >= checks.min_rows)
    if checks.max_rows is not None:
        yield _report("max_rows", f"at most {checks.max_rows:,}", f"{rows:,}", passed=rows <= checks.max_rows)


def _report(check: str, required: str, found: str, *, passed: bool) -> CheckReport:
    return CheckReport(check=check, required=required, found=found, passed=passed)


def _repeated(staged: DataFrame, key: Sequence[str]) -> int:
    """The number of rows that would have to go for the key to be unique; a key with a NULL repeats nothing."""
    columns = [f.col(name).alias(f"key {number}") for number, name in enumerate(key)]
    present = reduce(and_, (f.col(name).isNotNull() for name in key))
    groups = staged.where(present).select(*columns).groupBy(*(f"key {number}" for number in range(len(key)))).count()
    surplus = groups.agg(f.sum(f.col("count") - 1)).head()
    return int(surplus[0] or 0) if surplus is not None else 0


def _column(frame: DataFrame, name: str, check: str) -> Column:
    column = f.col(name)
    try:
        frame.select(column)
    except AnalysisException as problem:
        raise typed(problem, about=f"checks.{check}") from problem
    return column
