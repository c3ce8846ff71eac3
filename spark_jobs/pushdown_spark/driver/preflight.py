"""A check that executors have the driver's versions of Python, PySpark and the libraries, before any data is read."""

from __future__ import annotations

import os
import platform
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata, resources
from typing import TYPE_CHECKING

from pushdown_spark.errors import ExecutorMismatchError

if TYPE_CHECKING:
    from pyspark import SparkContext

    from pushdown_spark.contract import AnySourceSpec

WAIT_SECONDS = 60.0
"""The time limit for the first executor. The check passes if none has started by then."""

_TAG = "airflow_pushdown-preflight"
_WITHOUT_PYTHON = frozenset({"text", "iceberg", "delta"})
"""Formats that only Spark's own readers read."""
_MAX_TASKS = 8
_LOCAL_MASTER = re.compile(r"local(\[.*\])?$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBER = re.compile(r"\d+")
_PYTHON, _PYSPARK = "Python", "pyspark"
_WORKER_FAILURES = {
    "PYTHON_VERSION_MISMATCH": "a Python version other than the driver's",
    "Cannot run program": "no Python at the path of the driver's Python",
    "No module named": "a Python without the libraries of the job",
}
"""Parts of the errors of workers that cannot run the check, and their meaning."""

_ADVICE = (
    "install the driver's versions on every worker (`pip install pushdown-spark[spark]`), or send an environment in "
    "`archives`; reader='spark' needs no Python on executors"
)


@dataclass(frozen=True)
class Versions:
    """The versions of Python and libraries on one machine by name, or None for a missing library."""

    host: str
    versions: Mapping[str, str | None]


def local_versions(_task: int = 0) -> Versions:
    """Return the versions of this process."""
    versions: dict[str, str | None] = {_PYTHON: platform.python_version()}
    for name in _required_libraries():
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    # PySpark has no metadata if Spark was installed without pip.
    import pyspark

    versions[_PYSPARK] = pyspark.__version__
    return Versions(platform.node(), versions)


def needs_python(source: AnySourceSpec) -> bool:
    """Return whether a source may need Python on executors."""
    # Database sources have no parameter `reader`.
    return source.format not in _WITHOUT_PYTHON and getattr(source, "reader", None) != "spark"


def check_executors(context: SparkContext, wait_seconds: float = WAIT_SECONDS) -> None:
    """Raise ExecutorMismatchError, which says what to change, if executors lack the driver's versions.

    Local sessions pass. The check also passes if no executor starts within `wait_seconds`.
    """
    if _LOCAL_MASTER.match(context.master or "local"):
        return
    driver = local_versions()
    executors = _executor_versions(context, wait_seconds)
    problems = sorted({problem for executor in executors for problem in differences(driver, executor)})
    if problems:
        raise ExecutorMismatchError(f"executors: {'; '.join(problems)}: {_ADVICE}")


def start_version_check(context: SparkContext, wait_seconds: float = WAIT_SECONDS) -> Callable[[], None]:
    """Start the check in the background. The returned function waits for its end and raises its error."""
    pool = ThreadPoolExecutor(1)
    check = pool.submit(check_executors, context, wait_seconds)
    pool.shutdown(wait=False)
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        # Threads then share the tags of jobs, so a cancelled check would cancel jobs of the planner as well.
        check.exception()
    return check.result


def differences(driver: Versions, executor: Versions) -> Iterator[str]:
    """Yield the differences of an executor as text. Libraries that the driver lacks are not compared."""
    for name, required in driver.versions.items():
        actual = executor.versions.get(name)
        if required is None or (actual is not None and _release(name, actual) == _release(name, required)):
            continue
        version = f"{name} {actual}" if actual is not None else f"no {name}"
        yield f"{version} on {executor.host}, {required} on the driver"


def _executor_versions(context: SparkContext, wait_seconds: float) -> list[Versions]:
    """Return the versions of the executors that ran a task, or none if no executor started in time."""
    tasks = max(1, min(context.defaultParallelism, _MAX_TASKS))
    context.addJobTag(_TAG)
    is_cancelled = threading.Event()

    def cancel() -> None:
        is_cancelled.set()
        context.cancelJobsWithTag(_TAG)

    # Without an executor, a job waits forever.
    timer = threading.Timer(wait_seconds, cancel)
    timer.start()
    try:
        return context.parallelize(range(tasks), tasks).map(local_versions).collect()
    except Exception as problem:
        if is_cancelled.is_set():
            return []
        message = str(problem)
        for part, meaning in _WORKER_FAILURES.items():
            if part in message:
                line = next(line.strip() for line in message.splitlines() if part in line)
                raise ExecutorMismatchError(f"executors: {meaning} ({line[:300]}): {_ADVICE}") from problem
        raise
    finally:
        timer.cancel()
        context.removeJobTag(_TAG)


def _release(name: str, version: str) -> tuple[str, ...]:
    """Return the parts of a version that must agree: all three for PySpark, major and minor for libraries."""
    return tuple(_NUMBER.findall(version)[: 3 if name == _PYSPARK else 2])


def _required_libraries() -> list[str]:
    """Return the libraries in the requirements of the job, which are a file of the package."""
    lines = resources.files("pushdown_spark").joinpath("requirements.txt").read_text(encoding="utf-8").splitlines()
    return [match.group() for line in lines if (match := _NAME.match(line))]
