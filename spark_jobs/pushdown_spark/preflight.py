"""Compares Python, PySpark and libraries of the executors with the driver's, before any data is read."""

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
"""How long to wait for an executor; a job that waits for one longer is not kept waiting by this check."""

_TAG = "airflow_pushdown-preflight"
_MOST_TASKS = 8
_ONE_PROCESS = re.compile(r"local(\[.*\])?$")
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")
_NUMBER = re.compile(r"\d+")
_PYTHON, _PYSPARK = "Python", "pyspark"
_NATIVE = ("parquet", "text")
_NO_PYTHON = {
    "PYTHON_VERSION_MISMATCH": "another Python than the driver's",
    "Cannot run program": "no Python where the driver has its own",
    "No module named": "a Python without what the job needs",
}
"""What a failing worker says where it cannot even be asked, and what that means."""

_ADVICE = (
    "install the driver's versions on every worker (`pip install pushdown-spark[spark]`), or send an environment in "
    "`archives`; reader='spark' needs no Python on executors"
)


@dataclass(frozen=True)
class Versions:
    """What runs Python on one machine: versions by name, None for a library that is not there."""

    host: str
    versions: Mapping[str, str | None]


def here(_task: int = 0) -> Versions:
    """The versions of this process."""
    found: dict[str, str | None] = {_PYTHON: platform.python_version()}
    for name in _required():
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    # Where Spark was installed without pip, PySpark has no metadata, on executors as on the driver.
    import pyspark

    found[_PYSPARK] = pyspark.__version__
    return Versions(platform.node(), found)


def needs_python(source: AnySourceSpec) -> bool:
    """Whether Python may run on executors for a source."""
    # Tables have no choice of reader.
    return source.format not in _NATIVE and getattr(source, "reader", None) != "spark"


def check_executors(context: SparkContext, wait_seconds: float = WAIT_SECONDS) -> None:
    """Raise `ExecutorMismatchError`, saying what to change, unless executors can run what the driver plans.

    A session without a cluster has nothing to compare. Where no executor comes within `wait_seconds`, nothing is said.
    """
    if _ONE_PROCESS.match(context.master or "local"):
        return
    driver = here()
    found = sorted({text for there in _asked(context, wait_seconds) for text in differences(driver, there)})
    if found:
        raise ExecutorMismatchError(f"executors: {'; '.join(found)}: {_ADVICE}")


def begin_check(context: SparkContext, wait_seconds: float = WAIT_SECONDS) -> Callable[[], None]:
    """Check the executors while the driver plans; what is returned waits for the end and raises what was found."""
    thread = ThreadPoolExecutor(1)
    checked = thread.submit(check_executors, context, wait_seconds)
    thread.shutdown(wait=False)
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() == "false":
        # Threads share the tags of jobs there, so that giving up on the check would end jobs of the planning.
        checked.exception()
    return checked.result


def differences(driver: Versions, executor: Versions) -> Iterator[str]:
    """What of an executor does not go with the driver, in words. What the driver lacks itself is no matter here."""
    for name, wanted in driver.versions.items():
        found = executor.versions.get(name)
        if wanted is None or (found is not None and _release(name, found) == _release(name, wanted)):
            continue
        there = f"{name} {found}" if found is not None else f"no {name}"
        yield f"{there} on {executor.host}, {wanted} on the driver"


def _asked(context: SparkContext, wait_seconds: float) -> list[Versions]:
    """The versions of the executors that took a task; none where none could be had in time."""
    tasks = max(1, min(context.defaultParallelism, _MOST_TASKS))
    context.addJobTag(_TAG)
    given_up = threading.Event()

    def give_up() -> None:
        given_up.set()
        context.cancelJobsWithTag(_TAG)

    # Without an executor, a job waits for ever.
    patience = threading.Timer(wait_seconds, give_up)
    patience.start()
    try:
        return context.parallelize(range(tasks), tasks).map(here).collect()
    except Exception as problem:
        if given_up.is_set():
            return []
        said = str(problem)
        for word, meaning in _NO_PYTHON.items():
            if word in said:
                line = next(line.strip() for line in said.splitlines() if word in line)
                raise ExecutorMismatchError(f"executors: {meaning} ({line[:300]}): {_ADVICE}") from problem
        raise
    finally:
        patience.cancel()
        context.removeJobTag(_TAG)


def _release(name: str, version: str) -> tuple[str, ...]:
    """The numbers of a version that must agree: Spark promises nothing between its own, others keep to minor ones."""
    return tuple(_NUMBER.findall(version)[: 3 if name == _PYSPARK else 2])


def _required() -> list[str]:
    """Names of the libraries that the job's requirements list; the list travels in the archive of the job."""
    lines = resources.files("pushdown_spark").joinpath("requirements.txt").read_text(encoding="utf-8").splitlines()
    return [match.group() for line in lines if (match := _NAME.match(line))]
