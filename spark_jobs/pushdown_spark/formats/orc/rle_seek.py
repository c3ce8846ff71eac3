"""Seeking in run-length encoded streams: rewriting a stream so that it begins with a given value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

import numpy as np
import numpy.typing as npt

# A row group may begin inside a run of values. Decoders start at the first value of a stream, so the run is decoded,
# and its remaining values are written as new runs. The runs after it are copied. Encodings (ORC v1 specification):
#
#   BYTES        A control byte c. c < 128: the next byte, c + 3 times. c >= 128: 256 - c literal bytes.
#   BITS         BYTES, whose bytes hold 8 values each, the first in the highest bit. After a seek to a bit within a
#                byte, all later bits are shifted, so the whole rest of the stream is rewritten.
#   SIGNED,      The two highest bits of the first byte are the kind of the run:
#   UNSIGNED       0 short repeat  width (3 bits), count - 3 (3 bits), one value
#                  1 direct        width code (5 bits), count - 1 (9 bits), packed values
#                  2 patched base  as direct, then base width, patch width, gap width and number of patches; the base,
#                                  packed offsets to the base, and packed patches: the high bits of few large offsets
#                  3 delta         as direct, then the first value, the first step, and packed sizes of further steps
#
# Signed values are zigzag-encoded. Rewritten runs use literals (BYTES) or direct runs of 64 bits.

MAX_PENDING_BYTES = 2 * (4 + 512 * 8 + 8 + 31 * 8)
"""Bytes after a row group's entry that may hold the last values of the previous row group.

Writers buffer up to 512 values. A run of them has at most a header, a base, 8 bytes for each value and 31 patches. The
values may be split into several runs, hence the factor."""

Values = npt.NDArray[np.uint64]

SHORT_REPEAT, DIRECT, PATCHED = range(3)
"""Kinds of runs of integers. The remaining kind is a delta run."""
WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a value, by the width code in the header of a run."""
_WIDTH_CODE_64 = len(WIDTHS) - 1
_MASK = (1 << 64) - 1


class StreamCoding(Enum):
    """The encoding of a stream's values."""

    RAW = auto()
    BITS = auto()
    BYTES = auto()
    SIGNED = auto()
    UNSIGNED = auto()


@dataclass(frozen=True)
class SeekPosition:
    """Where a row group begins in a decompressed stream: values to skip, and for BITS, bits of the next byte."""

    values: int = 0
    bits: int = 0


def seek_values(data: bytes, coding: StreamCoding, start: SeekPosition) -> bytes:
    """Return the stream from a value on. BITS are rewritten up to the end of `data`.

    Raises ValueError for data that is too short or damaged.
    """
    if coding is StreamCoding.RAW or not (start.values or start.bits):
        return data
    try:
        if coding is StreamCoding.BITS:
            return _bits_from(data, start)
        if coding is StreamCoding.BYTES:
            return _bytes_from(data, start.values)
        return _integers_from(data, start.values, signed=coding is StreamCoding.SIGNED)
    except IndexError as problem:
        raise ValueError("a run-length encoded stream ends inside a run") from problem


def _bytes_from(data: bytes, skip: int) -> bytes:
    """Return a stream of BYTES without its first values."""
    position = 0
    while True:
        control = data[position]
        length = control + 3 if control < 128 else 256 - control
        size = 1 if control < 128 else length
        if skip >= length:
            skip -= length
            position += 1 + size
            if skip == 0:
                return data[position:]
            continue
        rest = data[position + 1 + size :]
        if control < 128:
            return _encode_literals(data[position + 1 : position + 2] * (length - skip)) + rest
        return _encode_literals(data[position + 1 + skip : position + 1 + size]) + rest


def _encode_literals(values: bytes) -> bytes:
    pieces = [values[start : start + 128] for start in range(0, len(values), 128)]
    return b"".join(bytes([256 - len(piece)]) + piece for piece in pieces)


def _bits_from(data: bytes, start: SeekPosition) -> bytes:
    """Return a stream of BITS from a bit on."""
    if start.bits == 0:
        return _bytes_from(data, start.values)
    bits = np.unpackbits(np.frombuffer(_decode_bytes(data)[start.values :], np.uint8))
    return _encode_literals(np.packbits(bits[start.bits :]).tobytes())


def _decode_bytes(data: bytes) -> bytes:
    """Return the values of a stream of BYTES, one byte each. A truncated last run is dropped."""
    pieces = []
    position = 0
    while position < len(data):
        control = data[position]
        size = 1 if control < 128 else 256 - control
        piece = data[position + 1 : position + 1 + size]
        pieces.append(piece * (control + 3) if control < 128 else piece)
        position += 1 + size
    return b"".join(pieces)


def _integers_from(data: bytes, skip: int, *, signed: bool) -> bytes:
    """Return a stream of integers without its first values."""
    position = 0
    while skip:
        values, position = run_at(data, position, signed=signed)
        if skip < len(values):
            return _encode_direct(values[skip:]) + data[position:]
        skip -= len(values)
    return data[position:]


