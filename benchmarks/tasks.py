"""Whole tasks, each with its own spark-submit, against a plain PySpark script that reads the same rows.

A scheduled task starts Spark, scans once and ends. All of this counts, including the start of the JVM and of Python.
Our tasks run without and with a CDS archive, which is created before the measurements.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from airflow_pushdown.packaging import job_archive
from benchmarks.lineitem import NESTED_SCHEMA, SCHEMA, prepare
from benchmarks.rounds import Measured, measure, ratio
from pushdown_spark.contract import JobResult

_ROOT = Path(__file__).resolve().parents[1]
_CUTS = (25, 100, 200)
"""Sizes in megabytes of the CSV files that are cut from the table."""
_PLAIN = """
import json, sys
from pyspark.sql import SparkSession
source, where, target = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
spark = SparkSession.builder.getOrCreate()
reader = spark.read.schema(source["schema"]).options(**source["options"]).format(source["format"])
reader.load(source["path"]).where(where).write.mode("overwrite").parquet(target)
spark.stop()
"""
_HEAD = (
    "| scan | rows | script s | ours s | with class archive s | script / ours: wall | CPU "
    "| script / ours with class archive: wall | CPU |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Case:
    """One scan: its name, its source as in a job spec, and its predicate."""

    name: str
    source: Mapping[str, object]
    where: str


class Tasks:
    """Submissions of tasks, one after the other. Their files are below `work`."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._modules = str(job_archive(work / "modules"))
        self._classes = work / "classes.jsa"
        self._script = work / "plain.py"
        self._script.write_text(_PLAIN, encoding="utf-8")

    def prepare(self) -> None:
        """Create the CDS archive."""
        self._submit_ours("class_loading.py", jvm=f"-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={self._classes}")

    def ours(self, case: Case, *, archived: bool = False) -> int:
        """Run the scan as a job of this project, as an operator submits it. Return its rows."""
        result = self._work / "result.json"
        spec = {
            "run_key": "bench",
            "sources": {"t": case.source},
            "query": {"source": "t", "where": case.where},
            "output": {"path": str(self._work / "ours"), "format": "parquet", "mode": "overwrite"},
            "result_path": str(result),
        }
        (self._work / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        jvm = f"-XX:SharedArchiveFile={self._classes}" if archived else ""
        self._submit_ours("job.py", "--spec", str(self._work / "spec.json"), jvm=jvm)
        return JobResult.model_validate_json(result.read_text(encoding="utf-8")).rows or 0

    def plain(self, case: Case) -> int:
        """Run the scan as a script would. Its rows are not counted."""
        self._submit(str(self._script), json.dumps(case.source), case.where, str(self._work / "plain"))
        return 0

    def _submit_ours(self, program: str, *arguments: str, jvm: str) -> None:
        self._submit(
            "--py-files", self._modules, str(_ROOT / "spark_jobs" / "pushdown_spark" / program), *arguments, jvm=jvm
        )

    def _submit(self, *arguments: str, jvm: str = "") -> None:
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", "--driver-memory", "2g"]
        command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.ui.showConsoleProgress=false", *arguments]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        environment["SPARK_SUBMIT_OPTS"] = jvm
        subprocess.run(command, env=environment, check=True, capture_output=True)


def cases(scale: int, cache: Path) -> list[Case]:
    """Return the scans. Their data are created if necessary."""
    cache = cache.resolve()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    data = prepare(spark, scale, cache)
    spark.stop()
    csv = {"format": "csv", "schema": SCHEMA, "options": {"header": "true"}}
    found = [
        Case(f"CSV, {size} MB", {**csv, "path": [str(_cut(data["csv"], size, cache))]}, _needle(1)) for size in _CUTS
    ]
    found.append(Case(f"CSV, scale {scale}", {**csv, "path": [str(data["csv"])]}, _needle(scale)))
    nested = {"format": "json", "schema": NESTED_SCHEMA, "options": {}, "path": [str(data["json"])]}
    return [*found, Case(f"JSON, scale {scale}", nested, _needle(scale))]


def _needle(scale: int) -> str:
    return f"l_orderkey = {100_001 * scale}"


def _cut(table: Path, megabytes: int, cache: Path) -> Path:
    """Return the first megabytes of a table's first file, up to a line end."""
    target = cache / f"lineitem-{megabytes}mb.csv"
    if not target.exists():
        with min(table.glob("part-*")).open("rb") as file:
            target.write_bytes(file.read(megabytes * 1_000_000).rpartition(b"\n")[0] + b"\n")
    return target


def row(case: Case, measured: Mapping[str, Measured]) -> str:
    """Return one line of the table."""
    engines = ("plain", "ours", "archived")
    seconds = [f"{statistics.median(measured[engine].wall):.1f}" for engine in engines]
    ratios = [f"{ratio(measured, 'plain', engine, kind):.2f}" for engine in engines[1:] for kind in ("wall", "cpu")]
    return "| " + " | ".join([case.name, f"{measured['ours'].rows:,}", *seconds, *ratios]) + " |"


def main() -> None:
    """Measure all scans and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    parser.add_argument("--cache", type=Path, default=Path(".cache/bench"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as work:
        tasks = Tasks(Path(work))
        tasks.prepare()
        for case in _select(cases(arguments.scale, arguments.cache), arguments.only):
            engines: dict[str, Callable[[], int]] = {
                "plain": partial(tasks.plain, case),
                "ours": partial(tasks.ours, case),
                "archived": partial(tasks.ours, case, archived=True),
            }
            lines.append(row(case, measure(engines, arguments.rounds)))
            print(lines[-1], flush=True)
    about = (
        f"TPC-H lineitem, one order each. {arguments.rounds} interleaved rounds after one that does not count, medians "
        f"of the ratios within rounds (above 1: the task takes less). {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}, load average at the end {os.getloadavg()[0]:.1f}; "
        f"{datetime.now(UTC):%Y-%m-%d}."
    )
    text = "\n".join(["# Whole tasks", "", about, "", *_HEAD, *lines])
    (arguments.results / "tasks.md").write_text(text + "\n", encoding="utf-8")


def _select(cases: Sequence[Case], parts: Sequence[str]) -> list[Case]:
    return [case for case in cases if not parts or any(part in case.name for part in parts)]


if __name__ == "__main__":
    main()
