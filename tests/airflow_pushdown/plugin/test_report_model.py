"""The model of the report page: bar widths, formatted amounts, and links to web pages only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.hooks.application import Application, history_page, history_server, started_application
from airflow_pushdown.plugin.data import PastRun, Place, TaskRun
from airflow_pushdown.plugin.links import report_path
from airflow_pushdown.plugin.model import funnel, scan_outcome, skipped, unit_outcomes
from airflow_pushdown.plugin.page import render_report
from pushdown_spark.contract import (
    CheckReport,
    ConjunctReport,
    ErrorCode,
    Exactness,
    JobError,
    JobResult,
    OutputMode,
    OutputSummary,
    ScanReport,
    SourceReport,
)

COUNTS = st.none() | st.integers(0, 10**15)


@given(st.integers(0, 10**15), COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 10**15))
def test_a_funnel_never_widens(
    total: int, read: int | None, searched: int | None, decoded: int | None, returned: int | None, unparsed: int
) -> None:
    source = SourceReport(
        reader="r",
        reason="w",
        bytes_total=total,
        bytes_read=read,
        bytes_searched=searched,
        rows_decoded=decoded,
        rows_returned=returned,
        skipped={"bytes never parsed": unparsed},
    )
    shares = [stage.share for stage in funnel(source)]
    assert shares == sorted(shares, reverse=True)
    assert all(0 <= share <= 1 for share in shares)


def test_a_funnel_tells_bytes_then_rows() -> None:
    source = SourceReport(
        reader="r",
        reason="w",
        files_total=1,
        bytes_total=2048,
        bytes_read=1024,
        bytes_searched=4096,
        rows_decoded=200,
        rows_returned=50,
        skipped={"bytes never parsed": 3072, "lines": 7},
    )
    assert [(stage.label, stage.amount, stage.share) for stage in funnel(source)] == [
        ("bytes in the files", "2.0 KiB", 1.0),
        ("bytes read", "1.0 KiB (50 %)", 0.5),
        ("bytes searched, decompressed", "4.0 KiB", 0.5),
        ("bytes parsed", "1.0 KiB (25 %)", 0.125),
        ("rows decoded", "200", 0.125),
        ("rows returned", "50", 0.03125),
    ]
    assert skipped(source) == ("3.0 KiB never parsed", "7 lines")
    assert funnel(SourceReport(reader="spark", reason="w")) == ()


def test_units_are_shares_of_their_kind() -> None:
    assert [(one.outcome, one.count, one.share) for one in unit_outcomes({"read": 1, "skipped": 3, "lost": 0})] == [
        ("read", 1, 0.25),
        ("skipped", 3, 0.75),
    ]


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


def test_a_page_shows_no_sum_of_the_known_sources() -> None:
    sources = {name: SourceReport(reader="r", reason="w", bytes_read=count) for name, count in (("a", 5), ("b", None))}
    place = Place("dag", "task", "run")
    result = JobResult(sources=sources)
    run = TaskRun(place, "success", None, None, 1, result, True, None, (PastRun("run", None, result),))
    page = render_report(run)
    assert "bytes read: unknown for at least one source" in page
    assert "<b>5 B</b> read" not in page
    assert "unknown</td>" in page


def test_a_result_comes_back_from_xcom_as_it_was() -> None:
    conjunct = ConjunctReport(sql="a = 1", exactness=Exactness.INEXACT)
    result = JobResult(rows=1, sources={"s": SourceReport(reader="r", reason="w", conjuncts=(conjunct,))})
    assert result.as_xcom()["sources"]["s"]["pushed"] == ["a = 1"]  # type: ignore[index]
    assert JobResult.from_xcom(result.as_xcom()) == result
    for wrong in ({"rows": 1, "other": 2}, {"sources": ["s"]}, {"sources": {"s": 3}}):
        with pytest.raises(ValidationError):
            JobResult.from_xcom(wrong)


def test_the_report_of_any_task_has_an_address() -> None:
    assert report_path("d.1", "group.t", "manual__2026-01-01T00:00:00+00:00", -1) == (
        "/pushdown/report/d.1/group.t?run_id=manual__2026-01-01T00%3A00%3A00%2B00%3A00&map_index=-1"
    )
    assert report_path("d", "t", "r&map_index=1#/?", None).endswith("?run_id=r%26map_index%3D1%23%2F%3F&map_index=-1")


def test_it_lies_below_the_path_of_airflows_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://data.example/airflow/")
    assert report_path("d", "t", "r", 3) == "/airflow/pushdown/report/d/t?run_id=r&map_index=3"


@pytest.mark.parametrize(
    ("line", "application"),
    [
        ("airflow_pushdown: application local-1, UI http://h:4040", Application("local-1", "http://h:4040")),
        ("airflow_pushdown: application local-1, UI off", Application("local-1", None)),
        ("airflow_pushdown: application local-1, UI javascript:alert(1)", Application("local-1", None)),
        ("something else: application local-1, UI http://h:4040", None),
    ],
)
def test_a_running_application_is_heard_of(line: str, application: Application | None) -> None:
    assert started_application(line) == application


def test_the_history_server_is_the_connections_or_sparks() -> None:
    assert history_server("http://h:18080/", "other:1") == "http://h:18080"
    assert history_server(None, "other:18080") == "http://other:18080"
    assert history_server(None, None) is None
    assert history_page("http://h:18080", "app/1") == "http://h:18080/history/app%2F1/"
    assert history_page(None, "app-1") == history_page("http://h", None) == ""


@pytest.mark.parametrize("address", ["javascript://x", "http://u:p@h", "http://", "ftp://h", "http://[h"])
def test_an_address_that_no_link_should_lead_to_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="history-server"):
        history_server(address, None)
    with pytest.raises(ConfigError, match=r"spark\.yarn\.historyServer\.address"):
        history_server(None, address)


def test_the_page_lists_the_scans_of_a_task() -> None:
    refused = JobError(code=ErrorCode.CHECK_FAILED, message="min_rows: 0 rows <b>", retryable=False)
    check = CheckReport(check="min_rows", required="at least 1", found="0", passed=False)
    summary = OutputSummary(mode=OutputMode.ERROR_IF_EXISTS, columns={}, is_from_earlier_try=True)
    scans = {
        "orders": ScanReport(rows=1_234, output="/lake/orders", output_summary=summary, seconds=1.5),
        "users": ScanReport(checks=(check,), error=refused),
        "counted": ScanReport(rows=7),
        "kept": ScanReport(output="/lake/kept"),
    }
    assert [scan_outcome(scan) for scan in scans.values()] == [
        "written by an earlier try",
        "failed (check_failed): min_rows: 0 rows <b>; min_rows: FAILED, required at least 1, found 0",
        "counted",
        "nothing written, the output already exists",
    ]
    result = JobResult(rows=1_241, scans=scans, error=refused)
    run = TaskRun(
        place=Place("d", "extract", "r"),
        state="failed",
        started=None,
        ended=None,
        try_number=1,
        result=result,
        stored=True,
        spark_page=None,
        history=(),
    )
    page = render_report(run)
    assert "<b>1,241</b> rows in 4 scans" in page
    assert '<td><code>orders</code></td><td class="number">1,234</td><td><code>/lake/orders</code></td>' in page
    assert "min_rows: 0 rows &lt;b&gt;" in page
