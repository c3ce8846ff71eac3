"""The report page in a real api-server, and in Chromium if it is installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote

import pytest
from airflow.api_fastapi.auth.managers.models.batch_apis import IsAuthorizedDagRequest
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk import DAG
from airflow.utils.session import create_session
from browser import background, brightness, labels_outside_boxes, logged_in, overflow, switch_theme, tab, violations  # type: ignore[import-not-found]
from report_site import (  # type: ignore[import-not-found]
    HOSTILE,
    READER,
    START,
    STRANGER,
    RecordedJoin,
    RecordedScan,
    Site,
    api_server,
    failed_result,
    gallery_dag,
    join_result,
    orc_result,
    report_dag,
)
from sqlalchemy import update
from starlette.requests import Request
from starlette.routing import Route

from airflow_pushdown.plugin import app, dag_data
from airflow_pushdown.plugin.dag_data import dag_reports
from airflow_pushdown.plugin.links import PROGRESS_KEY
from airflow_pushdown.plugin.page import render_runs
from airflow_pushdown.plugin.task_data import TaskKey

if TYPE_CHECKING:
    from playwright.sync_api import Page

Theme = Literal["light", "dark"]
RUNS = 5
FAILED_RUN = 3
GALLERY = ("mapped_0", "join_20", "fallback")


@pytest.fixture(scope="module")
def runs(register_dag: Callable[[DAG], None]) -> list[str]:
    """Return the run ids of the tasks. The third run failed."""
    dag, gallery = report_dag(), gallery_dag(GALLERY)
    register_dag(dag)
    register_dag(gallery)
    gallery.test(logical_date=START)
    RecordedJoin.result = join_result()
    RecordedScan.pending = [
        failed_result() if number == FAILED_RUN else orc_result(1_500_000 + 300_000 * number, 4.0 + number)
        for number in range(RUNS)
    ]
    runs = [dag.test(logical_date=START + timedelta(days=number)) for number in range(RUNS)]
    assert [str(run.state) for run in runs] == ["failed" if n == FAILED_RUN else "success" for n in range(RUNS)]
    return [run.run_id for run in runs]


@pytest.fixture(scope="module")
def site(runs: list[str], project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with api_server(project, tmp_path_factory.mktemp("site")) as server:
        yield server


@pytest.fixture(scope="module")
def artefacts(project: Path) -> Path:
    """Return the directory for screenshots."""
    directory = project / ".artifacts" / "report-page"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.fixture(scope="module")
def browser(site: Site) -> Iterator[Page]:
    """Return a browser page in which a user with read permission has logged in by the form."""
    with logged_in(site) as window:
        yield window


@pytest.fixture
def page(browser: Page) -> Page:
    """Return the page of the browser in its first size and theme."""
    browser.set_viewport_size({"width": 1280, "height": 1000})
    browser.emulate_media(color_scheme="light")
    return browser


def path_of(task: str, run: str) -> str:
    return f"/pushdown/report/reports/{task}?run_id={quote(run, safe='')}"


def test_only_users_with_airflows_permission_see_a_report(site: Site, runs: list[str]) -> None:
    path = path_of("needle", runs[-1])
    status, login, _ = site.get(path)
    assert status == 401
    assert "/auth/login" in login
    assert "12,000" not in login
    status, refusal, _ = site.get(path, STRANGER)
    assert status == 403
    assert "12,000" not in refusal
    status, text, _ = site.get(path, READER)
    assert status == 200
    assert "12,000" in text


def test_a_report_loads_nothing_from_elsewhere_and_is_not_cached(site: Site, runs: list[str]) -> None:
    _, text, headers = site.get(path_of("needle", runs[-1]), READER)
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"
    assert "http" not in text.replace("http://history.example:18080/history/local-1/", "")


def test_strings_of_a_report_are_escaped_in_the_page(site: Site, runs: list[str]) -> None:
    for task, run in (("needle", runs[-1]), ("needle", runs[FAILED_RUN]), ("mart", runs[-1])):
        text = site.get(path_of(task, run), READER)[1]
        assert HOSTILE not in text
        assert text.count("<script") == 1, "only the page's own script"
        assert "&lt;script&gt;" in text


def test_other_xcoms_and_unknown_runs_are_not_shown_as_reports(site: Site, runs: list[str]) -> None:
    status, text, _ = site.get(path_of("other", runs[-1]), READER)
    assert status == 200
    assert "not a report of this version" in text
    assert "of another task" not in text
    assert site.get(path_of("needle", "no_such_run"), READER)[0] == 404
    assert site.get(path_of("needle", runs[-1]) + "&map_index=3", READER)[0] == 404


def test_the_button_of_a_task_opens_its_report(site: Site, runs: list[str], page: Page, artefacts: Path) -> None:
    page.goto(f"{site.address}/dags/reports/runs/{quote(runs[-1], safe='')}/tasks/needle/details")
    link = page.locator("a[href*='/pushdown/report/']")
    link.wait_for()
    page.screenshot(path=artefacts / "task.png")
    assert page.get_by_role("link", name="Spark application").get_attribute("href") == (
        "http://history.example:18080/history/local-1/"
    )
    link.click()
    page.wait_for_url("**/pushdown/report/**")
    page.wait_for_selector("table.funnel")
    text = page.inner_text("body").lower()
    for words in (
        "rows returned",
        "conjuncts of the predicate",
        "re-evaluated by spark",
        "tailnum = 'n328aa'",
        "a function of the column",
        "reads 2 of 40 stripes",
        "spark history",
        "runs of this task",
        "not_null: tailnum",
        "overwrite_partitions",
        "2 partitions",
    ):
        assert words in text, words
    assert page.title() == "reports / needle - Pushdown report"


@pytest.fixture
def needle(site: Site, runs: list[str], page: Page) -> Page:
    """Return the page of the last report of the task `needle`."""
    page.goto(site.address + path_of("needle", runs[-1]))
    return page


def test_units_of_a_source_are_folded_until_their_summary_is_clicked(needle: Page) -> None:
    assert needle.locator("details.units table").first.is_hidden()
    needle.locator("details.units summary").click()
    assert "skipped by bloom filters" in needle.locator("details.units").inner_text()


def test_the_file_table_shows_bytes_rows_and_outcomes_of_each_file(needle: Page) -> None:
    needle.locator("details.units summary").click()
    assert needle.locator("table.files tr").nth(1).inner_text().split("\t")[1:] == [
        "683.6 KiB",
        "9,000",
        "stripes: 1 read, 3 skipped by statistics",
    ]


def test_the_funnel_shows_every_step_even_of_an_unknown_count(needle: Page) -> None:
    assert needle.locator("table.funnel tr th[scope=row]").all_inner_texts() == [
        "bytes stored",
        "bytes read",
        "rows decoded",
        "rows after pushdown",
        "rows returned",
        "rows written",
    ]
    assert needle.locator("table.funnel tr").nth(4).inner_text().split() == ["rows", "after", "pushdown", "unknown"]


def test_charts_show_all_runs_and_mark_the_current_and_the_unknown_one(needle: Page) -> None:
    assert needle.locator("figure .run").count() == 2 * RUNS
    assert needle.locator("figure .current-run").count() == 2
    assert needle.locator("figure .unknown-run").count() == 1
    assert needle.locator(".dates").first.locator("span").count() == RUNS


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_has_no_accessibility_violations(needle: Page, artefacts: Path, theme: Theme) -> None:
    needle.emulate_media(color_scheme=theme)
    needle.screenshot(path=artefacts / f"report-{theme}.png", full_page=True)
    assert violations(needle) == []


@pytest.mark.parametrize(
    ("theme", "backgrounds", "colors"), [("light", range(200, 256), range(100)), ("dark", range(60), range(180, 256))]
)
def test_the_colors_of_the_page_follow_the_theme(needle: Page, theme: Theme, backgrounds: range, colors: range) -> None:
    needle.emulate_media(color_scheme=theme)
    style = "getComputedStyle(document.body)"
    actual = needle.evaluate(f"[{style}.backgroundColor, {style}.color]")
    assert int(brightness(actual[0])) in backgrounds
    assert int(brightness(actual[1])) in colors


def test_the_page_of_a_join_shows_both_trees_and_what_moved(
    site: Site, runs: list[str], page: Page, artefacts: Path
) -> None:
    page.emulate_media(color_scheme="dark")
    page.goto(site.address + path_of("mart", runs[-1]))
    assert str(page.text_content("body")).count("9 planes leave few flights") == 1
    assert page.locator(".join figcaption b").all_inner_texts() == ["Before", "After"]
    assert page.locator("svg.tree .moved").count() == 2, "the relation that moved, in both trees"
    assert labels_outside_boxes(page) == []
    page.screenshot(path=artefacts / "join-dark.png", full_page=True)


def test_a_bar_of_a_chart_opens_the_report_of_its_run(needle: Page, runs: list[str], artefacts: Path) -> None:
    needle.emulate_media(color_scheme="dark")
    needle.locator("figure.chart").first.locator("a").nth(FAILED_RUN).click()
    needle.wait_for_url(f"**{quote(runs[FAILED_RUN], safe='')}*")
    assert "Failed: unknown_column" in needle.inner_text("body")
    needle.screenshot(path=artefacts / "failed-dark.png", full_page=True)


@pytest.fixture
def task_tab(site: Site, runs: list[str], page: Page) -> Page:
    """Return Airflow's page of the task `needle`, on which the tab of its report is open."""
    page.goto(f"{site.address}/dags/reports/runs/{quote(runs[-1], safe='')}/tasks/needle")
    page.locator("a[href$='/plugin/pushdown-report']").click()
    tab(page).wait_for_selector("table.funnel")
    return page


