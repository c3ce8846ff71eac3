"""Seeking to any value of a stream yields the values from there on, for every encoding of runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pytest
from orc_samples import of_streams, write_sample
from rle_samples import WIDTHS, delta, direct, patch_run, short_repeat, zigzag

from pushdown_spark.formats.orc.rle_seek import SeekPosition, StreamCoding, seek_values
from pushdown_spark.formats.orc.stripe import StreamKind

LONGS = write_sample(pa.table({"x": pa.array([1], pa.int64())}))
STRINGS = write_sample(pa.table({"x": pa.array(["a"])}))
BYTES = write_sample(pa.table({"x": pa.array([1], pa.int8())}))
BOOLEANS = write_sample(pa.table({"x": pa.array([True])}))


def decode(stream: bytes, coding: StreamCoding, count: int) -> list[int]:
    """Return the values that pyarrow reads from a stream. Unsigned integers are read as string lengths."""
    if coding is StreamCoding.UNSIGNED:
        room = b"a" * (1 << 20)
        streams = [(StreamKind.DATA, 1, room), (StreamKind.LENGTH, 1, stream)]
        return [len(text) for text in of_streams(STRINGS, streams, count).column(0).to_pylist()]
    template = {StreamCoding.BYTES: BYTES, StreamCoding.BITS: BOOLEANS}.get(coding, LONGS)
    return of_streams(template, [(StreamKind.DATA, 1, stream)], count).column(0).to_pylist()


def check_every_start(stream: bytes, coding: StreamCoding, values: Sequence[int]) -> None:
    assert decode(stream, coding, len(values)) == values, "the test's own encoder is wrong"
    for start in range(len(values)):
        rest = seek_values(stream, coding, SeekPosition(start))
        assert decode(rest, coding, len(values) - start) == values[start:], start


Run = tuple[str, bytes, list[int]]
"""A run's name, its bytes and its values."""


def plain_runs() -> Iterator[Run]:
    """Return runs of repeated values, and of values of every width."""
    rng = random.Random(7)
    for value in (0, -1, 5, 300, -70_000, 2**40, -(2**63), 2**63 - 1):
        for count in (3, 10):
            yield f"repeat {value} {count} times", short_repeat(zigzag(value) & (2**64 - 1), count), [value] * count
    for width in WIDTHS:
        for count in (1, 33):
            numbers = [rng.getrandbits(width) for _ in range(count)]
            yield f"direct {width} bits", direct(numbers, width), [(s >> 1) ^ -(s & 1) for s in numbers]


def patched_runs() -> Iterator[Run]:
    """Return runs of values above a base, some of which have patched bits."""
    rng = random.Random(8)
    for base, patch_width, gaps in ((-1000, 8, (3, 2)), (2000, 24, (0, 5)), (-(2**40), 3, (7,)), (0, 40, (1, 1, 1))):
        low = [rng.getrandbits(6) for _ in range(20)]
        patches = [(gap, rng.getrandbits(patch_width) | 1) for gap in gaps]
        values = [base + value for value in low]
        for place, (_, patch) in zip(itertools.accumulate(gaps), patches, strict=True):
            values[place] += patch << 6
        yield f"patched base {base}", patch_run(base, low, 6, patches, patch_width), values
    low = [rng.getrandbits(4) for _ in range(400)]
    far = [base_value - 3 for base_value in low]
    far[300] += 9 << 4
    yield "patched over a long gap", patch_run(-3, low, 4, [(255, 0), (45, 9)], 4), far


def delta_runs() -> Iterator[Run]:
    """Return runs of equal deltas, and of deltas of every width in both directions."""
    rng = random.Random(9)
    for first, step in ((10, 0), (-10, 7), (5, -3), (2**62, -(2**40))):
        yield f"delta {step}, fixed", delta(first, step, [], 0, 50, signed=True), [first + step * n for n in range(50)]
    for width in (2, 4, 8, 16, 24, 32, 40):
        for step in (1, -1):
            deltas = [rng.getrandbits(width) for _ in range(18)]
            values = [100, 100 + step]
            for change in deltas:
                values.append(values[-1] + step * change)
            yield f"delta {step} of {width} bits", delta(100, step, deltas, width, 20, signed=True), values


