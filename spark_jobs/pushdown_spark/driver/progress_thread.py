"""The progress of a running query, measured and published by a thread of the driver.

Nothing here may fail or delay the query: the thread only reads counts that Spark and the readers keep anyway, it
ignores its own errors, and it is a daemon.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from pushdown_spark.contract.progress import Progress, SourceProgress
from pushdown_spark.runtime.query_metrics import stages_with_tag
from pushdown_spark.runtime.spark_internals import java_context

INTERVAL_SECONDS = 5.0
"""The time between two measurements."""
_MAX_WAIT_SECONDS = 0.5
"""The time that the job waits for a measurement that is under way when the job ends. A killed job has 2 seconds."""


@contextmanager
def publish_progress(measure: Callable[[], Progress | None], publish: Callable[[Progress], None]) -> Iterator[None]:
    """Publish the progress of what runs in the block every few seconds, and none if `measure` returns None."""
    stop = threading.Event()

    def publish_until_the_end() -> None:
        while not stop.wait(INTERVAL_SECONDS):
            with suppress(Exception):
                progress = measure()
                if progress is not None and not stop.is_set():
                    publish(progress)

    thread = threading.Thread(target=publish_until_the_end, name="progress", daemon=True)
    with suppress(RuntimeError):  # no more threads
        thread.start()
    try:
        yield
    finally:
        stop.set()
        # Spark should not stop while the thread asks it.
        if thread.ident is not None:
            thread.join(_MAX_WAIT_SECONDS)


class QueryProgress:
    """The progress of a query whose jobs have a tag.

    `scans` returns the progress of each scan, or None for a scan that does not know it, or None if a LIMIT may end the
    scans at any time.
    """

    def __init__(
        self, spark: SparkSession, tag: str, scans: Callable[[], Sequence[SourceProgress | None] | None]
    ) -> None:
        self._spark = spark
        self._tag = tag
        self._scans = scans
        self._estimate = TimeLeft(time.monotonic())

    def measure(self) -> Progress | None:
        """Return the figures that are known now, or None if there are none."""
        stages = self._running_stages()
        scans = self._scans()
        counts = [scan for scan in scans or () if scan is not None]
        files_total, bytes_total = (sum(scan.files_total for scan in counts), sum(scan.bytes_total for scan in counts))
        progress = Progress(
            files_done=sum(scan.files_done for scan in counts) if counts else None,
            files_total=files_total if counts else None,
            bytes_done=sum(scan.bytes_done for scan in counts) if counts else None,
            bytes_total=bytes_total if counts else None,
            rows_found=counts[0].rows_found if scans is not None and len(scans) == len(counts) == 1 else None,
            tasks_done=sum(int(stage.numCompletedTasks()) for stage in stages) if stages else None,
            tasks_total=sum(int(stage.numTasks()) for stage in stages) if stages else None,
        )
        if progress == Progress():
            return None
        return progress.model_copy(update={"seconds_left": self._seconds_left(scans, progress, stages)})

    def _seconds_left(
        self, scans: Sequence[SourceProgress | None] | None, progress: Progress, stages: Sequence[JavaObject]
    ) -> float | None:
        """Return the estimate: by bytes if all scans count them, or else by the tasks of the only stage of one scan."""
        if scans is None:
            return None
        now = time.monotonic()
        if None not in scans and progress.bytes_done is not None and progress.bytes_total is not None:
            return self._estimate.seconds("bytes", progress.bytes_done, progress.bytes_total, now)
        if len(scans) == len(stages) == 1 and progress.tasks_done is not None and progress.tasks_total is not None:
            stage = f"stage {stages[0].stageId()}"
            return self._estimate.seconds(stage, progress.tasks_done, progress.tasks_total, now)
        return None

    def _running_stages(self) -> list[JavaObject]:
        """Return the stages of the query that have running tasks. Those that start Python workers are not its own."""
        tracker = java_context(self._spark).statusTracker()
        stages = stages_with_tag(self._spark, self._tag)
        running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds() if int(stage) in stages]
        return [stage.get() for stage in running if stage.isDefined()]


class TimeLeft:
    """An estimate of the time that work takes, from the part that is done.

    Finished tasks change the part in steps. The speed is measured from the start to the last step, so that the estimate
    falls steadily between two steps.
    """

    def __init__(self, start: float) -> None:
        """Set when the work starts, in seconds of any clock."""
        self._unit = ""
        self._start = self._at = start
        """The times of the start and of the last step."""
        self._first = self._done = 0
        """The part that was done at these times."""

    def seconds(self, unit: str, done: int, total: int, now: float) -> float | None:
        """Return the seconds left, or None if they are unknown. With another unit or less done, the work starts again.

        >>> left = TimeLeft(start=0.0)
        >>> [left.seconds("tasks", done, 10, now) for done, now in ((0, 5.0), (2, 10.0), (2, 15.0), (10, 50.0))]
        [None, 40.0, 35.0, 0.0]
        """
        if self._unit and (unit != self._unit or done < self._done):
            self._start = self._at = now
            self._first = self._done = done
        self._unit = unit
        if done > self._done:
            self._done, self._at = done, now
        if self._done == self._first:
            return None
        seconds_each = (self._at - self._start) / (self._done - self._first)
        return max(0.0, seconds_each * (total - self._done) - (now - self._at))
