"""The cheaper reader of a Parquet scan is chosen."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import Column, Comparison, Op
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.parquet.cost import ParquetSample, RowSize, estimate, reader_seconds
from pushdown_spark.formats.parquet.file_parts import parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, open_parquet
from pushdown_spark.sources.stores.listing import local_files

ROWS = 200_000
COLUMNS = [f"c{number}" for number in range(60)]


def sample(row_fraction: float, hit_fraction: float, page_fraction: float = 1.0, values: float = 61) -> ParquetSample:
    row, filter_row = RowSize(values, values * 5e-9), RowSize(1, 5e-9)
    return ParquetSample(10_000_000, row, filter_row, 1.0, page_fraction, hit_fraction, row_fraction)


@pytest.mark.parametrize(
    ("sample", "is_pushdown_cheaper"),
    [
        (sample(1e-7, 0.001), True),
        (sample(1e-4, 0.9), True),
        (sample(0.01, 1.0), True),
        (sample(0.5, 1.0), False),
        (sample(1.0, 1.0), False),
        (sample(0.5, 1.0, values=2), False),
        (sample(1e-7, 0.002, page_fraction=0.002), False),
    ],
)
def test_few_scattered_matches_are_read_by_pushdown_and_many_by_spark(
    sample: ParquetSample, is_pushdown_cheaper: bool
) -> None:
    pushdown, spark = reader_seconds(sample)
    assert (pushdown < 0.9 * spark) is is_pushdown_cheaper


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cost") / "t.parquet"
    keys = pa.array([number * 7919 % ROWS for number in range(ROWS)])
    columns = {"id": pa.array(range(ROWS)), "k": keys, **dict.fromkeys(COLUMNS, keys)}
    pq.write_table(pa.table(columns), path, row_group_size=50_000)
    return path


def query_of(path: Path, comparison: Comparison) -> ParquetQuery:
    return ParquetQuery(
        pq.read_schema(path),
        ArrowFilter(comparison),
        has_corrected_dates=True,
        has_corrected_int96=True,
        name_rule=ANY_CASE,
    )


def reason(path: Path, column: str, op: Op, value: int, startup: float = 0.0) -> str:
    query = query_of(path, Comparison(Column((column,), LogicalType.INTEGER, pa.int64()), op, value))
    return estimate(parquet_inputs(local_files([str(path)] * 8)), query, startup).reason


def test_a_sample_decides_between_the_readers(table: Path) -> None:
    assert "statistics leave 100 % of the rows" in reason(table, "k", Op.EQ, 17)
    with pytest.raises(UnsupportedError, match="% of the rows match"):
        reason(table, "k", Op.LT, ROWS // 2)
    with pytest.raises(UnsupportedError, match=r"about < 0\.01 % of the rows match"):
        reason(table, "id", Op.EQ, 17)


def test_few_rows_and_a_cold_start_are_left_to_spark(table: Path) -> None:
    with pytest.raises(UnsupportedError, match="too few to make up"):
        reason(table, "k", Op.EQ, 17, startup=100.0)


def test_a_sample_has_only_the_members_that_the_filter_needs(tmp_path: Path) -> None:
    structs = pa.array([{"x": number, "y": "long", "z": {"x": -number}} for number in range(10)])
    pq.write_table(pa.table({"id": pa.array(range(10)), "s": structs}), tmp_path / "t.parquet")
    comparison = Comparison(Column(("s", "z", "x"), LogicalType.INTEGER, pa.int64()), Op.LT, -7)
    query = query_of(tmp_path / "t.parquet", comparison)
    (file,) = local_files([str(tmp_path / "t.parquet")])
    with open_parquet(file.path, file.storage, query) as source:
        assert source.filter_columns.leaf_indexes == (3,)
        assert source.sample(0, 3).to_pylist() == [{"s": {"z": {"x": -number}}} for number in range(3)]
