"""ORC files of unusual writers are read as by Spark."""

from __future__ import annotations

from pathlib import Path

import pyorc
import pytest
from orc_samples import Sample
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.errors import ErrorCode
from pushdown_spark.formats.orc.metadata import footer_bytes, post_script_bytes, stripe_footer_bytes
from pushdown_spark.formats.orc.orc_proto_pb2 import RowIndex
from pushdown_spark.formats.orc.stripe import StreamKind
from pushdown_spark.runtime.error_classification import classify
from pushdown_spark.session import PushdownSession

READERS = ("spark", "pushdown", "auto")
NONE, LZO = b"\x10\x00", b"\x10\x03"
"""The field of a postscript that names the codec."""
MAGIC = b"\x82\xf4\x03\x03ORC"
"""The field of a postscript that has the magic."""
ROWS = 3_000


def _orc_file(path: Path, *, rows: int = ROWS, **options: object) -> bytes:
    """Write a file of strings and integers with a small row index stride. Return its content."""
    with path.open("wb") as target, pyorc.Writer(target, "struct<n:bigint,s:string>", **options) as writer:
        writer.writerows((number * 7919 % 100_003, f"text {number % 50}") for number in range(rows))
    return path.read_bytes()


def _with_postscript(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return the file with a changed field of its postscript."""
    length = content[-1]
    script = content[-1 - length : -1]
    assert script.count(old) == 1
    new_script = script.replace(old, new)
    return content[: -1 - length] + new_script + bytes([len(new_script)])


def _as_lzo(content: bytes) -> bytes:
    """Return an uncompressed file as a file of LZO chunks, which are stored without compression."""
    sample = Sample(content)
    streams = [
        (place.kind, place.column, content[place.offset :][: place.length]) for place in sample.stripe().locations
    ]
    body = b"".join(_store_block(data) for *_, data in streams)
    lengths = [(kind, column, len(_store_block(data))) for kind, column, data in streams]
    directory = _store_block(stripe_footer_bytes(lengths, list(sample.stripe().footer.columns), b""))
    tail = sample.tail
    footer = _store_block(
        footer_bytes(tail.footer, list(tail.types), [(3, len(body), len(directory), sample.stripe().row_count)])
    )
    script = post_script_bytes(tail.post_script, len(footer))
    return _with_postscript(b"ORC" + body + directory + footer + script + bytes([len(script)]), NONE, LZO)


def _store_block(data: bytes) -> bytes:
    return (len(data) << 1 | 1).to_bytes(3, "little") + data if data else b""


def _all_agree(spark: SparkSession, path: Path, where: str | None = None) -> dict[str, str]:
    """Assert that all readers return the same rows. Return which reader ran in the end."""
    outcomes = {}
    for reader in READERS:
        session = PushdownSession(spark)
        session.add_source("data", path=str(path), format="orc", reader=reader)
        result = session.scan("data", where=where)
        outcomes[reader] = result.run(sorted_rows), result.report()["data"]
    expected = spark.read.orc(str(path))
    expected_rows = sorted_rows(expected if where is None else expected.where(where))
    assert expected_rows
    for rows, _ in outcomes.values():
        assert rows == expected_rows
    return {reader: report.reader for reader, (_, report) in outcomes.items()}


@pytest.mark.parametrize("files", [1, 2])
def test_lzo_uses_spark(spark: SparkSession, tmp_path: Path, files: int) -> None:
    for number in range(files):
        path = tmp_path / f"{number}.orc"
        path.write_bytes(_as_lzo(_orc_file(path, rows=20, compression=pyorc.CompressionKind.NONE, row_index_stride=0)))
    assert set(_all_agree(spark, tmp_path).values()) == {"spark"}
    assert set(_all_agree(spark, tmp_path, "n = 0").values()) == {"spark"}


def test_files_of_an_earlier_version_use_spark(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(ROWS).selectExpr("id % 1000 AS n", "concat('text ', id) AS s")
    frame.write.option("orc.write.format", "0.11").orc(str(tmp_path / "old"))
    assert set(_all_agree(spark, tmp_path / "old", "n < 50").values()) == {"spark"}


def test_files_with_the_magic_only_at_the_start_are_read_by_pushdown(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "old.orc"
    path.write_bytes(_with_postscript(_orc_file(path), MAGIC, b""))
    assert _all_agree(spark, path, "n < 50")["pushdown"] == "pushdown"


@pytest.mark.parametrize("where", ["n < 50", "s = 'text 7'", "n IS NOT NULL"])
def test_row_indexes_without_positions_of_the_first_row_group_are_used(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    path = tmp_path / "index.orc"
    content = _orc_file(path, compression=pyorc.CompressionKind.NONE, row_index_stride=1_000)
    damaged_content = bytearray(content)
    indexes = [
        place for place in Sample(content).stripe().locations if place.kind == StreamKind.ROW_INDEX and place.column
    ]
    assert len(indexes) == 2
    for place in indexes:
        # The first entry's tag and length, then its positions: as a field of another number readers pass over them.
        positions = place.offset + 2
        assert damaged_content[positions] == 0x0A
        damaged_content[positions] = 0x1A
    path.write_bytes(damaged_content)
    assert _all_agree(spark, path, where)["pushdown"] == "pushdown"


@pytest.mark.parametrize("where", [None, "n < 50"])
def test_spark_reads_what_the_pushdown_reader_rejects(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    for name in ("a.orc", "b.orc"):
        _orc_file(tmp_path / name)

    def fails(*_: object) -> RowIndex:
        raise ValueError("it has something new")

    monkeypatch.setattr("pushdown_spark.formats.orc.file_tail.read_tail", fails)
    monkeypatch.setattr("pushdown_spark.formats.orc.file_reader.read_tail", fails)
    assert _all_agree(spark, tmp_path, where)["auto"] == "spark"


def test_the_error_names_an_unreadable_file(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.orc", "b.orc"):
        _orc_file(tmp_path / name)
    (tmp_path / "b.orc").write_bytes(b"ORC" + bytes(100))
    for reader in READERS:
        session = PushdownSession(spark)
        session.add_source("data", path=str(tmp_path), format="orc", reader=reader)
        with pytest.raises(Exception, match=r"b\.orc") as error:
            session.scan("data").run(sorted_rows)
        assert classify(error.value).code is ErrorCode.UNREADABLE_FILE
