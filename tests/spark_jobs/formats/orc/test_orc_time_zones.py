"""Timestamps without a time zone are read in the JVM's zone."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.formats.orc.time_zones import UTC, Zone

BERLIN = Zone("Europe/Berlin", 1_420_066_800)
NEW_YORK = Zone("America/New_York", 1_420_088_400)
SECOND = 1_000_000_000
HOUR = 3600 * SECOND
HALF = SECOND // 2


def move_times(zone: Zone, *nanos: int | None) -> list[int | None]:
    times = zone.instants(pa.array(nanos, pa.timestamp("ns")))
    assert times.type == pa.timestamp("ns")
    moments: list[int | None] = times.cast(pa.int64()).to_pylist()
    return moments


def test_times_are_counted_from_the_writers_midnight_of_2015() -> None:
    assert move_times(BERLIN, 10 * HOUR, None) == [9 * HOUR, None]
    assert move_times(NEW_YORK, 10 * HOUR) == [15 * HOUR]
    assert move_times(UTC, 10 * HOUR, -1, None) == [10 * HOUR, -1, None]
    assert move_times(BERLIN, None) == [None]
    assert move_times(BERLIN) == []


@pytest.mark.parametrize(
    ("zone", "decoded_micros", "read_micros"),
    [
        # Before 1970 only in Berlin's time: a second is subtracted.
        (BERLIN, HALF, -HOUR - HALF),
        (BERLIN, HALF // 1000, -HOUR + HALF // 1000),
        (BERLIN, HALF + HOUR, HALF),
        # Before 1970 in both: the second stays subtracted.
        (BERLIN, -HOUR - HALF, -2 * HOUR - HALF),
        # Before 1970 only in UTC: the second is added again.
        (NEW_YORK, -HOUR - HALF, 4 * HOUR + HALF),
        (NEW_YORK, -HOUR, 4 * HOUR),
        (NEW_YORK, -6 * HOUR - HALF, -HOUR - HALF),
    ],
)
def test_fractions_before_1970_follow_the_zone(zone: Zone, decoded_micros: int, read_micros: int) -> None:
    assert move_times(zone, decoded_micros, None) == [read_micros, None]
    assert move_times(zone, decoded_micros, HOUR * 100) == [read_micros, *move_times(zone, HOUR * 100)]


def test_times_before_1900_use_spark() -> None:
    begin = -2_208_988_800 * SECOND
    assert move_times(BERLIN, begin + 2 * HOUR) == [begin + HOUR]
    with pytest.raises(UnsafeInputError, match="before 1900"):
        move_times(BERLIN, begin)
    assert move_times(UTC, begin - HOUR) == [begin - HOUR]


def test_times_after_2262_use_spark() -> None:
    with pytest.raises(UnsafeInputError, match="2262"):
        move_times(NEW_YORK, (1 << 63) - 1)
    assert move_times(BERLIN, (1 << 63) - 1) == [(1 << 63) - 1 - HOUR]


@pytest.mark.parametrize("writer_zone", [b"", b"Europe/Berlin"])
def test_stripes_of_the_same_zone_are_read(writer_zone: bytes) -> None:
    BERLIN.check_writer(writer_zone)


def test_all_names_of_utc_are_one_zone() -> None:
    UTC.check_writer(b"Etc/GMT")
    Zone("Zulu").check_writer(b"UTC")


@pytest.mark.parametrize(("zone", "writer_zone"), [(BERLIN, b"UTC"), (UTC, b"Europe/Berlin"), (BERLIN, b"CET")])
def test_stripes_of_other_zones_use_spark(zone: Zone, writer_zone: bytes) -> None:
    with pytest.raises(UnsafeInputError, match=f"written in the time zone {writer_zone.decode()}, here it is"):
        zone.check_writer(writer_zone)
