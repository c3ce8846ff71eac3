"""Reads damaged Parquet files in a separate process. `damage.py` explains it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from damage import print_outcomes

from pushdown_spark.errors import UnreadableFileError
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.sources.stores.storage import LOCAL

_TAIL = 8
"""The length of the footer and the magic string."""


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: magic string and pages, footer, tail."""
    content = path.read_bytes()
    end = len(content) - _TAIL
    footer = end - int.from_bytes(content[end : end + 4], "little")
    return {"data": (0, footer), "footer": (footer, end), "tail": (end, len(content))}


def _read(path: Path, query: ParquetQuery) -> list[pa.RecordBatch]:
    if _ends_pyarrow(path):
        raise UnreadableFileError(f"{path}: pyarrow alone ends the process")
    with open_parquet(str(path), LOCAL, query) as file:
        return list(file.batches(0, path.stat().st_size, ParquetMetrics()))


def _ends_pyarrow(path: Path) -> bool:
    """Return whether pyarrow 26 ends the process because its Python classes do not catch an exception of C++.

    docs/parquet.md says what a task does then. The exceptions are those for the columns of a damaged footer.
    """
    child = os.fork()
    if child:
        return os.WIFSIGNALED(os.waitpid(child, 0)[1])
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
        footer = pq.read_metadata(path)
        for group in map(footer.row_group, range(footer.num_row_groups)):
            for column in range(group.num_columns):
                group.column(column).to_dict()
    finally:
        os._exit(0)


if __name__ == "__main__":
    os.environ["RUST_BACKTRACE"] = "0"
    print_outcomes(_read, full=False)
