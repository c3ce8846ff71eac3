"""Listed files, their compression by suffix, and their division into splits and tasks."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from pushdown_spark.contract import SourceSpec
from pushdown_spark.runtime.spark_internals import analyzed_plan
from pushdown_spark.scan.packing import Packing, pack
from pushdown_spark.sources.declaration import Source
from pushdown_spark.sources.file_loader import FileLoader
from pushdown_spark.sources.stores.listing import Compression, InputFile, decode_uri, local_files


@pytest.mark.parametrize(
    ("name", "compression"),
    [
        ("a.json", Compression.NONE),
        ("a.json.gz", Compression.GZIP),
        ("a.bz2", Compression.BZIP2),
        ("a.zst", Compression.ZSTD),
        ("a.json.GZ", Compression.GZIP),
        ("a.Bz2", Compression.BZIP2),
        ("a.LZ4", None),
        ("a.snappy", None),
        ("a.gzip", None),
        ("a.json.ZSTD", None),
        ("gz", Compression.NONE),
    ],
)
def test_the_suffix_determines_the_compression(name: str, compression: Compression | None) -> None:
    assert InputFile(f"file:///d/{name}", f"/d/{name}", 5).compression is compression


def test_uris_of_files_with_special_characters_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a b%20#?ü.json"
    path.write_bytes(b"12345")
    actual = local_files([path.as_uri()])
    assert [(file.path, file.size) for file in actual] == [(str(path), 5)]
    assert decode_uri(path.as_uri()).endswith("a b%20#?ü.json")


def _files(*sizes: int) -> list[InputFile]:
    return [InputFile(f"file:///d/{n}", f"/d/{n}", size) for n, size in enumerate(sizes)]


@pytest.mark.parametrize("sizes", [(1000,), (10, 0, 25, 7), (100,) * 30, (1,)])
def test_every_byte_is_in_one_split(sizes: tuple[int, ...]) -> None:
    tasks = pack(_files(*sizes), Packing(64, 4, 2))
    spans = sorted((split.path, split.start, split.end) for task in tasks for split in task.splits)
    for number, size in enumerate(sizes):
        mine = [(start, end) for path, start, end in spans if path == f"/d/{number}"]
        assert sum(end - start for start, end in mine) == size
        assert all(one[1] == two[0] for one, two in itertools.pairwise(mine))


def test_small_files_share_a_task_unless_rows_need_their_file_name() -> None:
    files = _files(*([10] * 20))
    packing = Packing(1000, 1, 1)
    assert len(pack(files, packing)) < 20
    apart = pack(files, packing, groups=range(len(files)))
    assert [task.file for task in apart] == list(range(20))


def test_a_task_has_files_of_one_group() -> None:
    tasks = pack(_files(*([10] * 9)), Packing(1000, 1, 1), groups=[number // 4 for number in range(9)])
    assert [(task.file, len(task.splits)) for task in tasks] == [(0, 4), (4, 4), (8, 1)]


def test_compressed_files_are_one_split() -> None:
    (task,) = pack([InputFile("file:///d/a.gz", "/d/a.gz", 1000)], Packing(64, 4, 2))
    assert [(split.start, split.end) for split in task.splits] == [(0, 1000)]


def test_without_files_there_are_no_tasks() -> None:
    assert pack([], Packing(64, 4, 2)) == ()


@pytest.mark.parametrize("partition", [None, "p"])
def test_spark_is_asked_once_for_the_table_of_a_listing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition: str | None
) -> None:
    """Each question takes eight calls to the JVM. Partition columns that no file has need no further one."""
    writer = spark.range(3).selectExpr("id", "id AS p").coalesce(1).write
    (writer.partitionBy(partition) if partition else writer).parquet(str(tmp_path / "t"))
    frames = []

    def count(frame: DataFrame) -> JavaObject:
        frames.append(frame)
        return analyzed_plan(frame)

    monkeypatch.setattr("pushdown_spark.sources.stores.listing.analyzed_plan", count)
    loader = FileLoader(spark, Source.of("t", SourceSpec(format="parquet", path=(str(tmp_path / "t"),))))
    listing = loader.load()
    assert len(listing.uris) == len(list(listing.entries())) == (3 if partition else 1)
    assert listing.partition_columns == (("p",) if partition else ())
    assert listing.data_columns == (("id",) if partition else ("id", "p"))
    assert listing.total_bytes() > 0
    assert frames == [listing.frame]
