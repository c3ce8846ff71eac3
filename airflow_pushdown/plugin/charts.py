"""Charts over runs and days as bars, which the templates render as SVG, and the changes of the plan between runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from airflow_pushdown.plugin.dag_data import Day
from airflow_pushdown.plugin.model import UNKNOWN, at_least
from airflow_pushdown.plugin.task_data import PastRun, TaskKey
from pushdown_spark.contract import JobResult, JoinTree, SourceReport
from pushdown_spark.contract.report_text import human_bytes, human_count, human_seconds, reader_name

MIN_RUNS = 3
"""The minimum number of runs for a chart."""
SLOT = 10
"""The width of a bar with the space around it."""
HEIGHT = 100
"""The height of a chart."""
_MAX_DATES = 6
"""The number of dates that fit under a chart on a telephone."""


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One run or day in a chart.

    `parts` are the heights at which its parts end, or an empty tuple if nothing is known. `is_partial` is whether the
    value is unknown or a lower bound.
    """

    left: float
    width: float
    parts: tuple[float, ...]
    label: str
    is_partial: bool = False
    is_failed: bool = False
    is_current: bool = False
    task_key: TaskKey | None = None


@dataclass(frozen=True)
class Chart:
    """Bars over an axis that starts at zero. `dates` are the labels of all bars, or of the first, middle and last bar.

    `slots` is the number of bars that fit. `highest` is the formatted value of the highest bar, and `marks` are the
    positions of changes of the reader or plan.
    """

    title: str
    highest: str
    bars: tuple[Bar, ...]
    dates: tuple[str, ...]
    slots: int
    marks: tuple[int, ...] = ()


@dataclass(frozen=True)
class Change:
    """The readers or the plan of a run differ from those of the run before it."""

    number: int
    run: PastRun
    text: str


def history_charts(runs: Sequence[PastRun], task_key: TaskKey, changes: Sequence[Change]) -> tuple[Chart, ...]:
    """Return charts of bytes read and duration of each run, oldest on the left, if there are three runs."""
    if len(runs) < MIN_RUNS:
        return ()
    marks = tuple(change.number * SLOT for change in changes)
    return (
        _chart(
            "Bytes read",
            runs,
            task_key,
            lambda run: run.result.bytes_read,
            format_value=lambda size: human_bytes(int(size)),
            marks=marks,
        ),
        _chart(
            "Time in Spark", runs, task_key, lambda run: run.result.seconds, format_value=human_seconds, marks=marks
        ),
    )


def day_charts(days: Sequence[Day]) -> tuple[Chart, ...]:
    """Return charts of bytes read and skipped and of the duration of each day, oldest on the left."""
    largest = max((day.sums.bytes_read + day.sums.bytes_skipped for day in days), default=0)
    longest = max((day.sums.seconds for day in days), default=0.0)
    dates = _dates([f"{day.day:%b} {day.day.day}" for day in days])
    sizes, times = [], []
    for number, day in enumerate(days):
        sums = day.sums
        if not sums.runs:
            continue
        run_count = f"{day.day}: {human_count(sums.runs, 'run')}"
        parts = (_height(sums.bytes_read, largest), _height(sums.bytes_read + sums.bytes_skipped, largest))
        read = at_least(sums.bytes_read, sums.unknown_read)
        label = f"{run_count}, read {read}, skipped {at_least(sums.bytes_skipped, sums.unknown_skipped)}"
        left, width = _slot(number, len(days))
        sizes.append(Bar(left=left, width=width, parts=parts, label=label, is_partial=bool(sums.unknown_skipped)))
        times.append(
            Bar(
                left=left,
                width=width,
                parts=(_height(sums.seconds, longest),),
                label=f"{run_count}, {human_seconds(sums.seconds)}",
            )
        )
    highest = _up_to(human_bytes(largest)) if largest or not any(bar.is_partial for bar in sizes) else UNKNOWN
    return (
        Chart("Bytes read and skipped", highest, tuple(sizes), dates, len(days)),
        Chart("Time in Spark", _up_to(human_seconds(longest)), tuple(times), dates, len(days)),
    )


