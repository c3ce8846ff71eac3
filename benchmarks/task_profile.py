"""The time line of a whole task, from the operator's `execute` to its return value.

The task scans a CSV file of 25 MB. Its steps are measured in the processes that do them: Airflow's, spark-submit's JVM,
and the Python of the driver.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

from airflow_pushdown.hooks import submit
from airflow_pushdown.operators import PushdownScanOperator
from airflow_pushdown.spark_submit.processes import JobProcess
from benchmarks.result_files import write_page

STEPS = {
    "spark-submit started": "Airflow: check the parameters, the environment and its Python; write the job spec",
    "JVM started": "spark-submit: a shell and a JVM that compute the command of the driver",
    "Python started": "JVM: start, read the settings, start Python",
    "program started": "Python: start",
    "modules imported": "Python: import PySpark and what reads job specs",
    "connected to the JVM": "Python: read the spec, connect to the JVM",
    "Spark session started": "JVM: SparkContext and SparkSession. Python: import this package",
    "output prepared": "open the output",
    "query planned": "plan the scan: list the files, choose a reader",
    "rows staged": "run the scan and write the rows",
    "output committed": "check and commit the output",
    "result written": "write the result",
    "Spark stopped": "stop Spark",
    "spark-submit ended": "end of Python and of the JVM",
    "task ended": "Airflow: read the result",
}
"""The steps of a task by the event at their end."""
_BYTES = 25_000_000


class TaskInstance:
    """A task instance that keeps nothing."""

    dag_id, task_id, run_id, map_index, max_tries = "profile", "scan", "manual", -1, 0

    def xcom_push(self, key: str, value: object) -> None:
        """Accept a value."""


def profile(data: Path, work: Path, archives: str, conf: Mapping[str, object]) -> dict[str, float]:
    """Run one task and return the seconds of its steps."""
    events: dict[str, float] = {}
    start, wait = JobProcess.__init__, JobProcess.wait

    def started(job: JobProcess, *args: Any) -> None:  # noqa: ANN401
        events["spark-submit started"] = time.time()
        start(job, *args)

    def waited(job: JobProcess) -> int:
        code = wait(job)
        events["spark-submit ended"] = time.time()
        return code

    steps = work / "steps.json"
    task = PushdownScanOperator(
        task_id="scan",
        path=str(data),
        format="csv",
        schema="a int, b double, c string, d date",
        options={"header": True},
        where="a = 100001",
        output=str(work / "out"),
        output_mode="overwrite",
        class_archives=archives,
        conn_id="profile",
        conf=dict(conf),
        env_vars={"TASK_PROFILE_STEPS": str(steps)},
        name="profile",
    )
    program = Path(__file__).with_name("profiled_job.py")
    with (
        patch.object(submit, "job_program", lambda: program),
        patch.object(JobProcess, "__init__", started),
        patch.object(JobProcess, "wait", waited),
    ):
        first = time.time()
        task.execute({"ti": TaskInstance()})  # type: ignore[typeddict-item]
        events["task ended"] = time.time()
    events |= json.loads(steps.read_text(encoding="utf-8"))
    ends = [first, *(events[name] for name in STEPS)]
    return dict(zip(STEPS, (end - begin for begin, end in pairwise(ends)), strict=True))


def write_rows(path: Path) -> None:
    """Write a CSV file of 25 MB."""
    values = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        size = file.write("a,b,c,d\n")
        while size < _BYTES:
            number, text, day = values.randrange(10**7), "x" * values.randrange(60), values.randrange(28) + 1
            size += file.write(f"{number},{values.random() * 1e5:.2f},{text},2020-01-{day:02d}\n")


def main() -> None:
    """Run the tasks in turn, without and with a CDS archive, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--conf", nargs="*", default=[], help="settings of Spark, key=value")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    logging.disable(logging.INFO)
    os.environ["AIRFLOW_CONN_PROFILE"] = '{"conn_type": "spark", "host": "local[2]"}'
    conf = dict(entry.split("=", 1) for entry in arguments.conf)
    kinds = {"off": "without archive", "": "with archive"}
    runs: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        data = work / "rows.csv"
        write_rows(data)
        # The first task records the archive.
        profile(data, work, "", conf)
        for _ in range(arguments.rounds):
            for kind in kinds:
                runs[kind].append(profile(data, work, kind, conf))
                print(kinds[kind], f"{sum(runs[kind][-1].values()):.1f} s", flush=True)
    median = {kind: {step: statistics.median(run[step] for run in runs[kind]) for step in STEPS} for kind in kinds}
    lines = ["| step | " + " | ".join(f"{title} s" for title in kinds.values()) + " |", "|---|" + "---|" * len(kinds)]
    for step, title in STEPS.items():
        lines.append(f"| {title} | " + " | ".join(f"{median[kind][step]:.2f}" for kind in kinds) + " |")
    totals = {kind: statistics.median(sum(run.values()) for run in runs[kind]) for kind in kinds}
    lines.append("| **whole task** | " + " | ".join(f"**{totals[kind]:.2f}**" for kind in kinds) + " |")
    about = (
        f"One scan of a CSV file of 25 MB, in a Spark of its own. Medians of {arguments.rounds} tasks of each kind in "
        f"turn."
    )
    write_page(arguments.results / "task-profile.md", "Time line of a task", about, lines)
    print(about, "", *lines, sep="\n")


if __name__ == "__main__":
    main()
