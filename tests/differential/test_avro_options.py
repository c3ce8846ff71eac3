"""Options of Spark's Avro source have the same effect with the pushdown reader, which may use Spark's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import fastavro
import pytest
from avro_files import AVRO
from columnar_cases import count_rows
from pyspark.sql import SparkSession
from session_settings import pushdown_off
from spark_rows import SPARK_ERRORS

from pushdown_spark.errors import PushdownError
from pushdown_spark.session import PushdownSession

ROWS = 400
OUTDATED = -200_000
"""Days since 1970 of a day in 1422."""
SCHEMA = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "k", "type": "long"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "u", "type": ["null", "int", "string"]},
        {"name": "n", "type": ["null", "int"]},
    ],
}
READER = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "renamed", "type": "double", "aliases": ["k"]},
        {"name": "k", "type": "long", "default": -1},
        {"name": "more", "type": "string", "default": "none"},
    ],
}
UNRESOLVED = {**READER, "fields": [*READER["fields"], {"name": "no_default", "type": "int"}]}  # type: ignore[misc]
WRITERS = {
    "of Spark 2": {"org.apache.spark.version": "2.4.8"},
    "of Spark 3": {"org.apache.spark.version": "3.0.0"},
    "of Spark 3, legacy": {"org.apache.spark.version": "4.3.0", "org.apache.spark.legacyDateTime": ""},
}
"""Metadata of files, which names the Spark that wrote them."""
POSITIONAL = "first bigint, second date, third timestamp"


@dataclass(frozen=True)
class OptionsCase:
    """A directory (`sound`, `outdated`, `damaged`, or the outdated ones of `WRITERS`) and its options."""

    data: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    where: str | None = None
    is_ours: bool = False
    fails: bool = False


CASES = {
    "nothing special": OptionsCase("sound", where="n < 40", is_ours=True),
    "all files": OptionsCase("sound", {"ignoreExtension": "true"}, where="k >= 0", is_ours=True),
    "named files": OptionsCase("sound", {"ignoreExtension": "false"}, where="k >= 0", is_ours=True),
    "by position": OptionsCase("sound", {"positionalFieldMatching": "true"}, POSITIONAL, "first < 30"),
    "by name": OptionsCase(
        "sound", {"positionalFieldMatching": "false"}, "K bigint, third timestamp", "k < 30", is_ours=True
    ),
    "another schema": OptionsCase("sound", {"avroSchema": json.dumps(READER)}, where="n < 40 OR n IS NULL"),
    "a schema by URL": OptionsCase("sound", {"avroSchemaUrl": "READER"}, where="n < 40 AND more = 'none'"),
    "a schema that does not resolve": OptionsCase("sound", {"avroSchema": json.dumps(UNRESOLVED)}, fails=True),
    "stable unions": OptionsCase("sound", {"enableStableIdentifiersForUnionType": "true"}, where="k < 30"),
    "unions": OptionsCase("sound", where="u.member1 = 't8'", is_ours=True),
    "depth": OptionsCase("sound", {"recursiveFieldMaxDepth": "1"}, where="k < 30"),
    "outdated": OptionsCase("outdated", where="n < 40", is_ours=True),
    "outdated, corrected": OptionsCase("outdated", {"datetimeRebaseMode": "CORRECTED"}, where="n < 40", is_ours=True),
    "outdated, legacy": OptionsCase("outdated", {"datetimeRebaseMode": "LEGACY"}, where="n < 40"),
    "outdated, exception": OptionsCase("outdated", {"datetimeRebaseMode": "EXCEPTION"}, where="n < 40", fails=True),
    "outdated, legacy, by a day": OptionsCase(
        "outdated", {"datetimeRebaseMode": "LEGACY"}, where="day = DATE'1422-05-29'"
    ),
    "of Spark 2": OptionsCase("of Spark 2", where="n < 40"),
    "of Spark 2, by a day": OptionsCase("of Spark 2", where="day = DATE'1422-05-29'"),
    "of Spark 3": OptionsCase("of Spark 3", {"datetimeRebaseMode": "LEGACY"}, where="n < 40", is_ours=True),
    "of Spark 3, legacy": OptionsCase("of Spark 3, legacy", {"datetimeRebaseMode": "CORRECTED"}, where="n < 40"),
    "outdated, legacy, by day": OptionsCase(
        "outdated", {"datetimeRebaseMode": "LEGACY"}, where="day < DATE'1500-01-01'"
    ),
    "damaged": OptionsCase("damaged", where="k >= 0", fails=True),
    "damaged, permissive": OptionsCase("damaged", {"mode": "PERMISSIVE"}, where="k >= 0", fails=True),
    "damaged, failfast": OptionsCase("damaged", {"mode": "FAILFAST"}, where="k >= 0", fails=True),
    "damaged, ignored": OptionsCase("damaged", {"ignoreCorruptFiles": "true"}, where="k >= 0"),
    "missing, ignored": OptionsCase("sound", {"ignoreMissingFiles": "true"}, where="k < 30"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("options")
    (root / "reader.avsc").write_text(json.dumps(READER))
    for data in ("sound", "outdated", "damaged", *WRITERS):
        (root / data).mkdir()
        day = 15_000 if data in ("sound", "damaged") else OUTDATED
        for number, name in enumerate(("a.avro", "b.avro", "c.other")):
            _write(root / data / name, number * ROWS, day, WRITERS.get(data, {}))
    damaged = root / "damaged" / "b.avro"
    content = damaged.read_bytes()
    middle = len(content) // 2
    damaged.write_bytes(content[:middle] + b"\xff" * 60 + content[middle + 60 :])
    return root


def _write(path: Path, first: int, day: int, metadata: Mapping[str, str]) -> None:
    records = (
        {
            "k": key,
            "day": day + key % 50,
            "at": (day + key % 50) * 86_400_000_000 + key,
            "u": (None, key, f"t{key}")[key % 3],
            "n": None if key % 4 == 0 else key,
        }
        for key in range(first, first + ROWS)
    )
    schema = fastavro.parse_schema(SCHEMA)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, codec="deflate", sync_interval=1_000, metadata=dict(metadata))


@pytest.mark.parametrize("reader", ["pushdown", pytest.param("auto", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", CASES)
def test_options_have_the_same_effect_as_in_spark(spark: SparkSession, files: Path, name: str, reader: str) -> None:
    case = CASES[name]
    options = {key: text.replace("READER", (files / "reader.avsc").as_uri()) for key, text in case.options.items()}
    path = str(files / case.data)
    native = spark.read.format(AVRO).options(**options)
    session = PushdownSession(spark)
    session.add_source("t", path=path, format="avro", schema=case.schema, options=options, reader=reader)
    failures = (*SPARK_ERRORS, PushdownError)
    with pushdown_off(spark, "avro"):
        if case.fails:
            with pytest.raises(SPARK_ERRORS):
                native.load(path).toArrow()
            with pytest.raises(failures):
                session.scan("t", where=case.where).run(lambda frame: frame.toArrow())
            return
        frame = (native.schema(case.schema) if case.schema else native).load(path)
        expected = (frame.where(case.where) if case.where else frame).toArrow()
        result = session.scan("t", where=case.where)
        actual = result.run(lambda frame: frame.toArrow())
    assert count_rows(actual) == count_rows(expected)
    assert actual.num_rows > 0
    report = result.report()["t"]
    if reader == "pushdown":
        assert report.reader == ("pushdown" if case.is_ours else "spark"), report.reason
    assert report.reason
