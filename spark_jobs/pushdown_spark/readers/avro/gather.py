"""Copies the bytes of many values together, and turns unscaled decimal values around."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.readers.avro.compiled import compiled_copy, is_loaded

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
