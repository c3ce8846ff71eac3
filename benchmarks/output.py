"""Writing files: outputs of this project against Spark's own writer with each of its committers."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from pyspark.sql import DataFrame, SparkSession

from benchmarks.result_files import ResultTable, command_line, is_chosen
from benchmarks.rounds import Engines, cpu_and_wall, measure, seconds
from benchmarks.sessions import benchmark_session
from pushdown_spark.contract import OutputMode, OutputSpec
from pushdown_spark.output.files.file_output import open_output

_ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version"
_WARM_UP = 4
_COMPARISONS = (*cpu_and_wall("Spark v1 / ours", "v1", "ours"), *cpu_and_wall("Spark v2 / ours", "v2", "ours"))
_TITLES = ("output", "rows", "Spark v1 s", "Spark v2 s", "ours s", *(column.title for column in _COMPARISONS))


@dataclass(frozen=True)
class Case:
    """One output: existing rows, written rows, and options. Without `modulus`, all rows are written."""

    name: str
    mode: OutputMode
    days: int = 0
    modulus: int = 1

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The partition columns."""
        return ("day",) if self.days else ()


CASES = (
    Case("overwrite, no partitions", OutputMode.OVERWRITE),
    Case("append, no partitions", OutputMode.APPEND),
    Case("overwrite, 30 partitions", OutputMode.OVERWRITE, days=30),
    Case("append, 30 partitions", OutputMode.APPEND, days=30),
    Case("overwrite_partitions, 30 of 30", OutputMode.OVERWRITE_PARTITIONS, days=30),
    Case("overwrite_partitions, 1 of 300", OutputMode.OVERWRITE_PARTITIONS, days=300, modulus=300),
)


class Outputs:
    """Writers of the same rows with each engine, in the directory `work`."""

    def __init__(self, spark: SparkSession, work: Path, rows: int) -> None:
        self._spark = spark
        self._work = work
        self._number = 0
        columns = ("id", "id % 1000 AS customer", "concat('item ', id % 5000) AS item", "id * 0.01 AS amount")
        self.rows = spark.range(0, rows, 1, 4).selectExpr(*columns).cache()
        self.rows.count()

    def frame(self, case: Case) -> DataFrame:
        """Return the rows of a case, spread over its partitions."""
        if not case.days:
            return self.rows
        rows = self.rows.selectExpr("*", f"CAST(id % {case.days} AS INT) AS day")
        return rows.where(f"id % {case.modulus} = 0").repartition(2, "day")

    def prepare(self, case: Case) -> None:
        """Create the existing output for a round of each engine."""
        for engine in ("v1", "v2", "ours"):
            rows = self.rows.selectExpr("*", f"CAST(id % {max(case.days, 1)} AS INT) AS day").repartition(2, "day")
            writer = rows.write.mode("overwrite").partitionBy(*case.partition_by)
            writer.save(str(self._work / engine))

    def by_spark(self, case: Case, version: str) -> int:
        """Write rows with Spark's writer and one version of the file committer. Return their number."""
        self._spark.sparkContext._jsc.hadoopConfiguration().set(_ALGORITHM, version[1:])
        mode = "append" if case.mode is OutputMode.APPEND else "overwrite"
        dynamic = "dynamic" if case.mode is OutputMode.OVERWRITE_PARTITIONS else "static"
        writer = self.frame(case).write.mode(mode).option("partitionOverwriteMode", dynamic)
        writer.partitionBy(*case.partition_by).save(str(self._work / version))
        return 0

    def by_ours(self, case: Case) -> int:
        """Write rows as a job does. Each round is a separate run."""
        self._spark.sparkContext._jsc.hadoopConfiguration().set(_ALGORITHM, "1")
        self._number += 1
        spec = OutputSpec(path=str(self._work / "ours"), mode=case.mode, partition_by=case.partition_by)
        output = open_output(self._spark, spec, f"run {self._number}")
        output.prepare()
        with output.transaction():
            output.stage(self.frame(case))
        return 0

    def clear(self) -> None:
        """Delete everything that was written."""
        for engine in ("v1", "v2", "ours"):
            shutil.rmtree(self._work / engine, ignore_errors=True)


def main() -> None:
    """Measure all cases and write the table."""
    parser = command_line(__doc__, rounds=9)
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    spark = benchmark_session()
    about = (
        f"Parquet on a local disk in a warm session, without checks. Spark v1 and v2 are versions of Hadoop's file "
        f"committer; v1 is Spark's default. {arguments.rounds} rounds in random order after four that do not count. "
        f"Medians of the ratios within rounds (above 1: this package takes less)."
    )
    table = ResultTable(arguments.results / "output.md", "Writing files", about, _TITLES)
    with tempfile.TemporaryDirectory() as work:
        outputs = Outputs(spark, Path(work), arguments.rows)
        for case in CASES:
            if not is_chosen(case.name, arguments.only):
                continue
            outputs.prepare(case)
            engines: Engines = {
                "v1": partial(outputs.by_spark, case, "v1"),
                "ours": partial(outputs.by_ours, case),
                "v2": partial(outputs.by_spark, case, "v2"),
            }
            # The order is random, because the disk still writes one engine's files while the next runs.
            measurements = measure(engines, arguments.rounds, _WARM_UP, order=Random(arguments.rounds))
            wall = [seconds(measurements, engine, "wall") for engine in ("v1", "v2", "ours")]
            ratios = [column.cell(measurements) for column in _COMPARISONS]
            table.add(case.name, [case.name, f"{arguments.rows // case.modulus:,}", *wall, *ratios])
            outputs.clear()
    spark.stop()


if __name__ == "__main__":
    main()
