"""The check of the lengths of strings, lists and maps before they are decoded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.rle_seek import (
    DIRECT,
    PATCHED,
    SHORT_REPEAT,
    WIDTHS,
    patched_header,
    run_at,
    unzigzag,
    varint,
)

# ORC files have no checksums. ORC's C++ library, which decodes them, allocates the sum of all lengths and does not
# check whether the allocation succeeded: a damaged length ends the process. So the sum of each run of lengths is
# checked before. The check reads only the header of most runs (the layout of runs is in `rle_seek`):
#
#   - A run has at most 512 values. If its values have at most 22 bits, the sum is below the limit. The bounds for the
#     other kinds of runs follow from their formulas in the same way.
#   - A regular expression skips sequences of the most frequent small runs, which is several times faster than Python.
#   - The values of all other runs are decoded and added.

MAX_SUM = (1 << 31) - 1
"""The largest sum of a run of lengths. Arrow's offsets have 32 bits, so a larger one cannot be decoded."""

_MAX_DIRECT_BITS = 22
"""Bits of values of direct runs: 512 of them cannot exceed the sum."""
_MAX_PATCHED_BITS = 21
"""Bits of offsets in patched runs with a base of at most two bytes."""
_MAX_DELTA_BITS = 11
"""Bits of the steps of delta runs with a first value below `_SMALL_VALUE`."""
_SMALL_VALUE = 1 << 20

RunHeader = tuple[int, int, bool]
"""The end of a run, its number of values, and whether its sum cannot exceed `MAX_SUM`."""


def check_lengths(data: bytes, min_values: int) -> None:
    """Raise UnsafeInputError if the sum of a run of lengths exceeds `MAX_SUM`, or if a length is negative.

    `data` is the decompressed stream from its first value on. Its last run may be truncated. Raises ValueError if it
    has fewer than `min_values` values.
    """
    position = values = 0
    try:
        while position < len(data):
            small_runs = None if min_values else _small_runs().match(data, position)
            position = position if small_runs is None else small_runs.end()
            stop, count, is_small = _read_header(data, position)
            if stop > len(data):
                break
            if not is_small:
                _check_sum(data, position)
            position = stop
            values += count
    except IndexError:
        # The last run is truncated within its header. A decoder that needs more values will report it.
        pass
    if values < min_values:
        raise ValueError(f"there are {values} lengths, {min_values} were expected")


def _check_sum(data: bytes, position: int) -> None:
    try:
        values = run_at(data, position, signed=False)[0]
    except IndexError as problem:
        raise ValueError("a run of lengths has patches after its end") from problem
    total = sum(values.tolist())
    if total > MAX_SUM:
        raise UnsafeInputError(
            f"lengths of {len(values)} values add up to {total}, more than Arrow supports: if the file is intact, "
            "read it with reader='spark'"
        )


def _read_header(data: bytes, position: int) -> RunHeader:
    header = data[position]
    kind = header >> 6
    if kind == SHORT_REPEAT:
        width = ((header >> 3) & 7) + 1
        return position + 1 + width, (header & 7) + 3, width <= 3
    code, count = (header >> 1) & 31, ((header & 1) << 8 | data[position + 1]) + 1
    width = WIDTHS[code]
    if kind == DIRECT:
        return position + 2 + (width * count + 7) // 8, count, width <= _MAX_DIRECT_BITS
    if kind == PATCHED:
        return _patched_header(data, position, width, count)
    return _delta_header(data, position + 2, width if code else 0, count)


def _patched_header(data: bytes, position: int, width: int, count: int) -> RunHeader:
    base_bytes, patch_width, entry_width, patches = patched_header(data, position)
    stop = position + 4 + base_bytes + (width * count + 7) // 8 + ((entry_width or 64) * patches + 7) // 8
    negative = data[position + 4] >= 128
    return stop, count, base_bytes <= 2 and width + patch_width <= _MAX_PATCHED_BITS and not negative


def _delta_header(data: bytes, position: int, width: int, count: int) -> RunHeader:
    first, position = varint(data, position)
    step, position = varint(data, position)
    step = unzigzag(step)
    if width == 0:
        return position, count, first < _SMALL_VALUE and 0 <= first + step * (count - 1) < _SMALL_VALUE
    stop = position + (width * max(count - 2, 0) + 7) // 8
    return stop, count, width <= _MAX_DELTA_BITS and step >= 0 and first + step < _SMALL_VALUE


@cache
def _small_runs() -> re.Pattern[bytes]:
    """Return an expression for sequences of the most frequent small runs."""
    short_repeats = [rb"[\x00-\x07].", rb"[\x08-\x0f].."]  # of a value of one byte, and of two bytes
    # Any count, a first value of one or two bytes, and an equal step of 0 to 3 (zigzag-encoded).
    steady_delta = rb"[\xc0\xc1].[\x80-\xff]?[\x00-\x7f][\x00\x02\x04\x06]"
    direct = [run for code, width in enumerate(WIDTHS[:_MAX_DIRECT_BITS]) for run in _direct_runs(code, width)]
    return re.compile(b"(?:%s)*+" % b"|".join([*short_repeats, steady_delta, *direct]), re.DOTALL)


def _direct_runs(code: int, width: int) -> Iterator[bytes]:
    """Yield expressions for direct runs of 512 values, and if a value has at most 8 bits, of up to 32 values.

    The two bytes of the header have the kind (2 bits), the width code (5 bits) and the number of values - 1 (9 bits).
    """
    first_byte = DIRECT << 6 | code << 1
    yield b"\\x%02x\\xff.{%d}" % (first_byte | 1, 512 * width // 8)
    if width <= 8:
        # One alternative for all second bytes whose values take equally many bytes.
        second_bytes: dict[int, list[int]] = {}
        for count in range(1, 33):
            second_bytes.setdefault((width * count + 7) // 8, []).append(count - 1)
        ends = (b"[\\x%02x-\\x%02x].{%d}" % (min(counts), max(counts), size) for size, counts in second_bytes.items())
        yield b"\\x%02x(?:%s)" % (first_byte, b"|".join(ends))
