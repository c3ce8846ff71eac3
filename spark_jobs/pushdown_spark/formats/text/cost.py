"""Cost of the three readers of lines, estimated from a sample of the files: workers, the JVM and Spark's reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.byte_patterns.string_filter import StringFilter
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
    """CPU seconds, measured on TPC-H lineitem; for JSON in the JVM, on nested events of 1 KB. Only their ratios matter.

    - `spark_per_byte`: Spark's reader with its own pushdown.
    - `spark_cold_per_byte`: the same in a JVM that has just started.
    - `search_per_byte`: reading and searching.
    - `parse_per_byte` and `per_line`: passing a candidate line to Spark and parsing it.
    - `fixed`: starting the Python workers.
    - `lines_per_byte`: reading lines with Spark's text source.
    - `string_per_byte`: searching them for one string in the JVM.
    - `jvm_parse_per_byte`: checking a candidate line in the JVM, which takes longer than in workers, and parsing it.
    """

    spark_per_byte: float
    spark_cold_per_byte: float
    search_per_byte: float
    parse_per_byte: float
    per_line: float
    fixed: float
    lines_per_byte: float
    string_per_byte: float
    jvm_parse_per_byte: float


_COSTS = {
    SourceFormat.JSON: Costs(3.1e-9, 6.2e-9, 0.5e-9, 8.0e-9, 2.0e-6, 0.35, 1.2e-9, 0.2e-9, 20.0e-9),
    SourceFormat.CSV: Costs(9.0e-9, 9.5e-9, 0.6e-9, 15.0e-9, 2.0e-6, 0.35, 1.5e-9, 0.3e-9, 16.0e-9),
}
_PLANNING = 0.2
"""CPU seconds for the plan of a scan in the JVM."""
_COLD_JVM = 2.0
"""How much longer reading and searching lines takes in a JVM that has just started."""
_MAX_COST_RATIO = 0.9
"""Maximum estimated cost of our reader, relative to Spark's reader."""


@dataclass(frozen=True)
class LineSample:
    """The number of sampled lines, their mean length in bytes, and the shares of lines that match.

    `shares` are those of the byte patterns, `filter_shares` those of the string filters. `inflation` is the number of
    searched bytes per stored byte, above 1 for compressed files. `key_positions` has the mean position of each key as a
    share of its line.
    """

    lines: int
    line_bytes: float
    shares: tuple[float, ...]
    filter_shares: tuple[float, ...]
    inflation: float
    key_positions: tuple[float, ...]


@dataclass
class _Counts:
    """Counts of sampled lines."""

    lines: int = 0
    size: int = 0
    stored: int = 0


def sample(
    files: Sequence[InputFile],
    searchers: Sequence[Searcher],
    ambiguous: Searcher | None,
    syntax: LineSyntax,
    filters: Sequence[StringFilter] = (),
    keys: Sequence[str] = (),
) -> LineSample:
    """Read a sample of the files. Raises PushdownError if a block shows that the files cannot be searched.

    `keys` are keys of JSON lines whose positions are wanted.
    """
    counts = _Counts()
    matches = [0] * len(searchers)
    filter_matches = [0] * len(filters)
    quoted = [f'"{key}"'.encode() for key in keys]
    before_keys = [0] * len(keys)
    for split in _sampled_blocks(files):
        reader = LineReader(split, carriage_returns=syntax.carriage_returns)
        window = next(reader.windows(), None)
        if window is None:
            continue
        counts.stored += max(reader.bytes_read, 1)
        counts.size += window.length
        lines = bytes(window.view).splitlines()
        counts.lines += len(lines)
        for index, searcher in enumerate(searchers):
            matcher = LineMatcher(searcher, ambiguous, syntax)
            candidates = matcher.lines(window, split.path, at_start=split.start == 0)
            # This raises for lines that only Spark can read.
            matcher.batch(candidates, split.path)
            matches[index] += len(candidates)
        for index, wanted in enumerate(filters):
            filter_matches[index] += sum(map(wanted.matches, lines))
        for index, key in enumerate(quoted):
            before_keys[index] += sum(len(line.partition(key)[0]) for line in lines)
    number = max(counts.lines, 1)
    return LineSample(
        counts.lines,
        counts.size / number,
        tuple(n / number for n in matches),
        tuple(n / number for n in filter_matches),
        counts.size / max(counts.stored, 1),
        tuple(position / max(counts.size, 1) for position in before_keys),
    )


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
    """Raise UnsupportedError if no reader but Spark's pays for any predicate.

    This uses only the sizes of the files. Compressed files may have any size after decompression.
    """
    stored = sum(file.size for file in files)
    if any(file.compression is not Compression.NONE for file in files):
        return
    costs = _COSTS[source.format]
    workers = costs.fixed + startup_cost(spark, source)
    jvm = _PLANNING + stored * costs.lines_per_byte * _jvm_factor(source)
    if min(workers, jvm) >= _MAX_COST_RATIO * _spark_seconds(source, stored):
        raise UnsupportedError(f"{_too_expensive(source, stored)}, whatever can match")


def _jvm_factor(source: Source) -> float:
    return _COLD_JVM if source.cold else 1.0


def _too_expensive(source: Source, stored: int) -> str:
    session = " in a session that has just begun" if source.cold else ""
    return f"a search would not pay for {stored:,} bytes{session}"


def _spark_seconds(source: Source, size: float) -> float:
    """Return the estimated cost of Spark's reader."""
    costs = _COSTS[source.format]
    return size * (costs.spark_cold_per_byte if source.cold else costs.spark_per_byte)


class TextCosts:
    """The estimated CPU seconds of the readers of one scan."""

    def __init__(
        self, spark: SparkSession, source: Source, stored: int, sampled: LineSample, parsed_by_spark: float
    ) -> None:
        """`parsed_by_spark` is the share of the bytes that Spark's reader parses with its own pushdown."""
        self._parsed_by_spark = parsed_by_spark
        self._spark = spark
        self._source = source
        self._stored = stored
        self._size = stored * sampled.inflation
        self._sampled = sampled
        self._costs = _COSTS[source.format]

    def workers(self, share: float) -> float:
        """Return the cost of Python workers if a share of the lines matches the byte pattern."""
        searched = self._size * self._costs.search_per_byte
        return (
            self._costs.fixed
            + startup_cost(self._spark, self._source)
            + searched
            + self._parsing(share, self._costs.parse_per_byte)
        )

    def jvm(self, share: float, searches: int) -> float:
        """Return the cost of Spark's text source if a share of the lines passes a filter with a number of searches."""
        per_byte = (self._costs.lines_per_byte + searches * self._costs.string_per_byte) * _jvm_factor(self._source)
        return _PLANNING + self._size * per_byte + self._parsing(share, self._costs.jvm_parse_per_byte)

    def check(self, seconds: float, reason: str) -> None:
        """Raise UnsupportedError if a reader that takes these seconds is not cheaper than Spark's, with a margin."""
        whole = _spark_seconds(self._source, self._size)
        lines = min(self._size * self._costs.lines_per_byte, whole)
        spark = lines + (whole - lines) * self._parsed_by_spark
        if seconds >= _MAX_COST_RATIO * spark:
            raise UnsupportedError(f"{_too_expensive(self._source, self._stored)}: {reason}")

    def _parsing(self, share: float, per_byte: float) -> float:
        line_bytes = self._sampled.line_bytes
        candidates = self._size / max(line_bytes, 1.0) * share
        return candidates * (self._costs.per_line + line_bytes * per_byte)
