"""ORC files in memory: written by pyarrow, sliced, or built from single streams."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import orc

from pushdown_spark.formats.orc.file_reader import OrcFile, OrcQuery
from pushdown_spark.formats.orc.file_tail import FileTail, ReadRange, read_tail
from pushdown_spark.formats.orc.metadata import footer_bytes, post_script_bytes, stripe_footer_bytes
from pushdown_spark.formats.orc.metrics import OrcMetrics
from pushdown_spark.formats.orc.row_group_slice import ColumnSelection, slice_file, stream_slices
from pushdown_spark.formats.orc.stripe import RowGroupRange, Stripe

CODECS = ("uncompressed", "zlib", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class Sample:
    """A complete file in memory."""

    content: bytes

    @property
    def read(self) -> ReadRange:
        return lambda offset, length: self.content[offset : offset + length]

    @property
    def tail(self) -> FileTail:
        return read_tail(self.read, len(self.content))

    @property
    def table(self) -> pa.Table:
        """The whole file as pyarrow reads it."""
        return orc.ORCFile(pa.BufferReader(self.content)).read()

    def stripe(self, number: int = 0) -> Stripe:
        return Stripe.open(self.tail, number, self.read)

    def file(self, query: OrcQuery, count: OrcMetrics | None = None) -> OrcFile:
        """Return the file as the reader opens it."""
        return OrcFile.open("f.orc", query, OrcMetrics() if count is None else count, self.read, len(self.content))


SparkFile = Callable[..., Sample]
"""Writes a frame as one file; keywords are the writer's options with `_` for `.`."""


def write_sample(table: pa.Table, **options: object) -> Sample:
    """Return a file written by pyarrow, uncompressed by default."""
    out = io.BytesIO()
    orc.write_table(table, out, **options)
    return Sample(out.getvalue())


def load_sample(path: Path | str) -> Sample:
    """Return a file on disk as a sample."""
    return Sample(Path(path).read_bytes())


def select(tail: FileTail, top_level: Sequence[int]) -> ColumnSelection:
    return ColumnSelection.of(tail, [column for root in top_level for column in tail.descendants(root)])


def cut(sample: Sample, groups: RowGroupRange, columns: Sequence[int] | None = None, stripe: int = 0) -> pa.RecordBatch:
    """Return row groups of top-level columns (all columns by default), sliced and decoded."""
    source = sample.stripe(stripe)
    column_ids = list(sample.tail.types[0].subtypes) if columns is None else columns
    selection = select(sample.tail, column_ids)
    rows = source.rows_before(groups.last + 1) - source.rows_before(groups.first)
    slices = stream_slices(source, selection.columns, groups)
    return slice_file(source, selection, rows, slices, lambda begin, end: sample.content[begin:end]).read_stripe(0)


def of_streams(template: Sample, streams: Sequence[tuple[int, int, bytes]], rows: int) -> pa.RecordBatch:
    """Return the rows of a file like a template, whose only stripe has these streams (kind, column, content)."""
    tail, stripe = template.tail, template.stripe()
    body = b"".join(data for *_, data in streams)
    directory = stripe_footer_bytes(
        [(kind, column, len(data)) for kind, column, data in streams], list(stripe.footer.columns), b""
    )
    footer = footer_bytes(tail.footer, list(tail.types), [(3, len(body), len(directory), rows)])
    script = post_script_bytes(tail.post_script, len(footer))
    content = b"ORC" + body + directory + footer + script + bytes([len(script)])
    return orc.ORCFile(pa.BufferReader(content)).read_stripe(0)
