"""What is to be expected of analysing a query's sources: bytes, relations, what is known of them already."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from pushdown_spark.contract import JoinOptions, JoinReport
from pushdown_spark.joins.budget import AnalysisClock, Outlook, query_seconds
from pushdown_spark.joins.figures import SourceFigures
from pushdown_spark.joins.places import Place
from pushdown_spark.relations.declaration import Source


class Prospects:
    """Whether the sources of a query are worth an analysis; the clock learns from one that is made."""

    def __init__(
        self,
        spark: SparkSession,
        options: JoinOptions,
        clock: AnalysisClock,
        figures: SourceFigures,
        places: Sequence[Place],
    ) -> None:
        self._clock = clock
        self._relations = len(places)
        # A source that is named twice is looked at once.
        once = {place.declared.name: place for place in places}.values()
        self._fresh = sum(not figures.is_familiar(place.declared, place.source) for place in once)
        self.obstacle = self._obstacle(spark, options, figures, places) if options.reorder else None

    def _obstacle(
        self, spark: SparkSession, options: JoinOptions, figures: SourceFigures, places: Sequence[Place]
    ) -> str | None:
        """Why nothing is analysed, None where something is: also where the size of a source is not known."""
        known = {place.declared.name: figures.bytes(place.declared, place.source) for place in places}
        sizes = [(place.declared, known[place.declared.name] or 0) for place in places]
        if None in known.values():
            return None
        if options.min_bytes is not None:
            total = sum(size for _, size in sizes)
            return None if total >= options.min_bytes else f"the sources have {total:,} bytes, fewer than are analysed"
        read = [(source.format, size) for source, size in sizes if isinstance(source, Source)]
        seconds = query_seconds(read, spark.sparkContext.defaultParallelism)
        analysis = self._clock.expected(self._relations, self._fresh)
        return Outlook(analysis, seconds + self._clock.warming).obstacle

    def learn(self, seconds: float, joins: Sequence[JoinReport]) -> None:
        """Have the clock follow what an analysis took, if it came as far as comparing orders."""
        is_first, self._clock.warming = self._clock.warming > 0, 0.0
        if self.obstacle is not None:
            self._clock.skipped()
        # The first one of a session takes several times as long as any after it.
        elif not is_first and any(report.method for report in joins):
            self._clock.took(seconds, self._relations, self._fresh)
