"""Puts Arrow arrays together from what a walk left in its slots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.avro.column_layout import Constant, Either, Leaf, ListOf, Make, Shape, Struct, Validity
from pushdown_spark.formats.avro.executor import Bytes, Filled, Numbers, compiled_copy, is_loaded
from pushdown_spark.predicates.avro_values import GREGORIAN_DAY, GREGORIAN_MICROS

_MILLIS = 1_000
_MAX_MILLIS = (2**63 - 1) // _MILLIS
_MAX_TEXT = 2**31 - 1

_Bools = npt.NDArray[np.bool_]


class Assembler:
    """Makes the columns of one walk. `takes_ancient` tells that dates and times are in today's calendar throughout."""

    def __init__(self, filled: Filled, *, takes_ancient: bool) -> None:
        self._filled = filled
        self._takes_ancient = takes_ancient

    def column(self, shape: Shape) -> pa.Array:
        """A column of all records.

        Raises ValueError for damaged values, and UnsafeInputError for those that Spark reads otherwise.
        """
        return self._array(shape, self._filled.rows)

    def _array(self, shape: Shape, rows: int) -> pa.Array:
        match shape:
            case Leaf():
                return self._leaf(shape)
            case Constant():
                return pa.nulls(rows, shape.type) if not shape.value.is_valid else pa.repeat(shape.value, rows)
            case Struct():
                members = [self._array(member, rows) for member in shape.members]
                mask = self._mask(shape.validity)
                if not members:
                    return pa.StructArray.from_buffers(shape.type, rows, [None if mask is None else _bits(~mask)])
                return pa.StructArray.from_arrays(
                    members, fields=list(shape.type), mask=None if mask is None else pa.array(mask)
                )
            case ListOf():
                offsets, items = self._offsets(shape.slot)
                mask = self._mask(shape.validity)
                return pa.ListArray.from_arrays(
                    offsets,
                    self._array(shape.item, items),
                    type=shape.type,
                    mask=None if mask is None else pa.array(mask),
                )
            case Either():
                return pc.coalesce(*(self._array(each, rows) for each in shape.alternatives))

    def _offsets(self, slot: int) -> tuple[pa.Array, int]:
        counts = self._filled.values[slot]
        offsets = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=offsets[1:])
        if offsets[-1] > _MAX_TEXT:
            raise ValueError("there are more items than an array of Arrow's holds")
        return pa.array(offsets.astype(np.int32)), int(offsets[-1])

    def _mask(self, validity: Validity | None) -> _Bools | None:
        """True where there is no value; None where there are values throughout."""
        if validity is None:
            return None
        branches = self._filled.values[validity.slot]
        mask: _Bools = (branches == validity.branch) if validity.is_null_branch else (branches != validity.branch)
        return mask if mask.any() else None

    def _leaf(self, shape: Leaf) -> pa.Array:
        values, valid = self._filled.values[shape.slot], self._filled.valid[shape.slot]
        nulls = None if valid.all() else _bits(valid)
        made = self._made(shape, values, valid)
        return pa.Array.from_buffers(shape.type, len(values), [nulls, *made])

    def _made(self, shape: Leaf, values: Numbers, valid: Bytes) -> list[pa.Buffer]:
        """The buffers of a leaf behind that of its nulls."""
        match shape.make:
            case Make.BOOLEAN:
                return [_bits(values == 1)]
            case Make.FLOAT:
                return [_numbers(values.astype(np.int32).view(np.float32), shape.type)]
            case Make.DOUBLE:
                return [_numbers(values.view(np.float64), shape.type)]
            case Make.BYTES:
                return list(gathered(self._filled.data, values))
            case Make.DECIMAL:
                return [pa.py_buffer(unscaled(self._filled.data, values, valid, shape.type.precision))]
            case Make.SYMBOL:
                return _symbols(shape.symbols, values)
            case Make.MILLIS:
                if len(values) and (values.max() > _MAX_MILLIS or values.min() < -_MAX_MILLIS):
                    raise UnsafeInputError("there are times that do not fit into microseconds")
                values = values * _MILLIS
        self._check_calendar(shape.type, values)
        return [_numbers(values, shape.type)]

    def _check_calendar(self, type_: pa.DataType, values: Numbers) -> None:
        if self._takes_ancient or not len(values):
            return
        if pa.types.is_date32(type_) and values.min() < GREGORIAN_DAY:
            raise UnsafeInputError("there are dates before 1582-10-15, which Spark may read in another calendar")
        if pa.types.is_timestamp(type_) and type_.tz is not None and values.min() < GREGORIAN_MICROS:
            raise UnsafeInputError("there are times before 1900, which Spark may read in another calendar")


