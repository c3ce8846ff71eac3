"""The estimated costs of both readers of an Avro scan, from a sample of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pushdown_spark.contract.report_text import human_percent
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.formats.avro.container_file import AvroCodec
from pushdown_spark.formats.avro.decoder import AvroQuery
from pushdown_spark.formats.avro.file_reader import BlockSample, DecoderCache, open_avro
from pushdown_spark.formats.avro.metrics import AvroMetrics
from pushdown_spark.formats.scan_task import spread
from pushdown_spark.scan.plan import MAX_SAMPLED_FILES, ReaderDecision, choose_pushdown, is_cheaper, startup_note
from pushdown_spark.sources.stores.listing import InputFile, files_with_content

_MAX_SAMPLED_BLOCKS = 4
"""Maximum number of blocks of a file in a long scan. Evaluating the filter over a block takes milliseconds."""
_LONG_SCAN = 3.0
"""CPU seconds of Spark's reader from which a scan is long."""


@dataclass(frozen=True, kw_only=True)
class AvroCosts:
    """CPU seconds, measured in a warm JVM over tables of 4 to 120 columns. Only their ratios matter."""

    # The pushdown reader
    query_start: float = 0.25  # planning, and starting Python
    load: float = 0.05  # loading machine code into a worker
    load_bytes: float = 5e6  # the bytes that a worker decodes in that time without machine code
    decompress: float = 0.6e-9  # a decompressed byte
    inflate: float = 0.8e-9  # a decompressed byte of the codec deflate, in addition
    search: float = 0.2e-9  # searching a byte
    decode: float = 10e-9  # a decoded record
    decode_value: float = 5e-9  # a stored value of a decoded record
    row: float = 5e-9  # a matching record
    value: float = 60e-9  # a column of a matching record
    # Spark's reader, which decodes every record completely
    spark_query: float = 0.05  # a query
    spark_file: float = 1e-3  # a file
    spark_byte: float = 0.3e-9  # a decompressed byte
    spark_inflate: float = 3.5e-9  # as `inflate`
    spark_row: float = 40e-9  # a record
    spark_stored_value: float = 21e-9  # a stored value of a record
    spark_matching_row: float = 20e-9  # a matching record
    spark_value: float = 26e-9  # a column of a matching record


_COSTS = AvroCosts()


@dataclass(frozen=True)
class AvroDecision(ReaderDecision):
    """The decision for the pushdown reader. With `searches_blocks`, a search of blocks pays."""

    searches_blocks: bool = True


@dataclass(frozen=True, kw_only=True)
class AvroSample:
    """Sampled blocks, extrapolated to all files: decompressed bytes, records, values, and fractions between 0 and 1.

    `deflate_size` are the decompressed bytes in the codec deflate. `candidate_fraction` is the fraction of bytes in
    blocks that the search does not skip.
    """

    files: int
    size: float
    deflate_size: float
    records: float
    values: float
    candidate_fraction: float
    matching_fraction: float
    blocks: int


@dataclass(frozen=True)
class ReaderSeconds:
    """CPU seconds of both readers, and whether the pushdown reader is cheaper with a search."""

    pushdown: float
    spark: float
    searches_blocks: bool


def estimate(files: Sequence[InputFile], query: AvroQuery, workers: int, startup: float = 0.0) -> AvroDecision:
    """Return the decision for the pushdown reader. `startup` are the CPU seconds that Python needs to start.

    Raises UnsupportedError if Spark's reader is cheaper, and PushdownError for a file that cannot be read, or only by
    Spark.
    """
    largest = _sample(files, query, 1, evaluates_filter=False)
    spark_seconds = reader_seconds(largest, len(query.schema), workers, has_filter=False).spark
    if not is_cheaper(_min_seconds(largest) + startup, spark_seconds):
        records = f"about {largest.records:,.0f} records are too few to make up for starting another reader"
        raise UnsupportedError(f"{records}{startup_note(startup)}")
    blocks = _MAX_SAMPLED_BLOCKS if spark_seconds > _LONG_SCAN else 1
    sample = _sample(files, query, blocks, evaluates_filter=True)
    seconds = reader_seconds(sample, len(query.schema), workers, has_filter=query.filter is not None)
    finding = (
        f"about {human_percent(sample.matching_fraction, 1)} of the records match, in "
        f"{human_percent(sample.candidate_fraction, 1)} of the blocks (sample of {sample.blocks} blocks)"
    )
    decision = choose_pushdown(finding, seconds.pushdown, seconds.spark, startup)
    return AvroDecision(decision.reason, decision.predicted, seconds.searches_blocks)


def reader_seconds(sample: AvroSample, columns: int, workers: int, *, has_filter: bool) -> ReaderSeconds:
    """Return the CPU seconds of both readers, given the number of columns. Without a filter there is no search."""
    rows = sample.records * sample.matching_fraction
    decode_seconds = sample.records * _COSTS.decode + sample.values * _COSTS.decode_value
    search_seconds = sample.size * _COSTS.search + sample.candidate_fraction * decode_seconds
    searches_blocks = has_filter and search_seconds < decode_seconds
    decoded_size = sample.size * (sample.candidate_fraction if searches_blocks else 1.0)
    loads = min(max(workers, 1), decoded_size / _COSTS.load_bytes)
    pushdown = _min_seconds(sample) + (search_seconds if searches_blocks else decode_seconds) + loads * _COSTS.load
    pushdown += rows * (_COSTS.row + columns * _COSTS.value)
    spark = _COSTS.spark_query + sample.files * _COSTS.spark_file
    spark += sample.size * _COSTS.spark_byte + sample.deflate_size * _COSTS.spark_inflate
    spark += sample.records * _COSTS.spark_row + sample.values * _COSTS.spark_stored_value
    spark += rows * (_COSTS.spark_matching_row + columns * _COSTS.spark_value)
    return ReaderSeconds(pushdown, spark, searches_blocks)


def _min_seconds(sample: AvroSample) -> float:
    """Return the CPU seconds of the pushdown reader if it skips every block."""
    return _COSTS.query_start + sample.size * _COSTS.decompress + sample.deflate_size * _COSTS.inflate


def _sample(files: Sequence[InputFile], query: AvroQuery, blocks: int, *, evaluates_filter: bool) -> AvroSample:
    """Sample some blocks of some files, evenly spread. Without `evaluates_filter`, all records count as matching."""
    with_content = files_with_content(files)
    samples: list[BlockSample] = []
    deflate_size = 0
    decoders = DecoderCache(query)
    for file in spread(with_content, MAX_SAMPLED_FILES):
        with open_avro(file.path, file.storage, decoders, AvroMetrics()) as source:
            blocks_of_file = list(source.samples(blocks, evaluates_filter=evaluates_filter))
            samples += blocks_of_file
            if source.header.codec is AvroCodec.DEFLATE:
                deflate_size += sum(block.size for block in blocks_of_file)
    stored_size = sum(block.stored_size for block in samples)
    size = sum(block.size for block in samples)
    records = sum(block.records for block in samples)
    scale = sum(file.size for file in with_content) / max(stored_size, 1)
    return AvroSample(
        files=len(with_content),
        size=size * scale,
        deflate_size=deflate_size * scale,
        records=records * scale,
        values=sum(block.values for block in samples) * scale,
        candidate_fraction=sum(block.size for block in samples if block.is_match) / max(size, 1),
        matching_fraction=sum(block.matching_records for block in samples) / max(records, 1),
        blocks=len(samples),
    )
