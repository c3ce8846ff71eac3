"""The choice between readers by their estimated CPU seconds, and its reason for the report."""

from __future__ import annotations

from collections.abc import Mapping

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.scan.plan import Choice

SAMPLED_FILES = 3
"""Number of files from which an estimate reads a sample."""
_MARGIN = 0.9


def is_cheaper(seconds: float, spark: float) -> bool:
    """Return whether a reader is cheaper than Spark's, with a margin for errors of the estimate.

    >>> is_cheaper(0.8, 1.0), is_cheaper(0.9, 1.0)
    (True, False)
    """
    return seconds < _MARGIN * spark


def estimates(seconds: Mapping[str, float], startup: float = 0.0) -> str:
    """Return the estimates of the readers for a reason. `startup` are the seconds in them for the start of Python.

    >>> estimates({"pushdown": 1.25, "spark": 3.0}, 0.5)
    'estimated CPU: pushdown 1.2 s, spark 3.0 s (including 0.5 s for the start of Python workers)'
    """
    figures = ", ".join(f"{reader} {value:.1f} s" for reader, value in seconds.items())
    return f"estimated CPU: {figures}{startup_note(startup)}"


def choose_pushdown(sample: str, pushdown: float, spark: float, startup: float) -> Choice:
    """Return the choice of the pushdown reader, which needs `startup` seconds in addition to start Python.

    `sample` says what a sample shows. Raises UnsupportedError if Spark's reader is cheaper.
    """
    predicted = {"pushdown": pushdown + startup, "spark": spark}
    reason = f"{sample}; {estimates(predicted, startup)}"
    if not is_cheaper(predicted["pushdown"], spark):
        raise UnsupportedError(reason, predicted)
    return Choice(reason, predicted)


def startup_note(seconds: float) -> str:
    """Return the note for an estimate that includes the start of workers, or an empty string if it does not."""
    return f" (including {seconds:.1f} s for the start of Python workers)" if seconds else ""
