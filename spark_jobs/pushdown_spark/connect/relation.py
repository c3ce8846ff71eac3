"""Sources that a Spark Connect server reads. Spark lists their files and finds their schema."""

from __future__ import annotations

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import ErrorCode, OnMissingColumn, OnSchemaConflict, SourceFormat
from pushdown_spark.errors import BadSpecError, UnsupportedError
from pushdown_spark.expressions.predicate import Predicate
from pushdown_spark.formats.orc.spark_reader import SARG_TO_FILTER
from pushdown_spark.projection.resolver import Projection
from pushdown_spark.relations.base_relation import RelationWithoutFiles
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.spark_internals import spark_format
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import SCHEMA_CONDITIONS
from pushdown_spark.sources.request import ScanRequest, check_predicate

_MERGED_FORMATS = frozenset({SourceFormat.ORC, SourceFormat.PARQUET})
"""Formats whose schemas Spark merges with the option `mergeSchema`."""


class ConnectRelation(RelationWithoutFiles):
    """Files or a table, as the server's own reader reads them."""

    kind = "read over Spark Connect"

    def __init__(self, spark: SparkSession, source: Source, spark_frame: DataFrame) -> None:
        """`spark_frame` is Spark's own DataFrame. Use `open`."""
        super().__init__(spark, source)
        self._spark_frame = spark_frame

    @classmethod
    def open(cls, spark: SparkSession, source: Source) -> ConnectRelation:
        """Let the server list the files and find their schema. Raises typed errors that name the parameter."""
        _check_supported(source)
        frame = _load(spark, source)
        try:
            # The server only analyzes a DataFrame when it is asked for something.
            _ = frame.schema
        except ParseException as problem:
            raise typed_error(problem, about=source.parameter("schema"), text_error=ErrorCode.BAD_SCHEMA) from problem
        except AnalysisException as problem:
            parameter = "schema" if problem.getCondition() in SCHEMA_CONDITIONS else "path"
            raise typed_error(problem, about=source.parameter(parameter if source.paths else "table")) from problem
        return cls(spark, source, frame)

    @property
    def spark_frame(self) -> DataFrame:
        """Spark's own lazy DataFrame."""
        return self._spark_frame

    @property
    def schema(self) -> StructType:
        """The columns, partition columns included."""
        return self._spark_frame.schema

    def origin(self, column: str) -> str:
        """Return where a column's type comes from, for error messages."""
        return "in the declared schema" if self.source.schema is not None else f"in source {self.source.name!r}"

    def request(self, projection: Projection, predicate: Predicate | None) -> ScanRequest:
        """Return the scan request for a projection and a predicate."""
        request = super().request(projection, self.without_ambiguous_tree(predicate))
        try:
            check_predicate(request.predicate)
        except UnsupportedError as problem:
            return request.for_spark_only(str(problem))
        return request


def _check_supported(source: Source) -> None:
    """Raise BadSpecError for parameters of a source that need the JVM of a session."""
    parameters = {
        "max_malformed": source.max_malformed is not None,
        "on_schema_conflict": source.on_schema_conflict is not OnSchemaConflict.ERROR,
        "on_missing_column": source.on_missing_column is not OnMissingColumn.NULL,
    }
    for parameter, is_set in parameters.items():
        if is_set:
            raise BadSpecError(
                f"{source.parameter(parameter)}: not possible over Spark Connect; leave it out, or use a connection of "
                "type spark"
            )


def _load(spark: SparkSession, source: Source) -> DataFrame:
    options = dict(source.options)
    if source.orc.sarg_to_filter is not None:
        options[SARG_TO_FILTER] = str(source.orc.sarg_to_filter).lower()
    if source.table is not None:
        return spark.read.options(**options).table(source.table)
    if source.format in _MERGED_FORMATS and source.schema is None:
        options.setdefault("mergeschema", "true")
    reader = spark.read.format(spark_format(source.format.value)).options(**options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(list(source.paths))
