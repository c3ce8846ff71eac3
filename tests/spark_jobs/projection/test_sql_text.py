"""Types and strings in generated SQL have the same meaning under every session setting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from pushdown_spark.projection.paths import quote_name, sql_text, sql_type
from pushdown_spark.projection.schema_alignment import ddl

SCHEMA = t.StructType(
    [
        t.StructField("a `b`", t.TimestampType()),
        t.StructField("s", t.StructType([t.StructField("x y", t.TimestampType()), t.StructField("z", t.DateType())])),
        t.StructField("m", t.MapType(t.StringType(), t.ArrayType(t.TimestampNTZType()))),
        t.StructField("d", t.DecimalType(12, 3)),
    ]
)
SETTINGS = {"spark.sql.timestampType": "TIMESTAMP_NTZ", "spark.sql.parser.escapedStringLiterals": "true"}


@pytest.fixture(params=[None, *SETTINGS])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Return a new session with none or one of the settings."""
    other_session = spark.newSession()
    if request.param is not None:
        other_session.conf.set(request.param, SETTINGS[request.param])
    yield other_session
    # `createDataFrame` makes its session the active one.
    spark.createDataFrame([], "id int")


def test_sql_type_parses_to_the_same_type(session: SparkSession) -> None:
    nulls = [f"CAST(NULL AS {sql_type(field.dataType)}) AS {quote_name(field.name)}" for field in SCHEMA.fields]
    assert session.sql(f"SELECT {', '.join(nulls)}").schema == SCHEMA
    assert session.createDataFrame([], ddl(SCHEMA)).schema == SCHEMA


@pytest.mark.parametrize(
    "text", ["", "it's", "a\\n", "\n\t\0", '"x"', "😀 ß", "${spark.app.name}", "${env:HOME}", "$x {y}"]
)
def test_sql_text_evaluates_to_the_same_string(session: SparkSession, text: str) -> None:
    assert session.sql(f"SELECT {sql_text(text)}").head() == (text,)