def test_a_tab_of_the_task_shows_the_report_in_airflows_theme(task_tab: Page, artefacts: Path) -> None:
    frame = tab(task_tab)
    for theme, is_dark in (("dark", True), ("light", False)):
        switch_theme(task_tab, theme)
        frame.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
        assert (background(frame) < 100) is is_dark
        task_tab.screenshot(path=artefacts / f"tab-{theme}.png")


def test_the_tab_leads_to_the_report_of_another_run_and_to_all_runs_of_the_dag(
    task_tab: Page, runs: list[str], artefacts: Path
) -> None:
    tab(task_tab).locator("figure.chart").first.locator("a").nth(FAILED_RUN).click()
    task_tab.wait_for_url(lambda address: runs[FAILED_RUN] in unquote(address))
    tab(task_tab).get_by_text("Failed: unknown_column").wait_for()
    tab(task_tab).get_by_role("link", name="All runs of this DAG").click()
    task_tab.wait_for_url("**/dags/reports/plugin/pushdown-runs")
    rows = tab(task_tab).locator("table.runs tbody tr")
    assert rows.count() == RUNS
    assert rows.first.inner_text().count("unknown") == 1
    task_tab.screenshot(path=artefacts / "runs-tab.png")


def test_pages_of_runs_and_tabs_require_the_permission_and_a_valid_path(site: Site) -> None:
    assert site.get("/pushdown/runs/reports", STRANGER)[0] == 403
    assert site.get("/pushdown/tab/report/reports/x/needle/one", READER)[0] == 404


