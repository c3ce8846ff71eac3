"""A session returns the rows of Spark's reader after every change of its settings, of Hadoop's and of the files."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc, parquet
from pyspark.sql import DataFrame, SparkSession
from random_options import ZONES, Choices
from seeds import few_and_many, over_seeds
from session_settings import PUSHDOWN_OFF, session_settings
from spark_results import SPARK_ERRORS
from spark_rows import sorted_rows

from pushdown_spark.contract import ReaderChoice
from pushdown_spark.errors import PushdownError
from pushdown_spark.runtime.spark_internals import hadoop_configuration
from pushdown_spark.session import PushdownSession

CHANGES = 8
SETTINGS: Choices = {
    "spark.sql.session.timeZone": ZONES,
    "spark.sql.ansi.enabled": ("true", "false"),
    "spark.sql.caseSensitive": ("true", "false"),
    "spark.sql.columnNameOfCorruptRecord": ("Aa", "BB", "name"),
    "spark.sql.timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "spark.sql.legacy.timeParserPolicy": ("CORRECTED", "LEGACY", "EXCEPTION"),
    "spark.sql.parser.escapedStringLiterals": ("true", "false"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": ("true", "false"),
    "spark.sql.parquet.binaryAsString": ("true", "false"),
    "spark.sql.sources.useV1SourceList": ("avro,csv,json,kafka,orc,parquet,text", "avro"),
}
HADOOP: Choices = {
    "mapreduce.input.linerecordreader.line.maxlength": ("40", "400"),
    "mapreduce.input.pathFilter.class": ("org.apache.hadoop.mapred.OutputLogFilter",),
    "orc.force.positional.evolution": ("true", "false"),
    "orc.tolerate.missing.schema": ("true", "false"),
    "orc.schema.evolution.case.sensitive": ("true", "false"),
}
"""Settings of Hadoop, which a session may change for itself as well."""
PREDICATES = (
    "id > 4",
    "ID IN (1, 7)",
    "name = 'a'",
    "name LIKE '\\\\%' OR name = 'b'",
    "at < '2026-01-01 05:00:00'",
    "DATE(at) = '2026-01-01' AND id < 8",
    "id IS NULL",
)
SCHEMA = "id int, name string, at timestamp"
OTHER_NAMES = "number int, name string, at timestamp"
"""Columns of a file that the reader may match by position."""
TYPES = pa.schema([("id", pa.int32()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])


class Table:
    """A directory of small files whose content changes."""

    def __init__(self, directory: Path, file_format: str, rng: random.Random) -> None:
        directory.mkdir()
        self.directory = directory
        self.format = file_format
        self._rng = rng

    def add(self) -> None:
        """Add a file. Hadoop's OutputLogFilter drops some of them."""
        suffix = self._rng.choice(("", "_logs"))
        name = f"{len(list(self.directory.iterdir()))}-{self._rng.random()}{suffix}.{self.format}"
        (self.directory / name).write_bytes(self._content())

    def change(self) -> None:
        """Add, delete, replace or overwrite a file. The content may be as long and the time of the change as before."""
        files = sorted(self.directory.iterdir())
        kind = self._rng.randrange(5)
        if kind < 2 or not files:
            self.add()
            return
        file = self._rng.choice(files)
        if kind == 2:
            file.unlink()
            return
        before = file.stat()
        contents = [self._content() for _ in range(8)]
        content = min(contents, key=lambda content: abs(len(content) - before.st_size))
        if kind == 3:
            file.unlink()
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _content(self) -> bytes:
        rng = self._rng
        rows = [
            {"id": rng.randrange(10), "name": rng.choice("abc%"), "at": datetime(2026, 1, 1, rng.randrange(10))}
            for _ in range(6)
        ]
        if self.format == "csv":
            return "\n".join([",".join(TYPES.names), *(",".join(map(str, row.values())) for row in rows)]).encode()
        if self.format == "json":
            return "\n".join([*(json.dumps(row, default=str) for row in rows), '{"id": ']).encode()
        table, target = pa.Table.from_pylist(rows, schema=TYPES), pa.BufferOutputStream()
        if self.format == "orc":
            orc.write_table(table, target)
        else:
            parquet.write_table(table, target)
        return bytes(target.getvalue())


def columns_and_rows(frame: DataFrame) -> tuple[str, Sequence[str]]:
    """Return the schema as a string, and the rows as sorted strings."""
    strings = frame.selectExpr(*(f"CAST(`{name}` AS STRING)" for name in frame.columns))
    return frame.schema.simpleString(), sorted_rows(strings)


def check_session(spark: SparkSession, directory: Path, file_format: str, seed: int, tally: Counter[str]) -> None:
    """Compare the rows of a session with Spark's after each of some changes."""
    rng = random.Random(seed)
    table = Table(directory / str(seed), file_format, rng)
    for _ in range(3):
        table.add()
    source: dict[str, Any] = {"path": str(table.directory), "format": file_format, "options": {"header": "true"}}
    source["schema"] = rng.choice((None, SCHEMA, OTHER_NAMES if file_format in ("orc", "parquet") else SCHEMA))
    sessions = {reader: PushdownSession(spark) for reader in (ReaderChoice.PUSHDOWN, ReaderChoice.AUTO)}
    for reader, session in sessions.items():
        session.add_source("t", reader=reader.value, **source)
    settings: dict[str, str] = {}
    hadoop = hadoop_configuration(spark)
    for step in range(CHANGES):
        key = rng.choice(sorted(HADOOP))
        match rng.randrange(5):
            case 0:
                hadoop.set(key, rng.choice(HADOOP[key]))
            case 1:
                settings[key] = rng.choice(HADOOP[key])
            case 2:
                table.change()
            case _:
                settings |= {key: rng.choice(SETTINGS[key]) for key in rng.sample(sorted(SETTINGS), 2)}
        where = rng.choice(PREDICATES)
        about = f"seed {seed}, step {step}: {where} in {source}, settings {settings}"
        with session_settings(spark, settings):
            expected = _spark_result(spark, source, where)
            for reader, session in sessions.items():
                tally["compared"] += 1
                if expected is None:
                    with pytest.raises((*SPARK_ERRORS, PushdownError)):
                        session.scan("t", where=where).run(columns_and_rows)
                    continue
                assert session.scan("t", where=where).run(columns_and_rows) == expected, f"{about} with {reader}"
                tally["rows"] += len(expected[1])


def _spark_result(spark: SparkSession, source: Mapping[str, Any], where: str) -> tuple[str, Sequence[str]] | None:
    """Return the result of Spark's reader, or None if it fails."""
    reader = spark.read.format(source["format"]).options(**source["options"])
    reader = reader.schema(source["schema"]) if source["schema"] else reader
    try:
        with session_settings(spark, PUSHDOWN_OFF):
            return columns_and_rows(reader.load(source["path"]).where(where))
    except SPARK_ERRORS:
        return None


@pytest.fixture
def hadoop(spark: SparkSession) -> Iterator[None]:
    """Remove Hadoop's settings after a test."""
    yield
    for key in HADOOP:
        hadoop_configuration(spark).unset(key)


@pytest.mark.parametrize("sessions", few_and_many(2, 60))
@pytest.mark.parametrize("file_format", ["json", "csv", "orc", "parquet"])
def test_sessions_follow_changes(
    spark: SparkSession, hadoop: None, tmp_path: Path, file_format: str, sessions: int
) -> None:
    tally = Counter[str]()
    over_seeds(sessions, lambda seed: check_session(spark, tmp_path, file_format, seed, tally))
    assert tally["rows"], tally
