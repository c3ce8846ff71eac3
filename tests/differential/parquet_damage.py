"""Damaged Parquet files, read in a separate process, because a crash of a decoder ends only that process.

As a script, this module reads the files of a directory one by one, and prints each outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from orc_damage import QUERIES, SECONDS, Outcome, plain, rows_as_text

from pushdown_spark.errors import PushdownError
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.formats.parquet.metrics import ParquetMetrics
from pushdown_spark.relations.storage import LOCAL

_TAIL = 8
"""The length of the footer and the magic string."""


def regions(content: bytes) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: magic string and pages, footer, tail."""
    end = len(content) - _TAIL
    footer = end - int.from_bytes(content[end : end + 4], "little")
    return {"data": (0, footer), "footer": (footer, end), "tail": (end, len(content))}


def outcomes(directory: Path, queries: Mapping[str, ParquetQuery]) -> dict[str, dict[str, Outcome]]:
    """Return the outcome of each query by file name. Raises AssertionError if the process crashed."""
    (directory / QUERIES).write_bytes(pickle.dumps(dict(queries)))
    done = subprocess.run([sys.executable, __file__, str(directory)], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        name, results = json.loads(line)
        found[name] = {query: Outcome(tuple(rows), error, message) for query, (rows, error, message) in results.items()}
    left = [path.name for path in _files(directory) if path.name not in found]
    assert not left, f"reading {left[0]} ended the process with status {done.returncode}: {done.stderr[-2000:]}"
    return found


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.parquet"))


def _outcome(path: Path, query: ParquetQuery) -> tuple[list[str], str, str]:
    try:
        with open_parquet(str(path), LOCAL, query) as file:
            batches = list(file.batches(0, path.stat().st_size, ParquetMetrics()))
        for batch in batches:
            plain(pa.Table.from_batches([batch])).validate()
    except PushdownError as problem:
        return [], type(problem).__name__, str(problem)
    return list(rows_as_text(pa.Table.from_batches(batches, query.schema))), "", ""


def _lines(directory: Path) -> Iterator[str]:
    queries = pickle.loads((directory / QUERIES).read_bytes())
    for path in _files(directory):
        signal.alarm(SECONDS)
        yield json.dumps([path.name, {name: _outcome(path, query) for name, query in queries.items()}])


if __name__ == "__main__":
    os.environ["RUST_BACKTRACE"] = "0"
    for text in _lines(Path(sys.argv[1])):
        print(text, flush=True)
