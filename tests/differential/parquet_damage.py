"""Reads damaged Parquet files in a process of its own. `damage.py` explains it."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
from damage import print_outcomes

from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.relations.storage import LOCAL

_TAIL = 8
"""The length of the footer and the magic string."""


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: magic string and pages, footer, tail."""
    content = path.read_bytes()
    end = len(content) - _TAIL
    footer = end - int.from_bytes(content[end : end + 4], "little")
    return {"data": (0, footer), "footer": (footer, end), "tail": (end, len(content))}


def _read(path: Path, query: ParquetQuery) -> list[pa.RecordBatch]:
    with open_parquet(str(path), LOCAL, query) as file:
        return list(file.batches(0, path.stat().st_size, ParquetMetrics()))


if __name__ == "__main__":
    os.environ["RUST_BACKTRACE"] = "0"
    print_outcomes(_read, full=False)
