"""Damaged ORC files, read in a separate process, because a crash of a decoder ends only that process.

As a script, this module reads the files of a directory one by one, and prints each outcome as a line of JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pushdown_spark.errors import PushdownError
from pushdown_spark.formats.orc.file_reader import OrcQuery, open_orc
from pushdown_spark.formats.orc.file_tail import read_tail
from pushdown_spark.formats.orc.metrics import OrcMetrics
from pushdown_spark.formats.orc.stripe import Stripe
from pushdown_spark.relations.listing import LOCAL

SECONDS = 60
"""A file that takes longer hangs."""
MEMORY = 2 << 30
"""Bytes of address space that reading small files may take on top of what the process has already."""
QUERIES = "queries.pickle"


@dataclass(frozen=True)
class Outcome:
    """The outcome of reading a file: rows as strings, or the class of an error (empty for rows) and its message."""

    rows: tuple[str, ...]
    error: str = ""
    message: str = ""


def plain(table: pa.Table) -> pa.Table:
    """Return strings as bytes and times as integers, because damaged values may be invalid."""
    return table.cast(pa.schema([field.with_type(_plain(field.type)) for field in table.schema]))


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    return kind


def rows_as_text(table: pa.Table) -> tuple[str, ...]:
    """Return sorted rows as strings."""
    return tuple(sorted(map(repr, plain(table).to_pylist())))


def regions(content: bytes) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: index, data and footer of the first stripe, statistics, footer, postscript."""

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    tail = read_tail(read, len(content))
    stripe = Stripe(tail, 0, read)
    info = stripe.info
    data = info.offset + info.index_length
    stripe_footer = data + info.data_length
    metadata, length = tail.metadata_at
    script = len(content) - 1 - content[-1]
    return {
        "index": (info.offset, data),
        "data": (data, stripe_footer),
        "stripe footer": (stripe_footer, stripe_footer + info.footer_length),
        "statistics": (metadata, metadata + length),
        "footer": (metadata + length, script),
        "postscript": (script, len(content)),
    }


def flipped(rng: random.Random, content: bytes, begin: int, end: int) -> bytes:
    """Return the file with one flipped bit in a range."""
    spoilt = bytearray(content)
    spoilt[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def outcomes(directory: Path, queries: Mapping[str, OrcQuery]) -> dict[str, dict[str, Outcome]]:
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
    left = [path.name for path in _files(directory) if path.name not in found]
    assert not left, f"reading {left[0]} ended the process with status {done.returncode}: {done.stderr[-2000:]}"
    return found


def _files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.orc"))


def _outcome(path: Path, query: OrcQuery) -> tuple[list[str], str, str]:
    try:
        with open_orc(str(path), LOCAL, query, OrcMetrics()) as file:
            batches = list(file.batches(file.stripes(0, path.stat().st_size)))
        for batch in batches:
            plain(pa.Table.from_batches([batch])).validate(full=True)
    except PushdownError as problem:
        return [], type(problem).__name__, str(problem)
    return list(rows_as_text(pa.Table.from_batches(batches, query.schema))), "", ""


def _lines(directory: Path) -> Iterator[str]:
    queries = pickle.loads((directory / QUERIES).read_bytes())
    for path in _files(directory):
        signal.alarm(SECONDS)
        yield json.dumps([path.name, {name: _outcome(path, query) for name, query in queries.items()}])


if __name__ == "__main__":
    pa.set_cpu_count(1)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    for text in _lines(Path(sys.argv[1])):
        print(text, flush=True)
