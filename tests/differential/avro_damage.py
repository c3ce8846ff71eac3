"""Damaged Avro files, read in a separate process, because a crash of a decoder ends only that process.

As a script, this module reads the files of a directory one by one, and prints each outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from orc_damage import MEMORY, QUERIES, SECONDS, Outcome, plain, rows_as_text

from pushdown_spark.errors import PushdownError
from pushdown_spark.formats.avro.container_file import SYNC_SIZE, BufferedInput, parse_header, read_blocks
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.executor import compiled_copy, compiled_interpreter
from pushdown_spark.formats.avro.file_reader import DecoderCache, open_avro
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.relations.storage import LOCAL

_MAGIC = 4


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: metadata and marker of the header; head, records and marker of the second block."""
    with LOCAL.open(str(path)) as raw:
        stream = BufferedInput(raw)
        head = parse_header(str(path), stream)
        _, second, third, *_ = read_blocks(stream, head, 0, stream.size)
    marker = third.offset - SYNC_SIZE
    data = marker - len(second.stored)
    return {
        "magic": (0, _MAGIC),
        "metadata": (_MAGIC, head.length - SYNC_SIZE),
        "first marker": (head.length - SYNC_SIZE, head.length),
        "block head": (second.offset, data),
        "records": (data, marker),
        "marker": (marker, third.offset),
    }


def outcomes(directory: Path, queries: Mapping[str, AvroQuery]) -> dict[str, dict[str, Outcome]]:
    """Return the outcome of each query by file name. Raises AssertionError if the process crashed."""
    (directory / QUERIES).write_bytes(pickle.dumps(dict(queries)))
    # Arrow's usual allocator reserves address space ahead.
    env = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        [sys.executable, __file__, str(directory)], capture_output=True, text=True, env=env, check=False
    )
    found = {}
    for line in done.stdout.splitlines():
        name, results = json.loads(line)
        found[name] = {query: Outcome(tuple(rows), error, message) for query, (rows, error, message) in results.items()}
    left = [path.name for path in sorted(directory.glob("*.avro")) if path.name not in found]
    assert not left, f"reading {left[0]} ended the process with status {done.returncode}: {done.stderr[-2000:]}"
    return found


def _outcome(path: Path, query: AvroQuery) -> tuple[list[str], str, str]:
    try:
        with open_avro(str(path), LOCAL, DecoderCache(query), AvroMetrics()) as file:
            batches = list(file.batches(0, path.stat().st_size))
        for batch in batches:
            plain(pa.Table.from_batches([batch])).validate(full=True)
    except PushdownError as problem:
        return [], type(problem).__name__, str(problem)
    return list(rows_as_text(pa.Table.from_batches(batches, query.schema))), "", ""


def _lines(directory: Path) -> Iterator[str]:
    queries = pickle.loads((directory / QUERIES).read_bytes())
    for path in sorted(directory.glob("*.avro")):
        signal.alarm(SECONDS)
        yield json.dumps([path.name, {name: _outcome(path, query) for name, query in queries.items()}])


if __name__ == "__main__":
    pa.set_cpu_count(1)
    # Executor code has no checks of its own: what workers run on many records is what is put to the test.
    compiled_interpreter()
    compiled_copy()
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    for text in _lines(Path(sys.argv[1])):
        print(text, flush=True)