def _numbers(values: npt.NDArray[np.generic], type_: pa.DataType) -> pa.Buffer:
    """Numbers as the wanted type stores them: dates and times are whole numbers."""
    if pa.types.is_floating(type_):
        return pa.py_buffer(np.ascontiguousarray(values, np.float32 if type_ == pa.float32() else np.float64))
    return pa.py_buffer(np.ascontiguousarray(values, np.int32 if type_.bit_width == 32 else np.int64))


def _symbols(symbols: tuple[str, ...], values: Numbers) -> list[pa.Buffer]:
    if len(values) and not 0 <= values.min() <= values.max() < len(symbols):
        raise ValueError("an enum has a symbol that its type does not have")
    texts = pa.array(symbols, pa.string()).take(pa.array(values))
    return list(texts.buffers()[1:])


def _bits(flags: _Bools | Bytes) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


_LENGTH = 0xFFFF_FFFF
_WIDEST = 16
"""Bytes of a 128-bit decimal."""
_MAX_BYTES = 2**31 - 1

_Numbers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]


def gathered(data: _Bytes, places: _Numbers) -> tuple[pa.Buffer, pa.Buffer]:
    """Offsets and bytes of values that lie in `data` at offset << 32 | length."""
    lengths = places & _LENGTH
    offsets = np.zeros(len(places) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > _MAX_BYTES:
        raise ValueError("there are more bytes than an array of Arrow's holds")
    if is_loaded():
        copied = np.empty(int(offsets[-1]), np.uint8)
        compiled_copy()(data, places, copied)
    else:
        copied = data[_positions(places >> 32, lengths, offsets)]
    return pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(copied)


def _positions(starts: _Numbers, lengths: _Numbers, offsets: _Numbers) -> _Numbers:
    """Where in the data each byte of the values lies."""
    total = int(offsets[-1])
    return np.arange(total) + np.repeat(starts - offsets[:-1], lengths)


def unscaled(data: _Bytes, places: _Numbers, valid: _Bytes, precision: int) -> bytes:
    """Big-endian two's complement numbers of any length as 128-bit little-endian ones.

    Raises UnsafeInputError for a number of more digits than the column has.
    """
    lengths = places & _LENGTH
    starts = places >> 32
    if len(lengths) and int(lengths.max()) > _WIDEST:
        raise UnsafeInputError("there are decimals of more than 16 bytes; read it with reader='spark'")
    if ((lengths == 0) & (valid == 1)).any():
        raise ValueError("a decimal has no bytes")
    wide = np.zeros((len(places), _WIDEST), np.uint8)
    if len(places) and int(lengths.min()) == int(lengths.max()):
        _spread(data, starts, int(lengths[0]), wide)
        _check_digits(wide, precision)
        return wide.tobytes()
    for place in range(_WIDEST):
        there = lengths > place
        wide[there, place] = data[(starts + lengths - 1 - place)[there]]
    negative = np.zeros(len(places), np.bool_)
    some = lengths > 0
    negative[some] = data[starts[some]] > 127
    filler = np.arange(_WIDEST) >= lengths[:, None]
    wide[filler & negative[:, None]] = 255
    _check_digits(wide, precision)
    return wide.tobytes()


def _spread(data: _Bytes, starts: _Numbers, length: int, wide: _Bytes) -> None:
    """Numbers that all have so many bytes, as those of a column of fixed size without nulls."""
    for place in range(length):
        wide[:, place] = data[starts + (length - 1 - place)]
    if length:
        wide[wide[:, length - 1] > 127, length:] = 255


def _check_digits(wide: _Bytes, precision: int) -> None:
    low = wide.view(np.uint64)[:, 0]
    high = wide.view(np.int64)[:, 1]
    small = ((high == 0) & (low < 2**63)) | ((high == -1) & (low >= 2**63))
    limit = 10**precision
    if precision <= 18:
        is_fitting = small & (low.view(np.int64) < limit) & (low.view(np.int64) > -limit)
        if not is_fitting.all():
            raise UnsafeInputError(f"there are decimals of more than {precision} digits; read it with reader='spark'")
        return
    for place in np.flatnonzero(~small):
        if abs((int(high[place]) << 64) + int(low[place])) >= limit:
            raise UnsafeInputError(f"there are decimals of more than {precision} digits; read it with reader='spark'")
