"""Checks of the values that a job writes to a column of a database.

A value arrives as it was, or its check raises an error that names the column and the kind of value. Databases would
round decimals and fractions of seconds, cut off spaces, and turn NaN into NULL without an error. Workers import this
module, so it imports little.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnwritableValueError
from pushdown_spark.expressions.types import EPOCH_ORDINAL, MICROSECONDS_PER_DAY

_NUMERIC_STRING = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
FIRST_DAY, LAST_DAY = date.min.toordinal() - EPOCH_ORDINAL, date.max.toordinal() - EPOCH_ORDINAL
FIRST_MICROS, LAST_MICROS = FIRST_DAY * MICROSECONDS_PER_DAY, (LAST_DAY + 1) * MICROSECONDS_PER_DAY - 1
"""The first and last values of the years 1 to 9999, in days and in microseconds since 1970."""


@dataclass(frozen=True, kw_only=True)
class TargetColumn:
    """A column to write, and the limits of its values. Spark pickles it for its workers."""

    name: str
    column_type: str
    """The type in the database."""
    database: str
    """The name of the product."""
    bounds: tuple[int, int] | None = None
    """The first and last integer, or timestamp in microseconds."""
    digits: tuple[int, int] | None = None
    """Precision and scale."""
    max_length: int | None = None
    """The limit in characters, or in bytes for binary types."""
    max_bytes: int | None = None
    """The limit of the encoded form."""
    step: int = 1
    """The unit of fractions of seconds, in microseconds."""
    max_digits: int | None = None
    """The limit of significant digits of decimals in SQLite."""
    max_fraction: int | None = None
    """The number of digits of seconds in a time of day, which arrives as a string."""
    has_nul: bool = True
    has_nan: bool = True
    has_infinity: bool = True
    """Whether the type has the character NUL, NaN and infinity."""
    is_padded: bool = False
    """Set for char(n), whose trailing spaces mean nothing, and for binary(n), whose values all have n bytes."""
    is_single: bool = False
    """Set for floats of 32 bits."""
    is_numeric_text: bool = False
    """Whether SQLite stores strings that look like numbers as numbers."""
    is_required: bool = False
    """Whether the database refuses NULL, or replaces it with another value."""
    labels: tuple[str, ...] = ()
    """The values of an enum or a set."""

    def check(self, values: pa.Array) -> None:
        """Raise UnwritableValueError if the column cannot hold a value."""
        self._check(not (self.is_required and values.null_count), "NULL")
        self._check_values(values)

    def _check_values(self, values: pa.Array) -> None:
        kind = values.type
        if pa.types.is_list(kind):
            self._check_values(values.flatten())
        elif pa.types.is_string(kind):
            self._check_strings(values)
        elif pa.types.is_binary(kind):
            self._check_bytes(pc.binary_length(values))
        elif pa.types.is_integer(kind):
            self._check_integers(values)
        elif pa.types.is_decimal(kind):
            self._check_decimals(values)
        elif pa.types.is_floating(kind):
            self._check_floats(values)
        elif pa.types.is_date(kind):
            is_valid = _is_within(values.cast(pa.int32()), FIRST_DAY, LAST_DAY)
            self._check(is_valid, "a date outside the years 1 to 9999")
        elif pa.types.is_timestamp(kind):
            self._check_timestamps(values.cast(pa.int64()))

    def _check_bytes(self, lengths: pa.Array) -> None:
        self._check_length(lengths, "bytes", self.max_length or self.max_bytes)
        if self.is_padded:
            shortest = pc.min(lengths).as_py()
            self._check(
                shortest in (None, self.max_length), f"a value of {shortest} bytes, to which the type adds bytes"
            )

    def _check_strings(self, values: pa.Array) -> None:
        """Check that the column stores every string unchanged."""
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:
            raise self._error("a string that is not valid UTF-8") from None
        if not self.has_nul:
            self._check(not _any(pc.match_substring(values, "\0")), "a string with a NUL character")
        if self.max_fraction is not None:
            is_long = pc.match_substring_regex(values, rf"\.\d{{{self.max_fraction + 1}}}")
            self._check(not _any(is_long), "a time with more fractional digits than the type has")
        if self.is_numeric_text:
            is_number = pc.match_substring_regex(values, _NUMERIC_STRING)
            self._check(not _any(is_number), "a string that the column would store as a number")
        if self.is_padded:
            self._check(not _any(pc.ends_with(values, " ")), "a string that ends with a space, which the type ignores")
        if self.labels:
            self._check(
                all(map(self._is_label, values.drop_null().unique().to_pylist())),
                "a string that is not one of its labels",
            )
        if self.max_length is not None:
            self._check_length(pc.utf8_length(values), "characters", self.max_length)
        self._check_length(pc.binary_length(values), "bytes", self.max_bytes)

    def _is_label(self, text: str) -> bool:
        """Return whether a string is a label, or for a set some labels in their order."""
        parts = text.split(",") if self.column_type.startswith("set(") else [text]
        return ",".join(label for label in self.labels if label in parts) == text

    def _check_length(self, lengths: pa.Array, unit: str, limit: int | None) -> None:
        if limit is not None:
            longest = pc.max(lengths).as_py() or 0
            self._check(longest <= limit, f"a value of {longest:,} {unit}, and takes at most {limit:,}")

    def _check_integers(self, values: pa.Array) -> None:
        if self.bounds is not None:
            first, last = self.bounds
            self._check(_is_within(values, first, last), f"an integer outside the range {first} to {last}")

    def _check_decimals(self, values: pa.Array) -> None:
        if self.max_digits is not None:
            unscaled = pc.abs(values.view(pa.decimal128(38, 0)))
            is_long = pc.greater_equal(unscaled, pa.scalar(10**self.max_digits, pa.decimal128(38, 0)))
            self._check(not _any(is_long), f"a decimal of more than {self.max_digits} digits, which it would round")
        if self.digits is not None:
            try:
                values.cast(pa.decimal128(*self.digits))
            except pa.ArrowInvalid:
                raise self._error("a decimal with more digits than the type holds") from None
        if self.digits is not None and self.bounds is not None:
            first, last = self.bounds
            bounds = pc.min_max(values).as_py()
            is_within = bounds["min"] is None or (first - 1 < bounds["min"] and bounds["max"] < last + 1)
            self._check(is_within, f"a decimal outside the range {first} to {last}")

    def _check_floats(self, values: pa.Array) -> None:
        self._check(self.has_nan or not _any(pc.is_nan(values)), "NaN")
        self._check(self.has_infinity or not _any(pc.is_inf(values)), "infinity")
        if self.is_single and values.type != pa.float32():
            single = values.cast(pa.float32(), safe=False).cast(pa.float64())
            is_same = pc.or_(pc.equal(single, values), pc.is_nan(values))
            self._check(not _any(pc.invert(is_same)), "a double that is not a float")

    def _check_timestamps(self, micros: pa.Array) -> None:
        first, last = self.bounds or (FIRST_MICROS, LAST_MICROS)
        self._check(_is_within(micros, first, last), "a timestamp outside the range of the type")
        if self.step > 1:
            numbers = micros.drop_null().to_numpy(zero_copy_only=False)
            self._check(not np.any(numbers % self.step), "a timestamp with more fractional digits than the type has")

    def _check(self, is_valid: bool, problem: str) -> None:
        if not is_valid:
            raise self._error(problem)

    def _error(self, problem: str) -> UnwritableValueError:
        return UnwritableValueError(
            f"column {self.name} ({self.column_type} in {self.database}) cannot hold {problem}. Nothing was "
            "committed; convert the value in the query, or change the type of the column"
        )


def _is_within(values: pa.Array, first: int, last: int) -> bool:
    bounds = pc.min_max(values).as_py()
    return bounds["min"] is None or (bounds["min"] >= first and bounds["max"] <= last)


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags).as_py())
