"""The start of Python on executors: what it costs a scan, and how it goes on while the driver plans."""

from __future__ import annotations

import contextlib
import threading

from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_jobs.contract import SourceFormat
from spark_jobs.readers.protocol import Source
from spark_jobs.readers.worker import Loading

_SECONDS = 0.9
"""What a scan waits for its first workers, which start and load the reader, beyond what the driver plans meanwhile.

Measured over JSON and CSV in fresh processes: what our reader takes longer there than in a warm session, less what
Spark's own takes longer.
"""
_MOST_TASKS = 64
_READERS = {
    SourceFormat.JSON: "spark_jobs.readers.candidates",
    SourceFormat.CSV: "spark_jobs.readers.candidates",
    SourceFormat.ORC: "spark_jobs.readers.orc.scan",
    SourceFormat.AVRO: "spark_jobs.readers.avro.scan",
}


def waiting(spark: SparkSession, source: Source) -> float:
    """CPU seconds that pass while all processors wait for the first workers; 0 where they are there already."""
    return _SECONDS * max(spark.sparkContext.defaultParallelism, 1) if source.cold else 0.0


def begin(spark: SparkSession, source: Source) -> None:
    """Have workers start that read a source, where none has run yet; what goes wrong there the scan itself tells."""
    if not source.cold:
        return
    tasks = max(1, min(spark.sparkContext.defaultParallelism, _MOST_TASKS))
    numbers = spark.range(0, tasks, 1, tasks)
    loading = numbers.mapInArrow(Loading(_READERS[source.format]), numbers.schema)

    def run() -> None:
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            spark.sparkContext.setJobDescription("airflow_pushdown: Python starts")
            loading.collect()

    threading.Thread(target=inheritable_thread_target(spark)(run), daemon=True).start()
