"""Decimals are encoded without rounding, up to 38 digits."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pushdown_spark.expressions.byte_patterns.avro_encoding import EncodedColumn, Encoding, encodings, exact_bytes


@pytest.mark.parametrize(
    "digits", ["12345678901234567890123456789012345678", "-99999999999999999999999999999999999999", "7"]
)
def test_decimals_of_38_digits_are_encoded_without_rounding(digits: str) -> None:
    expression = exact_bytes(int(digits).to_bytes(16, "big", signed=True))
    value = Decimal((0 if digits[0] != "-" else 1, tuple(map(int, digits.lstrip("-"))), -10))
    assert encodings(EncodedColumn(Encoding.FIXED_DECIMAL, size=16, scale=10), value) == [expression]