def _encode_direct(values: Values) -> bytes:
    """Encode stored values as one direct run of 64 bits."""
    header = (1 << 14) | (_WIDTH_CODE_64 << 9) | (len(values) - 1)
    return header.to_bytes(2, "big") + values.astype(">u8").tobytes()


def run_at(data: bytes, position: int, *, signed: bool) -> tuple[Values, int]:
    """Return the stored values of the run of integers at a position, and the position after it.

    Stored signed values are zigzag-encoded. Raises ValueError or IndexError for a damaged run.
    """
    header = data[position]
    kind = header >> 6
    if kind == SHORT_REPEAT:
        width, count = ((header >> 3) & 7) + 1, (header & 7) + 3
        stop = position + 1 + width
        value = int.from_bytes(_slice(data, position + 1, stop), "big")
        return np.full(count, value, np.uint64), stop
    code, count = (header >> 1) & 31, ((header & 1) << 8 | data[position + 1]) + 1
    if kind == DIRECT:
        width = WIDTHS[code]
        stop = position + 2 + (width * count + 7) // 8
        return _unpack(_slice(data, position + 2, stop), width, count), stop
    if kind == PATCHED:
        return _patched_run(data, position, WIDTHS[code], count, signed)
    return _delta_run(data, position + 2, WIDTHS[code] if code else 0, count, signed)


def _slice(data: bytes, start: int, stop: int) -> bytes:
    if stop > len(data):
        raise ValueError("a run-length encoded stream ends inside a run")
    return data[start:stop]


def _unpack(data: bytes, width: int, count: int) -> Values:
    """Unpack `count` big-endian values of `width` bits."""
    bits = np.unpackbits(np.frombuffer(data, np.uint8))[: width * count].reshape(count, width)
    rows = np.zeros((count, 64), np.uint8)
    rows[:, 64 - width :] = bits
    return np.packbits(rows, axis=1).view(">u8").reshape(count).astype(np.uint64)


def _stored_values(values: list[int], signed: bool) -> Values:
    """Return values as a stream stores them: in 64 bits, zigzag-encoded if they are signed."""
    if signed:
        values = [((v << 1) ^ (v >> 63)) & _MASK for v in map(_to_signed, values)]
    return np.array([v & _MASK for v in values], np.uint64)


def _to_signed(value: int) -> int:
    """Return a value as a signed 64-bit integer."""
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _patched_run(data: bytes, position: int, width: int, count: int, signed: bool) -> tuple[Values, int]:
    """Read a patched run: a base, offsets to it, and the high bits of the few large offsets."""
    base_bytes, patch_width, entry_width, patches = patched_header(data, position)
    start = position + 4
    base = int.from_bytes(_slice(data, start, start + base_bytes), "big")
    sign = 1 << (base_bytes * 8 - 1)
    if base & sign:
        base = -(base & (sign - 1))
    start += base_bytes
    stop = start + (width * count + 7) // 8
    values: list[int] = _unpack(_slice(data, start, stop), width, count).tolist()
    if not entry_width:
        raise ValueError("a run's patches are wider than 64 bits")
    end = stop + (entry_width * patches + 7) // 8
    index = 0
    for patch in _unpack(_slice(data, stop, end), entry_width, patches).tolist():
        index += patch >> patch_width
        # The patch has the bits above `width`. A patch of zero bridges a gap that is too long for one entry.
        values[index] |= (patch & ((1 << patch_width) - 1)) << width
    return _stored_values([base + value for value in values], signed), end


def patched_header(data: bytes, position: int) -> tuple[int, int, int, int]:
    """Return the rest of the header of the patched run at a position, after the width and the count.

    These are the bytes of the base, the bits of a patch, the bits of an entry (a gap and a patch, packed; 0 if they
    exceed 64), and the number of entries.
    """
    third, fourth = data[position + 2], data[position + 3]
    patch_width, gap_width = WIDTHS[third & 31], (fourth >> 5) + 1
    entry_width = next((width for width in WIDTHS if width >= gap_width + patch_width), 0)
    return (third >> 5) + 1, patch_width, entry_width, fourth & 31


def _delta_run(data: bytes, position: int, width: int, count: int, signed: bool) -> tuple[Values, int]:
    """Read a delta run after its header. With `width` 0, all steps are equal."""
    first, position = varint(data, position)
    step, position = varint(data, position)
    value = unzigzag(first) if signed else first
    step = unzigzag(step)
    values = [value]
    if width == 0:
        values += [value + step * number for number in range(1, count)]
        return _stored_values(values, signed), position
    stop = position + (width * max(count - 2, 0) + 7) // 8
    if count > 1:
        values.append(value + step)
    sign = -1 if step < 0 else 1
    for delta in _unpack(_slice(data, position, stop), width, max(count - 2, 0)).tolist():
        values.append(values[-1] + sign * delta)
    return _stored_values(values, signed), stop


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it. Raises IndexError at the end of the data."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def unzigzag(value: int) -> int:
    """Decode a zigzag-encoded number."""
    return (value >> 1) ^ -(value & 1)
