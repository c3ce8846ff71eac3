"""Cost of the three readers of lines, estimated from a sample: Python workers, the JVM and Spark's reader."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.contract.report_text import human_bytes
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.formats.text.line_sample import LineSample, LineSampler
from pushdown_spark.formats.worker_startup import startup_cost
from pushdown_spark.scan.plan import describe_estimates, is_cheaper
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.stores.listing import Compression, InputFile


@dataclass(frozen=True, kw_only=True)
class LineCosts:
    """CPU seconds, measured over tables of 4 to 61 columns with lines of 50 to 2,600 bytes.

    Only their ratios matter.
    """

    line: float  # reading a line, in Spark's reader and in Spark's text source
    line_byte: float  # reading a byte of a line, in both
    parse_byte: float  # parsing a byte
    value: float  # parsing a value that the query needs
    other_value: float  # parsing a value that the query does not need
    quoted_value: float  # parsing a quoted value of CSV, in addition
    search_byte: float  # reading and searching a byte in workers
    hit: float  # a match of the byte pattern that makes no candidate line
    candidate: float  # passing a candidate line from a worker to Spark
    candidate_byte: float  # passing a byte of a candidate line
    string_byte: float  # searching a byte for one string in the JVM
    jvm_candidate: float  # checking a candidate line in the JVM, which takes longer than in workers
    jvm_candidate_byte: float  # checking a byte of a candidate line in the JVM
    cold_factor: float  # how much longer Spark's reader takes in a JVM that has just started


_COSTS = {
    SourceFormat.JSON: LineCosts(
        line=500e-9,
        line_byte=0.45e-9,
        parse_byte=0.6e-9,
        value=100e-9,
        other_value=50e-9,
        quoted_value=0.0,
        search_byte=0.5e-9,
        hit=0.45e-6,
        candidate=1.6e-6,
        candidate_byte=2.2e-9,
        string_byte=0.2e-9,
        jvm_candidate=2.0e-6,
        jvm_candidate_byte=12.0e-9,
        cold_factor=2.0,
    ),
    SourceFormat.CSV: LineCosts(
        line=600e-9,
        line_byte=0.8e-9,
        parse_byte=0.2e-9,
        value=105e-9,
        other_value=25e-9,
        quoted_value=35e-9,
        search_byte=0.6e-9,
        hit=0.45e-6,
        candidate=1.8e-6,
        candidate_byte=2.5e-9,
        string_byte=0.3e-9,
        jvm_candidate=2.0e-6,
        jvm_candidate_byte=2.0e-9,
        cold_factor=1.06,
    ),
}
_SPARK_QUERY = 0.05
"""CPU seconds of a query by Spark's reader over an empty file."""
_WORKERS_QUERY = 0.2
"""CPU seconds of a query by workers over an empty file."""
_JVM_QUERY = 0.15
"""CPU seconds of a query by the search in the JVM over an empty file."""
_JVM_LINE = 150e-9
"""CPU seconds for a line of Spark's text source, without its bytes."""
_JVM_LINE_BYTE = 1.2e-9
"""CPU seconds for each byte of Spark's text source, with their conversion to a Java string."""
_COLD_JVM = 2.0
"""How much longer planning, reading and searching lines takes in a JVM that has just started."""


def check_size(spark: SparkSession, source: Source, files: Sequence[InputFile], sampler: LineSampler) -> None:
    """Raise UnsupportedError if no reader but Spark's pays for any predicate.

    This uses the sizes of the files and one block of them. Compressed files may have any size after decompression.
    """
    stored_bytes = sum(file.size for file in files)
    if any(file.compression is not Compression.NONE for file in files):
        return
    sample = sampler.sample(blocks=1)
    costs = TextCosts(spark, source, stored_bytes, sample, query_values=sample.values)
    cheapest = min(costs.workers(0.0, hits=0.0), costs.jvm(0.0, searches=1))
    costs.check_cost(cheapest, "even if no line matches")


class TextCosts:
    """The estimated CPU seconds of the readers of one scan."""

    def __init__(
        self,
        spark: SparkSession,
        source: Source,
        stored_bytes: int,
        sample: LineSample,
        *,
        query_values: float,
        spark_fraction: float = 1.0,
    ) -> None:
        """`query_values` is the number of values of a line that the query needs.

        `spark_fraction` is the fraction of the lines that Spark's reader parses with its own pushdown.
        """
        self._spark_fraction = spark_fraction
        self._spark = spark
        self._source = source
        self._stored_bytes = stored_bytes
        self._size = stored_bytes * sample.inflation
        self._line_bytes = max(sample.line_bytes, 1.0)
        self._lines = self._size / self._line_bytes
        self._costs = costs = _COSTS[source.format]
        # Seconds for a line: `_skim` steps over all its values, `_parse` converts the needed ones in addition.
        query_values = min(query_values, sample.values)
        self._skim = sample.values * costs.other_value + sample.quoted_values * costs.quoted_value
        self._parse = self._line_bytes * costs.parse_byte + query_values * (costs.value - costs.other_value)

    def spark(self) -> float:
        """Return the cost of Spark's reader.

        Its JSON parser rejects a line at the first value that fails. Its CSV parser finds all fields of a line before
        it converts their values.
        """
        costs, source = self._costs, self._source
        line = costs.line + self._line_bytes * costs.line_byte
        if source.format is SourceFormat.CSV:
            line += self._skim + self._parse * self._spark_fraction
        else:
            line += (self._skim + self._parse) * self._spark_fraction
        return _SPARK_QUERY + self._lines * line * (costs.cold_factor if source.has_just_started else 1.0)

    def workers(self, fraction: float, *, hits: float) -> float:
        """Return the cost of Python workers if a fraction of the lines are candidates.

        `hits` is the number of matches of the byte pattern in a line.
        """
        costs = self._costs
        candidate = costs.candidate + self._line_bytes * costs.candidate_byte + self._skim + self._parse
        start = _WORKERS_QUERY + startup_cost(self._spark, self._source)
        line = fraction * candidate + max(hits - fraction, 0.0) * costs.hit
        return start + self._size * costs.search_byte + self._lines * line

    def jvm(self, fraction: float, searches: int) -> float:
        """Return the cost of Spark's text source if a fraction of the lines passes a filter with some searches."""
        costs = self._costs
        line = _JVM_LINE + self._line_bytes * (_JVM_LINE_BYTE + searches * costs.string_byte)
        cold = _COLD_JVM if self._source.has_just_started else 1.0
        candidate = costs.jvm_candidate + self._line_bytes * costs.jvm_candidate_byte + self._skim + self._parse
        return _JVM_QUERY * cold + self._lines * (line * cold + fraction * candidate)

    def check_cost(self, seconds: float, reason: str) -> None:
        """Raise UnsupportedError if a reader that takes these seconds is not cheaper than Spark's, with a margin."""
        spark = self.spark()
        if not is_cheaper(seconds, spark):
            session = " in a session that has just started" if self._source.has_just_started else ""
            raise UnsupportedError(
                f"searching {human_bytes(self._stored_bytes)}{session} would cost more than it saves: {reason}; "
                f"{describe_estimates({'pushdown': seconds, 'spark': spark})}",
                {"spark": spark},
            )
