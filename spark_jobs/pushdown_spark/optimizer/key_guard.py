"""Guards of the keys that semi-join reductions read while a query is planned, and that its plan contains.

If the files of a source change before the plan runs, its rows may have other keys. The plan would then silently miss
rows that join with them. A guard makes the query fail when it reads a row with another key.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pushdown_spark.errors import ChangedFilesError


@dataclass(frozen=True)
class KeyGuard:
    """The keys that the rows of a view had during planning.

    `conditions` and `keys` are SQL. The conditions hold for all rows that the query uses. `keys` is a predicate that
    all of these rows satisfied, unless their key was NULL. `source` is the name of the source in reports.
    """

    view: str
    source: str
    conditions: str
    keys: str

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the rows that satisfy the conditions. A row with another key raises ChangedFilesError.

        The filter depends on the position of a row, so that Spark neither evaluates it on rows that fail the
        conditions nor infers anything from it for other relations.
        """
        problem = f"the files of {self.source} have changed since the query was planned; plan the query again"
        error = f.raise_error(f.lit(ChangedFilesError.plan_message(problem))).cast("boolean")
        is_known = f.coalesce(f.expr(self.keys), f.lit(True)) & (f.monotonically_increasing_id() >= 0)
        return frame.where(self.conditions).where(f.when(is_known, f.lit(True)).otherwise(error))
