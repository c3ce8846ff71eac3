"""Times that are stored without a time zone, as Spark reads them: in the JVM's zone, where they were written in that.

ORC stores such a time as seconds since midnight of 2015-01-01 in its writer's time zone. Where the reader's zone is the
same, the instant is that midnight and these seconds; no rules of time zones are needed but where midnight was. Java's
reader (`TimestampTreeReader` of ORC) is what is followed here, with what it does about fractions before 1970.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pushdown_spark.errors import UnsafeInputError

UTC_ZONES = frozenset({"UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Z"})
DECODED_IN = b"GMT"
"""The zone that decoders are told for every stripe, whichever it was written in."""
_UTC_EPOCH = 1_420_070_400
_NANOS = 1_000_000_000
_MILLI = 999_999
"""Up to so many nanoseconds Java's writer does not count a second too many before 1970."""
_CALENDARS_AGREE = -2_208_988_800
"""1900 in UTC: Spark takes earlier times of some zones for others, whose clocks followed the sun."""
_LARGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Zone:
    """The JVM's time zone: its name, and when 2015 began in it, in seconds since 1970."""

    name: str = "UTC"
    epoch: int = _UTC_EPOCH

    @property
    def is_utc(self) -> bool:
        """Whether all its times are those of UTC."""
        return self.name in UTC_ZONES

    def check(self, written_in: bytes) -> None:
        """Raises UnsafeInputError where times of a stripe cannot be read here: its writer's zone is another one.

        Writers that tell no zone are taken for ones in the reader's own, as by Spark.
        """
        name = written_in.decode("utf-8", "replace")
        if name and name != self.name and not (self.is_utc and name in UTC_ZONES):
            raise UnsafeInputError(
                f"its timestamps were written in the time zone {name}, here it is {self.name}; read it with "
                "reader='spark'"
            )

    def instants(self, values: pa.Array) -> pa.Array:
        """Times that were decoded as if their writer's zone were UTC, of a stripe that was checked.

        `values` are nanoseconds without a zone. Raises UnsafeInputError for times before 1900 in other zones than UTC.
        """
        if self.is_utc:
            return values
        shift = self.epoch - _UTC_EPOCH
        ends = pc.min_max(values.cast(pa.int64())).as_py()
        if ends["min"] is None:
            return values
        if ends["min"] // _NANOS + shift <= _CALENDARS_AGREE:
            raise UnsafeInputError(f"there are timestamps before 1900, which Spark reads by the clocks of {self.name}")
        if ends["max"] + shift * _NANOS > _LARGEST:
            raise UnsafeInputError("there are timestamps after 2262; read it with reader='spark'")
        if ends["min"] + min(shift, 0) * _NANOS >= 0:
            return pc.add(values, pa.scalar(shift * _NANOS, pa.duration("ns")))
        return _moved(values, shift)


UTC = Zone()


def _moved(values: pa.Array, shift: int) -> pa.Array:
    """Times moved by some seconds, where some are before 1970.

    Of seconds before 1970 with a fraction readers take off one, because writers round towards 1970. Which seconds are
    before 1970 depends on the zone, so what was taken off is added, and taken off again after the move.
    """
    missing = values.is_null().to_numpy(zero_copy_only=False)
    seconds, fractions = np.divmod(values.cast(pa.int64()).fill_null(0).to_numpy(), _NANOS)
    counts = fractions > _MILLI
    stored = seconds + (counts & (seconds < 0)) + shift
    stored -= counts & (stored < 0)
    return pa.array(stored * _NANOS + fractions, mask=missing).cast(values.type)
