"""The text report: what it shows, and how it shows what is unknown."""

from __future__ import annotations

import pytest

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
    SourceReport,
)
from pushdown_spark.contract.report_text import human_bytes, human_percent, render_text

JOIN = JoinTree(
    kind="INNER",
    condition="o.id = c.id",
    estimated=1200.4,
    actual=1234,
    left=JoinTree(relation="o", source="orders", estimated=5e6),
    right=JoinTree(relation="c", hint="BROADCAST", actual=7),
)
RESULT = JobResult(
    rows=1234,
    output="s3a://marts/refunds",
    application_id="local-1",
    seconds=12.34,
    sources={
        "events": SourceReport(
            reader="pushdown",
            reason="0.1 % of the sampled lines match",
            conjuncts=(
                ConjunctReport(sql="user_id = 42", exactness=Exactness.INEXACT, pushed_as='"user_id"\\s*:\\s*42\\b'),
                ConjunctReport(sql="dir0 = '2026'", exactness=Exactness.EXACT, pushed_as="file pruning"),
                ConjunctReport(sql="x IS NULL", exactness=Exactness.UNSUPPORTED, reason="a missing field matches too"),
            ),
            columns=("user_id", "event(type)"),
            files_total=100,
            files_read=12,
            bytes_total=4 * 1024**3,
            bytes_read=1024**3,
            bytes_searched=2 * 1024**3,
            rows_decoded=1300,
            rows_after_pushdown=1290,
            rows_returned=1234,
            skipped={"files": 88, "bytes never parsed": 1536 * 1024**2},
            notes=("filename is a column of the table",),
            advice=("Write fewer, larger files.",),
        )
    },
    joins=(JoinReport(before=JOIN, after=JOIN, reason="two relations keep their order"),),
)


@pytest.mark.parametrize(("seconds", "is_off"), [(2.4, False), (3.5, True), (0.9, True)])
def test_the_report_shows_an_estimate_that_was_off(seconds: float, is_off: bool) -> None:
    cost = CostReport(reader="workers", predicted={"workers": 2.0, "spark": 9.0}).with_measurement(seconds)
    source = SourceReport(reader="pushdown", reason="cheaper", cost=cost)
    text = render_text(JobResult(sources={"events": source}))
    assert f"Estimated CPU: workers 2.0 s, spark 9.0 s; tasks of workers ran for {seconds:.1f} s" in text
    assert ("off by more than half" in text) is cost.is_off is is_off


def test_a_choice_without_an_estimate_has_no_cost() -> None:
    assert CostReport.of("spark", {}) is None


def test_the_report_shows_a_table() -> None:
    summary = OutputSummary(mode=OutputMode.MERGE, columns={"id": "int"}, table="sales.daily", is_from_earlier_try=True)
    lines = render_text(JobResult(rows=5, output="daily", output_summary=summary)).splitlines()
    assert lines[:4] == [
        "5 rows written to daily",
        "Output: table sales.daily, mode merge",
        "An earlier try of the run had committed these rows. This try wrote nothing",
        "Output columns: id int",
    ]


def test_the_report_shows_output_and_checks() -> None:
    summary = OutputSummary(
        mode=OutputMode.OVERWRITE_PARTITIONS,
        format=OutputFormat.PARQUET,
        columns={"id": "int", "day": "date"},
        files=2,
        bytes=2048,
        partitions=("day=2026-01-01",),
        partitions_total=1234,
    )
    checks = (
        CheckReport(check="min_rows", required="at least 1", found="5", passed=True),
        CheckReport(check="unique: id", required="no repeated key", found="2 repeated", passed=False),
    )
    source = SourceReport(reader="spark", reason="asked for", rows_decoded=7, malformed_lines=3)
    result = JobResult(rows=5, output="/out", output_summary=summary, checks=checks, sources={"s": source})
    lines = render_text(result).splitlines()
    assert lines[:7] == [
        "5 rows written to /out",
        "Output: 2 files of parquet, 2.0 KiB, mode overwrite_partitions",
        "Output columns: id int, day date",
        "Output partitions: day=2026-01-01 and 1,233 more",
        "Checks",
        "  min_rows: passed, required at least 1, found 5",
        "  unique: id: FAILED, required no repeated key, found 2 repeated",
    ]
    assert "  Rows: 7 decoded, 3 malformed lines" in lines
    assert JobResult.from_xcom(result.as_xcom()) == result


