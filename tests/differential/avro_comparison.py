"""Random Avro files, read by the pushdown reader and by Spark's."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from avro_files import AVRO, SOME_CHANGE, random_table, write_files
from columnar_cases import ColumnarCase, ReaderComparison, Row, case_over, data_files, run_tasks
from pyspark.errors import PySparkException
from pyspark.sql import types as t
from schema_change import NO_CHANGE

from pushdown_spark.errors import PushdownError, UnsafeInputError
from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.formats.avro.container_file import read_header
from pushdown_spark.formats.avro.decoder import AvroQuery, Decoder
from pushdown_spark.formats.avro.file_reader import AvroScanTask
from pushdown_spark.formats.avro.metrics import AvroMetrics, AvroOutcome
from pushdown_spark.formats.avro.planner import container_files
from pushdown_spark.formats.readable_types import arrow_schema
from pushdown_spark.sources.stores.storage import LOCAL


def rows_of(query: AvroQuery, directory: Path, split: int, counts: list[AvroMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    files = container_files(data_files(directory, "avro"), allows_any_extension=True)
    for file in files:
        try:
            Decoder(read_header(file.path, LOCAL).schema, query)
        except PushdownError as problem:
            raise UnsafeInputError(f"{file.path}: {problem}") from problem
    return run_tasks(AvroScanTask, query, files, split, counts)


class AvroComparison(ReaderComparison[AvroMetrics]):
    source_format = "avro"
    metrics_class = AvroMetrics
    splits = (700, 5_000, 1 << 27)
    read = staticmethod(rows_of)

    def draw_case(self, seed: int, directory: Path) -> ColumnarCase | None:
        rng = random.Random(seed)
        write_files(self.spark, rng, directory, random_table(rng), rng.choice((NO_CHANGE, SOME_CHANGE)))
        try:
            frame = self.spark.read.format(AVRO).load(str(directory))
        except PySparkException as problem:
            self.tally[f"Spark infers no schema: {problem}"[:90]] += 1
            return None
        return case_over(rng, frame, frame.schema, directory, f"seed {seed}", "avro")

    def draw_query(
        self, rng: random.Random, schema: t.StructType, fields: list[t.StructField], kept: ArrowFilter
    ) -> AvroQuery:
        return AvroQuery(arrow_schema(fields), kept, searches_blocks=rng.random() < 0.8)

    def session_options(self, rng: random.Random, case: ColumnarCase, reader: str) -> dict[str, Any]:
        return {}

    def outcomes(self) -> dict[str, int]:
        return {outcome.name: self.metrics.blocks[outcome] for outcome in AvroOutcome}
