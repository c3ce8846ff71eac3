"""Columns that the columnar readers can read, by type."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import types as t

from pushdown_spark.errors import UnsupportedError
from pushdown_spark.expressions.arrow_types import utc_arrow_type
from pushdown_spark.expressions.scope import logical_type
from pushdown_spark.expressions.types import LogicalType
from pushdown_spark.projection.nested_types import first_type
from pushdown_spark.sources.request import ScanRequest


def arrow_schema(fields: Sequence[t.StructField]) -> pa.Schema:
    """Return the Arrow schema that Spark expects for some columns."""
    return pa.schema([pa.field(field.name, utc_arrow_type(field.dataType)) for field in fields])


def unknown_type(data_type: t.DataType) -> t.DataType | None:
    """Return a type, or a type in it, that only Spark reads, or None."""
    return first_type(data_type, _is_unknown)


def _is_unknown(data_type: t.DataType) -> bool:
    """Return whether only Spark reads values of a type that contains no others."""
    if isinstance(data_type, t.StructType | t.ArrayType | t.MapType):
        return False
    return logical_type(data_type) is LogicalType.OTHER or isinstance(data_type, t.VarcharType)


def check_columns(request: ScanRequest) -> None:
    """Raise UnsupportedError if only Spark reads a required column."""
    for field in request.read_schema.fields:
        if unknown := unknown_type(field.dataType):
            raise UnsupportedError(f"column {field.name} has type {unknown.simpleString()}, which only Spark reads")
        if any("DEFAULT" in key for key in field.metadata):
            raise UnsupportedError(f"column {field.name} has a default for missing values")
