"""Look-ups in ORC's bloom filters, with the hashes of ORC's writers.

The hashes are Thomas Wang's 64-bit integer hash and the 64-bit variant of Austin Appleby's MurmurHash3; a value's bits
follow from one hash as Kirsch and Mitzenmacher propose ("Less Hashing, Same Performance", 2006).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pushdown_spark.expressions.types import GREGORIAN_DAY, Value
from pushdown_spark.formats.orc.file_tail import OrcTypeKind
from pushdown_spark.formats.orc.orc_proto_pb2 import BloomFilter, Footer

_INTEGERS = frozenset({OrcTypeKind.BYTE, OrcTypeKind.SHORT, OrcTypeKind.INT, OrcTypeKind.LONG, OrcTypeKind.DATE})
_FLOATS = frozenset({OrcTypeKind.FLOAT, OrcTypeKind.DOUBLE})
_BLOOM_STRING_TYPES = frozenset({OrcTypeKind.STRING, OrcTypeKind.VARCHAR})
_JAVA, _CPP = 0, 1
_MASK = (1 << 64) - 1


def are_filters_reliable(footer: Footer, kind: OrcTypeKind) -> bool:
    """Return whether the writer's bloom filters of a kind are correct.

    The filters of the Java writer are correct. The filters of the C++ writer are correct from version 2 on, except for
    bytes, which it hashes after packing them.
    """
    is_new = footer.writer == _CPP and bytes(footer.software_version)[:2] == b"2."
    return footer.writer == _JAVA or (is_new and kind is not OrcTypeKind.BYTE)


class HashedValues:
    """Values of one column with their hashes, for look-ups in the filters of many row groups."""

    def __init__(self, values: Sequence[Value], kind: OrcTypeKind) -> None:
        """Hash the values. Raises ValueError for kinds whose hashes are not implemented."""
        if kind in _FLOATS and 0.0 in values:
            # The two zeros are equal, but have different hashes.
            values = [*(value for value in values if value != 0.0), 0.0, -0.0]
        self._values = tuple(values)
        if kind is OrcTypeKind.DATE and any(isinstance(v, int) and v < GREGORIAN_DAY for v in values):
            raise ValueError("dates before 1582-10-15 are stored as days of another calendar")
        if kind in _INTEGERS:
            hashes = _long_hashes([int(v) for v in values if not isinstance(v, str | bytes)])
        elif kind in _FLOATS:
            bits = [struct.unpack("<q", struct.pack("<d", v))[0] for v in values if isinstance(v, float | int)]
            hashes = _long_hashes(bits)
        elif kind in _BLOOM_STRING_TYPES:
            strings = [v.encode("utf-8", "surrogatepass") for v in values if isinstance(v, str)]
            hashes = np.array([_murmur(text) for text in strings], np.uint64)
        else:
            raise ValueError(f"bloom filters of {kind.name.lower()} columns are not used")
        if len(hashes) != len(self._values):
            raise ValueError(f"a value is not of kind {kind.name.lower()}")
        self._low = hashes.astype(np.uint32).view(np.int32)
        self._high = (hashes >> np.uint64(32)).astype(np.uint32).view(np.int32)

    def possible_values(self, bloom: BloomFilter) -> frozenset[Value]:
        """Return the values that the filter may contain."""
        words = np.frombuffer(bloom.utf8bitset, "<u8") if bloom.utf8bitset else np.array(bloom.bitset, np.uint64)
        if not len(words) or not bloom.num_hash_functions:
            return frozenset(self._values)
        may_contain = np.ones(len(self._values), np.bool_)
        for number in range(1, bloom.num_hash_functions + 1):
            hash_codes = (self._low.astype(np.int64) + number * self._high.astype(np.int64)).astype(np.int32)
            bit = np.where(hash_codes < 0, ~hash_codes, hash_codes).astype(np.uint64) % np.uint64(len(words) * 64)
            may_contain &= (words[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1) == 1
        return frozenset(
            value for value, is_possible in zip(self._values, may_contain.tolist(), strict=True) if is_possible
        )


def _long_hashes(values: Sequence[int]) -> npt.NDArray[np.uint64]:
    """Return Thomas Wang's hashes of some integers."""
    key = np.array(values, np.int64)
    with np.errstate(over="ignore"):
        key = ~key + (key << 21)
        key ^= key >> 24
        key = key + (key << 3) + (key << 8)
        key ^= key >> 14
        key = key + (key << 2) + (key << 4)
        key ^= key >> 28
        key = key + (key << 31)
    hashes: npt.NDArray[np.uint64] = key.view(np.uint64)
    return hashes


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mix(word: int) -> int:
    return _rotate_left(word * 0x87C37B91114253D5 & _MASK, 31) * 0x4CF5AD432745937F & _MASK


def _murmur(data: bytes) -> int:
    """Return the 64-bit MurmurHash3 of some bytes."""
    state = 104729  # the seed of ORC's writers
    aligned_size = len(data) & ~7
    for start in range(0, aligned_size, 8):
        state ^= _mix(int.from_bytes(data[start : start + 8], "little"))
        state = (_rotate_left(state, 27) * 5 + 0x52DCE729) & _MASK
    if aligned_size < len(data):
        state ^= _mix(int.from_bytes(data[aligned_size:], "little"))
    state ^= len(data)
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & _MASK
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return state ^ state >> 33
