"""Lengths are rejected exactly if the sum of a run exceeds Arrow's offsets."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
from rle_samples import WIDTHS, delta, direct, patch_run, short_repeat

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.length_check import MAX_SUM, check_lengths

Run = tuple[bytes, list[int]]
"""A run's bytes and its values, as the file means them: negative ones too."""


def some(rng: random.Random, width: int, count: int) -> list[int]:
    """Return values with a maximum number of bits. One of them has all bits set."""
    values = [rng.getrandbits(rng.randint(0, width)) for _ in range(count)]
    values[rng.randrange(count)] |= 1 << (width - 1)
    return values


def short_run(rng: random.Random) -> Run:
    value, count = rng.getrandbits(rng.randint(1, 40)), rng.randint(3, 10)
    return short_repeat(value, count), [value] * count


def direct_run(rng: random.Random) -> Run:
    width, count = rng.choice(WIDTHS), rng.choice((1, 2, 31, 32, 33, 256, 257, 511, 512, rng.randint(1, 512)))
    values = some(rng, width, count)
    return direct(values, width), values


def patched_run(rng: random.Random) -> Run:
    width, patch_width, count = rng.choice((2, 6, 14)), rng.choice((2, 8, 20, 40)), rng.randint(20, 512)
    base = rng.choice((3, 900, -2, 1 << 20, 1 << 33))
    low = some(rng, width, count)
    gap, patch = rng.randint(0, 15), rng.getrandbits(patch_width) | 1
    values = [base + value for value in low]
    values[gap] += patch << width
    return patch_run(base, low, width, [(gap, patch)], patch_width), values


def steady_run(rng: random.Random) -> Run:
    first, step, count = rng.choice((0, 5, 300, 70_000, 1 << 30)), rng.choice((0, 1, 3, -1, 4_000)), rng.randint(2, 512)
    return delta(first, step, [], 0, count, signed=False), [first + step * number for number in range(count)]


def delta_run(rng: random.Random) -> Run:
    width, count = rng.choice((2, 8, 11, 12, 16)), rng.randint(3, 512)
    first, step = rng.choice((0, 40, 1 << 19, 1 << 22)), rng.choice((0, 3, -5))
    deltas = some(rng, width, count - 2)
    values = [first, first + step]
    for change in deltas:
        values.append(values[-1] + (-change if step < 0 else change))
    return delta(first, step, deltas, width, count, signed=False), values


MAKERS: Sequence[Callable[[random.Random], Run]] = (short_run, direct_run, patched_run, steady_run, delta_run)


def is_too_much(values: Sequence[int]) -> bool:
    return min(values) < 0 or sum(values) > MAX_SUM


def is_refused(data: bytes, min_values: int = 0) -> bool:
    try:
        check_lengths(data, min_values)
    except UnsafeInputError:
        return True
    return False


def test_single_runs_are_rejected_exactly_if_their_lengths_are_too_large() -> None:
    rng = random.Random(1)
    refusals = 0
    for make in MAKERS:
        for _ in range(400):
            stream, values = make(rng)
            assert is_refused(stream) == is_too_much(values), (make, values)
            refusals += is_too_much(values)
    assert 100 < refusals < 1900


def test_consecutive_runs_are_rejected_exactly_if_their_lengths_are_too_large() -> None:
    """A given number of values selects another check."""
    rng = random.Random(2)
    for _ in range(300):
        runs = [rng.choice(MAKERS)(rng) for _ in range(rng.randint(1, 12))]
        if rng.random() < 0.7:
            runs = [run for run in runs if not is_too_much(run[1])]
        stream, count = b"".join(run[0] for run in runs), sum(len(run[1]) for run in runs)
        is_too_long = any(is_too_much(run[1]) for run in runs)
        assert is_refused(stream) == is_refused(stream, count) == is_too_long
        if not is_too_long:
            with pytest.raises(ValueError, match=f"there are {count} lengths, {count + 1} were expected"):
                check_lengths(stream, count + 1)


def test_a_truncated_last_run_is_accepted() -> None:
    rng = random.Random(3)
    for make in MAKERS:
        for _ in range(40):
            stream, values = make(rng)
            for stop in {0, 1, 2, len(stream) - 1, rng.randrange(len(stream))}:
                if not is_too_much(values):
                    check_lengths(stream[:stop], 0)


def test_damage_only_raises_expected_errors() -> None:
    rng = random.Random(4)
    error_count = 0
    for _ in range(3_000):
        try:
            check_lengths(rng.randbytes(rng.randint(0, 60)), rng.choice((0, 0, 5)))
        except (ValueError, UnsafeInputError):
            error_count += 1
    assert error_count > 100
