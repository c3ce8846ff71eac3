"""Avro files in an S3 store yield the same records as local files, however they are split."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from avro_samples import write
from s3_server import ObjectStore

from pushdown_spark.errors import MissingPathError, UnreadableFileError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Column, Comparison, Op
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import DecoderCache, open_avro
from pushdown_spark.formats.avro.metrics import AvroMetrics, AvroOutcome
from pushdown_spark.sources.stores.storage import Storage

SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
}
ARROW = pa.schema([("id", pa.int64()), ("text", pa.string())])
ROWS, EACH = 4_000, 100
NEEDLE = ArrowFilter(Comparison(Column(("id",), LogicalType.INTEGER, pa.int64()), Op.EQ, 1_003_210))


def rows() -> list[dict[str, object]]:
    return [{"id": 1_000_000 + number, "text": f"row {number}"} for number in range(ROWS)]


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    blocks = [rows()[start : start + EACH] for start in range(0, ROWS, EACH)]
    return write(tmp_path / "local.avro", SCHEMA, blocks, "deflate").read_bytes()


def _read(
    path: str, storage: Storage, query: AvroQuery, start: int, end: int
) -> tuple[list[dict[str, object]], AvroMetrics]:
    count = AvroMetrics()
    with open_avro(path, storage, DecoderCache(query), count, end) as file:
        batches = list(file.batches(start, end))
    return pa.Table.from_batches(batches, ARROW).to_pylist(), count


def test_ranges_that_tile_an_object_tile_its_records(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "a b/ü.avro", content), store.storage(bucket)
    cuts = [0, 10, len(content) // 3, len(content) // 2, len(content)]
    parts = [_read(path, storage, AvroQuery(ARROW, None), a, b)[0] for a, b in pairwise(cuts)]
    assert [row for part in parts for row in part] == rows()


def test_blocks_of_objects_are_skipped_by_their_bytes(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "rows.avro", content), store.storage(bucket)
    actual, count = _read(path, storage, AvroQuery(ARROW, NEEDLE), 0, len(content))
    assert actual == [rows()[3_210]]
    assert count.blocks[AvroOutcome.SKIPPED] >= ROWS // EACH - 3
    assert count.bytes_read == len(content)


def test_errors_name_damaged_and_missing_objects(store: ObjectStore, content: bytes) -> None:
    bucket = store.bucket()
    path, storage = store.put(bucket, "cut.avro", content[:-5]), store.storage(bucket)
    with pytest.raises(UnreadableFileError, match=r"cut\.avro, block 39 at byte \d+: "):
        _read(path, storage, AvroQuery(ARROW, None), 0, len(content))
    store.delete(bucket, "cut.avro")
    with pytest.raises(MissingPathError, match=r"cut\.avro"):
        _read(path, storage, AvroQuery(ARROW, None), 0, len(content))