def test_the_report_shows_pushdown_reads_and_skips() -> None:
    assert render_text(RESULT).splitlines() == [
        "1,234 rows written to s3a://marts/refunds",
        "Ran for 12.3 s as local-1",
        "",
        "Source events: reader pushdown, 0.1 % of the sampled lines match",
        "  Pushed down to the pushdown reader",
        '    user_id = 42 as "user_id"\\s*:\\s*42\\b (inexact)',
        "    dir0 = '2026' as file pruning (exact)",
        "  Evaluated by Spark",
        "    user_id = 42: re-evaluated by Spark",
        "    x IS NULL: a missing field matches too",
        "  Columns: user_id, event(type)",
        "  Files: 12 of 100 read",
        "  Bytes: 1.0 GiB of 4.0 GiB read, 75 % skipped",
        "  Searched for byte patterns: 2.0 GiB (decompressed)",
        "  Rows: 1,300 decoded, 1,290 after pushdown, 1,234 returned",
        "  Skipped: 88 files, 1.5 GiB never parsed (75 %)",
        "  Notes",
        "    filename is a column of the table",
        "  What would help",
        "    Write fewer, larger files.",
        "",
        "Joins",
        "  Not reordered: two relations keep their order",
        "  INNER JOIN ON o.id = c.id (estimated 1,200 rows, actual 1,234, as estimated)",
        "  ├ orders AS o (estimated 5,000,000 rows)",
        "  └ c [BROADCAST] (actual 7)",
    ]


ORC = SourceReport(
    reader="pushdown",
    reason="asked for",
    files_total=4,
    files_read=4,
    bytes_total=64 * 1024**2,
    bytes_read=16 * 1024**2,
    units={
        "stripes": {"total": 24, "pruned by statistics": 20, "filter columns read": 4, "select columns read": 1},
        "row groups": {"total": 1200, "pruned by statistics": 1000, "pruned by bloom filter": 150},
        "pages": {"total": 0},
    },
    bytes_by_purpose={"metadata": 2 * 1024**2, "index": 0, "filter columns": 10 * 1024**2, "select <columns>": 4 << 20},
)


def test_the_report_shows_outcomes_of_units_if_they_are_known() -> None:
    lines = [line.strip() for line in render_text(JobResult(sources={"s": ORC})).splitlines()]
    start = lines.index("Bytes: 16.0 MiB of 64.0 MiB read, 75 % skipped")
    assert lines[start + 1 :] == [
        "Bytes read: metadata 2.0 MiB, filter columns 10.0 MiB, select <columns> 4.0 MiB",
        "Stripes: total 24, pruned by statistics 20, filter columns read 4, select columns read 1",
        "Row groups: total 1,200, pruned by statistics 1,000, pruned by bloom filter 150",
    ]


def test_unknown_counts_are_shown_as_unknown() -> None:
    source = SourceReport(reader="spark", reason="asked for", files_total=3, bytes_total=10)
    text = render_text(JobResult(rows=1, sources={"s": source}))
    assert "1 row returned; the job has no output" in text
    assert "No predicate" in text
    assert "Files: 3 in total, number read unknown" in text
    assert "Bytes: 10 B in total, number read unknown" in text
    view = render_text(JobResult(rows=1, sources={"s": SourceReport(reader="spark", reason="a view")}))
    assert "Bytes: number read and total unknown" in view
    assert "Files: " not in view


def test_no_percentage_of_an_unknown_total_is_shown() -> None:
    source = SourceReport(reader="spark", reason="asked for", bytes_read=2048)
    assert "Bytes: 2.0 KiB read, total unknown" in render_text(JobResult(sources={"s": source}))


def test_the_report_shows_an_unchanged_output() -> None:
    assert render_text(JobResult(output="/out")).startswith("Nothing written: /out already exists")


def test_a_failure_is_shown_first_with_whether_it_can_be_retried() -> None:
    error = JobError(code=ErrorCode.DISK_FULL, message="no space left", retryable=True)
    assert render_text(JobResult(error=error)).startswith("FAILED (disk_full; a retry may succeed): no space left")


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (3 * 1024**6, "3072.0 PiB")],
)
def test_bytes_are_shown_in_human_units(count: int, text: str) -> None:
    assert human_bytes(count) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 %"),
        (0, 10, "0 %"),
        (10, 10, "100 %"),
        (1, 3, "33.33 %"),
        (999_999_999, 10**9, "> 99.99 %"),
        (1, 10**9, "< 0.01 %"),
    ],
)
def test_shares_never_round_to_all_or_nothing(part: int, whole: int, text: str) -> None:
    assert human_percent(part, whole) == text
