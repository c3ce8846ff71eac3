"""The model of the report page: steps and their bars, charts, sums over runs, and links to web pages only."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.plugin.charts import day_charts, history_charts, plan_changes
from airflow_pushdown.plugin.dag_data import DagReports, DagRunReports, Sums, TaskReport
from airflow_pushdown.plugin.links import report_path, views
from airflow_pushdown.plugin.model import (
    conjunct_rows,
    job_funnel,
    rows_meaning,
    rows_written,
    scan_outcome,
    skipped_amounts,
    source_funnel,
    unit_outcomes,
)
from airflow_pushdown.plugin.page import render_overview, render_report, render_runs
from airflow_pushdown.plugin.task_data import PastRun, TaskKey, TaskRun
from airflow_pushdown.spark_submit.application import Application, history_page, history_server, started_application
from pushdown_spark.contract import (
    CheckReport,
    ConjunctReport,
    CostReport,
    ErrorCode,
    Exactness,
    JobError,
    JobResult,
    JoinReport,
    JoinTree,
    OutputFormat,
    OutputMode,
    OutputSummary,
    ScanReport,
    SourceReport,
)
from pushdown_spark.contract.progress import Progress
from pushdown_spark.contract.report_text import EXACTNESS_MEANINGS, cost_lines, render_text

COUNTS = st.none() | st.integers(0, 10**15)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_every_step_is_shown_and_a_step_of_unknown_time_has_no_bar(
    total: int | None,
    read: int | None,
    searched: int | None,
    decoded: int | None,
    passed: int | None,
    returned: int | None,
    written: int | None,
) -> None:
    source = SourceReport(
        reader="r",
        reason="w",
        files_total=0 if total is None else 1,
        bytes_total=total or 0,
        bytes_read=read,
        bytes_searched=searched,
        rows_decoded=decoded,
        rows_after_pushdown=passed,
        rows_returned=returned,
    )
    steps = {step.label: step for step in source_funnel(source, written)}
    known = {
        "bytes stored": total,
        "bytes read": read,
        "rows decoded": decoded,
        "rows after pushdown": passed,
        "rows returned": returned,
    }
    assert set(steps) == {*known, *(["rows written"] if written is not None else []), *searched_labels(searched)}
    for label, count in known.items():
        assert (steps[label].amount == "unknown") is (count is None)
        if count is None:
            assert steps[label].share is None
        assert steps[label].share is None or 0 <= steps[label].share <= 1


def searched_labels(searched: int | None) -> list[str]:
    return [] if searched is None else ["bytes searched, decompressed"]


def test_a_funnel_shows_bytes_then_rows() -> None:
    source = SourceReport(
        reader="r",
        reason="w",
        files_total=1,
        bytes_total=2048,
        bytes_read=1024,
        bytes_searched=4096,
        rows_decoded=200,
        rows_after_pushdown=100,
        rows_returned=50,
        skipped={"bytes never parsed": 3072, "lines never parsed": 7},
    )
    assert [(step.label, step.amount, step.share, step.part) for step in source_funnel(source, 50)] == [
        ("bytes stored", "2.0 KiB", 1.0, ""),
        ("bytes read", "1.0 KiB", 0.5, "50 %"),
        ("bytes searched, decompressed", "4.0 KiB", 1.0, ""),
        ("bytes parsed", "1.0 KiB", 0.25, "25 %"),
        ("rows decoded", "200", 1.0, ""),
        ("rows after pushdown", "100", 0.5, "50 %"),
        ("rows returned", "50", 0.25, "25 %"),
        ("rows written", "50", 0.25, "25 %"),
    ]
    assert skipped_amounts(source) == ("3.0 KiB never parsed", "7 lines never parsed")


def test_a_sum_of_sources_is_unknown_if_one_is() -> None:
    known = SourceReport(reader="r", reason="w", files_total=1, bytes_total=10, bytes_read=5, rows_decoded=3)
    result = JobResult(rows=2, output="/out", sources={"a": known, "b": known.model_copy(update={"bytes_read": None})})
    assert [(step.label, step.amount) for step in job_funnel(result)] == [
        ("bytes stored", "20 B"),
        ("bytes read", "unknown"),
        ("rows decoded", "6"),
        ("rows after pushdown", "unknown"),
        ("rows written", "2"),
    ]
    assert rows_written(result, "one") is None


def test_conjuncts_are_described_in_the_words_of_the_log() -> None:
    conjuncts = (
        ConjunctReport(sql="a = 1", exactness=Exactness.EXACT, pushed_as="statistics"),
        ConjunctReport(sql="b = 1", exactness=Exactness.INEXACT),
        ConjunctReport(sql="f(c)", exactness=Exactness.UNSUPPORTED, reason="a function"),
    )
    source = SourceReport(reader="r", reason="w", conjuncts=conjuncts)
    assert [row.in_spark for row in conjunct_rows(source)] == [
        "not evaluated by Spark",
        "re-evaluated by Spark",
        "evaluated by Spark: a function",
    ]
    assert all(meaning.count(".") == 1 for meaning in EXACTNESS_MEANINGS.values()), "one sentence each"
    text = render_text(JobResult(rows=1, sources={"s": source}))
    assert "b = 1: re-evaluated by Spark" in text
    assert "f(c): a function" in text


def test_units_of_a_file_are_shown_as_shares_of_their_kind() -> None:
    assert [(one.outcome, one.count, one.share) for one in unit_outcomes({"read": 1, "skipped": 3, "lost": 0})] == [
        ("read", 1, 0.25),
        ("skipped", 3, 0.75),
    ]
    assert [one.share for one in unit_outcomes({"total": 8, "filter columns read": 6})] == [1.0, 0.75]


def test_bytes_of_sources_add_up_where_they_are_known_of_each() -> None:
    known, empty, unknown = (
        SourceReport(reader="r", reason="w", bytes_read=count, bytes_total=10 * (count or 0), files_total=files)
        for count, files in ((5, 1), (0, 1), (None, 0))
    )
    complete = JobResult(sources={"a": known, "b": known, "c": empty})
    assert (complete.bytes_read, complete.bytes_total) == (10, 100)
    for sources in ({"a": known, "c": unknown}, {"c": unknown}, {}):
        partial = JobResult(sources=sources)
        assert (partial.bytes_read, partial.bytes_total) == (None, None)


def test_a_sum_with_an_unknown_source_is_shown_as_not_counted() -> None:
    sources = {name: SourceReport(reader="r", reason="w", bytes_read=count) for name, count in (("a", 5), ("b", None))}
    task_key = TaskKey("dag", "task", "run")
    result = JobResult(sources=sources)
    run = TaskRun(
        task_key=task_key,
        state="success",
        start=None,
        end=None,
        try_number=1,
        result=result,
        has_value=True,
        spark_page=None,
        history=(PastRun("run", None, result),),
    )
    page = render_report(run)
    assert "bytes read: not counted for at least one source" in page
    assert "<b>5 B</b>" not in page
    assert "unknown</td>" in page


def test_the_label_of_the_row_count_says_whether_rows_were_written() -> None:
    error = JobError(code=ErrorCode.SPARK, message="m", retryable=True)
    scan = ScanReport(rows=1)
    assert [
        rows_meaning(result)
        for result in (
            JobResult(rows=1),
            JobResult(rows=2, output="/out"),
            JobResult(output="/out"),
            JobResult(error=error),
            JobResult(rows=1, scans={"a": scan}, error=error),
            JobResult(rows=2, scans={"a": scan, "b": scan}),
        )
    ] == [
        "row returned",
        "rows written",
        "rows written, because the output already exists",
        "rows, because the job failed",
        "row in 1 scan",
        "rows in 2 scans",
    ]


def test_empty_files_have_a_known_size() -> None:
    source = SourceReport(reader="r", reason="w", files_total=1, bytes_read=0)
    page = render_report(running(JobResult(rows=0, sources={"s": source}), "success"))
    assert "read of 0 B stored" in page


def test_the_estimates_of_the_readers_are_shown_as_in_the_log() -> None:
    cost = CostReport(reader="workers", predicted={"workers": 2.0, "spark": 9.0}).with_measurement(3.5)
    result = JobResult(sources={"s": SourceReport(reader="pushdown", reason="cheaper", cost=cost)})
    page = render_report(running(result, "success"))
    lines = list(cost_lines(cost))
    assert len(lines) == 2
    for line in lines:
        assert line in page
        assert line in render_text(result)


def test_the_reason_for_a_join_order_is_shown_once() -> None:
    tree = JoinTree(kind="INNER", left=JoinTree(relation="a"), right=JoinTree(relation="b"))
    report = JoinReport(before=tree, after=tree, reason="no other order is cheaper", star=("a", "b"))
    page = render_report(running(JobResult(joins=(report,)), "success"))
    assert page.count("no other order is cheaper") == 1
    assert page.count("Star: a with b") == page.count("star: a with b") + 1 == 1


def running(result: JobResult | None, state: str = "running", progress: Progress | None = None) -> TaskRun:
    at = datetime(2026, 1, 1, 6, tzinfo=UTC)
    return TaskRun(
        task_key=TaskKey("d", "t", "r"),
        state=state,
        start=None,
        end=None,
        try_number=1,
        result=result,
        has_value=result is not None,
        spark_page=None,
        history=(),
        siblings=None,
        progress=progress,
        progress_at=at,
    )


def test_the_progress_is_shown_while_the_task_runs() -> None:
    figures = Progress(tasks_done=1, tasks_total=4, scan="<b>", scan_number=1, scans_total=2)
    page = render_report(running(None, progress=figures))
    assert "scan 1 of 2 (&lt;b&gt;), 1 of 4 tasks" in page
    assert 'width="250.0"' in page
    assert "As of <time" in page
    assert "1 of 4 tasks" not in render_report(running(None, "failed", figures))
    assert "1 of 4 tasks" not in render_report(running(JobResult(rows=1), "running", figures))


@pytest.mark.parametrize("progress", [None, Progress()])
def test_unknown_progress_is_shown_as_unknown(progress: Progress | None) -> None:
    assert "<p>Unknown. The job reports it" in render_report(running(None, progress=progress))
    assert "<p>Unknown. The triggerer asks for it" in render_report(running(None, "deferred", progress))


def past_run(number: int, result: JobResult) -> PastRun:
    return PastRun(f"run {number}", datetime(2026, 1, 1 + number, 6, tzinfo=UTC), result)


def test_charts_need_three_runs_and_have_dates() -> None:
    task_key = TaskKey("dag", "task", "run 2")
    result = JobResult(seconds=4, sources={"s": SourceReport(reader="r", reason="w", bytes_read=5)})
    runs = [past_run(number, result) for number in range(3)]
    assert history_charts(runs[:2], task_key, ()) == ()
    for chart in history_charts(runs, task_key, ()):
        assert chart.dates == ("Jan 1", "Jan 2", "Jan 3")
        assert [bar.is_current for bar in chart.bars] == [False, False, True]
    many = history_charts([past_run(number, result) for number in range(9)], task_key, ())
    assert many[0].dates == ("Jan 1", "Jan 5", "Jan 9")


def test_a_chart_without_a_known_value_says_so() -> None:
    unknown = JobResult(seconds=4, sources={"s": SourceReport(reader="r", reason="w")})
    sizes, times = history_charts([past_run(number, unknown) for number in range(3)], TaskKey("d", "t", "r"), ())
    assert (sizes.highest, times.highest) == ("unknown", "up to 4.0 s")
    reports = DagReports("dag", datetime(2026, 1, 30, 9, tzinfo=UTC), (dag_run(30, unknown),))
    assert [chart.highest for chart in day_charts(reports.days)] == ["unknown", "up to 4.0 s"]


def test_runs_whose_reader_or_plan_changed_are_marked() -> None:
    ours = JobResult(sources={"s": SourceReport(reader="pushdown", reason="w")})
    spark = JobResult(sources={"s": SourceReport(reader="spark", reason="w")})
    conjunct = ConjunctReport(sql="a = 1", exactness=Exactness.EXACT)
    exact = JobResult(sources={"s": SourceReport(reader="spark", reason="w", conjuncts=(conjunct,))})
    error = JobResult(error=JobError(code=ErrorCode.SPARK, message="m", retryable=True))
    results = [ours, ours, error, spark, spark, exact]
    changes = plan_changes([past_run(number, result) for number, result in enumerate(results)])
    assert [(change.number, change.text) for change in changes] == [
        (3, "the reader of s changed from pushdown to spark"),
        (5, "the pushdown to s changed"),
    ]


def dag_run(day: int, *results: JobResult) -> DagRunReports:
    task_key = TaskKey("dag", "task", f"run {day}")
    reports = tuple(TaskReport(task_key, result) for result in results)
    return DagRunReports(f"run {day}", datetime(2026, 1, day, tzinfo=UTC), "success", reports)


def test_the_sums_of_a_day_count_the_runs_whose_bytes_are_unknown() -> None:
    known = JobResult(
        seconds=2, sources={"s": SourceReport(reader="r", reason="w", files_total=1, bytes_total=10, bytes_read=4)}
    )
    unknown = JobResult(seconds=3, sources={"s": SourceReport(reader="r", reason="w")})
    runs = (dag_run(30, known, known), dag_run(30, unknown), dag_run(28, known))
    reports = DagReports("dag", datetime(2026, 1, 30, 9, tzinfo=UTC), runs)
    assert [(run.bytes_read, run.bytes_skipped) for run in runs] == [(8, 12), (None, None), (4, 6)]
    *_, third, second, last = reports.days
    assert last.sums == Sums(2, bytes_read=8, bytes_skipped=12, unknown_read=1, unknown_skipped=1, seconds=7)
    assert second.sums == Sums(0, bytes_read=0, bytes_skipped=0, unknown_read=0, unknown_skipped=0, seconds=0)
    assert third.sums.bytes_read == 4
    assert reports.sums == Sums(3, bytes_read=12, bytes_skipped=18, unknown_read=1, unknown_skipped=1, seconds=9)
    page = render_overview([reports])
    assert "at least 12 B (unknown for 1 report)" in page
    assert 'at least 18 B (unknown for 1 report)</td><td class="number">9.0 s' in page
    assert len(reports.days) == 30
    assert day_charts(reports.days)[0].bars[-1].label.endswith("skipped at least 12 B (unknown for 1 report)")


def test_bytes_read_are_known_where_only_the_size_of_a_table_is_unknown() -> None:
    table = JobResult(sources={"t": SourceReport(reader="remote", reason="a table", bytes_read=2048)})
    sums = Sums.of([dag_run(1, table)])
    assert (sums.unknown_read, sums.unknown_skipped) == (0, 1)
    assert ">2.0 KiB</td>" in render_overview([DagReports("d", datetime(2026, 1, 2, tzinfo=UTC), (dag_run(1, table),))])


def test_a_fallback_is_a_predicate_that_sparks_reader_took_without_being_asked() -> None:
    conjunct = ConjunctReport(sql="f(a)", exactness=Exactness.UNSUPPORTED)
    fallback = SourceReport(reader="spark", reason="it is dear", conjuncts=(conjunct,), bytes_read=7, bytes_total=9)
    requested = fallback.model_copy(update={"reason": "requested with reader='spark'"})
    whole = fallback.model_copy(update={"conjuncts": ()})
    result = JobResult(sources={"fallback": fallback, "requested": requested, "whole": whole})
    (actual,) = DagReports("dag", datetime(2026, 1, 30, tzinfo=UTC), (dag_run(2, result), dag_run(1, result))).fallbacks
    assert (actual.source, actual.reason, actual.runs) == ("fallback", "it is dear", 2)
    assert (actual.bytes_read, actual.bytes_stored) == (14, 18)
    assert actual.last.run_id == "run 2"


def test_the_cost_of_a_fallback_has_the_stored_bytes_if_those_read_are_unknown() -> None:
    conjunct = ConjunctReport(sql="f(a)", exactness=Exactness.UNSUPPORTED)
    source = SourceReport(reader="spark", reason="it is dear", conjuncts=(conjunct,), bytes_total=2048)
    page = render_runs(
        DagReports("dag", datetime(2026, 1, 30, tzinfo=UTC), (dag_run(2, JobResult(sources={"s": source})),))
    )
    assert 'unknown <span class="soft">of 2.0 KiB stored' in page
    assert ">2026-01-02 00:00 UTC</time>" in page


def test_fallbacks_whose_reasons_differ_in_numbers_are_one() -> None:
    conjunct = ConjunctReport(sql="f(a)", exactness=Exactness.UNSUPPORTED)
    reasons = ("no gain for 900 B: < 0.01 %", "no gain for 1.2 MiB: 12 %", "the files have a header")
    results = [
        JobResult(sources={"s": SourceReport(reader="spark", reason=reason, conjuncts=(conjunct,), bytes_read=4)})
        for reason in reasons
    ]
    runs = tuple(dag_run(3 - number, result) for number, result in enumerate(results))
    first, second = DagReports("dag", datetime(2026, 1, 30, tzinfo=UTC), runs).fallbacks
    assert (first.reason, first.runs, first.bytes_read, first.last.run_id) == (reasons[0], 2, 8, "run 3")
    assert (second.reason, second.runs) == (reasons[2], 1)


def test_a_result_read_from_xcom_equals_the_stored_one() -> None:
    conjunct = ConjunctReport(sql="a = 1", exactness=Exactness.INEXACT)
    result = JobResult(rows=1, sources={"s": SourceReport(reader="r", reason="w", conjuncts=(conjunct,))})
    assert result.as_xcom()["sources"]["s"]["pushed"] == ["a = 1"]  # type: ignore[index]
    assert JobResult.from_xcom(result.as_xcom()) == result
    for wrong in ({"rows": 1, "other": 2}, {"sources": ["s"]}, {"sources": {"s": 3}}):
        with pytest.raises(ValidationError):
            JobResult.from_xcom(wrong)


def test_every_task_has_a_link_to_its_report() -> None:
    assert report_path("d.1", "group.t", "manual__2026-01-01T00:00:00+00:00", -1) == (
        "/pushdown/report/d.1/group.t?run_id=manual__2026-01-01T00%3A00%3A00%2B00%3A00&map_index=-1"
    )
    assert report_path("d", "t", "r&map_index=1#/?", None).endswith("?run_id=r%26map_index%3D1%23%2F%3F&map_index=-1")


def test_report_links_start_with_the_path_of_airflows_base_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://data.example/airflow/")
    assert report_path("d", "t", "r", 3) == "/airflow/pushdown/report/d/t?run_id=r&map_index=3"
    assert [view["href"] for view in views()] == [
        "/airflow/pushdown/tab/report/{DAG_ID}/{RUN_ID}/{TASK_ID}/{MAP_INDEX}",
        "/airflow/pushdown/tab/runs/{DAG_ID}",
        "/airflow/pushdown/tab/overview",
    ]


@pytest.mark.parametrize(
    ("line", "application"),
    [
        ("airflow_pushdown: application local-1, UI http://h:4040", Application("local-1", "http://h:4040")),
        ("airflow_pushdown: application local-1, UI off", Application("local-1", None)),
        ("airflow_pushdown: application local-1, UI javascript:alert(1)", Application("local-1", None)),
        (
            "\t tracking URL: http://rm:8088/proxy/application_17_0002/",
            Application("application_17_0002", "http://rm:8088/proxy/application_17_0002/"),
        ),
        ("something else: application local-1, UI http://h:4040", None),
    ],
)
def test_application_and_address_of_its_page_are_read_from_the_log(line: str, application: Application | None) -> None:
    assert started_application(line) == application


def test_the_history_server_comes_from_the_connection_or_the_settings_of_spark() -> None:
    assert history_server("http://h:18080/", "other:1") == "http://h:18080"
    assert history_server(None, "other:18080") == "http://other:18080"
    assert history_server(None, None) is None
    assert history_page("http://h:18080", "app/1") == "http://h:18080/history/app%2F1/"
    assert history_page(None, "app-1") == history_page("http://h", None) == ""


@pytest.mark.parametrize("address", ["javascript://x", "http://u:p@h", "http://", "ftp://h", "http://[h"])
def test_addresses_with_other_schemes_than_http_are_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="history-server"):
        history_server(address, None)
    with pytest.raises(ConfigError, match=r"spark\.yarn\.historyServer\.address"):
        history_server(None, address)


def test_the_page_lists_the_scans_of_a_task() -> None:
    error = JobError(code=ErrorCode.CHECK_FAILED, message="min_rows: 0 rows <b>", retryable=False)
    check = CheckReport(check="min_rows", required="at least 1", found="0", passed=False)
    summary = OutputSummary(
        mode=OutputMode.ERROR_IF_EXISTS,
        columns={"id": "bigint"},
        format=OutputFormat.PARQUET,
        is_from_earlier_try=True,
        partitions=("day=2026-01-01",),
        partitions_total=1,
    )
    scans = {
        "orders": ScanReport(rows=1_234, output="/lake/orders", output_summary=summary, seconds=1.5),
        "users": ScanReport(checks=(check,), error=error),
        "counted": ScanReport(rows=7),
        "kept": ScanReport(output="/lake/kept"),
    }
    assert [scan_outcome(scan) for scan in scans.values()] == [
        "written by an earlier try",
        "failed (check_failed): min_rows: 0 rows <b>; min_rows: FAILED, required at least 1, found 0",
        "counted",
        "nothing written, the output already exists",
    ]
    result = JobResult(rows=1_241, scans=scans, error=error)
    run = TaskRun(
        task_key=TaskKey("d", "extract", "r"),
        state="failed",
        start=None,
        end=None,
        try_number=1,
        result=result,
        has_value=True,
        spark_page=None,
        history=(),
    )
    page = render_report(run)
    assert "<b>1,241</b><span>rows in 4 scans" in page
    assert '<td><code>orders</code></td><td class="number">1,234</td><td><code>/lake/orders</code></td>' in page
    assert "min_rows: 0 rows &lt;b&gt;" in page
    assert "<h2>Output of scan orders</h2>" in page
    assert '<li><code>id</code> <code class="soft">bigint</code></li>' in page
    assert "Partitions: <code>day=2026-01-01</code>" in page
    assert "<h2>Checks of scan users</h2>" in page
