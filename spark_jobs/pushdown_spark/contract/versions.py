"""The version of the contract, and the releases of Spark that jobs run on."""

from __future__ import annotations

import re

CONTRACT_VERSION = 1
"""Incremented when an older spec or result can no longer be read."""
SPARK_RELEASES = ("4.0", "4.1", "4.2", "4.3")
"""Jobs use internals of Spark that change between releases. The tests run on these releases."""


def unsupported_spark(version: str) -> str | None:
    """Return why jobs cannot run on a version of Spark and what to install, or None if they can.

    >>> unsupported_spark("4.3.0") or unsupported_spark("4.0.1-vendor-2")
    >>> unsupported_spark("3.5.9")
    'jobs need Spark 4.0 to 4.3, and this is Spark 3.5.9; install "pushdown-spark[spark]"'
    """
    if any(re.match(rf"{re.escape(release)}(?!\d)", version) for release in SPARK_RELEASES):
        return None
    releases = f"{SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}"
    return f'jobs need Spark {releases}, and this is Spark {version}; install "pushdown-spark[spark]"'
