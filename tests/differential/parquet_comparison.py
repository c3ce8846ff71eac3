"""Random Parquet files, read by the pushdown reader and by Spark's."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from columnar_cases import ColumnarCase, ReaderComparison, Row, case_over, data_files, run_tasks
from orc_files import random_table
from parquet_files import SOME_CHANGE, Files, write_files
from pyspark.sql import types as t
from schema_change import NO_CHANGE

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.formats.parquet.file_parts import parquet_inputs
from pushdown_spark.formats.parquet.file_reader import ParquetQuery, ParquetScanTask
from pushdown_spark.formats.parquet.metrics import ParquetMetrics, ParquetOutcome
from pushdown_spark.formats.readable_types import arrow_schema


class ParquetComparison(ReaderComparison[ParquetMetrics]):
    source_format = "parquet"
    metrics_class = ParquetMetrics
    splits = (3_000, 100_000, 1 << 27)

    def draw_case(self, seed: int, directory: Path) -> ColumnarCase | None:
        rng = random.Random(seed)
        table = random_table(rng)
        change = rng.choice((NO_CHANGE, SOME_CHANGE))
        write_files(Files(self.spark, rng, directory), table, change, old=rng.random() < 0.1)
        frame = self.spark.read.schema(table).parquet(str(directory))
        return case_over(rng, frame, table, directory, f"seed {seed}", "parquet")

    def read(self, query: ParquetQuery, directory: Path, split: int, counts: list[ParquetMetrics]) -> Counter[Row]:
        files = parquet_inputs(data_files(directory, "parquet"))
        return run_tasks(ParquetScanTask, query, files, split // 4, counts)

    def draw_query(
        self, rng: random.Random, schema: t.StructType, fields: list[t.StructField], kept: ArrowFilter
    ) -> ParquetQuery:
        return ParquetQuery(
            arrow_schema(fields), kept, has_corrected_dates=True, has_corrected_int96=True, name_rule=ANY_CASE
        )

    def outcomes(self) -> dict[str, int]:
        outcomes = (ParquetOutcome.TOTAL, ParquetOutcome.BY_STATISTICS, ParquetOutcome.READ)
        counts = {outcome.name: self.metrics.row_groups[outcome] for outcome in outcomes}
        if self.tally["cases"] > 100:
            # Few random cases have columns whose page indexes exclude pages.
            counts["pages by page index"] = self.metrics.pages[ParquetOutcome.BY_PAGE_INDEX]
        return counts