RUNS = [*plain_runs(), *patched_runs(), *delta_runs()]


@pytest.mark.parametrize(("stream", "values"), [run[1:] for run in RUNS], ids=[run[0] for run in RUNS])
def test_a_run_begins_at_any_value(stream: bytes, values: list[int]) -> None:
    check_every_start(stream, StreamCoding.SIGNED, values)


def test_consecutive_runs_begin_at_any_value() -> None:
    some_runs = random.Random(3).sample(RUNS, 12)
    stream = b"".join(run[1] for run in some_runs)
    values = [value for run in some_runs for value in run[2]]
    for start in range(0, len(values), 5):
        assert (
            decode(
                seek_values(stream, StreamCoding.SIGNED, SeekPosition(start)), StreamCoding.SIGNED, len(values) - start
            )
            == values[start:]
        )


def test_unsigned_runs_begin_at_any_value() -> None:
    runs = [
        (short_repeat(300, 5), [300] * 5),
        (direct([1, 7, 0, 5], 3), [1, 7, 0, 5]),
        (patch_run(2, [1, 0, 3, 1, 2], 2, [(3, 100)], 7), [3, 2, 5, 2 + 1 + 400, 4]),
        (delta(9, 2, [], 0, 6, signed=False), [9, 11, 13, 15, 17, 19]),
        (delta(90, -1, [3, 0, 2], 2, 5, signed=False), [90, 89, 86, 86, 84]),
    ]
    check_every_start(
        b"".join(run for run, _ in runs), StreamCoding.UNSIGNED, [value for _, part in runs for value in part]
    )


BYTE_STREAM = bytes([100 - 3, 9, 256 - 3, 1, 255, 7, 130 - 3, 0, 256 - 128, *range(128), 0, 5])
BYTE_VALUES = [9] * 100 + [1, 255, 7] + [0] * 130 + list(range(128)) + [5] * 3


def test_byte_streams_can_be_seeked_to_any_value() -> None:
    check_every_start(BYTE_STREAM, StreamCoding.BYTES, [value - 256 if value > 127 else value for value in BYTE_VALUES])


def test_bit_streams_can_be_seeked_to_any_value() -> None:
    bits = np.unpackbits(np.array(BYTE_VALUES, np.uint8)).astype(bool).tolist()
    for start in range(0, len(bits), 3):
        rest = seek_values(BYTE_STREAM, StreamCoding.BITS, SeekPosition(start // 8, start % 8))
        assert decode(rest, StreamCoding.BITS, len(bits) - start) == bits[start:], start


def test_a_stream_truncated_after_the_start_keeps_its_values() -> None:
    stream = direct(list(range(32)), 5) + direct(list(range(32)), 5)
    rest = seek_values(stream[:-4], StreamCoding.UNSIGNED, SeekPosition(3))
    assert rest.endswith(stream[len(stream) // 2 : -4])


@pytest.mark.parametrize("coding", [coding for coding in StreamCoding if coding is not StreamCoding.RAW])
def test_damage_only_raises_value_errors(coding: StreamCoding) -> None:
    rng = random.Random(11)
    error_count = 0
    for _ in range(3_000):
        data = rng.randbytes(rng.randint(0, 60))
        try:
            seek_values(
                data, coding, SeekPosition(rng.randint(0, 600), rng.randint(0, 7) if coding is StreamCoding.BITS else 0)
            )
        except ValueError:
            error_count += 1
    assert error_count > 100


def test_raw_streams_and_starts_of_runs_are_unchanged() -> None:
    assert seek_values(b"abc", StreamCoding.RAW, SeekPosition(2)) == b"abc"
    assert seek_values(BYTE_STREAM, StreamCoding.BYTES, SeekPosition()) == BYTE_STREAM
