"""The program of a job, with the times of its steps. `benchmarks.task_profile` submits it in the place of job.py."""

from __future__ import annotations

import time

PROGRAM_STARTED = time.time()

import functools  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from collections.abc import Callable  # noqa: E402
from importlib import import_module  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any  # noqa: E402

from pyspark import SparkContext  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

from pushdown_spark import job  # noqa: E402

STEPS_VARIABLE = "TASK_PROFILE_STEPS"
steps: dict[str, float] = {"program started": PROGRAM_STARTED, "modules imported": time.time()}


def record_end(owner: Any, name: str, step: str) -> None:  # noqa: ANN401 - a class or a module
    """Replace a function with one that records the time of its end."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        try:
            return function(*args, **kwargs)
        finally:
            steps.setdefault(step, time.time())

    setattr(owner, name, recorded)


def process_start() -> float:
    """Return the time at which this process was started."""
    ticks = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    seconds_ago = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - seconds_ago


def jvm_start(context: SparkContext) -> float:
    """Return the time at which the JVM of this driver was started."""
    factory = context._jvm.java.lang.management.ManagementFactory  # type: ignore[union-attr]
    return float(factory.getRuntimeMXBean().getStartTime()) / 1000


def import_queries(name: str) -> ModuleType:
    """Import what runs queries, as the job does while Spark starts, and record its steps."""
    query_run = import_module(name)
    from pushdown_spark.output.files.file_output import FileOutput
    from pushdown_spark.result import ScanResult

    record_end(FileOutput, "prepare", "output prepared")
    record_end(query_run.ClassicQueryRun, "plan", "query planned")
    record_end(ScanResult, "run", "rows staged")
    record_end(FileOutput, "commit", "output committed")
    return query_run


def main() -> int:
    """Run the job, and write the times of its steps to the file of the variable."""
    record_end(SparkContext, "_ensure_initialized", "connected to the JVM")
    record_end(job, "_start_spark", "Spark session started")
    job.import_module = import_queries
    record_end(job, "write_result", "result written")
    stop = SparkSession.stop

    def stopped(session: SparkSession) -> None:
        steps["JVM started"] = jvm_start(session.sparkContext)
        steps["Python started"] = process_start()
        stop(session)
        steps["Spark stopped"] = time.time()
        Path(os.environ[STEPS_VARIABLE]).write_text(json.dumps(steps), encoding="utf-8")

    SparkSession.stop = stopped  # type: ignore[method-assign]
    code = job.main()
    # As the job does.
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
