"""Conversions between Arrow, NumPy and Python that do not import pandas.

The first call of `pa.array`, `pa.scalar` or `to_numpy` in a process imports pandas if it is installed. In a Python
worker, that takes most of a second, which is much of a short job.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pushdown_spark.expressions.types import Value

Bools = npt.NDArray[np.bool_]

_MAX_OFFSET = 2**31 - 1
"""The largest offset in Arrow's arrays of strings."""


def arrow_array(values: Sequence[Value], kind: pa.DataType) -> pa.Array:
    """Return an array of values without nulls. Raises OverflowError for numbers that the type cannot have."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return from_numpy(np.array(values, kind.to_pandas_dtype()))
    if pa.types.is_boolean(kind):
        return from_bools(np.array(values, np.bool_))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _strings([_bytes(value) for value in values], kind)
    return pa.array(values, kind)


def arrow_scalar(value: Value | None, kind: pa.DataType) -> pa.Scalar:
    """Return one value, null for None. Raises OverflowError for a number that the type cannot have."""
    return (pa.nulls(1, kind) if value is None else arrow_array((value,), kind))[0]


def from_numpy(numbers: npt.NDArray[np.number]) -> pa.Array:
    """Return an array of numbers without nulls."""
    kind = pa.from_numpy_dtype(numbers.dtype)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])


def from_bools(bools: Bools) -> pa.BooleanArray:
    """Return an array of booleans without nulls."""
    bits = pa.py_buffer(np.packbits(bools, bitorder="little"))
    return pa.BooleanArray.from_buffers(pa.bool_(), len(bools), [None, bits])


def to_numpy(array: pa.Array) -> npt.NDArray[np.signedinteger]:
    """Return the values of an integer array without a copy. Values are undefined where the array is null."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def to_bools(mask: pa.BooleanArray) -> Bools:
    """Return the values of an array of booleans. Values are undefined where the array is null."""
    if len(mask) == 0:
        return np.empty(0, np.bool_)
    bits = np.frombuffer(mask.buffers()[1], np.uint8)
    return np.unpackbits(bits, count=mask.offset + len(mask), bitorder="little")[mask.offset :].view(np.bool_)


def _bytes(value: Value) -> bytes:
    assert isinstance(value, str | bytes)
    return value.encode() if isinstance(value, str) else value


def _strings(values: Sequence[bytes], kind: pa.DataType) -> pa.Array:
    offsets = np.fromiter(accumulate(map(len, values), initial=0), np.int64, len(values) + 1)
    if offsets[-1] > _MAX_OFFSET:
        raise pa.ArrowCapacityError(f"{offsets[-1]} bytes do not fit into one array")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(kind, len(values), buffers)
