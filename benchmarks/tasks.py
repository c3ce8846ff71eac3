"""Whole tasks, each with its own spark-submit, against a plain PySpark script that reads the same rows.

A scheduled task starts Spark, scans once and ends. All of this counts, including the start of the JVM and of Python.
Our tasks run without and with the CDS archive that the first task of an installation records, before the measurements.
CPU seconds of Python workers are lost when Spark ends, so that ratios of CPU are too high where they do much work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from airflow_pushdown.packaging import job_archive
from airflow_pushdown.spark_submit.jvm_options import compiler_options
from benchmarks import avro, parquet
from benchmarks.lineitem import NESTED_SCHEMA, SCHEMA, prepare
from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Engines, cpu_and_wall, measure, seconds
from benchmarks.sessions import benchmark_session
from benchmarks.shapes import ddl
from pushdown_spark.contract import JobResult, JobSpec
from pushdown_spark.runtime.spark_internals import AVRO_CLASS

_ROOT = Path(__file__).resolve().parents[1]
_CUTS = (25, 100)
"""Sizes in megabytes of the CSV files that are cut from the table."""
_COPIES = 4
"""The number of scans in the task with several."""
_LARGE, _LARGE_PARQUET = 24_000_000_000, 10_000_000_000
"""The bytes of the large tables: all files of a table, linked many times."""
_PLAIN = """
import json, sys
from pyspark.sql import SparkSession
source, where, target = json.loads(sys.argv[1]), sys.argv[2], sys.argv[3]
spark = SparkSession.builder.getOrCreate()
reader = spark.read.schema(source["schema"]).options(**source["options"]).format(source["format"])
reader.load(source["path"]).where(where).write.mode("overwrite").parquet(target)
spark.stop()
"""
_COMPARISONS = (
    *cpu_and_wall("script / ours", "plain", "ours"),
    *cpu_and_wall("script / ours with CDS archive", "plain", "archived"),
)
_TITLES = ("scan", "rows", "script s", "ours s", "with CDS archive s", *(column.title for column in _COMPARISONS))


@dataclass(frozen=True)
class Case:
    """Scans of one source: their name, the source as in a job spec, and the predicate."""

    name: str
    source: Mapping[str, object]
    where: str
    copies: int = 1
    """The number of scans. Ours run in one task, scripts in a task each."""


class Tasks:
    """Submissions of tasks, one after the other. Their files are below `work`."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._modules = str(job_archive(work / "modules"))
        self._classes = work / "classes.jsa"
        self._script = work / "plain.py"
        self._script.write_text(_PLAIN, encoding="utf-8")

    def prepare(self, case: Case) -> None:
        """Record the CDS archive, as the first task of an installation does."""
        self.ours(case, archive=f"-XX:ArchiveClassesAtExit={self._classes}")

    def ours(self, case: Case, *, archive: str = "") -> int:
        """Run the scans as a job of this project, as an operator submits it. Return its rows."""
        result = self._work / "result.json"
        spec: dict[str, object] = {"run_key": "bench", "result_path": str(result)}
        if case.copies == 1:
            spec |= {
                "sources": {"t": case.source},
                "query": {"source": "t", "where": case.where},
                "output": self._output("ours"),
            }
        else:
            names = [f"t{number}" for number in range(case.copies)]
            spec |= {
                "sources": dict.fromkeys(names, case.source),
                "scans": {name: {"where": case.where, "output": self._output(name)} for name in names},
            }
        (self._work / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        compiler = compiler_options(JobSpec.model_validate(spec), "", has_local_files=True)
        program = str(_ROOT / "spark_jobs" / "pushdown_spark" / "job.py")
        arguments = ("--py-files", self._modules, program, "--spec", str(self._work / "spec.json"))
        self._submit(*arguments, jvm=f"{compiler} {archive}")
        return JobResult.model_validate_json(result.read_text(encoding="utf-8")).rows or 0

    def run_with_archive(self, case: Case) -> int:
        """Run the scans as a later task of the installation does."""
        return self.ours(case, archive=f"-XX:SharedArchiveFile={self._classes} -XX:+VerifySharedSpaces")

    def plain(self, case: Case) -> int:
        """Run the scans as scripts would, one after the other. Their rows are not counted."""
        source = dict(case.source)
        if source["format"] == "avro":
            # The short name needs a jar that Spark does not come with.
            source["format"] = AVRO_CLASS
        for _ in range(case.copies):
            self._submit(str(self._script), json.dumps(source), case.where, str(self._work / "plain"))
        return 0

    def _output(self, name: str) -> dict[str, object]:
        return {"path": str(self._work / name), "format": "parquet", "mode": "overwrite"}

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
    spark = benchmark_session()
    data = {**prepare(spark, scale, cache), "avro": avro.prepare(spark, scale, cache)}
    wide = parquet.prepare(spark, scale, cache)["wide"]
    wide_schema = ddl(spark.read.parquet(str(wide)).schema)
    spark.stop()
    csv = {"format": "csv", "schema": SCHEMA, "options": {"header": "true"}}
    csv_cases = [
        Case(f"CSV, {size} MB", {**csv, "path": [str(_cut(data["csv"], size, cache))]}, _needle(1)) for size in _CUTS
    ]
    csv_cases.append(Case(f"CSV, scale {scale}", {**csv, "path": [str(data["csv"])]}, _needle(scale)))
    csv_cases.insert(1, replace(csv_cases[0], name=f"{_COPIES} scans of CSV, {_CUTS[0]} MB", copies=_COPIES))
    nested = {"format": "json", "schema": NESTED_SCHEMA, "options": {}, "path": [str(data["json"])]}
    plain = {"format": "avro", "schema": SCHEMA, "options": {}}
    nested_needle = f"part.key = {100_001 * scale}"
    large = {**nested, "path": [str(_link_files(data["json"], cache, _LARGE))]}
    return [
        *csv_cases,
        Case(f"JSON, scale {scale}", nested, _needle(scale)),
        Case(f"JSON, scale {scale}, nested value", nested, nested_needle),
        Case("JSON, 24 GB", large, _needle(scale)),
        Case("JSON, 24 GB, nested value", large, nested_needle),
        Case("Avro, 24 GB", {**plain, "path": [str(_link_files(data["avro"], cache, _LARGE))]}, _needle(scale)),
        Case(
            "Parquet, 10 GB",
            {
                **plain,
                "format": "parquet",
                "schema": wide_schema,
                "path": [str(_link_files(wide, cache, _LARGE_PARQUET))],
            },
            "c0 = 12345",
        ),
    ]


def _needle(scale: int) -> str:
    return f"l_orderkey = {100_001 * scale}"


def _cut(table: Path, megabytes: int, cache: Path) -> Path:
    """Return the first megabytes of a table's first file, up to a line end."""
    target = cache / f"lineitem-{megabytes}mb.csv"
    if not target.exists():
        with min(table.glob("part-*")).open("rb") as file:
            target.write_bytes(file.read(megabytes * 1_000_000).rpartition(b"\n")[0] + b"\n")
    return target


def _link_files(table: Path, cache: Path, size: int) -> Path:
    """Return a table with the files of another one, as hard links, so many times that it has about `size` bytes."""
    files = sorted(table.glob("part-*"))
    times = round(size / sum(file.stat().st_size for file in files))
    target = cache / f"{'-'.join(table.relative_to(cache).parts)}-{times}-times"
    if not target.exists():
        target.mkdir()
        for number in range(times):
            for file in files:
                (target / f"{number}-{file.name}").hardlink_to(file)
    return target


def main() -> None:
    """Measure all scans and write the table."""
    arguments = command_line(__doc__, rounds=5).parse_args()
    about = (
        "TPC-H lineitem, one order each. Several scans run in one task of ours, and in a script each. "
        f"{arguments.rounds} interleaved rounds after one that does not count, medians of the ratios within rounds "
        f"(above 1: the task takes less)."
    )
    table = ResultTable(arguments.results / "tasks.md", "Whole tasks", about, _TITLES)
    with tempfile.TemporaryDirectory() as work:
        tasks = Tasks(Path(work))
        all_cases = cases(arguments.scale, arguments.cache)
        tasks.prepare(all_cases[0])
        for case in all_cases:
            if not is_chosen(case.name, arguments.only):
                continue
            engines: Engines = {
                "plain": partial(tasks.plain, case),
                "ours": partial(tasks.ours, case),
                "archived": partial(tasks.run_with_archive, case),
            }
            measurements = measure(engines, arguments.rounds)
            wall = [seconds(measurements, engine, "wall") for engine in engines]
            ratios = [column.cell(measurements) for column in _COMPARISONS]
            table.add(case.name, [case.name, f"{measurements['ours'].rows:,}", *wall, *ratios])


if __name__ == "__main__":
    main()
