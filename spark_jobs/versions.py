"""The release of Spark that jobs run on."""

from __future__ import annotations

import re

SPARK_RELEASE = "4.3"
"""Jobs use parts of Spark that change from release to release."""


def unsupported_spark(version: str) -> str | None:
    """Return what is wrong with a version of Spark and what to install, or None if jobs run on it.

    >>> unsupported_spark("4.3.0") or unsupported_spark("4.3.1-vendor-2")
    >>> unsupported_spark("4.0.1")
    'jobs need Spark 4.3, and this is Spark 4.0.1; install pyspark 4.3 and the rest of spark_jobs/requirements.txt'
    """
    if re.match(rf"{re.escape(SPARK_RELEASE)}(?!\d)", version):
        return None
    return (
        f"jobs need Spark {SPARK_RELEASE}, and this is Spark {version}; install pyspark {SPARK_RELEASE} "
        "and the rest of spark_jobs/requirements.txt"
    )
