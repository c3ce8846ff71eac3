"""The estimated costs of both readers of a Parquet scan, from footers and the filter columns of a few row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pushdown_spark.contract.report_text import human_percent
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter, BatchColumns
from pushdown_spark.expressions.statistics_evaluator import ColumnBounds, can_match
from pushdown_spark.expressions.types import Path
from pushdown_spark.formats.parquet.file_columns import FileColumns
from pushdown_spark.formats.parquet.file_reader import OpenParquet, ParquetQuery, open_parquet
from pushdown_spark.formats.scan_task import spread
from pushdown_spark.scan.plan import MAX_SAMPLED_FILES, ReaderDecision, choose_pushdown, is_cheaper
from pushdown_spark.sources.stores.listing import InputFile, files_with_content

_SAMPLED_FRACTION = 1 / 50
"""The fraction of the rows whose filter columns are read for an estimate."""
_MIN_SAMPLED_ROWS = 1 << 16
_MAX_SAMPLED_ROWS = 1 << 20
"""The least and the largest number of rows that are read from a file."""
_PAGE_ROWS = 20_000
"""The number of rows after which writers end a page."""


@dataclass(frozen=True)
class ParquetCosts:
    """CPU seconds, measured in a warm JVM over tables of 4 to 61 columns. Only their ratios matter."""

    # The pushdown reader
    query_start: float = 0.25  # planning, and starting Python
    search: float = 15e-9  # decoding a value of a filter column and evaluating the filter
    page: float = 5e-9  # skipping a value of another leaf column in a page with a matching row
    row: float = 60e-9  # a value of a leaf column of a matching row, passed to Spark
    # Spark's reader
    spark_query: float = 0.05  # a query
    spark_value: float = 20e-9  # a value of a leaf column in a page that is not pruned


_COSTS = ParquetCosts()
_DECOMPRESSION = {
    "UNCOMPRESSED": 0.0,
    "SNAPPY": 0.8e-9,
    "LZ4": 0.8e-9,
    "ZSTD": 1.2e-9,
    "GZIP": 3.5e-9,
    "BROTLI": 3.5e-9,
}
"""CPU seconds that both readers need for a byte of a decompressed page, by codec."""


@dataclass(frozen=True)
class RowSize:
    """The number of values of a row in some columns, and the CPU seconds to decompress them."""

    values: float
    decompression: float


@dataclass(frozen=True)
class ParquetSample:
    """A sample, extrapolated to all files: rows, sizes of a row in all columns and in the filter's, and fractions.

    `alive_fraction` is the fraction of rows in row groups that statistics do not prune. Among these rows,
    `page_fraction` are in pages that statistics do not prune, `hit_fraction` in pages with a matching row, and
    `row_fraction` match.
    """

    rows: float
    row: RowSize
    filter: RowSize
    alive_fraction: float
    page_fraction: float
    hit_fraction: float
    row_fraction: float


def estimate(
    files: Sequence[InputFile], query: ParquetQuery, startup: float = 0.0, *, spark_prunes: bool = True
) -> ReaderDecision:
    """Return the decision for the pushdown reader. `startup` are CPU seconds that Python needs to start.

    With `spark_prunes`, Spark's reader uses statistics, too.

    Raises UnsupportedError if Spark's reader is cheaper, and PushdownError for a file that cannot be read, or only by
    Spark.
    """
    assert query.filter is not None
    with ExitStack() as stack:
        with_content = files_with_content(files)
        sampled_files = spread(with_content, MAX_SAMPLED_FILES)
        sources = [stack.enter_context(open_parquet(file.path, file.storage, query)) for file in sampled_files]
        scale = sum(file.size for file in with_content) / max(sum(file.size for file in sampled_files), 1)
        candidates = [list(_matching_groups(source, query.filter)) for source in sources]
        sample = _footer_sample(sources, candidates, scale)
        pushdown, spark = reader_seconds(sample, spark_prunes=spark_prunes)
        is_small = not is_cheaper(pushdown + startup, spark)
        if not is_small:
            sample = _with_pages(sample, sources, candidates, query.filter)
    if is_small:
        # Within the block, this would be reported as an error of a file.
        row_count = f"about {sample.rows * sample.alive_fraction:,.0f} rows"
        raise UnsupportedError(f"statistics leave {row_count}, too few to make up for starting another reader")
    pushdown, spark = reader_seconds(sample, spark_prunes=spark_prunes)
    finding = (
        f"about {human_percent(sample.row_fraction * sample.alive_fraction, 1)} of the rows match, and statistics "
        f"leave {human_percent(sample.alive_fraction * sample.page_fraction, 1)} of the rows"
    )
    return choose_pushdown(finding, pushdown, spark, startup)


def reader_seconds(sample: ParquetSample, *, spark_prunes: bool = True) -> tuple[float, float]:
    """Return the CPU seconds of the pushdown reader and of Spark's, which reads all rows unless it prunes."""
    alive_rows = sample.rows * sample.alive_fraction
    search = sample.filter.values * _COSTS.search + sample.filter.decompression
    page = (
        (sample.row.values - sample.filter.values) * _COSTS.page
        + sample.row.decompression
        - sample.filter.decompression
    )
    row = sample.row.values * _COSTS.row
    pushdown = _COSTS.query_start + alive_rows * (
        sample.page_fraction * search + sample.hit_fraction * page + sample.row_fraction * row
    )
    spark = sample.row.values * _COSTS.spark_value + sample.row.decompression
    return pushdown, _COSTS.spark_query + (alive_rows * sample.page_fraction if spark_prunes else sample.rows) * spark


