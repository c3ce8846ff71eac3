"""Flights as Avro container files, one for each quarter, with alternating codecs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import fastavro
from fastavro.write import Writer

CODECS = ("deflate", "snappy")
NUMBERS = ("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "air_time")
_BLOCK_BYTES = 16_000
"""Size of a block before compression, a few hundred flights."""
_ROUTE = {
    "type": "record",
    "name": "route",
    "fields": [
        {"name": "origin", "type": "string"},
        {"name": "dest", "type": "string"},
        {"name": "distance", "type": "int"},
    ],
}
_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "flight",
        "fields": [
            *({"name": name, "type": "int"} for name in ("year", "month", "day")),
            {"name": "time_hour", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "carrier", "type": "string"},
            {"name": "flight", "type": "int"},
            {"name": "tailnum", "type": ["null", "string"]},
            *({"name": name, "type": ["null", "int"]} for name in NUMBERS),
            {"name": "route", "type": _ROUTE},
        ],
    }
)


class AvroFlights:
    """The Avro files of a directory. Each is created with its first flight, and closed with the stack."""

    def __init__(self, stack: ExitStack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self._writers: dict[int, Writer] = {}

    def write(self, flight: Mapping[str, object], moment: str) -> None:
        """Write a flight at an ISO timestamp. The flight is a nested record without keys for missing values."""
        quarter = (int(str(flight["month"])) + 2) // 3
        if quarter not in self._writers:
            self._writers[quarter] = self._open_writer(quarter)
        missing = dict.fromkeys(("tailnum", *NUMBERS))
        self._writers[quarter].write({**missing, **flight, "time_hour": datetime.fromisoformat(moment)})

    def _open_writer(self, quarter: int) -> Writer:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"quarter-{quarter}.avro"
        file = self._stack.enter_context(path.open("wb"))
        # Random markers, the default, would make the files differ in each run.
        marker = f"flights, part {quarter:02}".encode()
        codec = CODECS[quarter % len(CODECS)]
        writer = Writer(file, _SCHEMA, codec=codec, sync_interval=_BLOCK_BYTES, sync_marker=marker)
        flush: Callable[[], object] = writer.flush
        self._stack.callback(flush)
        return writer
