"""Strings are converted to exact decimals, rounded as Spark rounds, or raise an error."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pytest
from databases import Server
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pushdown_spark.contract import ErrorCode
from pushdown_spark.databases.clients.arrow_conversion import spark_batch
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

BEYOND = "731726635537760757507.6"
"""Times 10^18, cut off at 128 bits, this is a number of 38 digits."""
DIGITS = st.text("0123459", min_size=1, max_size=25)
PLAIN = st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), DIGITS, DIGITS)
STRINGS = st.one_of(
    st.none(),
    PLAIN,
    st.builds("{}{}".format, st.sampled_from(["", "-"]), DIGITS),
    st.builds("{}e{}".format, PLAIN, st.integers(-30, 30)),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e22, max_value=1e22).map(repr),
)


@st.composite
def types(draw: st.DrawFn) -> pa.Decimal128Type:
    precision = draw(st.integers(1, 38))
    return pa.decimal128(precision, draw(st.integers(0, precision)))


def expected(text: str | None, target: pa.Decimal128Type) -> Decimal | None:
    """Return the decimal of a string. Raises InvalidOperation if the type has too few digits."""
    if text is None:
        return None
    context = Context(prec=2000, rounding=ROUND_HALF_UP)
    actual = Decimal(text).quantize(Decimal(1).scaleb(-target.scale), context=context)
    return Context(prec=target.precision, traps=[InvalidOperation]).quantize(actual, Decimal(1).scaleb(-target.scale))


@settings(max_examples=1_000, deadline=None)
@given(target=types(), strings=st.lists(STRINGS, min_size=1, max_size=4))
@example(target=pa.decimal128(38, 18), strings=[BEYOND])
@example(target=pa.decimal128(15, 2), strings=["48759.840000000004", "0.285", None])
def test_strings_are_converted_to_exact_decimals(target: pa.Decimal128Type, strings: list[str | None]) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(strings, pa.string())], ["d"])
    try:
        actual = [expected(text, target) for text in strings]
    except InvalidOperation:
        with pytest.raises(SchemaConflictError, match="column d holds"):
            spark_batch(batch, [pa.field("d", target)])
    else:
        assert spark_batch(batch, [pa.field("d", target)])["d"].to_pylist() == actual


def test_a_number_beyond_sparks_decimals_raises(postgresql_server: Server, spark: SparkSession) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS large", "CREATE TABLE large (d numeric)", f"INSERT INTO large VALUES ({BEYOND})"
    )
    session = PushdownSession(spark)
    session.add_remote("source", postgresql_server.connection(), table="large")
    with pytest.raises(Exception) as error:  # noqa: PT011 - what Spark makes of it is classified
        session.scan("source").run(lambda frame: frame.collect())
    report = classify(error.value)
    assert report.code is ErrorCode.SCHEMA_CONFLICT
    assert BEYOND in report.message
