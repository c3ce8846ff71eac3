"""What Spark broadcasts in joins: by its own threshold, and by hints of ours."""

from __future__ import annotations

import re

HINTED_BYTES = 64 << 20
"""Relations that may have more bytes in memory are never hinted."""
_SIZE = re.compile(r"\s*(\d+)\s*([kmgtp]?)i?b?\s*", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


def threshold_bytes(setting: str | None) -> int:
    """`spark.sql.autoBroadcastJoinThreshold` in bytes; negative where Spark is not to broadcast, as it reads the text.

    Raises ValueError for a text that is no size, which Spark refuses before.

    >>> threshold_bytes("10MB"), threshold_bytes("2097152b"), threshold_bytes("-1")
    (10485760, 2097152, -1)
    """
    text = setting or "10MB"
    if text.lstrip().startswith("-"):
        return -1
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"spark.sql.autoBroadcastJoinThreshold: {text!r} is no size")
    return int(found[1]) << _UNITS[found[2].lower()]
