"""Finds which values of an Arrow array are in a set, by the fastest way that the set allows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_DENSE = 1 << 20
"""A set whose values lie so close together has one byte for each possible value."""
_TABLE_ROWS = 4_096
_TABLE_VALUES = 256
"""Arrow's hash table is the fastest for less of both."""
_SIEVE_ROWS = 16_384
"""Batches smaller than this are not worth a sieve."""
_SIEVE_BITS = range(12, 21)
_SIEVE_SPARSITY = 64
_SIEVE_PASS = 4
"""A sieve that lets more than one in so many through has saved nothing; the rest of the array goes without."""

_BLOCK = 8_192
"""So many rows at a time stay in the processor's cache."""

Bools = npt.NDArray[np.bool_]


class Lookup:
    """A set of values of one Arrow type, prepared for many arrays of that type.

    Arrow's own hash table is built anew at each call and costs some 15 ns a row. Integers do better: values that lie
    close together are looked up in a table, others go through a table over their low bits first, which few pass.
    """

    def __init__(self, values: pa.Array) -> None:
        self._options = pc.SetLookupOptions(value_set=values, skip_nulls=True)
        self._size = len(values)
        self._dense: tuple[Bools, np.integer] | None = None
        self._sieve: Bools | None = None
        if pa.types.is_signed_integer(values.type) and len(values):
            numbers = values.to_numpy()
            if int(numbers.max()) - int(numbers.min()) < _DENSE:
                self._dense = _dense(numbers)
            else:
                self._sieve = _sieve(numbers)

    def find(self, array: pa.Array) -> pa.BooleanArray:
        """Whether each value is in the set; what it says of nulls means nothing."""
        if self._dense is not None and (len(array) >= _TABLE_ROWS or self._size > _TABLE_VALUES):
            return as_arrow(_in_dense(numpy_values(array), *self._dense))
        if self._sieve is not None and len(array) >= _SIEVE_ROWS:
            return self._through_sieve(array, self._sieve)
        return pc.is_in(array, options=self._options)

    def _through_sieve(self, array: pa.Array, sieve: Bools) -> pa.BooleanArray:
        numbers = numpy_values(array)
        head = _sieved(numbers[:_BLOCK], sieve)
        if np.count_nonzero(head) * _SIEVE_PASS > len(head):
            return pc.is_in(array, options=self._options)
        found = _sieved(numbers, sieve)
        indices = np.flatnonzero(found)
        found[indices] = _bools(pc.is_in(pa.array(numbers[indices]), options=self._options))
        return as_arrow(found)


def _dense(numbers: npt.NDArray[np.signedinteger]) -> tuple[Bools, np.integer]:
    """A table with a place for each number between the smallest and the largest, and one more for all others."""
    low = numbers.min()
    places = numbers.astype(np.int64) - int(low)
    table = np.zeros(int(places.max()) + 2, np.bool_)
    table[places] = True
    return table, low


def _in_dense(numbers: npt.NDArray[np.signedinteger], table: Bools, low: np.integer) -> Bools:
    """Numbers below the smallest wrap around and are large when seen as unsigned."""
    unsigned = np.dtype(f"u{numbers.dtype.itemsize}")
    last = min(len(table) - 1, np.iinfo(unsigned).max)
    found = np.empty(len(numbers), np.bool_)
    for start in range(0, len(numbers), _BLOCK):
        places = np.subtract(numbers[start : start + _BLOCK], low).view(unsigned)
        np.minimum(places, unsigned.type(last), out=places)
        _take(table, places, found[start : start + _BLOCK])
    return found


def _take(table: Bools, places: npt.NDArray[np.integer], found: Bools) -> None:
    """Look up places that are known to be in the table."""
    is_wide = places.dtype.itemsize == np.dtype(np.intp).itemsize
    table.take(places.view(np.intp) if is_wide else places.astype(np.intp), out=found, mode="clip")


def _sieve(numbers: npt.NDArray[np.signedinteger]) -> Bools:
    wanted = (len(numbers) * _SIEVE_SPARSITY).bit_length()
    bits = min(max(wanted, _SIEVE_BITS.start), _SIEVE_BITS.stop - 1)
    table = np.zeros(1 << min(bits, numbers.dtype.itemsize * 8 - 2), np.bool_)
    table[numbers & (len(table) - 1)] = True
    return table


def _sieved(numbers: npt.NDArray[np.signedinteger], sieve: Bools) -> Bools:
    found = np.empty(len(numbers), np.bool_)
    for start in range(0, len(numbers), _BLOCK):
        _take(sieve, numbers[start : start + _BLOCK] & (len(sieve) - 1), found[start : start + _BLOCK])
    return found


def as_arrow(bools: Bools) -> pa.BooleanArray:
    """The answers as an Arrow array without nulls."""
    bits = pa.py_buffer(np.packbits(bools, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(bools), [None, bits])


def numpy_values(array: pa.Array) -> npt.NDArray[np.signedinteger]:
    """The values of an integer array without a copy; anything may stand where it is null."""
    dtype = array.type.to_pandas_dtype()
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * np.dtype(dtype).itemsize)


def scatter(rows: int, indices: pa.Array, found: pa.BooleanArray) -> pa.BooleanArray:
    """An array that says at `indices` what `found` says (false for its nulls), and false everywhere else."""
    mask = np.zeros(rows, np.bool_)
    mask[indices.to_numpy()] = _bools(found)
    return as_arrow(mask)


def _bools(mask: pa.BooleanArray) -> Bools:
    bools: Bools = without_nulls(mask).to_numpy(zero_copy_only=False)
    return bools


def without_nulls(mask: pa.BooleanArray) -> pa.BooleanArray:
    """The mask, false where it is null."""
    return mask if mask.null_count == 0 else pc.fill_null(mask, False)


def with_nulls_of(array: pa.Array, mask: pa.BooleanArray) -> pa.BooleanArray:
    """The mask, null where the array is."""
    return mask if array.null_count == 0 else pc.if_else(array.is_valid(), mask, pa.scalar(None, pa.bool_()))
