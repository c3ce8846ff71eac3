"""What Spark's own readers really did: input metrics of the stages that a piece of work ran."""

from __future__ import annotations

from types import TracebackType

from pyspark.sql import SparkSession

from spark_jobs.contract import SourceReport
from spark_jobs.gateway import gateway, jvm


class StageWatch:
    """Sums the input metrics of all stages that complete while it is open."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._before: set[int] = set()

    def __enter__(self) -> StageWatch:
        self._before = set(self._stages())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to give back."""

    def completed(self, report: SourceReport) -> SourceReport:
        """The report with bytes read and rows decoded as the executors counted them."""
        self._spark._jsc.sc().listenerBus().waitUntilEmpty(10_000)
        fresh = {number: figures for number, figures in self._stages().items() if number not in self._before}
        return report.model_copy(
            update={
                "bytes_read": sum(figures[0] for figures in fresh.values()),
                "rows_decoded": sum(figures[1] for figures in fresh.values()),
            }
        )

    def _stages(self) -> dict[int, tuple[int, int]]:
        """Input bytes and records by stage number."""
        context = self._spark.sparkContext
        no_quantiles = gateway(self._spark).new_array(jvm(self._spark).double, 0)
        stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
        found = {}
        for index in range(stages.size()):
            stage = stages.apply(index)
            found[int(stage.stageId())] = (int(stage.inputBytes()), int(stage.inputRecords()))
        return found
