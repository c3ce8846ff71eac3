"""Expected outputs of the example DAGs, computed without Spark and without this project's readers."""

from __future__ import annotations

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

RARELY_SEEN = frozenset(
    ("N121DE", "N307AS", "N358SW", "N503US", "N525SW", "N572UW", "N612SW", "N646UA", "N683BR", "N824AW")
)
Flight = Mapping[str, str]
Row = tuple[str, ...]


@dataclass(frozen=True)
class Expected:
    """The rows that a task must write, as strings of some columns. With `limit`, any rows up to this number.

    `reader` is the expected reader of the task's source.
    """

    columns: tuple[str, ...]
    rows: Counter[Row]
    reader: str = "pushdown"
    limit: int | None = None

    @property
    def count(self) -> int:
        """The expected number of rows."""
        total = self.rows.total()
        return total if self.limit is None else min(total, self.limit)

    def matches(self, rows: Counter[Row]) -> bool:
        """Return whether written rows are the expected ones."""
        return rows.total() == self.count and rows <= self.rows


@dataclass(frozen=True)
class _ExpectedTask:
    """A task of an example DAG: the flights that it keeps and their columns."""

    keeps: Callable[[Flight], bool]
    columns: tuple[str, ...]
    reader: str = "pushdown"
    limit: int | None = None


def _needle(flight: Flight) -> bool:
    return flight["tailnum"] == "N328AA"


def _needle_in_july(flight: Flight) -> bool:
    return _needle(flight) and flight["month"] == "7"


def _rarely_seen(flight: Flight) -> bool:
    return flight["tailnum"] in RARELY_SEEN


def _to_hayden(flight: Flight) -> bool:
    return flight["dest"] == "HDN"


def _late(flight: Flight) -> bool:
    return int(flight["arr_delay"] or flight["dep_delay"] or 0) > 0


def _in_the_storm(flight: Flight) -> bool:
    return "2013-02-08T00:00:00Z" <= flight["time_hour"] <= "2013-02-09T23:59:59Z"


_TASKS: Mapping[tuple[str, str], _ExpectedTask] = {
    ("flights_scan", "needle"): _ExpectedTask(_needle, ("carrier", "flight", "tailnum", "arr_delay")),
    ("flights_scan", "range"): _ExpectedTask(_in_the_storm, ("carrier", "flight", "origin", "dest", "dep_delay")),
    ("flights_multi_scan", "extract.needle"): _ExpectedTask(_needle, ("carrier", "flight", "tailnum", "arr_delay")),
    ("flights_multi_scan", "extract.range"): _ExpectedTask(
        _in_the_storm, ("carrier", "flight", "origin", "dest", "dep_delay")
    ),
    ("flights_scan", "nested"): _ExpectedTask(_to_hayden, ("carrier", "flight", "origin")),
    ("flights_avro", "needle"): _ExpectedTask(_needle_in_july, ("carrier", "flight", "dest", "arr_delay")),
    ("flights_avro", "rarely_seen"): _ExpectedTask(_rarely_seen, ("tailnum", "carrier", "flight")),
    ("flights_avro", "nested"): _ExpectedTask(_to_hayden, ("carrier", "flight"), limit=10),
    ("flights_orc", "write"): _ExpectedTask(
        lambda _: True, ("month", "day", "carrier", "flight", "tailnum", "dep_time"), reader="spark"
    ),
    ("flights_orc", "needle"): _ExpectedTask(
        lambda flight: _needle_in_july(flight) and int(flight["day"]) <= 7,
        ("month", "day", "carrier", "flight", "arr_delay"),
    ),
    ("flights_orc", "rarely_seen"): _ExpectedTask(_rarely_seen, ("tailnum", "carrier", "flight", "origin", "dest")),
    ("flights_remote", "needle"): _ExpectedTask(
        _needle_in_july, ("month", "day", "carrier", "flight", "arr_delay"), reader="remote"
    ),
    ("flights_remote", "rarely_seen"): _ExpectedTask(
        lambda flight: _rarely_seen(flight) and _late(flight),
        ("tailnum", "carrier", "flight", "origin", "dest"),
        reader="remote",
        limit=5,
    ),
    ("flights_remote", "two_parts"): _ExpectedTask(
        lambda flight: _to_hayden(flight) and flight["carrier"] == "UA",
        ("time_hour", "carrier", "flight", "dest"),
        reader="remote",
    ),
}


def expectations(data: Path) -> dict[tuple[str, str], Expected]:
    """Return the expected output of each task (DAG, task) for the flights below `data`, of a scan as `task.scan`."""
    rows: dict[tuple[str, str], Counter[Row]] = defaultdict(Counter)
    cessnas = _Cessnas(data / "related")
    for flight in flights(data):
        cessnas.add(flight)
        for name, task in _TASKS.items():
            if task.keeps(flight):
                rows[name][tuple(flight[column] for column in task.columns)] += 1
    expected = {name: Expected(task.columns, rows[name], task.reader, task.limit) for name, task in _TASKS.items()}
    return {**expected, ("flights_join", "cessnas"): cessnas.expected()}


def flights(data: Path) -> Iterator[Flight]:
    """Yield the flights of the CSV files below `data`. Missing values are empty strings."""
    for path in sorted((data / "flights_csv").rglob("*.csv*")):
        yield from table(path)


def table(path: Path) -> Iterator[Flight]:
    """Yield the rows of a CSV file, which may be compressed with gzip."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


class _Cessnas:
    """The expected result of the join in `flights_join`."""

    def __init__(self, related: Path) -> None:
        self._airlines = _rows_by(related / "airlines.csv", "carrier")
        self._airports = _rows_by(related / "airports.csv", "faa")
        self._planes = _rows_by(related / "planes.csv", "tailnum")
        self._delays: dict[Row, list[int]] = defaultdict(list)
        self._flights: Counter[Row] = Counter()

    def add(self, flight: Flight) -> None:
        plane, airport = self._planes.get(flight["tailnum"]), self._airports.get(flight["dest"])
        if plane is None or airport is None or plane["manufacturer"] != "CESSNA" or airport["tz"] != "-6":
            return
        if flight["month"] in ("7", "8", "9"):
            group = (self._airlines[flight["carrier"]]["name"], airport["name"])
            self._flights[group] += 1
            if flight["arr_delay"]:
                self._delays[group].append(int(flight["arr_delay"]))

    def expected(self) -> Expected:
        rows = Counter((*group, str(number), str(max(self._delays[group]))) for group, number in self._flights.items())
        return Expected(("airline", "airport", "flights", "latest"), rows)


def _rows_by(path: Path, key: str) -> dict[str, Flight]:
    return {row[key]: row for row in table(path)}


def as_row(values: Sequence[object]) -> Row:
    """Return values of an output as the strings of CSV files."""
    return tuple("" if value is None else str(value) for value in values)
