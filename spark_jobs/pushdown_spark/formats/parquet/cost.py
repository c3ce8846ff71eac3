"""The estimated costs of both readers of a Parquet scan, from footers and the filter columns of a few row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, BatchColumns
from pushdown_spark.expressions.bound import columns_of
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, can_match
from pushdown_spark.expressions.types import Path
from pushdown_spark.formats.parquet.file_reader import OpenParquet, ParquetQuery, open_parquet
from pushdown_spark.formats.scan_task import spread
from pushdown_spark.relations.listing import InputFile
from pushdown_spark.runtime.worker_startup import startup_note
from pushdown_spark.scan.plan import Choice

_SAMPLED_FILES = 3
_SAMPLED_ROWS = 1 << 20
"""Rows of the filter's columns that are read from each sampled file."""
_PAGE_ROWS = 20_000
"""The number of rows after which writers end a page."""


@dataclass(frozen=True)
class ParquetCosts:
    """CPU seconds, measured over tables of 61 columns and of nested events. Only their ratios matter for the choice.

    A value is one of a leaf column. Our reader:

    - `fixed`: planning, and starting Python
    - `search`: decoding a value of a filter column and evaluating the filter
    - `page`: decompressing a value of another column in a page with a matching row
    - `row`: a value of a matching row, passed to Spark

    Spark's reader:

    - `spark`: a value of a page that is not pruned
    """

    fixed: float = 0.25
    search: float = 15e-9
    page: float = 5e-9
    row: float = 60e-9
    spark: float = 20e-9


_COSTS = ParquetCosts()
_MARGIN = 0.9
"""Our reader is chosen if its estimate is below this share of Spark's."""


@dataclass(frozen=True)
class ParquetSample:
    """A sample, extrapolated to all files: rows, values of a row, those of the filter's columns, and shares up to 1.

    `alive_share` is the share of rows in row groups that statistics do not prune. Among these rows, `page_share` are in
    pages that statistics do not prune, `hit_share` in pages with a matching row, and `row_share` match.
    """

    rows: float
    values: float
    filters: float
    alive_share: float
    page_share: float
    hit_share: float
    row_share: float


def estimate(files: Sequence[InputFile], query: ParquetQuery, startup: float = 0.0) -> Choice:
    """Return the reason for our reader. `startup` are CPU seconds that Python needs to start.

    Raises UnsupportedError if Spark's reader is cheaper, and PushdownError for a file that cannot be read, or only by
    Spark.
    """
    assert query.filter is not None
    with ExitStack() as stack:
        not_empty = [file for file in files if file.size]
        sampled_files = spread(not_empty, _SAMPLED_FILES)
        sources = [stack.enter_context(open_parquet(file.path, file.storage, query)) for file in sampled_files]
        scale = sum(file.size for file in not_empty) / max(sum(file.size for file in sampled_files), 1)
        rows = scale * sum(source.footer.num_rows for source in sources)
        values = scale * sum(map(_count_values, sources))
        alive = [
            [group for group in range(source.footer.num_row_groups) if _may_match(source, group, query.filter)]
            for source in sources
        ]
        alive_rows = sum(
            source.footer.row_group(group).num_rows
            for source, groups in zip(sources, alive, strict=True)
            for group in groups
        )
        alive_share = alive_rows / max(sum(source.footer.num_rows for source in sources), 1)
        # Without a sample: Spark's reader may have less to do than ours needs to start.
        is_small = _MARGIN * values * alive_share * _COSTS.spark < _COSTS.fixed + startup
        sample = None if is_small else _sample(sources, alive, rows, values / max(rows, 1), alive_share, query.filter)
    if sample is None:
        remaining = f"about {rows * alive_share:,.0f} rows"
        raise UnsupportedError(f"statistics leave {remaining}, too few to make up for starting another reader")
    ours, spark = reader_seconds(sample)
    ours += startup
    reason = (
        f"about {sample.row_share * sample.alive_share:.2%} of the rows match, and statistics leave "
        f"{sample.alive_share * sample.page_share:.0%} of the rows; estimated CPU: pushdown reader "
        f"{ours:.1f} s, Spark's {spark:.1f} s{startup_note(startup)}"
    )
    predicted = {"pushdown": ours, "spark": spark}
    if ours >= _MARGIN * spark:
        raise UnsupportedError(reason, predicted)
    return Choice(reason, predicted)


