"""The number of fields of CSV lines without names, for the array `columns`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from pushdown_spark.expressions.session_settings import is_option_on
from pushdown_spark.local_paths import escape_glob
from pushdown_spark.projection.paths import ColumnPath, Elements
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.stores.listing import decode_uri

_MAX_FREE_FIELDS = 256
"""Spark parses this many columns at no cost, whether or not the files have them."""


def required_field_count(spark: SparkSession, source: Source, uris: Sequence[str], paths: Sequence[ColumnPath]) -> int:
    """Return the number of fields to parse for the paths of a query, or 0 to keep the number that Spark finds.

    For high positions and slices without an end, the files are read once more to find the widest line. Modes that
    reject or drop lines of another width, and records of several lines, keep Spark's number.
    """
    options = source.options
    is_permissive = options.get("mode", "PERMISSIVE").upper() == "PERMISSIVE"
    if not is_permissive or is_option_on(options, "multiline"):
        return 0
    positions = [step.positions for path in paths for step in path.steps if isinstance(step, Elements)]
    count = max((position + 1 for step_positions in positions for position in step_positions), default=0)
    if len(positions) == len(paths) and count <= _MAX_FREE_FIELDS:
        return count
    return _widest(spark, source, uris)


def _widest(spark: SparkSession, source: Source, uris: Sequence[str]) -> int:
    """Return the number of fields in the widest line: its separators outside quotes, plus one."""
    options = source.options
    sep = options.get("sep", options.get("delimiter", ",")).replace("\\t", "\t")
    quote, escape = options.get("quote", '"'), options.get("escape", "\\")
    reader = spark.read.options(**{key: options[key] for key in ("linesep",) if key in options})
    text = f.col("value")
    frame = reader.text([escape_glob(decode_uri(uri)) for uri in uris])
    if comment := options.get("comment"):
        frame = frame.where(~text.startswith(comment))
    if quote:
        inside = f"[^{re.escape(quote + escape)}]|{re.escape(escape)}.|{re.escape(quote * 2)}"
        text = f.regexp_replace(text, f.lit(f"{re.escape(quote)}({inside})*{re.escape(quote)}"), f.lit(""))
    (row,) = frame.select(f.max(f.size(f.split(text, re.escape(sep), -1)))).collect()
    return int(row[0] or 0)
