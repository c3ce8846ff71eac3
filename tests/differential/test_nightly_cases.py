"""Most cases of a slow test run only nightly. The run says so, and runs all cases of a test that is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nightly_cases
import pytest

pytest_plugins = ["pytester"]
Run = Callable[..., pytest.RunResult]

CONFTEST = f"""
import sys

import pytest

sys.path.append({str(Path(nightly_cases.__file__).parent)!r})
from nightly_cases import *


@pytest.fixture
def spark(): ...
"""
SLOW_TEST = """
import pytest


@pytest.mark.parametrize("number", range(12))
def test_numbers(spark, number): ...


@pytest.mark.parametrize("letter", "abcd")
def test_letters(spark, letter): ...
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Return a function that runs pytest with some arguments over slow tests of twelve and four cases."""
    pytester.makeconftest(CONFTEST)
    markers = "".join(f"\n    {marker}" for marker in ("nightly", "starts", "smoke"))
    pytester.makeini(f"[pytest]\nmarkers ={markers}")
    pytester.makepyfile(test_slow=SLOW_TEST)
    return pytester.runpytest_subprocess


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "workers"])
def test_most_cases_are_left_to_the_nightly_run_and_reported(run: Run, workers: tuple[str, ...]) -> None:
    result = run("test_slow.py", "-m", "not nightly", *workers)
    assert result.parseoutcomes()["passed"] == 2 + 1
    result.stdout.fnmatch_lines(['*only nightly: 13. * make pytest TESTS="test_slow.py -m nightly"'])


@pytest.mark.parametrize("name", [("-k", "numbers"), ("test_slow.py::test_numbers",)], ids=["-k", "node id"])
def test_a_test_that_is_named_on_the_command_line_runs_all_cases(run: Run, name: tuple[str, ...]) -> None:
    result = run("-m", "not nightly", *name)
    assert result.parseoutcomes()["passed"] == 12
    result.stdout.no_fnmatch_line("*only nightly*")


@pytest.mark.parametrize(
    ("name", "count"),
    [((), 10 + 3), (("-k", "numbers"), 10), (("test_slow.py::test_numbers",), 10)],
    ids=["all", "-k", "node id"],
)
def test_the_nightly_run_has_the_other_cases_even_of_a_named_test(run: Run, name: tuple[str, ...], count: int) -> None:
    result = run("-m", "nightly", *name)
    assert result.parseoutcomes()["passed"] == count
    result.stdout.no_fnmatch_line("*only nightly*")
