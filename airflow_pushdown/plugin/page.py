"""The HTML of a task's report: a self-contained page without scripts, fonts or external images."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from airflow_pushdown.plugin import drawing, model
from airflow_pushdown.plugin.data import TaskRun
from airflow_pushdown.plugin.join_drawing import joins_svg
from pushdown_spark.contract import JoinReport
from pushdown_spark.contract.report_text import human_bytes, joins_text

REFRESH_SECONDS = 10
"""The refresh interval of the page of a running task."""

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The policy allows only the page's own style sheet."""


def render_report(run: TaskRun) -> str:
    """Return the page of a task instance, which refreshes itself until the task ends."""
    place = run.place
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=f"{place.dag_id} / {place.task_id} - Pushdown report",
            run=run,
            refresh=REFRESH_SECONDS if run.active else None,
            charts=drawing.history_charts(run.history, place),
        )
    )


def render_refusal(title: str, detail: str, login: str | None) -> str:
    """Return the page for a report that cannot be shown. `login` is the address to log in, if that helps."""
    page = _environment().get_template("refusal.html")
    return page.render(title=title, detail=detail, login=login, refresh=None)


@cache
def _environment() -> Environment:
    """Return the templates, which escape all values and raise for undefined names."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(
        # The project's own style sheet, which the hash in the policy allows.
        style=Markup(_STYLE),  # noqa: S704
        chart_height=drawing.CHART_HEIGHT,
        chart_width=drawing.CHART_WIDTH,
        funnel=model.funnel,
        funnel_height=drawing.funnel_height,
        funnel_steps=drawing.funnel_steps,
        funnel_width=drawing.FUNNEL_WIDTH,
        human_bytes=human_bytes,
        joins_drawing=_joins_drawing,
        joins_text=joins_text,
        evaluated_by_spark=model.evaluated_by_spark,
        pushed=model.pushed,
        scan_outcome=model.scan_outcome,
        skipped=model.skipped,
        unit_outcomes=model.unit_outcomes,
        units_in_words=model.units_in_words,
    )
    return environment


def _joins_drawing(join: JoinReport) -> Markup:
    """Return the drawing of the join trees before and after. It escapes all names."""
    content, height = joins_svg(join, drawing.FUNNEL_WIDTH)
    frame = (
        '<svg class="joins" role="img" aria-label="Join trees" viewBox="0 0 {0} {1}" width="{0}" height="{1}">{2}</svg>'
    )
    return Markup(frame).format(drawing.FUNNEL_WIDTH, height, Markup(content))  # noqa: S704
