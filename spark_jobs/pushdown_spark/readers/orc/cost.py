"""Estimate from footers and a sample of row groups what each reader of an ORC scan would cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from enum import StrEnum

from pushdown_spark.readers.files import InputFile
from pushdown_spark.readers.orc.counts import OrcCount
from pushdown_spark.readers.orc.scan import OrcFile, OrcQuery, opened
from pushdown_spark.readers.start import remark

_SAMPLED_FILES = 3
_SAMPLED_STRIPES = 2
_SAMPLED_GROUPS = 2
"""Row groups of each sampled stripe."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem and a table of 120 columns; only their ratios matter for the choice.

    `fixed`: starting the Python side. `search`: reading and judging a value of a filter column; `lists`: the same
    against a list of many values. `group`: reading a column of one row group that has survivors. `decode`: a value of
    row groups that are decoded one after another. `row`: a value of a surviving row, handed over. Of Spark's reader:
    `spark_search`, and `spark_step` for every halving of a list of values; `spark_group` as above; `spark_skip`: a
    value of neighbouring row groups with few survivors; `spark`: a value that is decoded.
    """

    fixed: float = 0.2
    search: float = 14e-9
    lists: float = 25e-9
    group: float = 1.0e-3
    decode: float = 33e-9
    row: float = 100e-9
    spark_search: float = 20e-9
    spark_step: float = 10e-9
    spark_group: float = 0.8e-3
    spark_skip: float = 20e-9
    spark: float = 33e-9


_COSTS = Costs()
_MARGIN = 0.9
"""Another reader than Spark's as it comes must promise to be at least this much cheaper."""


class Verdict(StrEnum):
    """Which reader is taken."""

    LAZY = "ours"
    SPARK_WITH_FILTER = "Spark's with orc.sarg.to.filter"
    SPARK = "Spark's"


@dataclass(frozen=True)
class Estimate:
    """The choice, and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Sample:
    """What was seen in some row groups, and the size of the whole."""

    rows: float
    groups: float
    row_share: float
    group_share: float
    alive_share: float
    seen: int


def estimate(files: Sequence[InputFile], query: OrcQuery, start: float = 0.0, *, may_filter: bool) -> Estimate:
    """Choose the cheapest reader. `may_filter` allows Spark's reader with `orc.sarg.to.filter`.

    `start` are CPU seconds that ours takes beyond its work.

    Raises PushdownError where a file cannot be read, or only by Spark.
    """
    with ExitStack() as stack:
        step = max(1, len(files) // _SAMPLED_FILES)
        chosen = files[::step][:_SAMPLED_FILES]
        sources = [stack.enter_context(opened(file.path, file.storage, query, OrcCount())) for file in chosen]
        seen = sum(file.size for file in chosen)
        rows = sum(source.tail.footer.number_of_rows for source in sources)
        rows = rows * sum(file.size for file in files) // max(seen, 1)
        most = rows * len(query.schema) * _COSTS.spark
        if _MARGIN * most < _COSTS.fixed:
            return Estimate(Verdict.SPARK, f"about {rows:,} rows are too few to make up for starting another reader")
        sample = _sampled(sources, rows)
    costs = costs_of(
        sample, len(query.schema), len(query.filter_names), query.filter.list_lengths if query.filter else ()
    )
    costs[Verdict.LAZY] += start
    if not may_filter:
        del costs[Verdict.SPARK_WITH_FILTER]
    best = min(costs, key=lambda verdict: costs[verdict])
    if costs[best] > _MARGIN * costs[Verdict.SPARK]:
        best = Verdict.SPARK
    told = ", ".join(f"{verdict} {seconds:.1f} s" for verdict, seconds in costs.items())
    reason = (
        f"about {sample.row_share:.2%} of the rows match, in {sample.group_share:.0%} of the row groups "
        f"(sample of {sample.seen} row groups); estimated CPU: {told}{remark(start)}"
    )
    return Estimate(best, reason)


def costs_of(sample: Sample, columns: int, filters: int, lists: Sequence[int]) -> dict[Verdict, float]:
    """CPU seconds of each reader, for so many columns of which so many are the filter's, with lists of such lengths."""
    c = _COSTS
    alive = sample.rows * sample.alive_share
    hit_groups = sample.groups * sample.alive_share * sample.group_share
    survivors = alive * sample.row_share
    selects = columns - filters
    steps = sum(math.log2(length) for length in lists if length > 1)
    return {
        Verdict.LAZY: c.fixed
        + alive * (filters * c.search + len(lists) * c.lists)
        + selects * min(hit_groups * c.group, alive * c.decode)
        + survivors * columns * c.row,
        Verdict.SPARK_WITH_FILTER: alive * (filters * c.spark_search + steps * c.spark_step)
        + selects * min(hit_groups * c.spark_group, alive * c.spark_skip)
        + survivors * columns * c.spark,
        Verdict.SPARK: alive * columns * c.spark,
    }


def _sampled(sources: Sequence[OrcFile], rows: int) -> Sample:
    """Judge some row groups of some files, evenly spread."""
    seen = [sample for source in sources for sample in source.samples(_SAMPLED_STRIPES, _SAMPLED_GROUPS)]
    groups, alive, tried, hit, judged, passed = (sum(numbers) for numbers in zip(*map(astuple, seen), strict=True))
    per_group = judged / tried if tried else 1.0
    return Sample(
        rows,
        rows / max(per_group, 1.0),
        passed / judged if judged else 0.0,
        hit / tried if tried else 0.0,
        alive / groups if groups else 0.0,
        tried,
    )