@pytest.fixture
def mapped(site: Site, runs: list[str], page: Page) -> Page:
    """Return the page of the first mapped task."""
    run = only_run(site, "gallery")
    page.goto(f"{site.address}/pushdown/report/gallery/scan?run_id={quote(run, safe='')}&map_index=0")
    return page


def test_mapped_tasks_link_to_their_neighbors_by_keyboard(mapped: Page) -> None:
    assert "map index 0 (mapped_0), one of 3" in mapped.inner_text("nav.siblings")
    assert mapped.locator("nav.siblings a").all_inner_texts() == ["Next →"]
    labels = []
    while "next" not in labels and len(labels) < 4:
        mapped.keyboard.press("Tab")
        labels.append(mapped.evaluate("document.activeElement.rel"))
    mapped.keyboard.press("Enter")
    mapped.wait_for_url("**map_index=1")
    assert "(join_20)" in mapped.inner_text("nav.siblings")


def test_a_wide_join_tree_is_a_list_of_steps_on_a_narrow_screen_until_its_size_is_chosen(mapped: Page) -> None:
    mapped.goto(mapped.url.replace("map_index=0", "map_index=1"))
    assert labels_outside_boxes(mapped) == []
    mapped.set_viewport_size({"width": 390, "height": 900})
    assert overflow(mapped) == 0
    tree, steps = mapped.locator("svg.tree").first, mapped.locator(".steps").first
    assert (tree.is_visible(), steps.is_visible()) == (False, True)
    assert steps.locator("li").count() == 20
    mapped.locator("input[value=fit]").focus()
    for _ in range(2):
        mapped.keyboard.press("ArrowRight")
    full = tree.bounding_box()
    assert full is not None
    assert full["width"] > 1_000
    assert steps.is_hidden()


