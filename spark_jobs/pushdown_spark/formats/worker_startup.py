"""The start-up of Python workers: its cost for a scan, and a warm-up while the driver plans."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import inheritable_thread_target
from pyspark.errors import PySparkException

from pushdown_spark.contract import SourceFormat
from pushdown_spark.runtime.worker import LoadModules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pushdown_spark.sources.declaration import Source

_SECONDS = {
    SourceFormat.JSON: 1.0,
    SourceFormat.CSV: 1.0,
    SourceFormat.ORC: 1.0,
    SourceFormat.AVRO: 1.0,
    SourceFormat.PARQUET: 1.2,
}
"""How many seconds a whole job with a CDS archive takes longer with workers, as measured over 20 to 100 MB."""
_MAX_TASKS = 64
_READERS: dict[str, str] = {
    SourceFormat.JSON: "pushdown_spark.formats.text.line_filter",
    SourceFormat.CSV: "pushdown_spark.formats.text.line_filter",
    SourceFormat.ORC: "pushdown_spark.formats.orc.file_reader",
    SourceFormat.AVRO: "pushdown_spark.formats.avro.file_reader",
    SourceFormat.PARQUET: "pushdown_spark.formats.parquet.datafusion_scan",
}


def startup_cost(spark: SparkSession, source: Source) -> float:
    """Return the CPU seconds that all processors together wait for the first workers, 0 if workers are running."""
    return _SECONDS[source.format] * max(spark.sparkContext.defaultParallelism, 1) if source.has_just_started else 0.0


def warm_up_workers(spark: SparkSession, formats: Iterable[str]) -> None:
    """Start workers with the readers of some formats in the background. Errors are left to the scans."""
    tasks = max(1, min(spark.sparkContext.defaultParallelism, _MAX_TASKS))
    numbers = spark.range(0, tasks, 1, tasks)
    modules = sorted({_READERS[source_format] for source_format in formats if source_format in _READERS})
    warm_up = numbers.mapInArrow(LoadModules(tuple(modules)), numbers.schema)

    def run() -> None:
        with contextlib.suppress(PySparkException, Py4JError, OSError):
            spark.sparkContext.setJobDescription("airflow_pushdown: Python starts")
            warm_up.collect()

    threading.Thread(target=inheritable_thread_target(spark)(run), daemon=True).start()
