"""Times that are stored without a time zone. Spark reads them in the JVM's zone if they were written in this zone.

ORC stores such a time as seconds since midnight of 2015-01-01 in the writer's time zone. If the reader has the same
zone, the instant is that midnight plus these seconds, so the only fact needed about the zone is the instant of this
midnight. Fractions before 1970 are treated as in the `TimestampTreeReader` of ORC's Java library.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError
from pushdown_spark.expressions.types import GREGORIAN_MICROS

UTC_ZONES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Z"})
SLICE_TIME_ZONE = b"GMT"
"""The writer's zone in the footers of row group slices. The stripe itself may have any zone."""
_UTC_START_OF_2015 = 1_420_070_400
"""The start of 2015 in UTC, in seconds since 1970."""
_NANOS = 1_000_000_000
_MAX_EXACT_FRACTION = 999_999
"""Nanoseconds above which Java's writer stores one second too many before 1970."""
_MAX_NANOS = (1 << 63) - 1


@dataclass(frozen=True)
class Zone:
    """The JVM's time zone: its name, and the start of 2015 in it, in seconds since 1970."""

    name: str = "UTC"
    epoch: int = _UTC_START_OF_2015

    @property
    def is_utc(self) -> bool:
        """Whether the zone is UTC under any of its names."""
        return self.name in UTC_ZONES

    def check_writer(self, writer_zone: bytes) -> None:
        """Raise UnsafeInputError if a stripe was written in another zone.

        As in Spark, a stripe without a zone counts as written in the reader's zone.
        """
        name = writer_zone.decode("utf-8", "replace")
        if name and name != self.name and not (self.is_utc and name in UTC_ZONES):
            raise UnsafeInputError(
                f"its timestamps were written in the time zone {name}, here it is {self.name}; read it with "
                "reader='spark'"
            )

    def instants(self, values: pa.Array) -> pa.Array:
        """Return the instants of times that were decoded as if their writer's zone were UTC.

        `values` are nanoseconds without a zone, of a checked stripe. Raises UnsafeInputError for times before 1900 in
        other zones than UTC.
        """
        if self.is_utc:
            return values
        shift = self.epoch - _UTC_START_OF_2015
        ends = pc.min_max(values.cast(pa.int64())).as_py()
        if ends["min"] is None:
            return values
        if ends["min"] // _NANOS + shift <= GREGORIAN_MICROS // 1_000_000:
            raise UnsafeInputError(f"there are timestamps before 1900, which Spark reads by the clocks of {self.name}")
        if ends["max"] + shift * _NANOS > _MAX_NANOS:
            raise UnsafeInputError("there are timestamps after 2262; read it with reader='spark'")
        if ends["min"] + min(shift, 0) * _NANOS >= 0:
            return pc.add(values, pa.scalar(shift * _NANOS, pa.duration("ns")))
        return _shift(values, shift)


UTC = Zone()


def _shift(values: pa.Array, shift: int) -> pa.Array:
    """Shift times by some seconds, if some of them are before 1970.

    Readers subtract a second from times before 1970 with a fraction, because writers round towards 1970. Whether a time
    is before 1970 depends on the zone, so this second is added before the shift and subtracted after it.
    """
    nulls = values.is_null().to_numpy(zero_copy_only=False)
    seconds, fractions = np.divmod(values.cast(pa.int64()).fill_null(0).to_numpy(), _NANOS)
    is_rounded = fractions > _MAX_EXACT_FRACTION
    file_seconds = seconds + (is_rounded & (seconds < 0)) + shift
    file_seconds -= is_rounded & (file_seconds < 0)
    return pa.array(file_seconds * _NANOS + fractions, mask=nulls).cast(values.type)
