"""Membership of Arrow values in a set, by the fastest method that the set allows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DENSE = 1 << 20
"""A set that spans fewer integers than this has a table with one byte for each of them."""
_TABLE_ROWS = 4_096
_TABLE_VALUES = 256
"""Arrow's hash table is the fastest method for fewer rows and fewer values."""
_PREFILTER_ROWS = 16_384
"""Smaller arrays are not prefiltered."""
_PREFILTER_BITS = range(12, 21)
"""Low bits of a value that select its entry in the prefilter."""
_PREFILTER_SPARSITY = 64
"""Entries of the prefilter for each value of the set, if `_PREFILTER_BITS` allows as many."""
_PREFILTER_PASS = 4
"""The prefilter is not used if it lets more than one in this many values through."""

_BLOCK = 8_192
"""Rows that fit into the processor's cache."""

Bools = npt.NDArray[np.bool_]


class ValueSet:
    """A set of values of one Arrow type, prepared for many arrays of that type.

    Arrow rebuilds its hash table at each call. Integers that are close together are looked up in a table of booleans.
    Other integers are prefiltered by a table over their low bits, which few values pass.
    """

    def __init__(self, values: pa.Array) -> None:
        self._options = pc.SetLookupOptions(value_set=values, skip_nulls=True)
        self._size = len(values)
        self._dense: tuple[Bools, np.integer] | None = None
        self._prefilter: Bools | None = None
        if pa.types.is_signed_integer(values.type) and len(values):
            numbers = values.to_numpy()
            if int(numbers.max()) - int(numbers.min()) < _DENSE:
                self._dense = _dense_table(numbers)
            else:
                self._prefilter = _low_bits_table(numbers)

    def contains(self, array: pa.Array) -> pa.BooleanArray:
        """Return whether each value is in the set. The result is undefined where the array is null."""
        if self._dense is not None and (len(array) >= _TABLE_ROWS or self._size > _TABLE_VALUES):
            return as_arrow(_in_dense(_numpy_values(array), *self._dense))
        if self._prefilter is not None and len(array) >= _PREFILTER_ROWS:
            return self._contains_with_prefilter(array, self._prefilter)
        return pc.is_in(array, options=self._options)

    def _contains_with_prefilter(self, array: pa.Array, table: Bools) -> pa.BooleanArray:
        numbers = _numpy_values(array)
        head = _in_low_bits(numbers[:_BLOCK], table)
        if np.count_nonzero(head) * _PREFILTER_PASS > len(head):
            return pc.is_in(array, options=self._options)
        mask = _in_low_bits(numbers, table)
        indices = np.flatnonzero(mask)
        mask[indices] = _bools(pc.is_in(pa.array(numbers[indices]), options=self._options))
        return as_arrow(mask)


def _dense_table(numbers: npt.NDArray[np.signedinteger]) -> tuple[Bools, np.integer]:
    """Return a table for each integer from the smallest to the largest, and a last entry for all others."""
    low = numbers.min()
    offsets = numbers.astype(np.int64) - int(low)
    table = np.zeros(int(offsets.max()) + 2, np.bool_)
    table[offsets] = True
    return table, low


def _in_dense(numbers: npt.NDArray[np.signedinteger], table: Bools, low: np.integer) -> Bools:
    """Look numbers up. Numbers below the smallest wrap around to large unsigned ones."""
    unsigned = np.dtype(f"u{numbers.dtype.itemsize}")
    last = min(len(table) - 1, np.iinfo(unsigned).max)
    mask = np.empty(len(numbers), np.bool_)
    for start in range(0, len(numbers), _BLOCK):
        offsets = np.subtract(numbers[start : start + _BLOCK], low).view(unsigned)
        np.minimum(offsets, unsigned.type(last), out=offsets)
        _take(table, offsets, mask[start : start + _BLOCK])
    return mask


def _take(table: Bools, offsets: npt.NDArray[np.integer], mask: Bools) -> None:
    """Write the table's entries at valid offsets to a mask."""
    is_wide = offsets.dtype.itemsize == np.dtype(np.intp).itemsize
    table.take(offsets.view(np.intp) if is_wide else offsets.astype(np.intp), out=mask, mode="clip")


def _low_bits_table(numbers: npt.NDArray[np.signedinteger]) -> Bools:
    ideal_bits = (len(numbers) * _PREFILTER_SPARSITY).bit_length()
    bits = min(max(ideal_bits, _PREFILTER_BITS.start), _PREFILTER_BITS.stop - 1)
    table = np.zeros(1 << min(bits, numbers.dtype.itemsize * 8 - 2), np.bool_)
    table[numbers & (len(table) - 1)] = True
    return table


def _in_low_bits(numbers: npt.NDArray[np.signedinteger], table: Bools) -> Bools:
    mask = np.empty(len(numbers), np.bool_)
    for start in range(0, len(numbers), _BLOCK):
        _take(table, numbers[start : start + _BLOCK] & (len(table) - 1), mask[start : start + _BLOCK])
    return mask


def as_arrow(bools: Bools) -> pa.BooleanArray:
    """Return an Arrow array without nulls."""
    bits = pa.py_buffer(np.packbits(bools, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(bools), [None, bits])


def _numpy_values(array: pa.Array) -> npt.NDArray[np.signedinteger]:
    """Return the values of an integer array without a copy. Values are undefined where the array is null."""
    dtype = array.type.to_pandas_dtype()
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def scatter(rows: int, indices: pa.Array, values: pa.BooleanArray) -> pa.BooleanArray:
    """Return an array of `rows` values: those given at `indices`, with false for nulls, and false elsewhere."""
    mask = np.zeros(rows, np.bool_)
    mask[indices.to_numpy()] = _bools(values)
    return as_arrow(mask)


def _bools(mask: pa.BooleanArray) -> Bools:
    bools: Bools = without_nulls(mask).to_numpy(zero_copy_only=False)
    return bools


def without_nulls(mask: pa.BooleanArray) -> pa.BooleanArray:
    """Replace nulls by false."""
    return mask if mask.null_count == 0 else pc.fill_null(mask, False)


def with_nulls_of(array: pa.Array, mask: pa.BooleanArray) -> pa.BooleanArray:
    """Set the mask to null where the array is null."""
    return mask if array.null_count == 0 else pc.if_else(array.is_valid(), mask, pa.scalar(None, pa.bool_()))