def test_a_wide_join_tree_has_no_accessibility_violations(mapped: Page) -> None:
    mapped.goto(mapped.url.replace("map_index=0", "map_index=1"))
    assert violations(mapped) == []


@pytest.mark.nightly
def test_while_the_task_runs_the_page_waits_and_links_to_spark(
    site: Site, project: Path, local_spark: str, spark_python: str, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "0.json").write_text('{"id": 1, "event": {"type": "needle"}}\n')
    variables = {
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "tests" / "e2e" / "dags"),
        "AIRFLOW_PUSHDOWN_SPARK_PYTHON": spark_python,
        "PYTHONPATH": os.pathsep.join((str(project), str(project / "spark_jobs"))),
        "E2E_DATA": str(tmp_path),
        "E2E_HOSTILE": str(project / "tests" / "e2e" / "hostile"),
    }
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "dags", "test", "stalled_scan", "2026-01-01"],
            env={**os.environ, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        run, text = "", ""
        while "Spark UI" not in text:
            assert process.poll() is None, log.read_text("utf-8", errors="replace")[-3000:]
            time.sleep(0.5)
            run = run or only_run(site, "stalled_scan")
            if run:
                path = f"/pushdown/report/stalled_scan/scan?run_id={quote(run, safe='')}"
                text = site.get(path, READER)[1]
        assert 'http-equiv="refresh"' in text
        while "0 of 1 file" not in text or "0 of 1 task" not in text:
            assert process.poll() is None, log.read_text("utf-8", errors="replace")[-3000:]
            time.sleep(0.5)
            text = site.get(path, READER)[1]
        links = site.get(f"/api/v2/dags/stalled_scan/dagRuns/{quote(run, safe='')}/taskInstances/scan/links", READER)
        assert path in links[1]
        spark = text.partition('<a href="http://')[2].partition('"')[0]
        assert "stalled_scan.scan" in Site(f"http://{spark}").get("/")[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(300)


@pytest.fixture
def running(runs: list[str]) -> Iterator[tuple[TaskKey, Callable[[str], None]]]:
    """Let a task without a report run again. Return it, and a function that stores the progress of its job as JSON."""
    task_key = TaskKey("reports", "other", runs[0])
    instance = (TaskInstance.dag_id == task_key.dag_id, TaskInstance.task_id == task_key.task_id)

    def set_state(state: str) -> None:
        with create_session() as session:
            session.execute(update(TaskInstance).where(*instance, TaskInstance.run_id == runs[0]).values(state=state))

    def store(progress: str) -> None:
        with create_session() as session:
            XComModel.set(PROGRESS_KEY, json.loads(progress), **vars(task_key), session=session)

    set_state("running")
    yield task_key, store
    set_state("success")


def test_a_page_follows_the_progress_of_its_task(
    site: Site, running: tuple[TaskKey, Callable[[str], None]], page: Page, artefacts: Path
) -> None:
    task_key, store = running
    page.goto(site.address + path_of(task_key.task_id, task_key.run_id))
    assert "unknown" in page.inner_text(".figures").lower()
    store('{"files_done": 3, "files_total": 12, "bytes_done": 1200, "bytes_total": 4800, "rows_found": 812}')
    page.evaluate("window.isSamePage = true")
    page.evaluate("document.querySelector('main').dataset.seconds = 0.2")
    page.get_by_text("3 of 12 files, 1.2 KiB of 4.7 KiB searched, 812 rows found").wait_for()
    assert page.locator(".figures .bar").get_attribute("width") == "250.0"
    assert violations(page) == []
    page.screenshot(path=artefacts / "progress.png", full_page=True)
    store(f'{{"tasks_done": 1, "tasks_total": 2, "scan": "{HOSTILE}", "scan_number": 1, "scans_total": 2}}')
    page.get_by_text(f"scan 1 of 2 ({HOSTILE}), 1 of 2 tasks").wait_for()
    store('{"tasks_done": "many"}')
    page.get_by_text("Unknown. The job reports it").wait_for()
    assert page.evaluate("window.isSamePage")
    with create_session() as session:
        session.execute(update(TaskInstance).where(TaskInstance.run_id == task_key.run_id).values(state="success"))
    page.get_by_text("not a report of this version").wait_for()
    assert page.evaluate("window.isSamePage === undefined")


def test_all_dags_with_reports_are_in_airflows_navigation(
    site: Site, runs: list[str], page: Page, artefacts: Path
) -> None:
    page.goto(site.address)
    page.get_by_role("button", name="Browse").click()
    page.get_by_role("menuitem", name="Pushdown").click()
    frame = tab(page)
    actual = frame.locator("tbody tr td:first-child").all_inner_texts()
    # Other tests run DAGs in the same Airflow.
    assert {"gallery", "reports"} <= set(actual)
    assert actual == sorted(actual)
    assert violations(frame) == []
    page.screenshot(path=artefacts / "overview.png")
    frame.get_by_role("link", name="reports", exact=True).click()
    page.wait_for_url("**/dags/reports/plugin/pushdown-runs")
    assert site.get("/pushdown/overview")[0] == 401
    status, text, _ = site.get("/pushdown/overview", STRANGER)
    assert (status, "reports</a>" in text) == (200, False), "a user without permissions sees no DAG"
    assert "reports</a>" in site.get("/pushdown/overview", READER)[1]


@pytest.mark.parametrize(
    ("allowed", "is_seen"), [({"TASK_INSTANCE", "XCOM"}, True), ({"TASK_INSTANCE"}, False), ({"XCOM"}, False)]
)
@pytest.mark.usefixtures("runs")
def test_a_user_sees_a_dag_with_both_permissions_for_it(
    monkeypatch: pytest.MonkeyPatch, allowed: set[str], is_seen: bool
) -> None:
    class Manager:
        """An auth manager with the parameters of Airflow 3.1.0."""

        def batch_is_authorized_dag(self, requests: Sequence[IsAuthorizedDagRequest], *, user: object) -> bool:
            assert {(request["method"], request["details"].id) for request in requests} == {("GET", "reports")}
            return user == "a user" and {request["access_entity"].name for request in requests} <= allowed

    monkeypatch.setattr(app, "get_auth_manager", Manager)
    with create_session() as session:
        assert app.may_see("a user", "reports", session) is is_seen  # type: ignore[arg-type]


def test_each_dag_has_its_own_limit_of_reports(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dag_data, "MAX_REPORTS", 3)
    with create_session() as session:
        reports, gallery = (dag_reports(session, dag_id, datetime.now(UTC)) for dag_id in ("reports", "gallery"))
    assert (len(gallery.runs[0].reports), gallery.is_cut) == (len(GALLERY), False)
    # The third report is the first of two of its run, whose sums would be too small.
    assert [(run.run_id, len(run.reports)) for run in reports.runs] == [(runs[-1], 2)]
    assert reports.is_cut
    assert "only the newest 1,000 reports" in render_runs(reports)


def test_the_list_of_dags_is_paginated(runs: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "DAGS_OF_A_PAGE", 1)
    asked: list[str] = []

    def may_see(_user: object, dag_id: str, _session: object) -> bool:
        asked.append(dag_id)
        return dag_id in ("gallery", "reports")

    monkeypatch.setattr(app, "may_see", may_see)
    with create_session() as session:
        request = Request({"type": "http", "route": Route("/overview", app.overview)})
        # A page after the last one is the last one.
        pages = [
            bytes(app.overview("a user", session, request, number).body).decode()  # type: ignore[arg-type]
            for number in (1, 2, 3)
        ]
        first = asked[: asked.index("reports") + 1]
        monkeypatch.setattr(app, "dags_with_reports", lambda *_given: (*first, "a DAG after the next page"))
        asked.clear()
        app.overview("a user", session, request, 1)  # type: ignore[arg-type]
        assert asked == first
    assert [("gallery</a>" in page, "reports</a>" in page) for page in pages] == [(True, False), *2 * [(False, True)]]
    assert ['rel="prev"' in page for page in pages] == [False, True, True]
    assert ['rel="next"' in page for page in pages] == [True, False, False]


def only_run(site: Site, dag_id: str) -> str:
    """Return the id of the only run of a DAG, or an empty string if there is none."""
    status, text, _ = site.get(f"/api/v2/dags/{dag_id}/dagRuns", READER)
    return text.partition('"dag_run_id":"')[2].partition('"')[0] if status == 200 else ""
