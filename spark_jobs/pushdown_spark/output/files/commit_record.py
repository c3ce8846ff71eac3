"""The record of a commit of files, by which a retry recognizes an output that is complete.

A driver may end after its commit and before the task knows its result, the task may end before Airflow knows it, and a
job with several outputs may fail after some of them. A retry in mode `errorifexists` would fail on a committed output,
and the task could never succeed. The record is a hidden file next to the output. It is written before the commit with
the names of its files, because the driver may end in between. It stays until another run creates the output, because no
part of a job knows when Airflow needs no retry any more.
"""

from __future__ import annotations

from pushdown_spark.contract import OutputMode, OutputSummary
from pushdown_spark.contract.message import Message
from pushdown_spark.output.files.layout import RECORDS_OF_ALL_RUNS, OutputPaths
from pushdown_spark.runtime.file_systems.base_files import Files

_MODES_THAT_WRITE_ONCE = frozenset({OutputMode.ERROR_IF_EXISTS, OutputMode.IGNORE})
"""In the other modes, a retry replaces what the earlier attempt wrote."""


class RecordedCommit(Message):
    """A commit: its rows, its summary and its files, relative to the output.

    `is_complete` is set after the last move.
    """

    generation: str
    files: tuple[str, ...]
    rows: int | None
    summary: OutputSummary
    is_complete: bool = False


class CommitRecord:
    """The record of one run and one output. A run that a user repeats on purpose has another `generation`."""

    def __init__(self, files: Files, paths: OutputPaths, generation: str) -> None:
        self._files = files
        self._paths = paths
        self._generation = generation

    @classmethod
    def of(cls, files: Files, paths: OutputPaths, generation: str, mode: OutputMode) -> CommitRecord | None:
        """Return the record of an output, or None if its mode needs none."""
        return cls(files, paths, generation) if mode in _MODES_THAT_WRITE_ONCE else None

    def find(self) -> tuple[int | None, OutputSummary] | None:
        """Return rows and summary of the commit of an earlier attempt if the output still has its files."""
        commit = RecordedCommit.from_json(self._files.read_text(self._paths.record))
        if commit is None or commit.generation != self._generation or not self._files.exists(self._paths.output):
            return None
        existing = {entry.path.removeprefix(self._paths.output) for entry in self._files.files(self._paths.output)}
        has_files = existing.issuperset(commit.files) if commit.files else commit.is_complete
        return (commit.rows, commit.summary) if has_files else None

    def write(self, files: tuple[str, ...], rows: int | None, summary: OutputSummary, *, is_complete: bool) -> None:
        """Write the record of a commit that creates the output, before its first move and again after its last."""
        commit = RecordedCommit(
            generation=self._generation, files=files, rows=rows, summary=summary, is_complete=is_complete
        )
        self._files.write_text(self._paths.record, commit.model_dump_json())
        if is_complete:
            # The other records belong to outputs that were deleted.
            for path in self._files.glob(self._paths.hidden_directory, RECORDS_OF_ALL_RUNS):
                if path != self._paths.record:
                    self._files.delete(path)
