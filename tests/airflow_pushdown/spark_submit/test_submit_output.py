"""Log levels of spark-submit's output, and the line that has the cause of a failure."""

from __future__ import annotations

import logging

import pytest

from airflow_pushdown.spark_submit.submit_output import SubmitOutput

TRACE = """\
26/11/21 06:09:44 WARN NativeCodeLoader: Unable to load native-hadoop library
26/11/21 06:09:45 ERROR Executor: Exception in task 0.0
java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 3 more
Caused by: java.lang.OtherError: x
rows: 3
26/11/21 06:09:46 INFO SparkContext: Successfully stopped SparkContext""".splitlines()


def test_each_line_is_logged_with_sparks_level() -> None:
    output = SubmitOutput()
    info, warning, error = logging.INFO, logging.WARNING, logging.ERROR
    assert [output.add(line) for line in TRACE] == [warning, error, error, error, error, error, info, info]


def test_stack_frames_of_warnings_are_logged_at_debug_level() -> None:
    output = SubmitOutput()
    lines = ["26/11/21 06:09:45 WARN FileStreamSink: odd", "a.b.CException: x", "\tat a.B.c(D.java:1)", "done"]
    warning, debug = logging.WARNING, logging.DEBUG
    assert [output.add(line) for line in lines] == [warning, warning, debug, logging.INFO]


def test_a_stack_trace_keeps_the_level_of_its_line() -> None:
    output = SubmitOutput()
    lines = ["26/11/21 06:09:45 ERROR Executor: failed", "\tat a.B.c(D.java:1)", "Caused by: a.BException: x", "done"]
    assert [output.add(line) for line in lines] == [logging.ERROR] * 3 + [logging.INFO]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([], ""),
        (["something", "", "last words", "  "], "last words"),
        (["Error: Unrecognized option: --nonsense", "Usage: spark-submit"], "Unrecognized option: --nonsense"),
        (
            ["26/11/21 06:09:45 ERROR Utils: later", 'Exception in thread "main" java.lang.X: first', "\tat a.B.c"],
            "java.lang.X: first",
        ),
        (
            ["Traceback (most recent call last):", '  File "x.py", line 1', "ModuleNotFoundError: No module named 'a'"],
            "ModuleNotFoundError: No module named 'a'",
        ),
        (["pkg.errors.BadThing: no", "pkg.errors.BadError: yes", "trailing noise"], "pkg.errors.BadError: yes"),
        (
            ["/env/bin/spark-submit: line 27: /nowhere/bin/spark-class: No such file or directory"],
            "/env/bin/spark-submit: line 27: /nowhere/bin/spark-class: No such file or directory",
        ),
        (["26/11/21 06:09:45 ERROR SparkContext: Failed", "26/11/21 06:09:46 INFO X: stopped"], "Failed"),
    ],
)
def test_the_cause_is_extracted_from_a_long_log(lines: list[str], cause: str) -> None:
    output = SubmitOutput()
    for line in lines:
        output.add(line)
    assert output.cause == cause


def test_a_cause_has_a_bounded_length() -> None:
    output = SubmitOutput()
    output.add("ValueError: " + "x" * 10_000)
    assert len(output.cause) == 500


def test_the_note_of_an_error_has_the_last_line_or_says_that_there_is_none() -> None:
    output = SubmitOutput()
    assert output.note == "it printed no lines"
    output.add("bye\n")
    assert output.note == "see its output in the log above, last line: bye"
