"""Reads damaged Avro files in a separate process. `damage.py` explains it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from damage import limit_memory, print_outcomes

from pushdown_spark.formats.avro.container_file import SYNC_SIZE, BufferedInput, parse_header, read_blocks
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.executor import compiled_copy, compiled_interpreter
from pushdown_spark.formats.avro.file_reader import DecoderCache, open_avro
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.sources.stores.storage import LOCAL

_MAGIC = 4


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: metadata and marker of the header; head, records and marker of the second block."""
    with LOCAL.open(str(path)) as raw:
        stream = BufferedInput(raw)
        head = parse_header(str(path), stream)
        _, second, third, *_ = read_blocks(stream, head, 0, stream.size)
    marker = third.offset - SYNC_SIZE
    data = marker - len(second.data)
    return {
        "magic": (0, _MAGIC),
        "metadata": (_MAGIC, head.length - SYNC_SIZE),
        "first marker": (head.length - SYNC_SIZE, head.length),
        "block head": (second.offset, data),
        "records": (data, marker),
        "marker": (marker, third.offset),
    }


def _read(path: Path, query: AvroQuery) -> list[pa.RecordBatch]:
    with open_avro(str(path), LOCAL, DecoderCache(query), AvroMetrics()) as file:
        return list(file.batches(0, path.stat().st_size))


if __name__ == "__main__":
    # The executor has no checks of its inputs, so the code that workers run on many records is tested here.
    compiled_interpreter()
    compiled_copy()
    limit_memory()
    print_outcomes(_read)
