"""Cost of byte search compared with Spark's reader, estimated from a sample of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.formats.text.byte_search import Searcher
from pushdown_spark.formats.text.line_filter import LineMatcher, LineSyntax
from pushdown_spark.formats.text.line_reader import LineReader
from pushdown_spark.relations.declaration import Source
from pushdown_spark.relations.listing import Compression, InputFile, Split
from pushdown_spark.runtime.worker_startup import startup_cost

_BLOCK_BYTES = 256 << 10
"""Number of bytes read at each position."""
_MAX_BLOCKS = 8
"""Number of sampled positions, spread over all files."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem. Only their ratios matter for the choice of a reader.

    - `spark_per_byte`: Spark's reader with its own pushdown.
    - `spark_cold_per_byte`: the same in a JVM that has just started.
    - `search_per_byte`: reading and searching.
    - `parse_per_byte` and `per_line`: passing a candidate line to Spark and parsing it.
    - `fixed`: starting the Python workers.
    """

    spark_per_byte: float
    spark_cold_per_byte: float
    search_per_byte: float
    parse_per_byte: float
    per_line: float
    fixed: float


_COSTS = {
    SourceFormat.JSON: Costs(3.1e-9, 6.2e-9, 0.5e-9, 8.0e-9, 2.0e-6, 0.5),
    SourceFormat.CSV: Costs(9.0e-9, 9.5e-9, 0.6e-9, 15.0e-9, 2.0e-6, 0.5),
}
_MAX_COST_RATIO = 0.9
"""Maximum estimated cost of our reader, relative to Spark's reader."""


@dataclass(frozen=True)
class LineSample:
    """The number of sampled lines, their mean length in bytes, and the share of lines that each pattern matches.

    `inflation` is the number of searched bytes per stored byte, above 1 for compressed files.
    """

    lines: int
    line_bytes: float
    shares: tuple[float, ...]
    inflation: float


def sample(
    files: Sequence[InputFile], searchers: Sequence[Searcher], ambiguous: Searcher | None, syntax: LineSyntax
) -> LineSample:
    """Read a sample of the files. Raises PushdownError if a block shows that the files cannot be searched."""
    lines = size = stored = 0
    matches = [0] * len(searchers)
    for split in _sampled_blocks(files):
        reader = LineReader(split, carriage_returns=syntax.carriage_returns)
        window = next(reader.windows(), None)
        if window is None:
            continue
        stored += max(reader.bytes_read, 1)
        size += window.length
        lines += window.data.count(b"\n", 0, window.length) or window.data.count(b"\r", 0, window.length)
        for index, searcher in enumerate(searchers):
            matcher = LineMatcher(searcher, ambiguous, syntax)
            candidates = matcher.lines(window, split.path, at_start=split.start == 0)
            # This raises for lines that only Spark can read.
            matcher.batch(candidates, split.path)
            matches[index] += len(candidates)
    return LineSample(lines, size / max(lines, 1), tuple(n / max(lines, 1) for n in matches), size / max(stored, 1))


def _sampled_blocks(files: Sequence[InputFile]) -> list[Split]:
    """Return evenly spread blocks, weighted by file size. In compressed files, they are at the start."""
    total = sum(file.size for file in files)
    step = max(total // _MAX_BLOCKS, 1)
    blocks: list[Split] = []
    passed = 0
    for file in files:
        first = -(-passed // step) * step
        for position in range(first, passed + file.size, step):
            blocks.append(_block(file, position - passed))
            if len(blocks) >= _MAX_BLOCKS:
                return blocks
        passed += file.size
    return blocks


def _block(file: InputFile, start: int) -> Split:
    return file.split(start, min(start + _BLOCK_BYTES, file.size))


def check_size(spark: SparkSession, source: Source, files: Sequence[InputFile]) -> None:
    """Raise UnsupportedError if byte search costs too much for any predicate.

    This uses only the sizes of the files. Compressed files may have any size after decompression.
    """
    stored = sum(file.size for file in files)
    if any(file.compression is not Compression.NONE for file in files):
        return
    if _COSTS[source.format].fixed + startup_cost(spark, source) >= _MAX_COST_RATIO * _spark_seconds(source, stored):
        raise UnsupportedError(f"{_too_expensive(source, stored)}, whatever can match")


def _too_expensive(source: Source, stored: int) -> str:
    session = " in a session that has just begun" if source.cold else ""
    return f"byte search would not pay for {stored:,} bytes{session}"


def _spark_seconds(source: Source, size: float) -> float:
    """Return the estimated cost of Spark's reader."""
    costs = _COSTS[source.format]
    return size * (costs.spark_cold_per_byte if source.cold else costs.spark_per_byte)


def check_cost(
    spark: SparkSession, source: Source, stored: int, sampled: LineSample, share: float, reason: str
) -> None:
    """Raise UnsupportedError if byte search is not estimated to be cheaper than Spark's reader, with a margin.

    `share` is the share of lines that match, and `reason` states it.
    """
    costs = _COSTS[source.format]
    size = stored * sampled.inflation
    candidates = size / max(sampled.line_bytes, 1.0) * share
    search_seconds = costs.fixed + startup_cost(spark, source) + size * costs.search_per_byte
    parse_seconds = candidates * (costs.per_line + sampled.line_bytes * costs.parse_per_byte)
    if search_seconds + parse_seconds >= _MAX_COST_RATIO * _spark_seconds(source, size):
        raise UnsupportedError(f"{_too_expensive(source, stored)}: {reason}")
