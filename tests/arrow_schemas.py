"""Arrow schemas of Spark schemas."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as t

from pushdown_spark.expressions.arrow_types import utc_arrow_type


def utc_arrow_schema(schema: t.StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, with timestamps in UTC."""
    return pa.schema([pa.field(field.name, utc_arrow_type(field.dataType), field.nullable) for field in schema.fields])
