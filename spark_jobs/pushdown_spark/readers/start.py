"""The start of Python on executors: what it costs a scan, and how it goes on while the driver plans."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable

from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceFormat
from pushdown_spark.readers.worker import Loading
from pushdown_spark.relations.declaration import Source

_SECONDS = {SourceFormat.JSON: 2.4, SourceFormat.CSV: 2.4, SourceFormat.ORC: 1.6, SourceFormat.AVRO: 1.6}
"""What a scan waits for its first workers, and JSON and CSV for the JVM to compile what parses the lines they find.

Measured over JSON and CSV in fresh processes: from about the sizes on that these figures give, whole tasks took less.
"""
_MOST_TASKS = 64
_READERS: dict[str, str] = {
    SourceFormat.JSON: "pushdown_spark.formats.text.line_filter",
    SourceFormat.CSV: "pushdown_spark.formats.text.line_filter",
    SourceFormat.ORC: "pushdown_spark.formats.orc.file_reader",
    SourceFormat.AVRO: "pushdown_spark.formats.avro.file_reader",
}


def waiting(spark: SparkSession, source: Source) -> float:
    """CPU seconds that pass while all processors wait for the first workers; 0 where they are there already."""
    return _SECONDS[source.format] * max(spark.sparkContext.defaultParallelism, 1) if source.cold else 0.0


def remark(seconds: float) -> str:
    """What is told of an estimate that has such seconds in it."""
    return f" ({seconds:.1f} s of ours until Python has started)" if seconds else ""


def begin(spark: SparkSession, formats: Iterable[str]) -> None:
    """Have workers start that read sources of some formats; what goes wrong there the scans themselves tell."""
    tasks = max(1, min(spark.sparkContext.defaultParallelism, _MOST_TASKS))
    numbers = spark.range(0, tasks, 1, tasks)
    modules = sorted({_READERS[each] for each in formats if each in _READERS})
    loading = numbers.mapInArrow(Loading(tuple(modules)), numbers.schema)

    def run() -> None:
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            spark.sparkContext.setJobDescription("airflow_pushdown: Python starts")
            loading.collect()

    threading.Thread(target=inheritable_thread_target(spark)(run), daemon=True).start()