def plan_changes(runs: Sequence[PastRun]) -> tuple[Change, ...]:
    """Return the runs whose readers or plan differ from those of the run before. Failed runs may lack both."""
    complete = [(number, run) for number, run in enumerate(runs) if run.result.error is None]
    changes = []
    for (_, before), (number, run) in pairwise(complete):
        text = "; ".join(_differences(before.result, run.result))
        if text:
            changes.append(Change(number, run, text))
    return tuple(changes)


def _differences(before: JobResult, after: JobResult) -> Iterator[str]:
    """Yield what is different about the readers and the plan of two runs of a task."""
    for name, source in after.sources.items():
        old = before.sources.get(name)
        if old is None:
            yield f"source {name} is new"
        elif reader_name(old) != reader_name(source):
            yield f"the reader of {name} changed from {reader_name(old)} to {reader_name(source)}"
        elif _pushdown(old) != _pushdown(source):
            yield f"the pushdown to {name} changed"
    yield from (f"source {name} is gone" for name in before.sources if name not in after.sources)
    if [_shape(join.after) for join in before.joins] != [_shape(join.after) for join in after.joins]:
        yield "the join order changed"


def _pushdown(source: SourceReport) -> list[str]:
    """Return how far each conjunct was pushed down. Its constants may change with the run."""
    return [conjunct.exactness.value for conjunct in source.conjuncts]


def _shape(tree: JoinTree) -> object:
    return tree.relation if not tree.sides else tuple(_shape(side) for side in tree.sides)


def _chart(
    title: str,
    runs: Sequence[PastRun],
    task_key: TaskKey,
    measure: Callable[[PastRun], float | None],
    *,
    format_value: Callable[[float], str],
    marks: tuple[int, ...],
) -> Chart:
    values = [measure(run) for run in runs]
    numbers = [value for value in values if value is not None]
    largest = max(numbers, default=0)
    bars = tuple(
        Bar(
            left=left,
            width=width,
            parts=() if value is None else (_height(value, largest),),
            is_partial=value is None,
            label=f"{_when(run)} {run.run_id}: {'unknown' if value is None else format_value(value)}"
            f"{', failed' if run.result.error else ''}",
            is_failed=run.result.error is not None,
            is_current=run.run_id == task_key.run_id,
            task_key=replace(task_key, run_id=run.run_id),
        )
        for number, (run, value) in enumerate(zip(runs, values, strict=True))
        for left, width in [_slot(number, len(runs))]
    )
    days = [_date(run) for run in runs]
    dates = days if len(set(days)) > 1 else [f"{run.run_after:%H:%M}" if run.run_after else "" for run in runs]
    highest = _up_to(format_value(largest)) if numbers else UNKNOWN
    return Chart(title, highest, bars, _dates(dates), len(runs), marks)


def _up_to(highest: str) -> str:
    return f"up to {highest}"


def _slot(number: int, slots: int) -> tuple[float, float]:
    """Return the left edge and the width of a bar. Few bars do not fill their slots."""
    width = 0.7 * SLOT * min(1.0, slots / 14)
    return (number + 0.5) * SLOT - width / 2, width


def _height(value: float, largest: float) -> float:
    """Return the height of a bar. A value that is not zero has a height of at least 1."""
    return max(HEIGHT * value / largest, 1.0) if largest and value else 0.0


def _dates(dates: Sequence[str]) -> tuple[str, ...]:
    """Return all of a few dates, or else the first, the middle and the last one."""
    return tuple(dates) if len(dates) <= _MAX_DATES else (dates[0], dates[len(dates) // 2], dates[-1])


def _date(run: PastRun) -> str:
    return f"{run.run_after:%b} {run.run_after.day}" if run.run_after else ""


def _when(run: PastRun) -> str:
    return f"{run.run_after:%Y-%m-%d %H:%M %Z}" if run.run_after else ""
