"""Estimate from a sample of blocks what each reader of an Avro scan would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pushdown_spark.readers.avro.counts import AvroCount
from pushdown_spark.readers.avro.decode import AvroQuery
from pushdown_spark.readers.avro.scan import BlockSample, Decoders, opened
from pushdown_spark.readers.files import InputFile
from pushdown_spark.runtime.worker_startup import startup_note

_SAMPLED_FILES = 3
_SAMPLED_BLOCKS = 4
"""Blocks of each sampled file."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem with snappy in a warm JVM; only their ratios matter for the choice.

    `fixed`: planning, and starting the Python side. `load`: making a worker ready to decode many records, and
    `load_bytes` how many bytes it decodes without, in the same time: `flat_bytes` of flat records. `unpack`: a byte of
    a decompressed block in our reader. `search`: the same byte, searched. `walk`: the same byte, decoded for the
    filter's columns in blocks that are not skipped. `row`: a surviving record, and `value` each of its columns, decoded
    and handed over. `spark_byte`, `spark_row`: the same byte and a record in Spark's reader, which decodes every record
    whole; `spark_kept_row` a record that it hands over, and `spark_kept` each of its columns.
    """

    fixed: float = 0.4
    load: float = 0.15
    load_bytes: float = 2.5e6
    flat_bytes: float = 12e6
    unpack: float = 0.8e-9
    search: float = 0.2e-9
    walk: float = 0.6e-9
    row: float = 5e-9
    value: float = 60e-9
    spark_byte: float = 2e-9
    spark_row: float = 180e-9
    spark_kept_row: float = 48e-9
    spark_kept: float = 21e-9


_COSTS = Costs()
MARGIN = 0.9
"""Our reader must promise to be at least this much cheaper."""


@dataclass(frozen=True)
class Estimate:
    """The choice, and why. `search` says whether searching blocks pays before decoding them."""

    ours: bool
    search: bool
    reason: str


@dataclass(frozen=True)
class Sample:
    """What was seen in some blocks, scaled to all files: decompressed bytes and records; shares are between 0 and 1.

    `flat` tells that all records were of the kind that Python decodes fast.
    """

    size: float
    records: float
    found_share: float
    matching_share: float
    blocks: int
    flat: bool


@dataclass(frozen=True)
class Seconds:
    """CPU seconds of either reader, and whether ours is the cheaper with a search for bytes."""

    ours: float
    spark: float
    search: bool


def estimate(files: Sequence[InputFile], query: AvroQuery, workers: int, start: float = 0.0) -> Estimate:
    """Choose the cheaper reader for a scan by so many workers. `start` are CPU seconds that ours takes beyond its work.

    Raises PushdownError where a file cannot be read, or only by Spark.
    """
    sample = _sampled(files, query)
    costs = costs_of(sample, len(query.schema), workers, filtered=query.filter is not None)
    costs = replace(costs, ours=costs.ours + start)
    told = (
        f"about {sample.matching_share:.2%} of the records match, in {sample.found_share:.0%} of the blocks (sample of "
        f"{sample.blocks} blocks); estimated CPU: ours {costs.ours:.1f} s, Spark's {costs.spark:.1f} s"
        f"{startup_note(start)}"
    )
    return Estimate(costs.ours < MARGIN * costs.spark, costs.search, told)


def costs_of(sample: Sample, columns: int, workers: int, *, filtered: bool) -> Seconds:
    """What the readers would take for so many columns; a scan that is not `filtered` has nothing to search for."""
    c = _COSTS
    rows = sample.records * sample.matching_share
    searching = sample.size * (c.search + sample.found_share * c.walk)
    walking = sample.size * c.walk
    search = filtered and searching < walking
    decoded = sample.size * (sample.found_share if search else 1.0)
    loads = min(max(workers, 1), decoded / (c.flat_bytes if sample.flat else c.load_bytes))
    ours = c.fixed + sample.size * c.unpack + (searching if search else walking) + loads * c.load
    ours += rows * (c.row + columns * c.value)
    spark = sample.size * c.spark_byte + sample.records * c.spark_row
    spark += rows * (c.spark_kept_row + columns * c.spark_kept)
    return Seconds(ours, spark, search)


def _sampled(files: Sequence[InputFile], query: AvroQuery) -> Sample:
    """Look at some blocks of some files, evenly spread."""
    there = [file for file in files if file.size]
    step = max(1, len(there) // _SAMPLED_FILES)
    seen: list[BlockSample] = []
    flat = True
    decoders = Decoders(query)
    for file in there[::step][:_SAMPLED_FILES]:
        with opened(file.path, file.storage, decoders, AvroCount()) as source:
            seen += source.samples(_SAMPLED_BLOCKS)
            flat &= source.is_flat
    stored = sum(block.stored for block in seen)
    records = sum(block.records for block in seen)
    scale = sum(file.size for file in there) / max(stored, 1)
    return Sample(
        sum(block.size for block in seen) * scale,
        records * scale,
        sum(block.size for block in seen if block.found) / max(sum(block.size for block in seen), 1),
        sum(block.matching for block in seen) / max(records, 1),
        len(seen),
        flat,
    )