def reader_seconds(sample: ParquetSample) -> tuple[float, float]:
    """Return the CPU seconds of our reader and of Spark's."""
    c = _COSTS
    alive = sample.rows * sample.alive_share
    selects = sample.values - sample.filters
    ours = c.fixed + alive * sample.page_share * sample.filters * c.search
    ours += alive * (sample.hit_share * selects * c.page + sample.row_share * sample.values * c.row)
    return ours, alive * sample.page_share * sample.values * c.spark


def _count_values(source: OpenParquet) -> int:
    """Return the number of values in the requested columns of a file, with those of lists."""
    leaves = [leaf for column in source.columns.leaves.values() for leaf in column]
    groups = [source.footer.row_group(number) for number in range(source.footer.num_row_groups)]
    return sum(group.column(leaf).num_values for group in groups for leaf in leaves)


def _sample(
    sources: Sequence[OpenParquet],
    alive: Sequence[Sequence[int]],
    rows: float,
    values: float,
    alive_share: float,
    arrow_filter: ArrowFilter,
) -> ParquetSample:
    """Read the filter's columns of one row group of each file. `alive` has the row groups that may match."""
    pages: list[_Page] = []
    for source, groups in zip(sources, alive, strict=True):
        if groups:
            pages += _pages(source.sample(groups[len(groups) // 2], _SAMPLED_ROWS), arrow_filter)
    sampled = sum(page.rows for page in pages)
    filters = len(columns_of(arrow_filter.root))
    return ParquetSample(
        rows,
        values,
        min(filters, values),
        alive_share,
        sum(page.rows for page in pages if page.is_alive) / max(sampled, 1),
        sum(page.rows for page in pages if page.matching) / max(sampled, 1),
        sum(page.matching for page in pages) / max(sampled, 1),
    )


@dataclass(frozen=True)
class _Page:
    """Rows that are likely to be one page, how many of them match, and whether their bounds allow a match."""

    rows: int
    matching: int
    is_alive: bool


def _pages(batch: pa.RecordBatch, arrow_filter: ArrowFilter) -> Iterator[_Page]:
    mask = arrow_filter.keep(batch)
    for start in range(0, batch.num_rows, _PAGE_ROWS):
        page = BatchColumns(batch.slice(start, _PAGE_ROWS))
        is_alive = can_match(arrow_filter.root, partial(_page_bounds, page))
        yield _Page(len(page), mask.slice(start, _PAGE_ROWS).true_count, is_alive)


def _page_bounds(page: BatchColumns, path: Path) -> ColumnBounds | None:
    """Return the bounds of a column in a page, None for types that are not compared here."""
    array = page.array(path)
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    if not (pa.types.is_integer(array.type) or pa.types.is_string(array.type)):
        return None
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return ColumnBounds(low, high, array.null_count > 0, len(array) - array.null_count)


def _may_match(source: OpenParquet, group: int, arrow_filter: ArrowFilter) -> bool:
    """Return whether the statistics of a row group allow a match."""
    metadata = source.footer.row_group(group)
    leaves = {
        source.footer.schema.column(leaf).path: leaf for column in source.columns.leaves.values() for leaf in column
    }

    def bounds(path: Path) -> ColumnBounds | None:
        name = source.columns.names.get(path[0])
        leaf = None if name is None else leaves.get(".".join((name, *path[1:])))
        return None if leaf is None else _chunk_bounds(metadata.column(leaf))

    return can_match(arrow_filter.root, bounds)


def _chunk_bounds(chunk: pq.ColumnChunkMetaData) -> ColumnBounds | None:
    """Return the bounds of a column chunk, None for types that are not compared here."""
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max:
        return None
    is_text = statistics.physical_type == "BYTE_ARRAY" and str(statistics.logical_type) == "String"
    is_number = statistics.physical_type in ("INT32", "INT64") and "Decimal" not in str(statistics.logical_type)
    if is_text:
        return ColumnBounds(statistics.min, statistics.max)
    return ColumnBounds(statistics.min_raw, statistics.max_raw) if is_number else None
