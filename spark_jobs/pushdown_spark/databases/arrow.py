"""Turn the columns that a driver delivers into the ones that Spark takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import SchemaConflictError

REMOTE_TYPE = b"remote_type"
"""Metadata of a wanted field: the column's type in the database, for messages."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY = 86_400_000_000
_RANGES = {
    pa.date32(): (_FIRST_DAY, _LAST_DAY, pa.int32()),
    pa.timestamp("us"): (_FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1, pa.int64()),
}
"""Days and microseconds that Spark's years 1 to 9999 have."""
_SHOWN = 60
_MOST_DIGITS = 38


def spark_batch(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """The batch with the wanted types. Raises SchemaConflictError, naming the column, for values that Spark has not."""
    arrays = [_column(batch.column(place), field) for place, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.remove_metadata() for field in fields]))


def _column(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        converted = _converted(array, field.type)
        _check_range(converted)
    except (pa.ArrowException, InvalidOperation, UnicodeDecodeError) as problem:
        raise _conflict(array, field, problem) from None
    return converted


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    delivered = array.type
    if pa.types.is_decimal(wanted) and pa.types.is_integer(delivered):
        return scaled_decimal(array, wanted)
    if pa.types.is_decimal(wanted) and _is_text(delivered):
        return _decimal(array, wanted)
    if pa.types.is_boolean(wanted) and pa.types.is_integer(delivered):
        return pc.not_equal(array, 0)
    if pa.types.is_timestamp(wanted) and _is_text(delivered):
        # All sessions are in UTC; PostgreSQL says so with every value.
        unzoned = pc.replace_substring_regex(array, r"\+00$", "") if wanted.tz else array
        return unzoned.cast(pa.timestamp("us")).cast(wanted)
    if delivered == wanted:
        if pa.types.is_string(wanted):
            array.validate(full=True)
        return array
    return array.cast(wanted, safe=not pa.types.is_floating(wanted))


def scaled_decimal(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Decimals of integers that hold their digits without the point: 128 bits each, the upper half the sign."""
    values = array.cast(pa.int64()).fill_null(0).to_numpy()
    words = np.empty((len(values), 2), dtype=np.int64)
    words[:, 0] = values
    words[:, 1] = values >> 63
    nulls = array.is_valid().buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(wanted, len(values), [nulls, pa.py_buffer(words)])


def _decimal(array: pa.Array, wanted: pa.Decimal128Type) -> pa.Array:
    """Decimals of texts; digits behind the scale are rounded as Spark rounds them.

    Arrow (26) makes wrong decimals without a word of texts that its 128 bits do not hold: it gets none of those.
    """
    before, behind = _most_digits(array)
    # As many digits behind the point as there is room for: SQLite shows doubles with 17.
    wide = pa.decimal128(_MOST_DIGITS, _MOST_DIGITS - wanted.precision + wanted.scale)
    if before <= wanted.precision - wanted.scale and behind <= wide.scale and not _has_exponents(array):
        with suppress(pa.ArrowInvalid):
            if behind <= wanted.scale:
                return array.cast(wanted)
            return pc.round(array.cast(wide), wanted.scale, round_mode="half_towards_infinity").cast(wanted)
    context, unit = Context(prec=2000, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-wanted.scale)
    rounded = [None if text is None else Decimal(text).quantize(unit, context=context) for text in array.to_pylist()]
    return pa.array(rounded, wanted)


def _most_digits(array: pa.Array) -> tuple[int, int]:
    """Digits before the point that texts have at most, leading zeros aside, and behind it."""
    digits = pc.ascii_ltrim(array, "+-0")
    lengths, points = pc.binary_length(digits), pc.find_substring(digits, ".")
    before = pc.if_else(pc.less(points, 0), lengths, points)
    behind = pc.subtract(pc.subtract(lengths, before), 1)
    return pc.max(before).as_py() or 0, pc.max(behind).as_py() or 0


def _has_exponents(array: pa.Array) -> bool:
    return any(pc.any(pc.match_substring(array, letter)).as_py() for letter in "eE")


def _check_range(array: pa.Array) -> None:
    """Infinite dates and those beyond year 9999 arrive as days far away; Spark would take them for such."""
    values = array
    while pa.types.is_list(values.type):
        values = values.flatten()
    naive = pa.timestamp("us") if pa.types.is_timestamp(values.type) else values.type
    if naive not in _RANGES or not len(values):
        return
    first, last, plain = _RANGES[naive]
    bounds = pc.min_max(values.cast(plain)).as_py()
    if bounds["min"] is not None and (bounds["min"] < first or bounds["max"] > last):
        raise pa.ArrowInvalid("a date or time that is infinite, or not between the years 1 and 9999")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _conflict(array: pa.Array, field: pa.Field, problem: BaseException) -> SchemaConflictError:
    """The error that names the column and the first value at fault."""
    remote_type = ((field.metadata or {}).get(REMOTE_TYPE) or b"").decode()
    said = f" ({remote_type})" if remote_type else ""
    value = _first_bad(array, field.type)
    why = "" if value else f" ({' '.join(str(problem).split())})"
    return SchemaConflictError(
        f"column {field.name}{said} holds {value or 'a value'} that is no {_name(field.type)} to Spark{why}; leave the "
        "column out, or give a `query` that converts it"
    )


def _first_bad(array: pa.Array, wanted: pa.DataType) -> str:
    """The first value that cannot be converted, as it arrived; empty where that is no text."""
    if not _is_text(array.type):
        return ""
    for place in range(len(array)):
        try:
            _converted(array.slice(place, 1), wanted)
        except (pa.ArrowException, InvalidOperation):
            text = repr(array[place].as_py())
            return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return ""


def _name(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "date" if pa.types.is_date(kind) else "timestamp" if pa.types.is_timestamp(kind) else str(kind)
