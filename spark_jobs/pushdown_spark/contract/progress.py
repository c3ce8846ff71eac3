"""The progress of a running job: the figures that its driver reports every few seconds, and their text."""

from __future__ import annotations

import re

from pushdown_spark.contract.message import Message
from pushdown_spark.contract.report_text import human_bytes, human_count, human_seconds

_LINE = "airflow_pushdown: progress "
_RESULT = re.compile(r"result([-\w]*\.json)$")


class SourceProgress(Message):
    """The finished tasks of one scan: their files, the stored bytes of their splits, and the rows that they returned.

    A file is done when all its splits are.
    """

    files_done: int
    files_total: int
    bytes_done: int
    bytes_total: int
    rows_found: int


class Progress(Message):
    """The progress of a job. A figure that is unknown is None.

    Files and bytes count all sources whose reader counts them. `rows_found` is None for several sources. The tasks
    belong to Spark's running stages. `seconds_left` is the estimated time until the scan has ended. `scan` is the name
    of the running scan if the job has several, `scan_number` counts them from 1.
    """

    files_done: int | None = None
    files_total: int | None = None
    bytes_done: int | None = None
    bytes_total: int | None = None
    rows_found: int | None = None
    tasks_done: int | None = None
    tasks_total: int | None = None
    seconds_left: float | None = None
    scan: str | None = None
    scan_number: int | None = None
    scans_total: int | None = None

    def line(self) -> str:
        """Return the line of the driver's output that has the progress."""
        return f"{_LINE}{self.model_dump_json(exclude_none=True)}"


def progress_of_line(line: str) -> Progress | None:
    """Return the progress in a line of a driver's output, or None for other lines."""
    return Progress.from_json(line.removeprefix(_LINE)) if line.startswith(_LINE) else None


def progress_path(result_path: str) -> str:
    """Return the path or URI of the file with the progress of a job on a cluster, given that of its result.

    >>> progress_path("s3a://exchange/a1.result-c0ffee.json")
    's3a://exchange/a1.progress-c0ffee.json'
    """
    return _RESULT.sub(r"progress\1", result_path)


def progress_headline(progress: Progress) -> str:
    """Return the share that is done and the time left, an empty string if neither is known.

    >>> progress_headline(Progress(bytes_done=3, bytes_total=12, tasks_done=1, tasks_total=2, seconds_left=40.2))
    '25 %, about 40 s left to scan'
    """
    counts = (
        (progress.bytes_done, progress.bytes_total),
        (progress.files_done, progress.files_total),
        (progress.tasks_done, progress.tasks_total),
    )
    share = next((f"{100 * done // total} %" for done, total in counts if done is not None and total), "")
    return ", ".join(filter(None, (share, _time_left(progress))))


def progress_text(progress: Progress) -> str:
    """Return the known figures as one line, an empty string if there are none.

    >>> progress_text(Progress(files_done=3, files_total=12, rows_found=812, seconds_left=40.2))
    '3 of 12 files, 812 rows found, about 40 s left to scan'
    """
    parts = [
        f"scan {progress.scan_number} of {progress.scans_total} ({progress.scan})" if progress.scan else "",
        _part_of_whole(progress.files_done, progress.files_total, "file"),
        _bytes(progress.bytes_done, progress.bytes_total),
        "" if progress.rows_found is None else f"{human_count(progress.rows_found, 'row')} found",
        _part_of_whole(progress.tasks_done, progress.tasks_total, "task"),
        _time_left(progress),
    ]
    return ", ".join(filter(None, parts))


def _part_of_whole(done: int | None, total: int | None, noun: str) -> str:
    return "" if done is None or total is None else f"{done:,} of {human_count(total, noun)}"


def _bytes(done: int | None, total: int | None) -> str:
    return "" if done is None or total is None else f"{human_bytes(done)} of {human_bytes(total)} searched"


def _time_left(progress: Progress) -> str:
    return "" if progress.seconds_left is None else f"about {whole_seconds(progress.seconds_left)} left to scan"


def whole_seconds(seconds: float) -> str:
    """Return a duration in its two largest units, which is not more exact than a second.

    >>> whole_seconds(30.2), whole_seconds(75)
    ('30 s', '1 min 15 s')
    """
    return f"{round(seconds)} s" if seconds < 59.5 else human_seconds(seconds)
