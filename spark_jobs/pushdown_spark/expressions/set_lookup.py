"""Membership of Arrow values in a set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_PREFILTER_ROWS = 4_096
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

    Integers are prefiltered by a table over their low bits, which few values pass. Arrow's hash table is slower.
    """

    def __init__(self, values: pa.Array) -> None:
        self._options = pc.SetLookupOptions(value_set=values, skip_nulls=True)
        self._prefilter = _low_bits_table(values.to_numpy()) if pa.types.is_signed_integer(values.type) else None

    def contains(self, array: pa.Array) -> pa.BooleanArray:
        """Return whether each value is in the set. The result is undefined where the array is null."""
        if self._prefilter is not None and len(array) >= _PREFILTER_ROWS:
            return self._contains_with_prefilter(array, self._prefilter)
        return pc.is_in(array, options=self._options)

    def _contains_with_prefilter(self, array: pa.Array, table: Bools) -> pa.BooleanArray:
        numbers = _numpy_values(array)
        head = _in_low_bits(numbers[:_BLOCK], table)
        if np.count_nonzero(head) * _PREFILTER_PASS > len(head):
            return pc.is_in(array, options=self._options)
        mask = _in_low_bits(numbers, table)
        indexes = np.flatnonzero(mask)
        mask[indexes] = _bools(pc.is_in(pa.array(numbers[indexes]), options=self._options))
        return as_arrow(mask)


def _low_bits_table(numbers: npt.NDArray[np.signedinteger]) -> Bools:
    ideal_bits = (len(numbers) * _PREFILTER_SPARSITY).bit_length()
    bits = min(max(ideal_bits, _PREFILTER_BITS.start), _PREFILTER_BITS.stop - 1)
    table = np.zeros(1 << min(bits, numbers.dtype.itemsize * 8 - 2), np.bool_)
    table[numbers & (len(table) - 1)] = True
    return table


def _in_low_bits(numbers: npt.NDArray[np.signedinteger], table: Bools) -> Bools:
    mask = np.empty(len(numbers), np.bool_)
    for start in range(0, len(numbers), _BLOCK):
        entries = (numbers[start : start + _BLOCK] & (len(table) - 1)).astype(np.intp, copy=False)
        table.take(entries, out=mask[start : start + _BLOCK], mode="clip")
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


def scatter(rows: int, indexes: pa.Array, values: pa.BooleanArray) -> pa.BooleanArray:
    """Return an array of `rows` values: those given at `indexes`, with false for nulls, and false elsewhere."""
    mask = np.zeros(rows, np.bool_)
    mask[indexes.to_numpy()] = _bools(values)
    return as_arrow(mask)


def _bools(mask: pa.BooleanArray) -> Bools:
    bools: Bools = without_nulls(mask).to_numpy(zero_copy_only=False)
    return bools


def without_nulls(mask: pa.BooleanArray) -> pa.BooleanArray:
    """Replace nulls with false."""
    return mask if mask.null_count == 0 else pc.fill_null(mask, False)


def with_nulls_of(array: pa.Array, mask: pa.BooleanArray) -> pa.BooleanArray:
    """Set the mask to null where the array is null."""
    return mask if array.null_count == 0 else pc.if_else(array.is_valid(), mask, pa.scalar(None, pa.bool_()))
