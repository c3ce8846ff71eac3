"""Look over lengths before a decoder makes room for what they add up to.

Nothing checks the content of an ORC file, and ORC's C++ library, which decodes it, asks for as much memory as the
lengths of texts, lists and maps add up to. Where a damaged one makes that more than there is, it writes to nowhere and
ends the process (its allocator's answer is not looked at), so lengths are added up here first, run by run. Most runs
have so few bits that nothing of theirs needs to be decoded.
"""

from __future__ import annotations

import re
from functools import cache

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.rle_seek import WIDTHS, Coding, run_at, unzigzag, varint

MOST = (1 << 31) - 1
"""What the lengths of a run may add up to: Arrow's offsets have 32 bits, so more could not be decoded anyway."""

_DIRECT = 22
"""Bits of values of which 512, a whole run, add up to no more."""
_PATCHED = 21
"""The same above a base of at most two bytes."""
_DELTA = 11
"""Bits of the 510 steps from a value below `_SMALL` for which it is the same."""
_SMALL = 1 << 20

Run = tuple[int, int, bool]
"""Where a run ends, how many values it has, and whether they are too small to add up to `MOST`."""


def check_lengths(data: bytes, coding: Coding, at_least: int = 0) -> None:
    """Raises UnsafeInputError where a run of lengths adds up to more than `MOST`, or one of them is negative.

    `data` is the stream's uncompressed content from its first value on; its last run may be cut short. Raises
    ValueError where it has fewer than `at_least` values.
    """
    look = _run_v1 if coding is Coding.UNSIGNED_V1 else _run_v2
    position = values = 0
    try:
        while position < len(data):
            passed = None if at_least or look is _run_v1 else _small_runs().match(data, position)
            position = position if passed is None else passed.end()
            stop, count, small = look(data, position)
            if stop > len(data):
                break
            if not small:
                _add_up(data, position, coding)
            position = stop
            values += count
    except IndexError:
        # The last run was cut inside its header; whoever needs more than what is there will say so.
        pass
    if values < at_least:
        raise ValueError(f"there are {values} lengths, {at_least} were expected")


def _add_up(data: bytes, position: int, coding: Coding) -> None:
    try:
        values = run_at(data, position, coding)[0]
    except IndexError as problem:
        raise ValueError("a run of lengths has patches behind its end") from problem
    total = sum(values.tolist())
    if total > MOST:
        raise UnsafeInputError(
            f"lengths of {len(values)} values add up to {total}, more than can be: if the file is whole, read it with "
            "reader='spark'"
        )


def _run_v2(data: bytes, position: int) -> Run:
    header = data[position]
    kind = header >> 6
    if kind == 0:
        width = ((header >> 3) & 7) + 1
        return position + 1 + width, (header & 7) + 3, width <= 3
    code, count = (header >> 1) & 31, ((header & 1) << 8 | data[position + 1]) + 1
    width = WIDTHS[code]
    if kind == 1:
        return position + 2 + (width * count + 7) // 8, count, width <= _DIRECT
    if kind == 2:
        return _patched(data, position, width, count)
    return _delta(data, position + 2, width if code else 0, count)


def _patched(data: bytes, position: int, width: int, count: int) -> Run:
    third, fourth = data[position + 2], data[position + 3]
    base_bytes, patch_width = (third >> 5) + 1, WIDTHS[third & 31]
    gap_width, patches = (fourth >> 5) + 1, fourth & 31
    entry = next((fixed for fixed in WIDTHS if fixed >= gap_width + patch_width), 64)
    stop = position + 4 + base_bytes + (width * count + 7) // 8 + (entry * patches + 7) // 8
    negative = data[position + 4] >= 128
    return stop, count, base_bytes <= 2 and width + patch_width <= _PATCHED and not negative


def _delta(data: bytes, position: int, width: int, count: int) -> Run:
    first, position = varint(data, position)
    step, position = varint(data, position)
    step = unzigzag(step)
    if width == 0:
        return position, count, first < _SMALL and 0 <= first + step * (count - 1) < _SMALL
    stop = position + (width * max(count - 2, 0) + 7) // 8
    return stop, count, width <= _DELTA and step >= 0 and first + step < _SMALL


@cache
def _small_runs() -> re.Pattern[bytes]:
    """Finds any number of the commonest runs that are small, as `_run_v2` does, several times faster.

    Repeated values, steps upwards of less than four, whole runs, and up to 32 values of at most 8 bits.
    """
    kinds = [rb"[\x00-\x07].", rb"[\x08-\x0f]..", rb"[\xc0\xc1].[\x80-\xff]?[\x00-\x7f][\x00\x02\x04\x06]"]
    for code, width in enumerate(WIDTHS[:_DIRECT]):
        kinds.append(b"\\x%02x\\xff.{%d}" % (0x41 | code << 1, 64 * width))
        if width <= 8:
            stored = [(width * count + 7) // 8 for count in range(1, 33)]
            counts = ((stored.index(size), 31 - stored[::-1].index(size), size) for size in sorted({*stored}))
            short = b"|".join(b"[\\x%02x-\\x%02x].{%d}" % each for each in counts)
            kinds.append(b"\\x%02x(?:%s)" % (0x40 | code << 1, short))
    return re.compile(b"(?:%s)*+" % b"|".join(kinds), re.DOTALL)


def _run_v1(data: bytes, position: int) -> Run:
    control = data[position]
    if control < 128:
        step = data[position + 1] - 256 if data[position + 1] >= 128 else data[position + 1]
        first, stop = varint(data, position + 2)
        return stop, control + 3, first < _SMALL and first + step * (control + 2) >= 0
    count = 256 - control
    short = _short(count).match(data, position + 1)
    if short:
        return short.end(), count, True
    stop = position + 1
    for _ in range(count):
        _, stop = varint(data, stop)
    return stop, count, False


@cache
def _short(count: int) -> re.Pattern[bytes]:
    """Finds so many numbers of at most three bytes, 21 bits, each."""
    return re.compile(rb"(?:[\x80-\xff]{0,2}[\x00-\x7f]){%d}" % count, re.DOTALL)
