"""The version of the contract, and the release of Spark that jobs run on."""

from __future__ import annotations

import re

CONTRACT_VERSION = 1
"""Incremented when an older spec or result can no longer be read."""
SPARK_RELEASE = "4.3"
"""Jobs use internals of Spark that change between releases."""


def unsupported_spark(version: str) -> str | None:
    """Return why jobs cannot run on a version of Spark and what to install, or None if they can.

    >>> unsupported_spark("4.3.0") or unsupported_spark("4.3.1-vendor-2")
    >>> unsupported_spark("4.0.1")
    'jobs need Spark 4.3, and this is Spark 4.0.1; install "pushdown-spark[spark]"'
    """
    if re.match(rf"{re.escape(SPARK_RELEASE)}(?!\d)", version):
        return None
    return f'jobs need Spark {SPARK_RELEASE}, and this is Spark {version}; install "pushdown-spark[spark]"'
