"""Assembly of Arrow arrays from the slots that an executor filled."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.types import GREGORIAN_DAY, GREGORIAN_MICROS
from pushdown_spark.formats.avro.column_layout import (
    ColumnLayout,
    LeafLayout,
    ListLayout,
    NullLayout,
    SlotContent,
    StructLayout,
    UnionLayout,
    Validity,
)
from pushdown_spark.formats.avro.executor import Bytes, Numbers, SlotValues, compiled_copy, is_compiled

_MICROS_PER_MILLI = 1_000
_MAX_MILLIS = (2**63 - 1) // _MICROS_PER_MILLI
_MAX_OFFSET = 2**31 - 1
"""The largest offset in Arrow's arrays of strings and lists."""
_LENGTH_MASK = 0xFFFF_FFFF
_DECIMAL_SIZE = 16
"""Bytes of a 128-bit decimal."""

_Bools = npt.NDArray[np.bool_]


class ColumnAssembler:
    """Assembles the columns of some records.

    With `has_corrected_calendar`, dates and timestamps are taken as stored. Without it, old ones are rejected, because
    Spark may convert them from another calendar.
    """

    def __init__(self, slots: SlotValues, *, has_corrected_calendar: bool) -> None:
        self._slots = slots
        self._has_corrected_calendar = has_corrected_calendar

    def column(self, layout: ColumnLayout) -> pa.Array:
        """Return a column of all records.

        Raises ValueError for damaged values, and UnsafeInputError for values that Spark reads in another way.
        """
        return self._array(layout, self._slots.rows)

    def _array(self, layout: ColumnLayout, rows: int) -> pa.Array:
        match layout:
            case LeafLayout():
                values, valid = self._slots.values[layout.slot], self._slots.valid[layout.slot]
                nulls = None if valid.all() else _bits(valid)
                buffers = [nulls, *self._buffers(layout, values, valid)]
                return pa.Array.from_buffers(layout.type, len(values), buffers)
            case NullLayout():
                return pa.nulls(rows, layout.type)
            case StructLayout():
                members = [self._array(member, rows) for member in layout.members]
                mask = self._mask(layout.validity)
                if not members:
                    return pa.StructArray.from_buffers(layout.type, rows, [None if mask is None else _bits(~mask)])
                return pa.StructArray.from_arrays(
                    members, fields=list(layout.type), mask=None if mask is None else pa.array(mask)
                )
            case ListLayout():
                offsets, items = self._offsets(layout.slot)
                mask = self._mask(layout.validity)
                return pa.ListArray.from_arrays(
                    offsets,
                    self._array(layout.item, items),
                    type=layout.type,
                    mask=None if mask is None else pa.array(mask),
                )
            case UnionLayout():
                return pc.coalesce(*(self._array(alternative, rows) for alternative in layout.alternatives))

    def _offsets(self, slot: int) -> tuple[pa.Array, int]:
        """Return the offsets of the lists whose lengths are in a slot, and the number of items."""
        lengths = self._slots.values[slot]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        if offsets[-1] > _MAX_OFFSET:
            raise ValueError("there are more items than an Arrow array can have")
        return pa.array(offsets.astype(np.int32)), int(offsets[-1])

    def _mask(self, validity: Validity | None) -> _Bools | None:
        """Return an array with True for nulls, or None if there are no nulls."""
        if validity is None:
            return None
        branches = self._slots.values[validity.slot]
        mask: _Bools = (branches == validity.branch) if validity.is_null_branch else (branches != validity.branch)
        return mask if mask.any() else None

    def _buffers(self, layout: LeafLayout, values: Numbers, valid: Bytes) -> list[pa.Buffer]:
        """Return the buffers of a leaf, except the buffer of its nulls."""
        match layout.content:
            case SlotContent.BOOLEAN:
                return [_bits(values == 1)]
            case SlotContent.FLOAT:
                return [_numbers(values.astype(np.int32).view(np.float32), layout.type)]
            case SlotContent.DOUBLE:
                return [_numbers(values.view(np.float64), layout.type)]
            case SlotContent.BYTES:
                return list(gather_bytes(self._slots.data, values))
            case SlotContent.DECIMAL:
                return [pa.py_buffer(decimal_bytes(self._slots.data, values, valid, layout.type.precision))]
            case SlotContent.SYMBOL:
                return _symbols(layout.symbols, values)
            case SlotContent.MILLISECONDS:
                if len(values) and (values.max() > _MAX_MILLIS or values.min() < -_MAX_MILLIS):
                    raise UnsafeInputError("there are times that do not fit into microseconds")
                values = values * _MICROS_PER_MILLI
        self._check_calendar(layout.type, values)
        return [_numbers(values, layout.type)]

    def _check_calendar(self, type_: pa.DataType, values: Numbers) -> None:
        if self._has_corrected_calendar or not len(values):
            return
        if pa.types.is_date32(type_) and values.min() < GREGORIAN_DAY:
            raise UnsafeInputError("there are dates before 1582-10-15, which Spark may read in another calendar")
        if pa.types.is_timestamp(type_) and type_.tz is not None and values.min() < GREGORIAN_MICROS:
            raise UnsafeInputError("there are times before 1900, which Spark may read in another calendar")


