"""Reports of real jobs in Chromium: at three widths, in both themes, by keyboard, and with accessibility rules.

The pictures are in `.artifacts/report-page/gallery`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from airflow.configuration import conf
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.sdk.bases.xcom import BaseXCom
from airflow.utils.session import create_session
from browser import (  # type: ignore[import-not-found]
    WIDTHS,
    follow_by_keyboard,
    labels_outside_boxes,
    logged_in,
    overflow,
    pale_labels,
    switch_theme,
    tab,
    unreadable_trees,
    violations,
)
from report_site import READER, REPORTS, START, Site, api_server, gallery_dag, idle_dag, pipeline_dag, states_dag  # type: ignore[import-not-found]
from sqlalchemy import delete, select, update

from airflow_pushdown.plugin.links import PROGRESS_KEY, report_path
from airflow_pushdown.plugin.task_data import TaskKey, task_run
from airflow_pushdown.progress_reports import ProgressReports, log_group
from pushdown_spark.contract.progress import Progress

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.nightly

NAMES = tuple(sorted(path.stem for path in REPORTS.glob("*.json")))
SNOWFLAKE = 20
CHANGE_DAYS = 10
"""The age of the runs from which a task of the pipeline has another reader."""
REACHED = """() => {
    const reached = document.activeElement;
    return reached === document.body ? null
        : `${reached.tagName} ${reached.getAttribute("href") ?? reached.textContent.slice(0, 40)}`;
}"""
REACHABLE = """all => all.filter(one => one.checkVisibility()).length"""


@pytest.fixture(scope="module")
def site(
    register_dag: Callable[[DAG], None], project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    dag, pipeline, states = gallery_dag(NAMES), pipeline_dag(), states_dag()
    for registered in (dag, pipeline, states, idle_dag()):
        register_dag(registered)
    dag.test(logical_date=START)
    states.test(logical_date=START)
    with create_session() as session:
        for state in ("running", "deferred"):
            instance = TaskInstance.dag_id == "states", TaskInstance.task_id == state
            session.execute(update(TaskInstance).where(*instance).values(state=state, end_date=None))
    now = datetime.now(UTC)
    for days in (25, 21, 17, 14, 9, 6, 3, 0):
        at = now - timedelta(days=days)
        needle = "spark_reader" if days > CHANGE_DAYS else "parquet_sorted"
        pipeline.test(logical_date=at, run_after=at, run_conf={"needle": needle})
    set_times()
    with api_server(project, tmp_path_factory.mktemp("site")) as server:
        yield server


def set_times() -> None:
    """Let tasks and runs take the time of the jobs whose reports they return, and some seconds around it."""
    with create_session() as session:
        for run in session.scalars(select(DagRun).where(DagRun.dag_id.in_(("gallery", "sales")))).all():
            instances = select(TaskInstance).where(TaskInstance.dag_id == run.dag_id, TaskInstance.run_id == run.run_id)
            run.start_date = run.end_date = run.run_after
            for instance in session.scalars(instances).all():
                key = TaskKey(run.dag_id, instance.task_id, run.run_id, instance.map_index)
                shown_run = task_run(session, key)
                assert shown_run is not None
                assert shown_run.result is not None
                instance.duration = shown_run.result.seconds + 3
                instance.start_date = run.run_after
                instance.end_date = run.run_after + timedelta(seconds=instance.duration)
                run.end_date = max(run.end_date, instance.end_date)


@pytest.fixture(scope="module")
def run(site: Site) -> str:
    return run_of(site, "gallery")


def run_of(site: Site, dag_id: str) -> str:
    """Return the id of the newest run of a DAG."""
    _, text, _ = site.get(f"/api/v2/dags/{dag_id}/dagRuns?order_by=-run_after", READER)
    return quote(text.partition('"dag_run_id":"')[2].partition('"')[0], safe="")


@pytest.fixture(scope="module")
def running(site: Site) -> str:
    """Let a task run again, with the progress of its job. Return the address of its page."""
    _, text, _ = site.get("/api/v2/dags/sales/dagRuns?order_by=run_after", READER)
    run_id = text.partition('"dag_run_id":"')[2].partition('"')[0]
    key = TaskKey("sales", "needle", run_id)
    progress = Progress(files_done=3, files_total=12, rows_found=812, tasks_done=9, tasks_total=40, seconds_left=40)
    progress = progress.model_copy(update={"bytes_done": 1_300_000_000, "bytes_total": 5_200_000_000})
    with create_session() as session:
        own = [getattr(XComModel, name) == value for name, value in vars(key).items()]
        session.execute(delete(XComModel).where(*own, XComModel.key == BaseXCom.XCOM_RETURN_KEY))
        XComModel.set(PROGRESS_KEY, progress.model_dump(exclude_none=True), **vars(key), session=session)
        instance = [getattr(TaskInstance, name) == value for name, value in vars(key).items()]
        start = datetime.now(UTC) - timedelta(seconds=20)
        changes = {"state": "running", "start_date": start, "end_date": None}
        session.execute(update(TaskInstance).where(*instance).values(changes))
    return report_path(*vars(key).values())


@pytest.fixture(scope="module")
def page(site: Site) -> Iterator[Page]:
    with logged_in(site) as window:
        yield window


@pytest.fixture(scope="module")
def pictures(project: Path) -> Path:
    directory = project / ".artifacts" / "report-page" / "gallery"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_tabs_in_airflows_ui_do_not_overflow_and_have_no_accessibility_violations(
    site: Site, run: str, page: Page, pictures: Path, theme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    for name, path in {
        "mapped": f"/dags/gallery/runs/{run}/tasks/scan/mapped/{NAMES.index('json')}/plugin/pushdown-report",
        "task": f"/dags/sales/runs/{run_of(site, 'sales')}/tasks/late/plugin/pushdown-report",
        "runs": "/dags/sales/plugin/pushdown-runs",
        "overview": "/plugin/pushdown",
    }.items():
        page.goto(site.address + path)
        switch_theme(page, theme)
        frame = tab(page)
        frame.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        page.screenshot(path=pictures / f"tab-{name}-{width}-{theme}.png")
        assert overflow(frame) == 0
        assert violations(frame) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_lists_and_pages_without_a_report_fit_every_width(
    site: Site, running: str, page: Page, pictures: Path, theme: str, width: int
) -> None:
    run = run_of(site, "states")
    page.set_viewport_size({"width": width, "height": 1000})
    states = {
        "list-runs": ("/pushdown/runs/sales", "Trend"),
        "list-overview": ("/pushdown/overview", "sales"),
        "list-empty": ("/pushdown/runs/idle", "left a report"),
        "refused": (f"/pushdown/report/states/missing?run_id={run}", "there is no task instance"),
        **{
            f"state-{task}": (f"/pushdown/report/states/{task}?run_id={run}", text)
            for task, text in (
                ("silent", "The task left no report"),
                ("other", "is not a report of this version"),
                ("running", "The job reports it every few seconds"),
                ("deferred", "The triggerer asks for it"),
            )
        },
    }
    for name, (path, text) in states.items():
        page.goto(site.address + path)
        page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        page.reload()
        page.get_by_text(text).first.wait_for()
        page.screenshot(path=pictures / f"{name}-{width}-{theme}.png", full_page=True)
        assert overflow(page) == 0, name
        assert violations(page) == [], name
    run_id = parse_qs(urlsplit(running).query)["run_id"][0]
    page.goto(f"{site.address}/dags/sales/runs/{quote(run_id, safe='')}/tasks/needle/plugin/pushdown-report")
    switch_theme(page, theme)
    frame = tab(page)
    frame.get_by_text("about 40 s left").wait_for()
    page.screenshot(path=pictures / f"tab-progress-{width}-{theme}.png")
    assert overflow(frame) == 0
    assert violations(frame) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_airflows_log_page_folds_progress_and_report(
    site: Site, page: Page, pictures: Path, theme: str, width: int
) -> None:
    run = run_of(site, "sales")
    lines, seconds = [], itertools.count(0, 30)
    reports = ProgressReports(lines.append, None, lambda: float(next(seconds)))
    reports(Progress(files_done=3, files_total=12, seconds_left=40))
    log_group(lines.append, "Pushdown report", "Bytes: 126.7 MiB read\n  Rows: 393 decoded")
    lines.append("a line after the groups")
    now = datetime.now(UTC).isoformat()
    events = [{"timestamp": now, "level": "info", "logger": "task", "event": line} for line in lines]
    directory = Path(conf.get("logging", "base_log_folder"), "dag_id=sales", f"run_id={unquote(run)}", "task_id=late")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "attempt=1.log").write_text("".join(json.dumps(event) + "\n" for event in events))

    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(f"{site.address}/dags/sales/runs/{run}/tasks/late?try_number=1")
    switch_theme(page, theme)
    page.get_by_text("a line after the groups").wait_for()
    page.screenshot(path=pictures / f"log-{width}-{theme}.png")
    for title, text in (("Progress after 1 min", "3 of 12 files"), ("Pushdown report", "Rows: 393 decoded")):
        assert not page.get_by_text(text).is_visible()
        page.get_by_text(title).last.click()
        page.get_by_text(text).wait_for(state="visible")
    # The lines of a text stay lines.
    report = page.get_by_text("Rows: 393 decoded").first
    assert report.evaluate("element => element.innerText.includes('\\n')")


@pytest.mark.parametrize("name", ["json", "join_8", "failed_check", "runs/sales", "overview"])
def test_every_link_and_control_is_reached_by_keyboard(site: Site, run: str, page: Page, name: str) -> None:
    report = f"report/gallery/scan?run_id={run}&map_index={NAMES.index(name)}" if name in NAMES else name
    page.goto(f"{site.address}/pushdown/{report}")
    stops = page.locator("a[href]:not([tabindex='-1']), summary, input:checked, [tabindex='0']").evaluate_all(REACHABLE)
    labels = []
    for _ in range(stops + 1):
        page.keyboard.press("Tab")
        labels.append(page.evaluate(REACHED))
    assert None not in labels[:-1]
    # Without a window around the page, Chromium may start again at the first stop.
    assert labels[-1] in (None, labels[0]), "the page has no other stop"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_join_of_twenty_relations_is_a_list_of_steps_on_a_telephone(
    site: Site, run: str, page: Page, pictures: Path, theme: str
) -> None:
    page.goto(f"{site.address}/pushdown/report/gallery/scan?run_id={run}&map_index={NAMES.index('join_20')}")
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    page.reload()
    page.set_viewport_size({"width": 390, "height": 900})
    page.evaluate("document.querySelector('.join').scrollIntoView()")
    page.screenshot(path=pictures / f"steps-390-{theme}.png")
    assert page.locator(".steps").first.locator("li").count() == SNOWFLAKE
    assert page.locator(".steps").first.is_visible()
    assert page.locator(".canvas").first.is_hidden()
    assert violations(page) == []


def test_labels_fit_their_boxes_at_every_size_of_a_tree(site: Site, run: str, page: Page, pictures: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{site.address}/pushdown/report/gallery/scan?run_id={run}&map_index={NAMES.index('join_20')}")
    tree = page.locator("svg.tree").first
    width = float(tree.get_attribute("width") or 0)
    for size, scale in (("large", 1.5), ("full", 1.0), ("half", 0.5)):
        page.check(f"input[value={size}]")
        assert labels_outside_boxes(page) == []
        assert (tree.bounding_box() or {})["width"] == pytest.approx(scale * width, rel=0.01)
        assert overflow(page) == 0
    page.evaluate("localStorage.setItem('theme', 'light')")
    page.reload()
    page.check("input[value=half]")
    page.evaluate("document.querySelector('.join').scrollIntoView()")
    page.screenshot(path=pictures / "sizes-1280-light.png")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_history_marks_the_run_whose_reader_changed(
    site: Site, page: Page, pictures: Path, theme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    page.goto(f"{site.address}/pushdown/report/sales/needle?run_id={run_of(site, 'sales')}")
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    page.reload()
    history = page.locator("section", has=page.get_by_role("heading", name="Runs of this task"))
    assert "the reader of flights changed from spark to pushdown" in history.inner_text()
    assert history.locator("figure .change").count() == len(history.locator("figure.chart").all()) == 2
    assert history.locator("figure .unknown-run").count() > 0, (
        "Spark's reader does not count the bytes of Parquet files"
    )
    assert overflow(page) == 0
    assert violations(page) == []
    history.screenshot(path=pictures / f"history-{width}-{theme}.png")


def test_reports_can_be_opened_from_the_lists_by_keyboard(site: Site, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(f"{site.address}/pushdown/overview")
    follow_by_keyboard(page, "sales")
    page.wait_for_url("**/pushdown/runs/sales")
    follow_by_keyboard(page, "needle")
    page.wait_for_url("**/pushdown/report/sales/needle?*")
    follow_by_keyboard(page, "All runs of sales")
    page.wait_for_url("**/pushdown/runs/sales")


def test_reports_can_be_opened_from_the_lists_in_airflows_ui_by_keyboard(site: Site, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 1000})
    page.goto(f"{site.address}/plugin/pushdown")
    tab(page)
    follow_by_keyboard(page, "sales")
    page.wait_for_url("**/dags/sales/plugin/pushdown-runs")
    tab(page).wait_for_selector("table.runs")
    follow_by_keyboard(page, "needle")
    page.wait_for_url("**/tasks/needle/plugin/pushdown-report")
    tab(page).wait_for_selector("table.funnel")
    follow_by_keyboard(page, "All runs of this DAG")
    page.wait_for_url("**/dags/sales/plugin/pushdown-runs")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_of_a_running_task_fits_every_width(
    site: Site, running: str, page: Page, pictures: Path, theme: str
) -> None:
    page.goto(site.address + running)
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    page.reload()
    page.get_by_text("about 40 s left").wait_for()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=pictures / f"progress-{width}-{theme}.png")
        assert overflow(page) == 0, width
        assert violations(page) == [], width


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_report_is_readable_at_every_width(
    site: Site, run: str, page: Page, pictures: Path, name: str, theme: str
) -> None:
    page.goto(f"{site.address}/pushdown/report/gallery/scan?run_id={run}&map_index={NAMES.index(name)}")
    page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
    page.reload()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        page.screenshot(path=pictures / f"{name}-{width}-{theme}.png", full_page=True)
        assert overflow(page) == 0, width
        assert violations(page) == [], width
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        assert overflow(page) == 0, f"{width}, unfolded"
        assert labels_outside_boxes(page) == []
        assert unreadable_trees(page) == [], width
    assert pale_labels(page) == []
    assert violations(page) == [], "unfolded"
