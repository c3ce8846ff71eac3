"""The estimate ranks the readers of lines as measured on tables of several shapes."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import pytest
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.errors import UnsupportedError
from pushdown_spark.formats.text.line_costs import TextCosts
from pushdown_spark.formats.text.line_sample import LineSample
from pushdown_spark.sources.declaration import Source

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class TextCostCase:
    """A query over lines: their bytes and values, the fraction that matches, and whether workers were faster."""

    name: str
    format: SourceFormat
    megabytes: int
    line_bytes: int
    values: int
    fraction: float
    parsed: float
    ours: bool
    hits: float = 0.0


CASES = (
    TextCostCase("needle in short lines of JSON", SourceFormat.JSON, 70, 70, 4, 0.0, 0.9, ours=True),
    TextCostCase("half of short lines of JSON", SourceFormat.JSON, 70, 70, 4, 0.5, 1.0, ours=False),
    TextCostCase(
        "second field of long lines, an eighth kept", SourceFormat.JSON, 1_900, 1_400, 25, 0.12, 0.14, ours=False
    ),
    TextCostCase("last field of long lines, an eighth kept", SourceFormat.JSON, 1_900, 1_400, 25, 0.05, 1.0, ours=True),
    TextCostCase("needle in short lines of CSV", SourceFormat.CSV, 45, 45, 4, 0.0, 0.0, ours=True),
    TextCostCase("all of wide CSV", SourceFormat.CSV, 35, 650, 61, 1.0, 1.0, ours=False),
    TextCostCase(
        "many matches in other fields of CSV", SourceFormat.CSV, 70, 113, 10, 0.01, 0.01, ours=False, hits=14.0
    ),
    TextCostCase("needle in little data", SourceFormat.JSON, 1, 300, 16, 0.0, 1.0, ours=False),
)


def costs(spark: SparkSession, case: TextCostCase) -> TextCosts:
    line_sample = LineSample(
        lines=1_000,
        line_bytes=case.line_bytes,
        fractions=(case.fraction,),
        hits=(case.hits,),
        filter_fractions=(),
        inflation=1.0,
        key_positions=(),
        values=case.values,
        quoted_values=0.0,
    )
    source = Source(name="t", format=case.format, paths=("x",))
    size = case.megabytes * MEGABYTE
    return TextCosts(spark, source, size, line_sample, query_values=case.values, spark_fraction=case.parsed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_estimate_chooses_the_reader_that_was_faster(spark: SparkSession, case: TextCostCase) -> None:
    estimates = costs(spark, case)
    expected = nullcontext() if case.ours else pytest.raises(UnsupportedError, match="would cost more than it saves")
    with expected:
        estimates.check_cost(estimates.workers(case.fraction, hits=case.hits), "a reason")
