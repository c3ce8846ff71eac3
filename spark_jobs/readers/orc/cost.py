"""Estimate from footers and a sample of row groups what each reader of an ORC scan would cost."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from enum import StrEnum

from spark_jobs.readers.files import InputFile
from spark_jobs.readers.orc.counts import OrcCount
from spark_jobs.readers.orc.scan import OrcFile, OrcQuery, opened

_SAMPLED_FILES = 3
_SAMPLED_STRIPES = 2
_SAMPLED_GROUPS = 2
"""Row groups of each sampled stripe."""


@dataclass(frozen=True)
class Costs:
    """CPU seconds, measured on TPC-H lineitem and a table of 120 columns; only their ratios matter for the choice.

    `fixed`: starting the Python side. `search`: reading and judging a value of a filter column. `group`: beginning to
    read a column in a row group that has survivors. `decode`: a value of a row group that is decoded whole. `row`: a
    value of a surviving row, handed over. `spark`: a value in Spark's reader, which decodes everything.
    """

    fixed: float = 0.35
    search: float = 10e-9
    group: float = 0.9e-3
    decode: float = 8e-9
    row: float = 25e-9
    spark_search: float = 25e-9
    spark_group: float = 0.7e-3
    spark: float = 22e-9


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


def estimate(files: Sequence[InputFile], query: OrcQuery, *, may_filter: bool) -> Estimate:
    """Choose the cheapest reader. `may_filter` allows Spark's reader with `orc.sarg.to.filter`.

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
    costs = costs_of(sample, len(query.schema), len(query.filter_names))
    if not may_filter:
        del costs[Verdict.SPARK_WITH_FILTER]
    best = min(costs, key=lambda verdict: costs[verdict])
    if costs[best] > _MARGIN * costs[Verdict.SPARK]:
        best = Verdict.SPARK
    told = ", ".join(f"{verdict} {seconds:.1f} s" for verdict, seconds in costs.items())
    reason = (
        f"about {sample.row_share:.2%} of the rows match, in {sample.group_share:.0%} of the row groups "
        f"(sample of {sample.seen} row groups); estimated CPU: {told}"
    )
    return Estimate(best, reason)


def costs_of(sample: Sample, columns: int, filters: int) -> dict[Verdict, float]:
    """CPU seconds of each reader."""
    c = _COSTS
    alive = sample.rows * sample.alive_share
    hit_groups = sample.groups * sample.alive_share * sample.group_share
    survivors = alive * sample.row_share
    selects = columns - filters
    decoded = alive * sample.group_share * selects
    return {
        Verdict.LAZY: c.fixed
        + alive * filters * c.search
        + hit_groups * selects * c.group
        + decoded * c.decode
        + survivors * columns * c.row,
        Verdict.SPARK_WITH_FILTER: alive * filters * c.spark_search
        + min(hit_groups * selects * c.spark_group, decoded * c.spark)
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
