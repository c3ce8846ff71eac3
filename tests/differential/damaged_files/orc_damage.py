"""Reads damaged ORC files in a separate process. `damage.py` explains it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from damage import limit_memory, print_outcomes

from pushdown_spark.formats.orc.file_reader import OrcQuery, open_orc
from pushdown_spark.formats.orc.file_tail import read_tail
from pushdown_spark.formats.orc.metrics import OrcMetrics
from pushdown_spark.formats.orc.stripe import Stripe
from pushdown_spark.sources.stores.storage import LOCAL


def regions(path: Path) -> dict[str, tuple[int, int]]:
    """Return the parts of a file: index, data and footer of the first stripe, statistics, footer, postscript."""
    content = path.read_bytes()

    def read(offset: int, length: int) -> bytes:
        return content[offset : offset + length]

    tail = read_tail(read, len(content))
    stripe = Stripe.open(tail, 0, read)
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


def _read(path: Path, query: OrcQuery) -> list[pa.RecordBatch]:
    with open_orc(str(path), LOCAL, query, OrcMetrics()) as file:
        return list(file.batches(file.stripes(0, path.stat().st_size)))


if __name__ == "__main__":
    limit_memory()
    print_outcomes(_read)
