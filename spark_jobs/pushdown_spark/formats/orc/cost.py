"""The estimated costs of the readers of an ORC scan, from footers and a sample of row groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from pushdown_spark.contract.report_text import human_percent
from pushdown_spark.formats.orc.file_reader import OrcFile, OrcQuery, open_orc
from pushdown_spark.formats.orc.lazy_reader import RowWidth
from pushdown_spark.formats.orc.metrics import OrcMetrics
from pushdown_spark.formats.scan_task import spread
from pushdown_spark.scan.plan import MAX_SAMPLED_FILES, ReaderDecision, describe_estimates, is_cheaper
from pushdown_spark.sources.stores.listing import InputFile

_MAX_SAMPLED_STRIPES = 2
_MAX_SAMPLED_GROUPS = 2
"""Maximum number of row groups of each sampled stripe."""


@dataclass(frozen=True, kw_only=True)
class OrcCosts:
    """CPU seconds, measured over TPC-H lineitem and tables of 4 to 120 columns. Only their ratios matter."""

    # The pushdown reader
    query_start: float = 0.14  # a query, with the start of Python
    file: float = 1.2e-3  # opening a file
    search: float = 12e-9  # reading a value of a filter column and evaluating the filter
    list_search: float = 25e-9  # as `search` for a list of values, in addition
    group: float = 1.0e-3  # reading a column of one row group with matching rows
    decode: float = 36e-9  # a value of consecutive row groups
    row: float = 60e-9  # a value of a matching row, passed to Spark
    # Spark's reader
    spark_query: float = 0.055  # a query
    spark_file: float = 2.6e-3  # opening a file
    spark_column: float = 0.4e-3  # opening a column of a file
    spark_search: float = 20e-9  # as `search`
    spark_step: float = 10e-9  # each halving of a list of values
    spark_group: float = 0.8e-3  # as `group`
    spark_skip: float = 20e-9  # a value of consecutive row groups with few matching rows
    spark_value: float = 28e-9  # a decoded value


_COSTS = OrcCosts()


class OrcReader(StrEnum):
    """The readers to choose from, by their names in the report."""

    LAZY = "pushdown"
    SPARK_WITH_FILTER = "spark with orc.sarg.to.filter"
    SPARK = "spark"


@dataclass(frozen=True)
class OrcDecision(ReaderDecision):
    """The decision for one of the readers."""

    reader: OrcReader = OrcReader.LAZY


@dataclass(frozen=True, kw_only=True)
class OrcSample:
    """Sampled row groups, extrapolated to all files. Fractions are between 0 and 1."""

    files: int
    live_files: float
    """The files with row groups that are not pruned."""
    rows: float
    groups: float
    row: RowWidth
    """The size of a row in all columns."""
    filter: RowWidth
    """The size of a row in the columns of the filter."""
    row_fraction: float
    """The fraction of matching rows, among those that are not pruned."""
    group_fraction: float
    """The fraction of row groups with matching rows, among those that are not pruned."""
    alive_fraction: float
    """The fraction of row groups that are not pruned."""
    sampled_groups: int
    """The size of the sample."""


def estimate(files: Sequence[InputFile], query: OrcQuery, startup: float = 0.0, *, may_filter: bool) -> OrcDecision:
    """Choose the cheapest reader. `may_filter` allows Spark's reader with `orc.sarg.to.filter`.

    `startup` are CPU seconds that Python needs to start. Raises PushdownError for a file that cannot be read, or only
    by Spark.
    """
    with ExitStack() as stack:
        sampled_files = spread(files, MAX_SAMPLED_FILES)
        sources = [
            stack.enter_context(open_orc(file.path, file.storage, query, OrcMetrics())) for file in sampled_files
        ]
        sampled_bytes = sum(file.size for file in sampled_files)
        rows = sum(source.tail.footer.number_of_rows for source in sources)
        rows = rows * sum(file.size for file in files) // max(sampled_bytes, 1)
        row = _mean_width([source.row for source in sources])
        spark_seconds = _opening_seconds(len(files), len(files), row) + rows * row.values * _COSTS.spark_value
        if not is_cheaper(_COSTS.query_start, spark_seconds):
            reason = f"about {rows:,} rows are too few to make up for starting another reader"
            return OrcDecision(reason, reader=OrcReader.SPARK)
        sample = _sample(sources, len(files), rows, row)
    seconds = reader_seconds(sample, query.filter.list_lengths if query.filter else ())
    seconds[OrcReader.LAZY] += startup
    if not may_filter:
        del seconds[OrcReader.SPARK_WITH_FILTER]
    best = min(seconds, key=lambda reader: seconds[reader])
    if not is_cheaper(seconds[best], seconds[OrcReader.SPARK]):
        best = OrcReader.SPARK
    predicted = {str(reader): value for reader, value in seconds.items()}
    reason = (
        f"about {human_percent(sample.row_fraction, 1)} of the rows match, in "
        f"{human_percent(sample.group_fraction, 1)} of the row groups (sample of {sample.sampled_groups} row groups); "
        f"{describe_estimates(predicted, startup)}"
    )
    return OrcDecision(reason, predicted, best)


def reader_seconds(sample: OrcSample, lists: Sequence[int]) -> dict[OrcReader, float]:
    """Return the CPU seconds of each reader, given the lengths of the filter's lists."""
    alive_rows = sample.rows * sample.alive_fraction
    matching_groups = sample.groups * sample.alive_fraction * sample.group_fraction
    matching_rows = alive_rows * sample.row_fraction
    search = alive_rows * sample.filter.values
    selected_columns = max(sample.row.columns - sample.filter.columns, 0)
    select = alive_rows * max(sample.row.values - sample.filter.values, 0)
    steps = sum(math.log2(length) for length in lists if length > 1)
    opening_seconds = _opening_seconds(sample.files, sample.live_files, sample.row)
    return {
        OrcReader.LAZY: _COSTS.query_start
        + sample.files * _COSTS.file
        + search * _COSTS.search
        + alive_rows * len(lists) * _COSTS.list_search
        + min(matching_groups * selected_columns * _COSTS.group, select * _COSTS.decode)
        + matching_rows * sample.row.values * _COSTS.row,
        OrcReader.SPARK_WITH_FILTER: opening_seconds
        + search * _COSTS.spark_search
        + alive_rows * steps * _COSTS.spark_step
        + min(matching_groups * selected_columns * _COSTS.spark_group, select * _COSTS.spark_skip)
        + matching_rows * sample.row.values * _COSTS.spark_value,
        OrcReader.SPARK: opening_seconds + alive_rows * sample.row.values * _COSTS.spark_value,
    }


