"""Scans of JSON lines and CSV by Python workers: they search raw bytes, and Spark parses only the candidate lines.

Filtering raw bytes before parsing follows Sparser (Palkar et al., VLDB 2018). Spark parses the candidates with the same
options and re-evaluates the predicate, so this reader only has to keep every line that may satisfy it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pushdown_spark.formats.text.line_filter import LineFilterTask, TextMetrics
from pushdown_spark.formats.text.line_parser import parse_lines
from pushdown_spark.formats.text.planner import TextPlan
from pushdown_spark.formats.worker_scan import WorkerScan
from pushdown_spark.relations.packing import Task

_LINE_SCHEMA = "value string"


class TextScan(WorkerScan[TextPlan, TextMetrics]):
    """A byte-search scan of one source by Python workers. Its rows are the candidate lines, parsed by Spark."""

    carrier = "workers"

    def run_tasks(self, tasks: tuple[Task, ...], batch: int, cap: int | None, skip: tuple[int, ...]) -> DataFrame:
        """Return the rows of some tasks. Each task skips `skip` candidates and returns the next `cap` candidates."""
        task = LineFilterTask(tasks, self._plan.query, self._counter(batch), cap, skip)
        lines = self._map(task, _LINE_SCHEMA)
        return self._with_constants(parse_lines(self._spark, self._request, lines), tasks)

    def is_exhausted(self, batch: int, number: int, cap: int) -> bool:
        """Return whether a task of a batch reached the end of its splits: it found fewer candidates than `cap`."""
        return sum(file.rows_decoded for file in self._counts.value[batch, number].values()) < cap
