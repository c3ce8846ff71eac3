"""The lines and values that a task makes of the progress of its job."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_pushdown.progress_reports import ProgressReports, log_group
from pushdown_spark.contract.progress import Progress, progress_of_line, progress_text


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_group_is_logged_each_half_minute_and_a_value_stored_each_ten_seconds() -> None:
    clock, lines, values = Clock(), list[str](), list[Mapping[str, object]]()
    reports = ProgressReports(lines.append, values.append, clock)
    for second in range(5, 100, 5):
        clock.now = second
        reports(Progress(tasks_done=second, tasks_total=100))
    assert lines == [
        line
        for second, time in ((30, "30 s"), (60, "1 min 0 s"), (90, "1 min 30 s"))
        for line in (f"::group::Progress after {time}: {second} %", f"{second} of 100 tasks", "::endgroup::")
    ]
    assert values == [{"tasks_done": second, "tasks_total": 100} for second in range(5, 100, 10)]


def test_a_failure_to_store_does_not_matter_and_is_not_repeated_soon() -> None:
    clock, tries = Clock(), list[float]()

    def fail(value: Mapping[str, object]) -> None:
        tries.append(clock.now)
        raise RuntimeError("Airflow is away")

    reports = ProgressReports(lambda line: None, fail, clock)
    for second in range(5, 400, 5):
        clock.now = second
        reports(Progress(tasks_done=1, tasks_total=2))
    assert tries == [5, 305]


def test_the_title_of_a_group_has_no_figures_if_the_total_is_not_known() -> None:
    clock, lines = Clock(), list[str]()
    reports = ProgressReports(lines.append, None, clock)
    clock.now = 31
    reports(Progress(rows_found=7))
    assert lines == ["::group::Progress after 31 s", "7 rows found", "::endgroup::"]


def test_the_text_of_a_group_is_one_entry_of_the_log() -> None:
    entries = list[str]()
    log_group(entries.append, "Pushdown report", "Rows: 3\n  pruned: 2\n")
    assert entries == ["::group::Pushdown report", "Rows: 3\n  pruned: 2", "::endgroup::"]


def test_only_known_figures_are_shown() -> None:
    assert progress_text(Progress()) == ""
    complete = Progress(
        files_done=3,
        files_total=12,
        bytes_done=1_288_490_189,
        bytes_total=5_153_960_755,
        rows_found=812,
        tasks_done=1,
        tasks_total=1,
        seconds_left=130.4,
        scan="late",
        scan_number=2,
        scans_total=3,
    )
    assert progress_text(complete) == (
        "scan 2 of 3 (late), 3 of 12 files, 1.2 GiB of 4.8 GiB searched, 812 rows found, 1 of 1 task, "
        "about 2 min 10 s left to scan"
    )
    assert progress_of_line(complete.line()) == complete
    for other in ("", "rows: 3", complete.line()[:-1], complete.line().replace("12", "[]"), f" {complete.line()}"):
        assert progress_of_line(other) is None
