"""Runs of integers in ORC's encodings."""

from __future__ import annotations

from collections.abc import Sequence

WIDTHS = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
CODES = {width: code for code, width in enumerate(WIDTHS)}


def zigzag(value: int) -> int:
    return (value << 1) ^ (value >> 63)


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def pack(values: Sequence[int], width: int) -> bytes:
    bits = "".join(f"{value:0{width}b}" for value in values)
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""


def header(kind: int, code: int, count: int) -> bytes:
    return ((kind << 14) | (code << 9) | (count - 1)).to_bytes(2, "big")


def short_repeat(value: int, count: int) -> bytes:
    width = max(1, -(-value.bit_length() // 8))
    return bytes([(width - 1) << 3 | (count - 3)]) + value.to_bytes(width, "big")


def direct(values: Sequence[int], width: int) -> bytes:
    return header(1, CODES[width], len(values)) + pack(values, width)


def patch_run(base: int, low: Sequence[int], width: int, patches: Sequence[tuple[int, int]], patch_width: int) -> bytes:
    """Return a patched run. `patches` are gaps and values, `low` the values above the base without patched bits."""
    size = max(1, -(-(abs(base).bit_length() + 1) // 8))
    magnitude = abs(base) | ((1 << (size * 8 - 1)) if base < 0 else 0)
    gap_width = max(gap.bit_length() for gap, _ in patches) or 1
    entry = next(fixed for fixed in WIDTHS if fixed >= gap_width + patch_width)
    extra = bytes([(size - 1) << 5 | CODES[patch_width], (gap_width - 1) << 5 | len(patches)])
    patch_list = pack([gap << patch_width | value for gap, value in patches], entry)
    return header(2, CODES[width], len(low)) + extra + magnitude.to_bytes(size, "big") + pack(low, width) + patch_list


def delta(first: int, step: int, deltas: Sequence[int], width: int, count: int, *, signed: bool) -> bytes:
    head = varint(zigzag(first) if signed else first) + varint(zigzag(step))
    return header(3, CODES[width] if width else 0, count) + head + pack(deltas, width)
