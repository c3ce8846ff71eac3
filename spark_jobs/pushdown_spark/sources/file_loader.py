"""Spark's own reader over the files of a source."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.types import StructType

from pushdown_spark.contract import ErrorCode, SourceFormat
from pushdown_spark.runtime.error_classification import typed_error
from pushdown_spark.runtime.spark_internals import set_schema, spark_format
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.parquet_schema import FooterSchema, footer_schema
from pushdown_spark.sources.stores.listing import Listing

SCHEMA_CONDITIONS = frozenset({"UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", "UNABLE_TO_INFER_SCHEMA"})
"""Spark's error conditions for a schema that the format does not support, and for files without a schema."""


@dataclass(frozen=True)
class FileLoader:
    """Loads the files of a source with Spark's own reader. `schema` replaces the declared or inferred one."""

    spark: SparkSession
    source: Source
    schema: StructType | None = None

    def load(self, options: Mapping[str, str] | None = None, schema: StructType | None = None) -> Listing:
        """List the files for Spark's own DataFrame, with additional options and another schema if given.

        Raises typed errors for a declared schema or a path that Spark rejects.
        """
        source, schema = self.source, schema or self.schema
        reader = self._reader({**source.options, **(options or {})})
        try:
            if schema is not None:
                reader = reader.schema(schema)
            elif source.schema is not None:
                reader = reader.schema(source.schema)
            elif self._footer is not None:
                set_schema(reader, self._footer.schema)
        except (AnalysisException, ParseException) as problem:
            raise typed_error(problem, about=source.parameter("schema"), text_error=ErrorCode.BAD_SCHEMA) from problem
        try:
            listing = Listing(reader.load(list(source.paths)))
        except (PySparkException, Py4JJavaError) as problem:
            is_schema = isinstance(problem, PySparkException) and problem.getCondition() in SCHEMA_CONDITIONS
            parameter = "schema" if is_schema else "path"
            raise typed_error(problem, about=source.parameter(parameter)) from problem
        if schema is not None or source.schema is not None:
            return listing
        # Some modes of CSV reject lines whose values do not parse, also in columns that a query does not read.
        keeps_types = source.format is SourceFormat.CSV and "mode" in source.options
        return listing if keeps_types else listing.with_partition_types()

    def infer_schema(self, paths: Sequence[str]) -> StructType:
        """Return the schema that Spark infers for some files. Names in a Parquet footer may differ only in case."""
        options = {key: value for key, value in self.source.options.items() if key != "basepath"}
        footer = self._footer
        if footer is None or list(paths) != [footer.path]:
            footer = footer_schema(self.spark, replace(self.source, paths=tuple(paths), options=options))
        if footer is not None:
            return StructType.fromJson(json.loads(str(footer.schema.asNullable().json())))
        return self._reader(options).load(list(paths)).schema

    @cached_property
    def _footer(self) -> FooterSchema | None:
        """The Parquet footer from which Spark would infer the schema of the source. It is read once."""
        return footer_schema(self.spark, self.source)

    def _reader(self, options: Mapping[str, str]) -> DataFrameReader:
        return self.spark.read.format(spark_format(self.source.format.value)).options(**options)
