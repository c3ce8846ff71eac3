"""Zigzag numbers of variable length as Avro writes them: their bytes, and regular expressions for intervals of them.

A number v is written as u = 2v, or -2v - 1 where it is negative, in groups of seven bits, the lowest first; all groups
but the last have the eighth bit set.
"""

from __future__ import annotations

from collections.abc import Iterator

_BASE = 128


def zigzag(value: int) -> bytes:
    """The bytes of a number.

    >>> zigzag(-65).hex()
    '8101'
    """
    unsigned = 2 * value if value >= 0 else -2 * value - 1
    groups = []
    while unsigned >= _BASE:
        groups.append(unsigned % _BASE + _BASE)
        unsigned //= _BASE
    return bytes([*groups, unsigned])


def interval(low: int, high: int) -> tuple[str, ...]:
    """Expressions that match exactly the numbers low .. high, each with the bytes that the next one does not have.

    >>> print(*interval(-2, 1))
    [\\x00\\x02] [\\x01\\x03]
    """
    found: list[str] = []
    if high >= 0:
        found += _unsigned(2 * max(low, 0), 2 * high, 0)
    if low < 0:
        found += _unsigned(-2 * min(high, -1) - 1, -2 * low - 1, 1)
    return tuple(found)


def _unsigned(low: int, high: int, parity: int) -> Iterator[str]:
    """The numbers low .. high, both of one parity, whose lowest bit is `parity`."""
    length = 1
    while length == 1 or _BASE ** (length - 1) <= high:
        first = max(low, _BASE ** (length - 1) if length > 1 else 0)
        last = min(high, _BASE**length - 1)
        if first <= last:
            yield from _groups(_digits(first, length), _digits(last, length), parity, "", is_last=True)
        length += 1


def _digits(number: int, length: int) -> list[int]:
    """The groups of a number, the lowest first."""
    return [number // _BASE**place % _BASE for place in range(length)]


def _groups(low: list[int], high: list[int], parity: int, behind: str, *, is_last: bool) -> Iterator[str]:
    """Cover low .. high, two numbers of as many groups, from the highest group down; `behind` are the groups above."""
    if not low:
        yield behind
        return
    bottom, top = low[-1], high[-1]
    rest_low, rest_high = low[:-1], high[:-1]
    zeros, nines = [0] * len(rest_low), [_BASE - 1] * len(rest_low)

    def group(first: int, last: int) -> str:
        return _class(first, last, parity if not rest_low else None, is_last) + behind

    if not rest_low or (_is_least(rest_low) and _is_most(rest_high)):
        free = "".join(_class(0, _BASE - 1, parity if place == 0 else None, False) for place in range(len(rest_low)))
        yield free + group(bottom, top)
    elif bottom == top:
        yield from _groups(rest_low, rest_high, parity, group(bottom, top), is_last=False)
    else:
        yield from _groups(rest_low, nines, parity, group(bottom, bottom), is_last=False)
        if bottom + 1 <= top - 1:
            yield from _groups(zeros, nines, parity, group(bottom + 1, top - 1), is_last=False)
        yield from _groups(zeros, rest_high, parity, group(top, top), is_last=False)


def _is_least(digits: list[int]) -> bool:
    return all(digit == 0 for digit in digits[1:]) and digits[0] <= 1


def _is_most(digits: list[int]) -> bool:
    return all(digit == _BASE - 1 for digit in digits[1:]) and digits[0] >= _BASE - 2


def _class(first: int, last: int, parity: int | None, is_last: bool) -> str:
    """One byte: a group of seven bits first .. last, with the eighth bit set unless it is the last."""
    mark = 0 if is_last else _BASE
    chosen = [byte + mark for byte in range(first, last + 1) if parity is None or byte % 2 == parity]
    return byte_class(chosen)


def byte_class(chosen: list[int]) -> str:
    """An expression for one byte of some; spans are written as such.

    >>> print(byte_class([1, 2, 3, 9]))
    [\\x01-\\x03\\x09]
    """
    if len(chosen) == 1:
        return f"\\x{chosen[0]:02x}"
    spans: list[list[int]] = []
    for byte in chosen:
        if spans and byte == spans[-1][1] + 1:
            spans[-1][1] = byte
        else:
            spans.append([byte, byte])
    return "[" + "".join(f"\\x{a:02x}" if a == b else f"\\x{a:02x}-\\x{b:02x}" for a, b in spans) + "]"