def _opening_seconds(files: int, live_files: float, row: RowWidth) -> float:
    """Return the CPU seconds of Spark's reader for a query, to open files, and to open columns if any row is left."""
    return _COSTS.spark_query + files * _COSTS.spark_file + live_files * row.columns * _COSTS.spark_column


def _mean_width(rows: Sequence[RowWidth]) -> RowWidth:
    """Return the mean of the files, of which there may be none."""
    files = max(len(rows), 1)
    return RowWidth(sum(row.columns for row in rows) / files, sum(row.values for row in rows) / files)


def _sample(sources: Sequence[OrcFile], files: int, rows: int, row: RowWidth) -> OrcSample:
    """Sample some row groups of some files, evenly spread."""
    by_file = [list(source.samples(_MAX_SAMPLED_STRIPES, _MAX_SAMPLED_GROUPS)) for source in sources]
    samples = [sample for file in by_file for sample in file]
    live_files = sum(any(sample.alive_groups for sample in file) for file in by_file)
    groups = sum(sample.groups for sample in samples)
    sampled_groups = sum(sample.sampled_groups for sample in samples)
    sampled_rows = sum(sample.rows for sample in samples)
    return OrcSample(
        files=files,
        live_files=files * _fraction(live_files, len(by_file)),
        rows=rows,
        groups=rows / max(_fraction(sampled_rows, sampled_groups), 1.0),
        row=row,
        filter=_mean_width([source.filter_row for source in sources]),
        row_fraction=_fraction(sum(sample.matching_rows for sample in samples), sampled_rows),
        group_fraction=_fraction(sum(sample.matching_groups for sample in samples), sampled_groups),
        alive_fraction=_fraction(sum(sample.alive_groups for sample in samples), groups),
        sampled_groups=sampled_groups,
    )


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
