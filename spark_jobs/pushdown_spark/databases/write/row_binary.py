"""Rows in the binary format of PostgreSQL's COPY, which the server reads faster than CSV.

A row is the number of its fields, and for each field its length and its bytes, in network byte order. The length of
NULL is -1. Arrow and numpy build a whole batch at once, from parts of all rows:

    fixed     bytes of the same size in all rows, as a matrix: lengths, and numbers without NULLs
    variable  an array of Arrow: strings, binary values, and numbers of a column with NULLs

The types of the columns decide about the format, so that values are cast to them first. Workers import this module,
so it imports little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.databases.column_values import TargetColumn

_HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"
_NULL = -1
"""The length of NULL."""
_INTEGERS = {"smallint": pa.int16(), "integer": pa.int32(), "bigint": pa.int64()}
_FLOATS = {"real": pa.float32(), "double precision": pa.float64()}
_BYTES = re.compile(r"(?:text|bytea|json|character(?: varying)?)(?:\(\d+\))?")
"""Types whose binary form is that of the text or of the bytes."""
_NUMERIC = re.compile(r"numeric(?:\(\d+,\d+\))?")
_TIMESTAMP = re.compile(r"timestamp(?:\(\d\))? with(?:out)? time zone")
_FIRST_DAY, _FIRST_MICROS = 10_957, 946_684_800_000_000
"""PostgreSQL counts from the year 2000, Arrow from 1970."""
_BASE, _BASE_DIGITS = 10_000, 4
"""Numerics consist of digits to this base."""
_MAX_LONG_DIGITS = 18
"""Decimal digits that fit into 64 bits."""
_NEGATIVE = 0x4000
"""The sign of a negative numeric."""
Bytes = npt.NDArray[np.uint8]
"""A fixed part."""


def binary_rows(columns: Sequence[TargetColumn], batch: pa.RecordBatch) -> list[memoryview] | None:
    """Return the content of a COPY in parts, or None if a column has a type or a value that only CSV has.

    The batch has at least one row.
    """
    rows = batch.num_rows
    parts = [_encode(np.full(rows, len(columns)), ">i2")]
    for column, values in zip(columns, batch.columns, strict=True):
        field = _encode_field(column.column_type, values)
        if field is None:
            return None
        parts += field
    _, offsets, data = pc.binary_join_element_wise(*_join_fixed(parts), b"").buffers()
    size = int(np.frombuffer(offsets, np.int32)[rows])
    return [memoryview(_HEADER), memoryview(data)[:size], memoryview(_TRAILER)]


def _encode_field(column_type: str, values: pa.Array) -> list[Bytes | pa.Array] | None:
    """Return the lengths and the bytes of a column in parts, or None if only CSV has the type or a value."""
    if _BYTES.fullmatch(column_type):
        lengths = pc.fill_null(pc.binary_length(values), _NULL).to_numpy(zero_copy_only=False)
        return [_encode(lengths, ">i4"), pc.fill_null(values.cast(pa.binary()), b"")]
    content = _encode_numbers(column_type, values)
    if content is None:
        return None
    field = [_encode(np.full(len(values), content.shape[1]), ">i4"), content]
    if not values.null_count:
        return field
    null = pa.scalar(np.array([_NULL], ">i4").tobytes())
    return [pc.if_else(values.is_valid(), _to_arrow(np.hstack(field)), null)]


def _join_fixed(parts: Iterable[Bytes | pa.Array]) -> Iterator[pa.Array]:
    """Yield all parts as arrays of Arrow, with adjacent fixed parts as one."""
    for is_fixed, group in groupby(parts, key=lambda part: isinstance(part, np.ndarray)):
        if is_fixed:
            yield _to_arrow(np.hstack(list(group)))
        else:
            yield from group


def _encode_numbers(column_type: str, values: pa.Array) -> Bytes | None:
    """Return the bytes of each value, with the bytes of 0 for NULL, or None if only CSV has the type or a value."""
    if column_type in _INTEGERS and pa.types.is_integer(values.type):
        kind = _INTEGERS[column_type]
        return _encode(_fill_nulls(values.cast(kind)), f">i{kind.bit_width // 8}")
    if column_type in _FLOATS and not pa.types.is_decimal(values.type):
        kind = _FLOATS[column_type]
        return _encode(_fill_nulls(values.cast(kind, safe=False)), f">f{kind.bit_width // 8}")
    if column_type == "boolean":
        return _encode(_fill_nulls(values.cast(pa.uint8())), ">u1")
    if column_type == "date":
        return _encode(_fill_nulls(values.cast(pa.int32())) - _FIRST_DAY, ">i4")
    if _TIMESTAMP.fullmatch(column_type):
        return _encode(_fill_nulls(values.cast(pa.int64())) - _FIRST_MICROS, ">i8")
    return _encode_numerics(values) if _NUMERIC.fullmatch(column_type) else None


def _encode_numerics(values: pa.Array) -> Bytes | None:
    """Return numerics: number of digits, weight of the first one, sign, scale, and the digits.

    The server removes zeros on both sides, so that all values of a batch have the same number of digits.
    """
    is_decimal = pa.types.is_decimal(values.type)
    scale = values.type.scale if is_decimal else 0
    integers = _unscale(values) if is_decimal else _fill_nulls(values.cast(pa.int64())).astype(np.int64)
    if integers is None:
        return None
    after = -(-scale // _BASE_DIGITS)
    shift = after * _BASE_DIGITS - scale
    largest = max(abs(int(integers.max(initial=0))), abs(int(integers.min(initial=0)))) * 10**shift
    if largest >= 10**_MAX_LONG_DIGITS:
        return None
    rest = np.abs(integers) * 10**shift
    digits: list[npt.NDArray[np.int64]] = []
    while len(digits) <= after or largest >= _BASE ** len(digits):
        rest, digit = np.divmod(rest, _BASE)
        digits.insert(0, digit)
    parts = np.zeros((len(values), 4 + len(digits)), ">i2")
    parts[:, 0], parts[:, 1], parts[:, 3] = len(digits), len(digits) - after - 1, scale
    parts[:, 2] = np.where(integers < 0, _NEGATIVE, 0)
    for position, digit in enumerate(digits):
        parts[:, 4 + position] = digit
    return parts.view(np.uint8)


def _unscale(values: pa.Array) -> npt.NDArray[np.int64] | None:
    """Return decimals as integers, with 0 for NULL, or None if one has more than 64 bits."""
    data = values.buffers()[1]
    words = np.frombuffer(data, "<i8")[values.offset * 2 : (values.offset + len(values)) * 2].reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    if values.null_count:
        is_valid = values.is_valid().to_numpy(zero_copy_only=False)
        low, high = np.where(is_valid, low, 0), np.where(is_valid, high, 0)
    return None if np.any(high != low >> 63) else low


def _fill_nulls(values: pa.Array) -> npt.NDArray[np.number]:
    """Return the values, with 0 for NULL."""
    plain: npt.NDArray[np.number] = pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)
    return plain


def _encode(values: npt.NDArray[np.number], kind: str) -> Bytes:
    """Return numbers as bytes, a row for each."""
    numbers = np.ascontiguousarray(values.astype(kind))
    return numbers.view(np.uint8).reshape(len(values), numbers.itemsize)


def _to_arrow(content: Bytes) -> pa.Array:
    """Return rows of bytes as an array of Arrow."""
    rows, size = content.shape
    offsets = np.arange(0, rows * size + 1, size, dtype=np.int32)
    return pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
    )
