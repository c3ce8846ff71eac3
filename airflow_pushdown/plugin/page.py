"""The HTML of the reports: self-contained pages without fonts or external images. They are complete without scripts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from airflow_pushdown.plugin import charts, links, model
from airflow_pushdown.plugin.dag_data import DAYS, MAX_REPORTS, DagReports
from airflow_pushdown.plugin.join_drawing import TreeDrawing, drawing_size, tree_drawings
from airflow_pushdown.plugin.task_data import TaskKey, TaskRun
from pushdown_spark.contract import Exactness
from pushdown_spark.contract.join_report_text import join_tree_lines
from pushdown_spark.contract.progress import progress_text
from pushdown_spark.contract.report_text import (
    EXACTNESS_MEANINGS,
    cost_lines,
    human_bytes,
    human_percent,
    human_seconds,
    source_title,
)

REFRESH_SECONDS = 5
"""The refresh interval of the page of a running task."""

_TEMPLATES = Path(__file__).parent / "templates"
_STYLE = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
_SCRIPT = (_TEMPLATES / "page.js").read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src {_hash(_STYLE)}; script-src {_hash(_SCRIPT)}; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The policy allows only the page's own style sheet and its own script, which asks for the page again."""


class Links:
    """The links of a page. In a tab, they lead to tabs of Airflow's UI instead of other pages."""

    def __init__(self, *, in_airflow: bool) -> None:
        self.in_airflow = in_airflow

    def report(self, key: TaskKey) -> str:
        """Return the address of a report."""
        if self.in_airflow:
            return links.airflow_task_path(key.dag_id, key.task_id, key.run_id, key.map_index, links.REPORT_TAB)
        return links.report_path(key.dag_id, key.task_id, key.run_id, key.map_index)

    def runs(self, dag_id: str) -> str:
        """Return the address of the list of a DAG's runs."""
        return links.airflow_dag_path(dag_id, links.RUNS_TAB) if self.in_airflow else links.runs_path(dag_id)

    @property
    def target(self) -> Markup:
        """The attribute of links that replaces the whole page of Airflow's UI, not only the tab."""
        return Markup(' target="_top"') if self.in_airflow else Markup("")


def render_report(run: TaskRun, *, in_airflow: bool = False) -> str:
    """Return the page of a task instance, which refreshes itself until the task ends."""
    key = run.task_key
    changes = charts.plan_changes(run.history)
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=f"{key.dag_id} / {key.task_id} - Pushdown report",
            run=run,
            refresh=REFRESH_SECONDS if run.is_active else None,
            links=Links(in_airflow=in_airflow),
            changes=changes,
            charts=charts.history_charts(run.history, key, changes),
            task_page=links.airflow_task_path(key.dag_id, key.task_id, key.run_id, key.map_index),
        )
    )


def render_runs(reports: DagReports, *, in_airflow: bool = False) -> str:
    """Return the page that lists the runs of a DAG."""
    page = _environment().get_template("runs.html")
    return page.render(
        title=f"{reports.dag_id} - Pushdown runs",
        reports=reports,
        refresh=None,
        links=Links(in_airflow=in_airflow),
        charts=charts.day_charts(reports.days) if len(reports.runs) >= charts.MIN_RUNS else (),
        dag_page=links.airflow_dag_path(reports.dag_id),
        days=DAYS,
        max_reports=MAX_REPORTS,
    )


def render_overview(
    dags: Sequence[DagReports], number: int = 1, *, has_next: bool = False, in_airflow: bool = False
) -> str:
    """Return a page of the list of DAGs with their runs."""
    page = _environment().get_template("overview.html")
    return page.render(
        title="Pushdown overview",
        dags=dags,
        number=number,
        has_next=has_next,
        refresh=None,
        links=Links(in_airflow=in_airflow),
        airflow_page=links.root_path() or "/",
        days=DAYS,
        max_reports=MAX_REPORTS,
    )


def render_refusal(title: str, detail: str, login: str | None) -> str:
    """Return the page for a report that cannot be shown. `login` is the address to log in, if that helps."""
    page = _environment().get_template("refusal.html")
    return page.render(title=title, detail=detail, login=login, refresh=None)


@cache
def _environment() -> Environment:
    """Return the templates, which escape all values and raise for undefined names."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        # The project's own style sheet and script, which the hashes in the policy allow.
        style=Markup(_STYLE),  # noqa: S704
        script=Markup(_SCRIPT),  # noqa: S704
        exactness_meanings={exactness.value: EXACTNESS_MEANINGS[exactness] for exactness in Exactness},
        chart_height=charts.HEIGHT,
        slot=charts.SLOT,
        min_runs=charts.MIN_RUNS,
        airflow_run_path=links.airflow_run_path,
        at_least=model.at_least,
        bytes_or_unknown=model.bytes_or_unknown,
        conjunct_rows=model.conjunct_rows,
        cost_lines=cost_lines,
        drawing_size=drawing_size,
        human_bytes=human_bytes,
        human_seconds=human_seconds,
        human_percent=human_percent,
        job_funnel=model.job_funnel,
        join_tree_lines=join_tree_lines,
        progress_fraction=model.progress_fraction,
        progress_text=progress_text,
        replace=replace,
        rows_meaning=model.rows_meaning,
        rows_written=model.rows_written,
        scan_outcome=model.scan_outcome,
        skipped_amounts=model.skipped_amounts,
        source_funnel=model.source_funnel,
        source_title=source_title,
        tree_drawings=tree_drawings,
        tree_svg=_tree_svg,
        unit_outcomes=model.unit_outcomes,
        units_in_words=model.units_in_words,
    )
    return environment


def _tree_svg(tree: TreeDrawing) -> Markup:
    """Return the drawing of a join tree. It escapes all names."""
    frame = (
        '<svg class="tree" role="img" aria-label="Join tree: {0}" viewBox="-1 -7 {1} {2}" width="{1}" height="{2}">'
        "{3}</svg>"
    )
    size = (tree.width + 8, tree.height + 8)
    return Markup(frame).format(tree.title, *size, Markup(tree.content))  # noqa: S704
