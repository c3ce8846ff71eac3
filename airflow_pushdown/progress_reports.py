"""The progress of a running job in the task log and, for the report page, in XCom."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from airflow.sdk.bases.xcom import BaseXCom

from airflow_pushdown.plugin.links import PROGRESS_KEY
from pushdown_spark.contract.progress import Progress, progress_headline, progress_text, whole_seconds

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol

LOG_SECONDS = 30.0
"""The time between two groups of lines in the log."""
STORE_SECONDS = 10.0
"""The time between two values for the page, because each is a request to Airflow's API server."""
FAILED_SECONDS = 300.0
"""The time until the next value after one that could not be stored."""


def log_group(log: Callable[[str], object], title: str, text: str) -> None:
    """Log lines as a group. Airflow's log page shows only its title until the user unfolds it.

    The text is one entry of the log, so that a terminal does not repeat the time and the logger on each of its lines.
    The group must end at once: the page adds the lines of other loggers to an open group, and Airflow 3.1 and 3.2 show
    no title of a group without an end. Titles of one log should differ, because these releases identify groups by them.
    """
    for entry in (f"::group::{title}", text.rstrip(), "::endgroup::"):
        log(entry)


class ProgressReports:
    """Shows some of the progress that a hook or trigger receives. A failure to show it does not matter to the task.

    `log` receives lines for the log and `store` values for the page, or None if there is no page with them.
    """

    def __init__(
        self,
        log: Callable[[str], None],
        store: Callable[[Mapping[str, object]], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._store = store
        self._clock = clock
        self._start = clock()
        self._next_group = self._start + LOG_SECONDS
        self._next_value = self._start

    def __call__(self, progress: Progress) -> None:
        """Log and store the progress if it is time for that."""
        text = progress_text(progress)
        if text and self._clock() >= self._next_group:
            self._next_group = self._clock() + LOG_SECONDS
            title = f"Progress after {whole_seconds(self._clock() - self._start)}"
            headline = progress_headline(progress)
            log_group(self._log, f"{title}: {headline}" if headline else title, text)
        if self._store is not None and self._clock() >= self._next_value:
            try:
                self._store(progress.model_dump(exclude_none=True))
                self._next_value = self._clock() + STORE_SECONDS
            except Exception:
                self._next_value = self._clock() + FAILED_SECONDS


def store_progress(ti: RuntimeTaskInstanceProtocol, value: Mapping[str, object]) -> None:
    """Replace the progress of a task instance in Airflow's database.

    A custom XCom backend is not used. It may keep each value, and the page does not read it.
    """
    BaseXCom.set(
        PROGRESS_KEY,
        dict(value),
        dag_id=ti.dag_id,
        task_id=ti.task_id,
        run_id=ti.run_id,
        map_index=-1 if ti.map_index is None else ti.map_index,
    )
