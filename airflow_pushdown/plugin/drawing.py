"""The positions of the parts of the page's charts in pixels. The templates render them as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airflow_pushdown.plugin.data import PastRun, Place
from airflow_pushdown.plugin.links import report_path
from airflow_pushdown.plugin.model import Stage
from pushdown_spark.contract.report_text import human_bytes

FUNNEL_WIDTH = 720
CHART_WIDTH = 720
CHART_HEIGHT = 96
_STEP = 34
_BAR = 22
_MIDDLE = 390
_FULL = 330
_THINNEST = 2.0
_SLOT = 24
_AXIS = 64


@dataclass(frozen=True)
class FunnelStep:
    """One step of a funnel: the corners of its bar and of the neck to the next bar, and the baseline of its text."""

    stage: Stage
    bar: str
    neck: str
    baseline: int


@dataclass(frozen=True)
class Bar:
    """One run in a chart. `value` is formatted, None if unknown. `current` is whether the page shows this run."""

    left: int
    top: float
    height: float
    run_id: str
    when: str
    value: str | None
    failed: bool
    current: bool
    link: str


@dataclass(frozen=True)
class Chart:
    """Bars over an axis that starts at zero. `highest` is the formatted value of its upper end."""

    title: str
    highest: str
    bars: tuple[Bar, ...]


def funnel_steps(stages: Sequence[Stage]) -> tuple[FunnelStep, ...]:
    """Return the funnel of the stages, from top to bottom."""
    widths = [max(_FULL * stage.share, _THINNEST) for stage in stages]
    steps = []
    for place, stage in enumerate(stages):
        top = place * _STEP
        follows = place + 1 < len(stages)
        neck = _corners(widths[place], widths[place + 1], top + _BAR, top + _STEP) if follows else ""
        steps.append(FunnelStep(stage, _corners(widths[place], widths[place], top, top + _BAR), neck, top + 15))
    return tuple(steps)


def funnel_height(stages: Sequence[Stage]) -> int:
    """Return the height of the funnel of the stages."""
    return max(len(stages) * _STEP - (_STEP - _BAR), 0)


def history_charts(runs: Sequence[PastRun], place: Place) -> tuple[Chart, ...]:
    """Return charts of bytes read and seconds of each run, with the oldest on the left."""
    return (
        _chart("Bytes read", runs, place, lambda run: run.result.bytes_read, lambda most: human_bytes(int(most))),
        _chart("Seconds", runs, place, lambda run: run.result.seconds, lambda most: f"{most:.1f} s"),
    )


def _corners(above: float, below: float, top: int, bottom: int) -> str:
    """Return the corners of a trapezoid around the axis of the funnel, in SVG format."""
    corners = ((-above, top), (above, top), (below, bottom), (-below, bottom))
    return " ".join(f"{_MIDDLE + width / 2:.1f},{height}" for width, height in corners)


def _chart(
    title: str,
    runs: Sequence[PastRun],
    place: Place,
    measure: Callable[[PastRun], float | None],
    words: Callable[[float], str],
) -> Chart:
    """Return a chart of one measure of the runs."""
    values = [measure(run) for run in runs]
    most = max((value for value in values if value is not None), default=0)
    bars = []
    for number, (run, value) in enumerate(zip(runs, values, strict=True)):
        height = max(CHART_HEIGHT * value / most, 1.0) if value is not None and most else 1.0
        bars.append(
            Bar(
                left=_AXIS + number * _SLOT,
                top=CHART_HEIGHT - height,
                height=height,
                run_id=run.run_id,
                when=run.after.strftime("%Y-%m-%d %H:%M") if run.after else "",
                value=None if value is None else words(value),
                failed=run.result.error is not None,
                current=run.run_id == place.run_id,
                link=report_path(place.dag_id, place.task_id, run.run_id, place.map_index),
            )
        )
    return Chart(title, words(most), tuple(bars))
