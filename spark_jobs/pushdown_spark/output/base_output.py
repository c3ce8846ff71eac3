"""The interface of all outputs: one attempt of one run to write rows, all or nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pushdown_spark.contract import CheckReport, OutputSummary
from pushdown_spark.errors import OutputTakenError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class Output(ABC):
    """One attempt of one run to write an output.

    Call `prepare`, `stage` (again after a failed scan), `check` and `commit`, or `abort` after a failure. `transaction`
    calls the last three. The output does not change before `commit`.
    """

    def __init__(self) -> None:
        self.checks: tuple[CheckReport, ...] = ()
        """The results of `check`."""
        self.summary: OutputSummary | None = None
        """The summary of `commit`, or that of another attempt which `prepare` or `commit` found committed."""
        self.committed_rows: int | None = None
        """The rows of another attempt of the run which `prepare` or `commit` found committed, or None without one."""
        self.staged_rows: int | None = None
        """The number of rows that the caller has staged, for the record of the commit."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The path or the table, as the user gave it."""

    @property
    @abstractmethod
    def staging_location(self) -> str:
        """Where the staged rows are, for messages."""

    @property
    def rows(self) -> int | None:
        """The rows of the run in the output, or None if mode `ignore` has kept an output of another program."""
        if self.summary is None:
            return None
        return self.committed_rows if self.summary.is_from_earlier_try else self.staged_rows

    @abstractmethod
    def prepare(self) -> bool:
        """Repair or delete what earlier attempts left. Return False if there is nothing to write.

        There is nothing to write if the output exists in mode `ignore`, or if `committed_rows` is set. An earlier
        attempt of the same run that is still writing can no longer commit.
        """

    @abstractmethod
    def stage(self, frame: DataFrame) -> None:
        """Stage all rows of a DataFrame. They replace rows that were staged before."""

    @abstractmethod
    def check(self) -> None:
        """Evaluate the checks on the staged rows. Raises CheckFailedError, which names all failed checks."""

    @abstractmethod
    def commit(self) -> None:
        """Move the staged rows into the output. After a failure, the output is unchanged."""

    @abstractmethod
    def abort(self) -> None:
        """Delete the staged rows of this attempt, but not those of a later attempt."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Check and commit at the end of the block, abort on failure. A failing clean-up does not hide the failure."""
        try:
            yield
            self.check()
            self.commit()
        except BaseException as failure:
            try:
                self.abort()
            except Exception as clean_up:
                failure.add_note(
                    f"the staged rows at {self.staging_location} could not be deleted: {clean_up}. The next try of "
                    "this run deletes them"
                )
            raise


def later_attempt_error(name: str) -> OutputTakenError:
    """Return the error of an attempt whose run has a later attempt."""
    return OutputTakenError(
        f"output: another attempt of this run has begun to write {name}; the rows of this attempt were deleted. "
        "There is nothing to do: the newest try of the task writes the output"
    )


def column_types(schema: StructType) -> dict[str, str]:
    """Return the Spark types of columns by name, for a summary."""
    return {field.name: field.dataType.simpleString() for field in schema.fields}
