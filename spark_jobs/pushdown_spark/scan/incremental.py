"""Incremental scans: growing batches of tasks in file order, until a limit is reached."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pushdown_spark.scan.base import IncrementalScan

_MAX_DOUBLINGS = 10


def batch_size(batch: int) -> int:
    """Return the number of tasks in a batch: it doubles with each batch, up to 1,024."""
    return 1 << min(batch, _MAX_DOUBLINGS)


class OnePiece(IncrementalScan):
    """A scan whose rows come in one piece."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame: DataFrame | None = frame

    def next_frame(self) -> DataFrame | None:
        """Return the DataFrame, then None."""
        frame, self._frame = self._frame, None
        return frame
