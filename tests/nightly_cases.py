"""Hooks of pytest that mark slow tests: those that start programs, and the cases that only run nightly."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any
from zlib import crc32

import pytest

FRACTION = 1 / 10
"""The fraction of its cases that a slow test runs by default, but at least one. `make nightly` runs the others."""
STARTING = frozenset(
    {"spark", "spark_python", "local_spark", "drivers", "database", "server", "register_dag", "store"}
    | {f"{product}_server" for product in ("postgresql", "mariadb", "mysql")}
)
"""Fixtures that start a program. `make check` leaves out the tests that use them.

A test that starts one without such a fixture has the marker `starts`.
"""
COUNT = pytest.StashKey[int]()
"""How many of the collected cases run only nightly."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that start programs, and most cases of each test that needs Spark or is differential.

    Checksums of their names choose them, so that each value of each parameter runs in some tests. If the user names a
    test, all its cases run.
    """
    for item in items:
        if item.get_closest_marker("e2e") or STARTING & set(getattr(item, "fixturenames", ())):
            item.add_marker("starts")
    is_named = bool(config.option.keyword) or any("::" in argument for argument in config.args)
    is_nightly = config.option.markexpr == "nightly"
    if is_nightly or not is_named:
        _mark_cases(items)
    if not is_nightly and not config.option.keyword:
        config.stash[COUNT] = sum(item.get_closest_marker("nightly") is not None for item in items)


def _mark_cases(items: list[pytest.Item]) -> None:
    tests: dict[str, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if not isinstance(item, pytest.Function) or any(map(item.get_closest_marker, ("nightly", "smoke"))):
            continue
        if "spark" in item.fixturenames or "differential" in item.path.parts:
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        cases.sort(key=lambda case: crc32(case.name.encode()))
        for case in cases[math.ceil(len(cases) * FRACTION) :]:
            case.add_marker("nightly")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the count from a worker of pytest-xdist to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["nightly cases"] = session.config.stash.get(COUNT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the count of a worker. All workers collect the same cases."""
    if output := getattr(node, "workeroutput", None):
        node.config.stash[COUNT] = output["nightly cases"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many of the collected cases run only nightly, and how to run them."""
    count = config.stash.get(COUNT, 0)
    if count and config.option.markexpr == "not nightly":
        command = f'make pytest TESTS="{" ".join(config.args)} -m nightly"'
        terminalreporter.write_line(f"Cases that run only nightly: {count}. To run them now: {command}", yellow=True)
