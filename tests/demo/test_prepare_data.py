"""The demo's data: all formats have every flight with correct types, and builds are atomic and reproducible."""

from __future__ import annotations

import csv
import gzip
import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pytest

from demo.prepare_data import write_data

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,origin,"
    "dest,air_time,distance,hour,minute,time_hour"
)
FLIGHTS = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z",
    "2013,1,16,NA,600,NA,NA,700,NA,AA,7,NA,LGA,MIA,NA,1096,6,0,2013-01-16T11:00:00Z",
    "2013,6,2,1,2359,2,500,455,5,B6,707,N999XX,JFK,SJU,200,1598,23,59,2013-06-03T03:00:00Z",
    "2013,12,31,10,5,5,300,310,-10,DL,1,N14228,JFK,LAX,340,2475,0,5,2013-12-31T05:00:00Z",
)
PLANES = (
    "tailnum,year,type,manufacturer,model,engines,seats,speed,engine\nN14228,1999,Wing,BOEING,737-824,2,149,NA,Fan\n"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "package"
    directory.mkdir()
    with zipfile.ZipFile(directory / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join((HEADER, *FLIGHTS)) + "\n")
    (directory / "planes.csv").write_text(PLANES, encoding="utf-8")
    for table in ("airlines", "airports", "weather"):
        (directory / f"{table}.csv").write_text('code,name\nX,NA\nY,"a, b"\n', encoding="utf-8")
    return directory


def file_contents(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(path for path in root.rglob("*") if path.is_file()):
        raw = path.read_bytes()
        yield path.relative_to(root).as_posix(), (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def contents(root: Path) -> dict[Path, bytes]:
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def json_rows(target: Path) -> list[dict[str, object]]:
    return [json.loads(line) for _, text in file_contents(target / "flights_json") for line in text.splitlines()]


def csv_rows(target: Path) -> list[dict[str, str]]:
    return [row for _, text in file_contents(target / "flights_csv") for row in csv.DictReader(text.splitlines())]


def avro_rows(target: Path) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for path in sorted((target / "flights_avro").iterdir()):
        with path.open("rb") as file:
            rows += fastavro.reader(file)
    return rows


def test_all_formats_have_every_flight_by_year_and_month(source: Path, tmp_path: Path) -> None:
    summary = write_data(source, tmp_path / "data")

    assert summary.rows == len(FLIGHTS)
    assert summary.files == 11
    assert [name for name, _ in file_contents(tmp_path / "data" / "flights_json")] == [
        "2013/01/days-01-15.json",
        "2013/01/days-16-31.json",
        "2013/06/days-01-15.json",
        "2013/12/days-16-31.json.gz",
    ]
    expected = sorted(int(line.split(",")[10]) for line in FLIGHTS)
    assert sorted(row["flight"] for row in json_rows(tmp_path / "data")) == expected
    assert sorted(int(row["flight"]) for row in csv_rows(tmp_path / "data")) == expected
    assert sorted(row["flight"] for row in avro_rows(tmp_path / "data")) == expected


def test_csv_files_have_headers_and_one_is_compressed(source: Path, tmp_path: Path) -> None:
    write_data(source, tmp_path / "data")

    files = dict(file_contents(tmp_path / "data" / "flights_csv"))
    assert "2013/06/days-01-15.csv.gz" in files
    assert {text.splitlines()[0] for text in files.values()} == {HEADER}


def test_json_records_have_the_plane_and_a_nested_route_with_numbers(source: Path, tmp_path: Path) -> None:
    write_data(source, tmp_path / "data")

    first = next(row for row in json_rows(tmp_path / "data") if row["flight"] == 1545)
    assert first["route"] == {"origin": "EWR", "dest": "IAH", "distance": 1400}
    assert first["plane"] == {
        "year": 1999,
        "type": "Wing",
        "manufacturer": "BOEING",
        "model": "737-824",
        "engines": 2,
        "seats": 149,
        "engine": "Fan",
    }
    assert first["dep_delay"] == 2


def test_missing_values_are_absent_in_json_and_empty_in_csv(source: Path, tmp_path: Path) -> None:
    write_data(source, tmp_path / "data")

    flight = next(row for row in json_rows(tmp_path / "data") if row["flight"] == 7)
    assert not {"dep_time", "dep_delay", "arr_time", "arr_delay", "air_time", "tailnum", "plane"} & flight.keys()
    unknown_plane = next(row for row in json_rows(tmp_path / "data") if row["flight"] == 707)
    assert unknown_plane["tailnum"] == "N999XX"
    assert "plane" not in unknown_plane
    row = next(row for row in csv_rows(tmp_path / "data") if row["flight"] == "7")
    assert (row["dep_time"], row["tailnum"], row["distance"]) == ("", "", "1096")


def test_each_avro_file_has_a_quarter_with_another_codec_and_nulls_for_missing_values(
    source: Path, tmp_path: Path
) -> None:
    write_data(source, tmp_path / "data")

    files = sorted((tmp_path / "data" / "flights_avro").iterdir())
    assert [path.name for path in files] == ["quarter-1.avro", "quarter-2.avro", "quarter-4.avro"]
    codecs = []
    for path in files:
        with path.open("rb") as file:
            codecs.append(fastavro.reader(file).codec)
    assert codecs == ["snappy", "deflate", "deflate"]
    flight = next(row for row in avro_rows(tmp_path / "data") if row["flight"] == 7)
    assert {name for name, value in flight.items() if value is None} == {
        *("tailnum", "dep_time", "dep_delay", "arr_time", "arr_delay", "air_time")
    }
    assert flight["time_hour"] == datetime(2013, 1, 16, 11, tzinfo=UTC)
    assert flight["route"] == {"origin": "LGA", "dest": "MIA", "distance": 1096}


def test_related_tables_keep_their_quotes_and_have_empty_fields_for_na(source: Path, tmp_path: Path) -> None:
    write_data(source, tmp_path / "data")

    assert (tmp_path / "data" / "related" / "weather.csv").read_text() == 'code,name\nX,\nY,"a, b"\n'


def test_the_same_input_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_data(source, tmp_path / name)

    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_failure_keeps_the_old_data_and_removes_partial_files(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "out" / "data"
    write_data(source, target)
    before = contents(target)
    with zipfile.ZipFile(source / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", "\n".join((HEADER, FLIGHTS[0], FLIGHTS[1].replace("2013,1,16", "2013,1,x"))))

    with pytest.raises(ValueError, match="invalid literal"):
        write_data(source, target)

    assert contents(target) == before
    assert [path.name for path in target.parent.iterdir()] == ["data"]


def test_new_data_replaces_old_data(source: Path, tmp_path: Path) -> None:
    stale = tmp_path / "data" / "flights_json" / "2012" / "stale.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")

    write_data(source, tmp_path / "data")

    assert not stale.exists()
    assert len(json_rows(tmp_path / "data")) == len(FLIGHTS)
