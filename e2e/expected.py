"""What the example DAGs must leave, found by reading the flights without Spark and without this project's readers."""

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
    """The rows that a task must write, as texts of some of its columns; with `limit` any so many of them.

    `reader` is who must have read the source that the task is about.
    """

    columns: tuple[str, ...]
    rows: Counter[Row]
    reader: str = "pushdown"
    limit: int | None = None

    @property
    def count(self) -> int:
        """How many rows there must be."""
        total = self.rows.total()
        return total if self.limit is None else min(total, self.limit)

    def fits(self, rows: Counter[Row]) -> bool:
        """Whether rows that were written are as they must be."""
        return rows.total() == self.count and rows <= self.rows


@dataclass(frozen=True)
class _Question:
    """A task of an example DAG: which flights, which of their columns."""

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


_QUESTIONS: Mapping[tuple[str, str], _Question] = {
    ("flights_scan", "needle"): _Question(_needle, ("carrier", "flight", "tailnum", "arr_delay")),
    ("flights_scan", "range"): _Question(
        lambda flight: "2013-02-08T00:00:00Z" <= flight["time_hour"] <= "2013-02-09T23:59:59Z",
        ("carrier", "flight", "origin", "dest", "dep_delay"),
    ),
    ("flights_scan", "nested"): _Question(_to_hayden, ("carrier", "flight", "origin")),
    ("flights_avro", "needle"): _Question(_needle_in_july, ("carrier", "flight", "dest", "arr_delay")),
    ("flights_avro", "rarely_seen"): _Question(_rarely_seen, ("tailnum", "carrier", "flight")),
    ("flights_avro", "nested"): _Question(_to_hayden, ("carrier", "flight"), limit=10),
    ("flights_orc", "write"): _Question(
        lambda _: True, ("month", "day", "carrier", "flight", "tailnum", "dep_time"), reader="spark"
    ),
    ("flights_orc", "needle"): _Question(
        lambda flight: _needle_in_july(flight) and int(flight["day"]) <= 7,
        ("month", "day", "carrier", "flight", "arr_delay"),
    ),
    ("flights_orc", "rarely_seen"): _Question(_rarely_seen, ("tailnum", "carrier", "flight", "origin", "dest")),
    ("flights_remote", "needle"): _Question(
        _needle_in_july, ("month", "day", "carrier", "flight", "arr_delay"), reader="remote"
    ),
    ("flights_remote", "rarely_seen"): _Question(
        lambda flight: _rarely_seen(flight) and _late(flight),
        ("tailnum", "carrier", "flight", "origin", "dest"),
        reader="remote",
        limit=5,
    ),
    ("flights_remote", "two_parts"): _Question(
        lambda flight: _to_hayden(flight) and flight["carrier"] == "UA",
        ("time_hour", "carrier", "flight", "dest"),
        reader="remote",
    ),
}


def expectations(data: Path) -> dict[tuple[str, str], Expected]:
    """What each task (DAG, task) must write for the flights below `data`."""
    found: dict[tuple[str, str], Counter[Row]] = defaultdict(Counter)
    cessnas = _Cessnas(data / "related")
    for flight in flights(data):
        cessnas.add(flight)
        for task, question in _QUESTIONS.items():
            if question.keeps(flight):
                found[task][tuple(flight[name] for name in question.columns)] += 1
    expected = {
        task: Expected(question.columns, found[task], question.reader, question.limit)
        for task, question in _QUESTIONS.items()
    }
    return {**expected, ("flights_join", "cessnas"): cessnas.expected()}


def flights(data: Path) -> Iterator[Flight]:
    """Every flight of the CSV files below `data`; what was not recorded is an empty text."""
    for path in sorted((data / "flights_csv").rglob("*.csv*")):
        yield from table(path)


def table(path: Path) -> Iterator[Flight]:
    """The rows of a CSV file, which may be a gzip file."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        yield from csv.DictReader(lines)


class _Cessnas:
    """The join of `flights_join`, by hand."""

    def __init__(self, related: Path) -> None:
        self._airlines = _by(related / "airlines.csv", "carrier")
        self._airports = _by(related / "airports.csv", "faa")
        self._planes = _by(related / "planes.csv", "tailnum")
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


def _by(path: Path, key: str) -> dict[str, Flight]:
    return {row[key]: row for row in table(path)}


def as_row(values: Sequence[object]) -> Row:
    """Values of an output as the texts that CSV files hold."""
    return tuple("" if value is None else str(value) for value in values)
