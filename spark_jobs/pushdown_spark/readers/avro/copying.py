"""Copies values that lie in many places, one behind the other; made to be compiled."""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence


def copy(data: Sequence[int], places: Sequence[int], out: MutableSequence[int]) -> int:
    """Copy the bytes at each place (offset << 32 | length); returns how many there are."""
    end = 0
    for place in places:
        start = place >> 32
        for byte in range(start, start + (place & 0xFFFFFFFF)):
            out[end] = data[byte]
            end += 1
    return end
