"""Puts Arrow arrays together from what a walk left in its slots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.byte_patterns.avro_encoding import GREGORIAN_DAY, GREGORIAN_MICROS
from pushdown_spark.readers.avro.gather import gathered, unscaled
from pushdown_spark.readers.avro.machine import Bytes, Filled, Numbers
from pushdown_spark.readers.avro.shapes import Constant, Either, Leaf, ListOf, Make, Shape, Struct, Validity

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
