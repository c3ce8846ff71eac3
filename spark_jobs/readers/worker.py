"""What every task of ours does first in its Python worker."""

from __future__ import annotations

import gc
from functools import cache


@cache
def spare_the_collector() -> None:
    """Take what this worker has imported out of garbage collection, once for all its tasks.

    Spark's Python daemon collects all garbage after every task, and going through the objects of the imported modules
    took 30 ms of processor time each time, as much as searching 100 MB.
    """
    gc.freeze()
