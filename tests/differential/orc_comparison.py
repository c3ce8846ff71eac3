"""Random ORC files, read by the pushdown reader and by Spark's."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from columnar_cases import ColumnarCase, ReaderComparison, Row, case_over, data_files, run_tasks
from orc_files import SOME_CHANGE, Files, random_table, write_files
from pyspark.sql import types as t
from schema_change import NO_CHANGE

from pushdown_spark.expressions.arrow_evaluator import ArrowFilter
from pushdown_spark.expressions.names import ANY_CASE
from pushdown_spark.formats.orc.file_reader import OrcQuery, OrcScanTask
from pushdown_spark.formats.orc.metrics import OrcMetrics, OrcOutcome
from pushdown_spark.formats.orc.planner import orc_arrow_schema

PARTIAL_READS = (None, 0, 1, 2)


def rows_of(query: OrcQuery, directory: Path, split: int, counts: list[OrcMetrics]) -> Counter[Row]:
    """Return the rows of all tasks, which run in this process."""
    return run_tasks(OrcScanTask, query, data_files(directory, "orc"), split, counts)


class OrcComparison(ReaderComparison[OrcMetrics]):
    source_format = "orc"
    metrics_class = OrcMetrics
    splits = (3_000, 1 << 27)
    read = staticmethod(rows_of)

    def draw_case(self, seed: int, directory: Path) -> ColumnarCase | None:
        rng = random.Random(seed)
        table = random_table(rng)
        change = rng.choice((NO_CHANGE, SOME_CHANGE))
        write_files(Files(self.spark, rng, directory), table, change, old=rng.random() < 0.1)
        frame = self.spark.read.schema(table).orc(str(directory))
        return case_over(rng, frame, table, directory, f"seed {seed}", "orc")

    def draw_query(
        self, rng: random.Random, schema: t.StructType, fields: list[t.StructField], kept: ArrowFilter
    ) -> OrcQuery:
        partial, seek = rng.choice(PARTIAL_READS), rng.choice((0, 100, 16_384))
        positions = tuple(schema.fieldNames().index(field.name) for field in fields)
        return OrcQuery(
            schema=orc_arrow_schema(fields),
            positions=positions,
            filter=kept,
            partial_reads=partial,
            min_seek=seek,
            name_rule=ANY_CASE,
        )

    def session_options(self, rng: random.Random, case: ColumnarCase, reader: str) -> dict[str, Any]:
        options = {
            "partial_reads": rng.choice(PARTIAL_READS),
            "min_seek_size": rng.choice((0, 4_096, 1 << 20)),
            "use_selected": reader == "pushdown" and rng.random() < 0.5,
        }
        return {"schema": case.schema.toDDL(), "orc": options}

    def filters_in_sessions(self, case: ColumnarCase) -> bool:
        # Spark's ORC reader fails if a predicate over a timestamp without time zone is pushed alone.
        return "timestamp_ntz" not in case.schema.simpleString()

    def outcomes(self) -> dict[str, int]:
        return {outcome.name: self.metrics.groups[outcome] for outcome in OrcOutcome}
