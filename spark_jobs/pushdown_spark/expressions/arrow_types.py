"""Arrow types of Spark types, with timestamps in UTC, in every supported release of PySpark."""

from __future__ import annotations

import inspect
from typing import Any

import pyarrow as pa
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

_TIME_ZONE: dict[str, Any] = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
"""Older releases have no such argument and always use UTC."""


def utc_arrow_type(data_type: t.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type."""
    return to_arrow_type(data_type, **_TIME_ZONE)
