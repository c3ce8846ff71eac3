"""Session variables: what an unqualified name means to Spark where no relation has a column of that name."""

from __future__ import annotations

from pyspark.sql import SparkSession

from pushdown_spark.runtime.jvm_gateway import scala_seq


class SessionVariables:
    """The variables that a session has declared."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._variables = spark._jsparkSession.sessionState().catalogManager().tempVariableManager()
        self._is_empty = bool(self._variables.isEmpty())

    def has(self, name: str) -> bool:
        """Whether there is a variable of this name."""
        if self._is_empty:
            return False
        case_sensitive = self._spark.conf.get("spark.sql.caseSensitive", "false") == "true"
        key = scala_seq(self._spark, [name if case_sensitive else name.lower()])
        return bool(self._variables.get(key).isDefined())