def _numbers(values: npt.NDArray[np.generic], type_: pa.DataType) -> pa.Buffer:
    """Return numbers as the requested type stores them. Dates and timestamps are stored as integers."""
    if pa.types.is_floating(type_):
        return pa.py_buffer(np.ascontiguousarray(values, np.float32 if type_ == pa.float32() else np.float64))
    return pa.py_buffer(np.ascontiguousarray(values, np.int32 if type_.bit_width == 32 else np.int64))


def _symbols(symbols: tuple[str, ...], values: Numbers) -> list[pa.Buffer]:
    if len(values) and not 0 <= values.min() <= values.max() < len(symbols):
        raise ValueError("an enum has a symbol that its type does not have")
    strings = pa.array(symbols, pa.string()).take(pa.array(values))
    return list(strings.buffers()[1:])


def _bits(flags: _Bools | Bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def gather_bytes(data: Bytes, references: Numbers) -> tuple[pa.Buffer, pa.Buffer]:
    """Return the offsets and the bytes of values, given their references (offset << 32 | length) into `data`."""
    lengths = references & _LENGTH_MASK
    offsets = np.zeros(len(references) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MAX_OFFSET:
        raise ValueError("there are more bytes than an Arrow array can have")
    if is_compiled():
        content = np.empty(int(offsets[-1]), np.uint8)
        compiled_copy()(data, references, content)
    else:
        positions = np.arange(int(offsets[-1])) + np.repeat((references >> 32) - offsets[:-1], lengths)
        content = data[positions]
    return pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(content)


def decimal_bytes(data: Bytes, references: Numbers, valid: Bytes, precision: int) -> bytes:
    """Convert big-endian two's complement numbers of any length to 128-bit little-endian numbers.

    Raises UnsafeInputError for a number with more digits than `precision`, and ValueError for one without bytes.
    """
    lengths = references & _LENGTH_MASK
    starts = references >> 32
    if len(lengths) and int(lengths.max()) > _DECIMAL_SIZE:
        raise UnsafeInputError("there are decimals of more than 16 bytes; read it with reader='spark'")
    if ((lengths == 0) & (valid == 1)).any():
        raise ValueError("a decimal has no bytes")
    wide = np.zeros((len(references), _DECIMAL_SIZE), np.uint8)
    if len(references) and int(lengths.min()) == int(lengths.max()):
        _widen_equal_lengths(data, starts, int(lengths[0]), wide)
    else:
        _widen(data, starts, lengths, wide)
    _check_digits(wide, precision)
    return wide.tobytes()


def _widen(data: Bytes, starts: Numbers, lengths: Numbers, wide: Bytes) -> None:
    """Write the numbers in reverse byte order, and extend their signs."""
    for byte in range(_DECIMAL_SIZE):
        has_byte = lengths > byte
        wide[has_byte, byte] = data[(starts + lengths - 1 - byte)[has_byte]]
    negative = np.zeros(len(lengths), np.bool_)
    not_empty = lengths > 0
    negative[not_empty] = data[starts[not_empty]] > 127
    extension = np.arange(_DECIMAL_SIZE) >= lengths[:, None]
    wide[extension & negative[:, None]] = 255


def _widen_equal_lengths(data: Bytes, starts: Numbers, length: int, wide: Bytes) -> None:
    """Do the same for numbers of one length, such as those of a fixed type without nulls."""
    for byte in range(length):
        wide[:, byte] = data[starts + (length - 1 - byte)]
    if length:
        wide[wide[:, length - 1] > 127, length:] = 255


def _check_digits(wide: Bytes, precision: int) -> None:
    low = wide.view(np.uint64)[:, 0]
    high = wide.view(np.int64)[:, 1]
    fits_64_bits = ((high == 0) & (low < 2**63)) | ((high == -1) & (low >= 2**63))
    limit = 10**precision
    if precision <= 18:
        fits = fits_64_bits & (low.view(np.int64) < limit) & (low.view(np.int64) > -limit)
        if not fits.all():
            raise UnsafeInputError(f"there are decimals of more than {precision} digits; read it with reader='spark'")
        return
    for row in np.flatnonzero(~fits_64_bits):
        if abs((int(high[row]) << 64) + int(low[row])) >= limit:
            raise UnsafeInputError(f"there are decimals of more than {precision} digits; read it with reader='spark'")
