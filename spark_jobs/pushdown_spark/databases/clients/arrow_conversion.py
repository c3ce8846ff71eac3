"""Conversion of the values that a driver delivers to the Arrow types that Spark expects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from pushdown_spark.databases.column_values import FIRST_DAY, FIRST_MICROS, LAST_DAY, LAST_MICROS
from pushdown_spark.errors import SchemaConflictError
from pushdown_spark.expressions.types import MAX_DECIMAL_DIGITS

REMOTE_TYPE = b"remote_type"
"""Metadata key of a field: the column's type in the database, for error messages."""

_RANGES = {
    pa.date32(): (FIRST_DAY, LAST_DAY, pa.int32()),
    pa.timestamp("us"): (FIRST_MICROS, LAST_MICROS, pa.int64()),
}
"""The first and last values that Spark can represent, and their integer type."""
MAX_SHOWN_CHARACTERS = 60
"""Characters of a value in a message."""
REMEDY = "leave the column out, or give a `query` that converts it"


@dataclass(frozen=True)
class CsvRows:
    """A parser of rows that a database wrote as CSV. NULL is an empty field, and an empty string is two quotes.

    `booleans` are the spellings of true and false.
    """

    columns: Sequence[pa.Field]
    booleans: tuple[str, str]

    def batches(self, lines: bytes | bytearray | memoryview) -> Iterator[pa.RecordBatch]:
        """Yield complete rows. Raises pyarrow's errors for values that do not fit the type of their column."""
        names = [field.name for field in self.columns]
        # All lines are one block, because a row must not be longer than a block.
        read = csv.ReadOptions(column_names=names, use_threads=False, block_size=len(lines))
        parse = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False)
        true, false = self.booleans
        convert = csv.ConvertOptions(
            column_types={field.name: field.type for field in self.columns},
            null_values=[""],
            true_values=[true],
            false_values=[false],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        table = csv.read_csv(pa.BufferReader(pa.py_buffer(lines)), read, parse, convert)
        yield from table.combine_chunks().to_batches()


def spark_batch(batch: pa.RecordBatch, fields: Sequence[pa.Field]) -> pa.RecordBatch:
    """Return the batch with the types of `fields`. Raises SchemaConflictError for values that Spark cannot hold."""
    arrays = [_convert_column(batch.column(index), field) for index, field in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([field.remove_metadata() for field in fields]))


def _convert_column(array: pa.Array, field: pa.Field) -> pa.Array:
    try:
        result = _convert(array, field.type)
        _check_range(result)
    except (pa.ArrowException, InvalidOperation, UnicodeDecodeError) as problem:
        raise _conflict(array, field, problem) from None
    return result


def _convert(array: pa.Array, target: pa.DataType) -> pa.Array:
    source = array.type
    if pa.types.is_decimal(target) and pa.types.is_integer(source):
        # The integers are unscaled: the same bits are the decimal.
        return array.cast(pa.int64()).cast(pa.decimal128(19, 0)).view(target)
    if pa.types.is_decimal(target) and _is_string(source):
        return _parse_decimals(array, target)
    if pa.types.is_boolean(target) and pa.types.is_integer(source):
        return pc.not_equal(array, 0)
    if pa.types.is_timestamp(target) and _is_string(source):
        # All sessions are in UTC. PostgreSQL appends the offset to each value.
        without_offset = pc.replace_substring_regex(array, r"\+00$", "") if target.tz else array
        return without_offset.cast(pa.timestamp("us")).cast(target)
    if source == target:
        if pa.types.is_string(target):
            array.validate(full=True)
        return array
    return array.cast(target, safe=not pa.types.is_floating(target))


def _parse_decimals(array: pa.Array, target: pa.Decimal128Type) -> pa.Array:
    """Return decimals of strings. Digits beyond the scale are rounded half up, as Spark rounds them.

    Arrow 26 silently returns wrong decimals for strings that do not fit 128 bits. Python parses those.
    """
    integer_digits, fraction_digits = _max_digits(array)
    # SQLite writes doubles with up to 17 digits, so the intermediate type has the largest scale that fits.
    wide = pa.decimal128(MAX_DECIMAL_DIGITS, MAX_DECIMAL_DIGITS - target.precision + target.scale)
    fits = integer_digits <= target.precision - target.scale and fraction_digits <= wide.scale
    if fits and not _has_exponents(array):
        with suppress(pa.ArrowInvalid):
            if fraction_digits <= target.scale:
                return array.cast(target)
            return pc.round(array.cast(wide), target.scale, round_mode="half_towards_infinity").cast(target)
    context, unit = Context(prec=2000, rounding=ROUND_HALF_UP), Decimal(1).scaleb(-target.scale)
    decimals = [None if text is None else Decimal(text).quantize(unit, context=context) for text in array.to_pylist()]
    return pa.array(decimals, target)


def _max_digits(array: pa.Array) -> tuple[int, int]:
    """Return the largest numbers of digits before the point, without leading zeros, and after it."""
    digits = pc.ascii_ltrim(array, "+-0")
    lengths, points = pc.binary_length(digits), pc.find_substring(digits, ".")
    integer_digits = pc.if_else(pc.less(points, 0), lengths, points)
    fraction_digits = pc.subtract(pc.subtract(lengths, integer_digits), 1)
    return pc.max(integer_digits).as_py() or 0, pc.max(fraction_digits).as_py() or 0


def _has_exponents(array: pa.Array) -> bool:
    return any(pc.any(pc.match_substring(array, letter)).as_py() for letter in "eE")


def _check_range(array: pa.Array) -> None:
    """Raise ArrowInvalid for infinite dates and dates outside the years 1 to 9999.

    They arrive as integers far out of range, which Spark would accept.
    """
    values = array
    while pa.types.is_list(values.type):
        values = values.flatten()
    naive = pa.timestamp("us") if pa.types.is_timestamp(values.type) else values.type
    if naive not in _RANGES or not len(values):
        return
    first, last, integer_type = _RANGES[naive]
    bounds = pc.min_max(values.cast(integer_type)).as_py()
    if bounds["min"] is not None and (bounds["min"] < first or bounds["max"] > last):
        raise pa.ArrowInvalid("a date or time that is infinite or outside the years 1 to 9999")


def _is_string(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _conflict(array: pa.Array, field: pa.Field, problem: BaseException) -> SchemaConflictError:
    """Return the error that names the column and the first value that cannot be converted."""
    remote_type = ((field.metadata or {}).get(REMOTE_TYPE) or b"").decode()
    type_note = f" ({remote_type})" if remote_type else ""
    value = _first_invalid(array, field.type)
    cause = "" if value else f" ({' '.join(str(problem).split())})"
    return SchemaConflictError(
        f"column {field.name}{type_note} holds {value or 'a value'}, which Spark cannot represent as "
        f"{_type_name(field.type)}{cause}; {REMEDY}"
    )


def _first_invalid(array: pa.Array, target: pa.DataType) -> str:
    """Return the first string that cannot be converted, quoted, or an empty string if the values are not strings."""
    if not _is_string(array.type):
        return ""
    for index in range(len(array)):
        try:
            _convert(array.slice(index, 1), target)
        except (pa.ArrowException, InvalidOperation):
            text = repr(array[index].as_py())
            return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[:MAX_SHOWN_CHARACTERS]}..."
    return ""


def _type_name(data_type: pa.DataType) -> str:
    if pa.types.is_decimal(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pa.types.is_date(data_type):
        return "date"
    return "timestamp" if pa.types.is_timestamp(data_type) else str(data_type)
