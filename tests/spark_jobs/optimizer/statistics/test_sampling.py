"""Samples of source files: bounds of columns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as t

from pushdown_spark.contract import SourceFormat
from pushdown_spark.optimizer.statistics import sampling
from pushdown_spark.optimizer.statistics.sampling import SourceSample, sample_files
from pushdown_spark.sources.stores.listing import InputFile

SCHEMA = t.StructType().add("Day", "long").add("v", "long")


def sample(*files: Path) -> SourceSample:
    inputs = [InputFile(file.as_uri(), str(file), file.stat().st_size) for file in files]
    return sample_files(inputs, SourceFormat.PARQUET, SCHEMA, {}, ["Day", "v"])


def write_file(file: Path, days: Sequence[int | None], group_rows: int, *, statistics: bool = True) -> Path:
    table = pa.table({"Day": pa.array(days, pa.int64()), "v": pa.array([7] * len(days), pa.int64())})
    pq.write_table(table, file, row_group_size=group_rows, write_statistics=statistics or ["v"])
    return file


def test_bounds_cover_all_row_groups(tmp_path: Path) -> None:
    assert sample(write_file(tmp_path / "f", range(5_000), 50)).bounds == {"day": (0, 4_999), "v": (7, 7)}


def test_bounds_cover_all_files(tmp_path: Path) -> None:
    files = [write_file(tmp_path / str(start), range(start, start + 100), 50) for start in (300, 100)]
    empty = write_file(tmp_path / "none", [], 50)
    assert sample(*files, empty).bounds == {"day": (100, 399), "v": (7, 7)}


def test_bounds_need_statistics_in_all_row_groups_and_files(tmp_path: Path) -> None:
    gaps = write_file(tmp_path / "gaps", [1, 2, None, None], 2)
    assert sample(gaps).bounds == {"v": (7, 7)}
    silent = write_file(tmp_path / "silent", range(10), 5, statistics=False)
    assert sample(write_file(tmp_path / "f", range(10), 5), silent).bounds == {"v": (7, 7)}


def test_bounds_are_not_read_from_too_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_MAX_CHUNK_STATISTICS", 19)
    assert sample(write_file(tmp_path / "f", range(10), 1)).bounds == {}


@pytest.mark.parametrize("header", ["true", "false", None])
def test_only_a_header_is_left_out_of_a_sample_of_csv(tmp_path: Path, header: str | None) -> None:
    first = "Day,v" if header == "true" else "0,7"
    (tmp_path / "f.csv").write_text("\n".join([first, *(f"{day},7" for day in range(1, 100)), ""]))
    file = InputFile((tmp_path / "f.csv").as_uri(), str(tmp_path / "f.csv"), (tmp_path / "f.csv").stat().st_size)
    options = {} if header is None else {"header": header}
    rows = sample_files([file], SourceFormat.CSV, SCHEMA, options, ["Day", "v"]).table
    assert rows["Day"].to_pylist() == list(range(1 if header == "true" else 0, 100))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"sep": "\\t"}, "7\t'x'\n"),
        ({"delimiter": ";", "quote": "'"}, "7;'a;b'\n"),
        ({"escape": '"'}, '7,"a "",b"\n'),
        ({}, '7,"a \\",b"\n'),
        ({"quote": ""}, '7,"\n'),
        ({}, "7,C:\\dir\\\n"),
        ({}, '7,"a ""b, c"" d"\n'),
    ],
)
def test_lines_of_csv_are_divided_as_by_spark(tmp_path: Path, options: dict[str, str], line: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text(line * 50)
    schema = t.StructType().add("Day", "long").add("v", "string")
    file = InputFile(path.as_uri(), str(path), path.stat().st_size)
    assert sample_files([file], SourceFormat.CSV, schema, options, ["Day"]).table["Day"].to_pylist() == [7] * 50