def _footer_sample(sources: Sequence[OpenParquet], candidates: Sequence[Sequence[int]], scale: float) -> ParquetSample:
    """Return the sample without fractions of pages and rows: no row matches, the pushdown reader's lower bound.

    `candidates` has the row groups that may match. `scale` is the size of all files relative to the sampled ones.
    """
    stored_rows = sum(source.footer.num_rows for source in sources)
    alive_rows = sum(
        source.footer.row_group(group).num_rows
        for source, groups in zip(sources, candidates, strict=True)
        for group in groups
    )
    return ParquetSample(
        rows=scale * stored_rows,
        row=_row_size(sources, [source.columns for source in sources], stored_rows),
        filter=_row_size(sources, [source.filter_columns for source in sources], stored_rows),
        alive_fraction=alive_rows / max(stored_rows, 1),
        page_fraction=1.0,
        hit_fraction=0.0,
        row_fraction=0.0,
    )


def _row_size(sources: Sequence[OpenParquet], columns: Sequence[FileColumns], rows: int) -> RowSize:
    """Return the mean size of a row in some columns of each file. A list has a value for each element."""
    values, decompression = 0, 0.0
    for source, file_columns in zip(sources, columns, strict=True):
        groups = [source.footer.row_group(number) for number in range(source.footer.num_row_groups)]
        for chunk in (group.column(leaf) for group in groups for leaf in file_columns.leaf_indexes):
            values += chunk.num_values
            decompression += chunk.total_uncompressed_size * _DECOMPRESSION.get(chunk.compression, 0.0)
    return RowSize(values / max(rows, 1), decompression / max(rows, 1))


def _with_pages(
    sample: ParquetSample,
    sources: Sequence[OpenParquet],
    candidates: Sequence[Sequence[int]],
    arrow_filter: ArrowFilter,
) -> ParquetSample:
    """Return the sample with the fractions of pages and rows, from the filter's columns of one row group of each file.

    `candidates` has the row groups that may match.
    """
    pages: list[_Page] = []
    fraction_of_rows = int(sample.rows * sample.alive_fraction * _SAMPLED_FRACTION) // max(len(sources), 1)
    rows = min(max(fraction_of_rows, _MIN_SAMPLED_ROWS), _MAX_SAMPLED_ROWS)
    for source, groups in zip(sources, candidates, strict=True):
        if groups:
            pages += _pages(source.sample(groups[len(groups) // 2], rows), arrow_filter)
    sampled_rows = max(sum(page.rows for page in pages), 1)
    return replace(
        sample,
        page_fraction=sum(page.rows for page in pages if page.may_match) / sampled_rows,
        hit_fraction=sum(page.rows for page in pages if page.matching_rows) / sampled_rows,
        row_fraction=sum(page.matching_rows for page in pages) / sampled_rows,
    )


@dataclass(frozen=True)
class _Page:
    """Rows that are likely to be one page, how many of them match, and whether their bounds allow a match."""

    rows: int
    matching_rows: int
    may_match: bool


def _pages(batch: pa.RecordBatch, arrow_filter: ArrowFilter) -> Iterator[_Page]:
    mask = arrow_filter.keep(batch)
    for start in range(0, batch.num_rows, _PAGE_ROWS):
        page = BatchColumns(batch.slice(start, _PAGE_ROWS))
        may_match = can_match(arrow_filter.root, partial(_page_bounds, page))
        yield _Page(len(page), mask.slice(start, _PAGE_ROWS).true_count, may_match)


def _page_bounds(page: BatchColumns, path: Path) -> ColumnBounds | None:
    """Return the bounds of a column in a page, or None for types that are not compared here."""
    array = page.array(path)
    if pa.types.is_temporal(array.type):
        array = array.view(pa.int32() if pa.types.is_date32(array.type) else pa.int64())
    if not (pa.types.is_integer(array.type) or pa.types.is_string(array.type)):
        return None
    bounds = pc.min_max(array)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return ColumnBounds(low, high, array.null_count > 0, len(array) - array.null_count)


def _matching_groups(source: OpenParquet, arrow_filter: ArrowFilter) -> Iterator[int]:
    """Yield the numbers of the row groups whose statistics allow a match."""
    leaf_numbers = {source.footer.schema.column(leaf).path: leaf for leaf in source.columns.leaf_indexes}

    def bounds(group: pq.RowGroupMetaData, path: Path) -> ColumnBounds | None:
        name = source.columns.names.get(path[0])
        leaf = None if name is None else leaf_numbers.get(".".join((name, *path[1:])))
        return None if leaf is None else _chunk_bounds(group.column(leaf))

    for number in range(source.footer.num_row_groups):
        if can_match(arrow_filter.root, partial(bounds, source.footer.row_group(number))):
            yield number


def _chunk_bounds(chunk: pq.ColumnChunkMetaData) -> ColumnBounds | None:
    """Return the bounds of a column chunk, or None for types that are not compared here."""
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None or not statistics.has_min_max:
        return None
    is_text = statistics.physical_type == "BYTE_ARRAY" and str(statistics.logical_type) == "String"
    is_number = statistics.physical_type in ("INT32", "INT64") and "Decimal" not in str(statistics.logical_type)
    if is_text:
        return ColumnBounds(statistics.min, statistics.max)
    return ColumnBounds(statistics.min_raw, statistics.max_raw) if is_number else None
