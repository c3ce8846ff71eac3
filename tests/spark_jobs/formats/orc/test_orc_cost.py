"""The estimate ranks the readers as measured on lineitem at two scales and on a table of 120 columns."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.bound import And, Column, Comparison, InList, Not, Op
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.formats.orc.cost import OrcReader, OrcSample, estimate, reader_seconds
from pushdown_spark.formats.orc.file_reader import OrcQuery
from pushdown_spark.formats.orc.lazy_reader import RowWidth


@dataclass(frozen=True)
class OrcCostCase:
    """A query: rows, row groups with a match, matching rows, columns, lists, files. The readers are ordered by cost."""

    name: str
    rows: int
    groups_with_match: int
    matching: int
    columns: int
    filters: int
    lists: tuple[int, ...]
    ranking: tuple[OrcReader, ...]
    files: int = 2


LAZY, SPARK_WITH_FILTER, SPARK = OrcReader.LAZY, OrcReader.SPARK_WITH_FILTER, OrcReader.SPARK
CASES = (
    OrcCostCase("wide, 16 columns", 4_000_000, 6, 6, 16, 3, (1_000,) * 3, (LAZY, SPARK_WITH_FILTER, SPARK)),
    OrcCostCase("wide, all columns", 4_000_000, 6, 6, 120, 3, (1_000,) * 3, (LAZY, SPARK_WITH_FILTER, SPARK)),
    OrcCostCase("needle at scale 1", 6_000_000, 21, 21, 16, 1, (), (SPARK_WITH_FILTER, LAZY, SPARK)),
    OrcCostCase("needle at scale 10", 60_000_000, 27, 27, 16, 1, (), (LAZY, SPARK_WITH_FILTER, SPARK)),
    OrcCostCase("1,000 scattered", 6_000_000, 600, 991, 16, 1, (33,), (SPARK_WITH_FILTER, SPARK, LAZY)),
    OrcCostCase("half the rows", 6_000_000, 600, 3_000_000, 16, 1, (), (SPARK, SPARK_WITH_FILTER, LAZY)),
    OrcCostCase("few rows", 20_000, 2, 2, 16, 1, (), (SPARK_WITH_FILTER, SPARK, LAZY)),
    OrcCostCase("small files", 240_000, 6, 6, 10, 1, (), (LAZY, SPARK_WITH_FILTER, SPARK), files=300),
)


def sample(case: OrcCostCase) -> OrcSample:
    matching_groups = case.groups_with_match * 10_000 / case.rows
    return OrcSample(
        files=case.files,
        live_files=case.files,
        rows=case.rows,
        groups=case.rows / 10_000,
        row=RowWidth(case.columns, case.columns),
        filter=RowWidth(case.filters, case.filters),
        row_fraction=case.matching / case.rows,
        group_fraction=matching_groups,
        alive_fraction=1.0,
        sampled_groups=12,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_estimated_costs_rank_the_readers_as_measured(case: OrcCostCase) -> None:
    costs = reader_seconds(sample(case), case.lists)
    assert tuple(sorted(costs, key=lambda reader: costs[reader])) == case.ranking, costs


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_pruned_row_groups_have_no_cost(case: OrcCostCase) -> None:
    estimate_input = sample(case)
    whole = reader_seconds(estimate_input, case.lists)
    # Spark opens no column of a file without rows to read.
    pruned_seconds = reader_seconds(replace(estimate_input, alive_fraction=0.0, live_files=0.0), case.lists)
    assert pruned_seconds[SPARK] == pruned_seconds[SPARK_WITH_FILTER]
    # Opening a file takes Spark longer, which decides for many files.
    assert (pruned_seconds[SPARK] < pruned_seconds[LAZY]) == (case.files < 50)
    assert all(pruned_seconds[reader] < whole[reader] for reader in OrcReader)


def test_a_scan_without_files_is_left_to_spark() -> None:
    query = OrcQuery(
        schema=pa.schema([("a", pa.int64())]),
        positions=(0,),
        filter=None,
        partial_reads=None,
        min_seek=0,
        name_rule=ANY_CASE,
    )
    assert estimate([], query, may_filter=True).reader is SPARK


def test_nested_lists_of_a_filter_are_counted() -> None:
    column = Column(("a",), LogicalType.INTEGER, pa.int64())
    both = And((Not(InList(column, (1, 2, 3))), Comparison(column, Op.GT, 1), InList(column, (4, 5))))
    assert ArrowFilter(both).list_lengths == (3, 2)
