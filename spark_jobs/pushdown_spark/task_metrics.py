"""What Spark's own readers really did: input metrics of the stages that a piece of work ran."""

from __future__ import annotations

import uuid
from types import TracebackType

from pyspark.sql import SparkSession

from pushdown_spark.contract import SourceReport
from pushdown_spark.gateway import wait_for_events


class StageWatch:
    """Tags the jobs that start while it is open, so that their stages' metrics can be added up afterwards."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"airflow_pushdown-{uuid.uuid4().hex}"

    def __enter__(self) -> StageWatch:
        self._spark.sparkContext.addJobTag(self._tag)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Jobs that start from now on are somebody else's."""
        self._spark.sparkContext.removeJobTag(self._tag)

    def completed(self, report: SourceReport) -> SourceReport:
        """The report with bytes read and rows decoded as the executors counted them."""
        wait_for_events(self._spark)
        scala_context = self._spark.sparkContext._jsc.sc()
        tracker, store = scala_context.statusTracker(), scala_context.statusStore()
        stages = {
            int(stage)
            for job in tracker.getJobIdsForTag(self._tag)
            for stage in tracker.getJobInfo(job).get().stageIds()
        }
        attempts = [store.lastStageAttempt(stage) for stage in stages]
        return report.model_copy(
            update={
                "bytes_read": sum(int(attempt.inputBytes()) for attempt in attempts),
                "rows_decoded": sum(int(attempt.inputRecords()) for attempt in attempts),
            }
        )
