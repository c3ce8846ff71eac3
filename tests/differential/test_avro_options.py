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
from pyspark.sql import DataFrame, SparkSession
from session_settings import pushdown_off, session_settings
from spark_results import SPARK_ERRORS

from pushdown_spark.contract import SourceReport
from pushdown_spark.errors import PushdownError
from pushdown_spark.result import PushdownResult
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


PUSHDOWN = {
    "nothing special": OptionsCase("sound", where="n < 40"),
    "all files": OptionsCase("sound", {"ignoreExtension": "true"}, where="k >= 0"),
    "named files": OptionsCase("sound", {"ignoreExtension": "false"}, where="k >= 0"),
    "by name": OptionsCase("sound", {"positionalFieldMatching": "false"}, "K bigint, third timestamp", "k < 30"),
    "unions": OptionsCase("sound", where="u.member1 = 't8'"),
    "outdated": OptionsCase("outdated", where="n < 40"),
    "outdated, corrected": OptionsCase("outdated", {"datetimeRebaseMode": "CORRECTED"}, where="n < 40"),
    "of Spark 3": OptionsCase("of Spark 3", {"datetimeRebaseMode": "LEGACY"}, where="n < 40"),
}
"""Read by the pushdown reader, if it is requested."""
SPARK = {
    "by position": OptionsCase("sound", {"positionalFieldMatching": "true"}, POSITIONAL, "first < 30"),
    "another schema": OptionsCase("sound", {"avroSchema": json.dumps(READER)}, where="n < 40 OR n IS NULL"),
    "a schema by URL": OptionsCase("sound", {"avroSchemaUrl": "READER"}, where="n < 40 AND more = 'none'"),
    "stable unions": OptionsCase("sound", {"enableStableIdentifiersForUnionType": "true"}, where="k < 30"),
    "depth": OptionsCase("sound", {"recursiveFieldMaxDepth": "1"}, where="k < 30"),
    "outdated, legacy": OptionsCase("outdated", {"datetimeRebaseMode": "LEGACY"}, where="n < 40"),
    "outdated, legacy, by a day": OptionsCase(
        "outdated", {"datetimeRebaseMode": "LEGACY"}, where="day = DATE'1422-05-29'"
    ),
    "of Spark 2": OptionsCase("of Spark 2", where="n < 40"),
    "of Spark 2, by a day": OptionsCase("of Spark 2", where="day = DATE'1422-05-29'"),
    "of Spark 3, legacy": OptionsCase("of Spark 3, legacy", {"datetimeRebaseMode": "CORRECTED"}, where="n < 40"),
    "outdated, legacy, by day": OptionsCase(
        "outdated", {"datetimeRebaseMode": "LEGACY"}, where="day < DATE'1500-01-01'"
    ),
    "damaged, ignored": OptionsCase("damaged", {"ignoreCorruptFiles": "true"}, where="k >= 0"),
    "missing, ignored": OptionsCase("sound", {"ignoreMissingFiles": "true"}, where="k < 30"),
}
"""Read by Spark's reader, even if the pushdown reader is requested."""
FAILING = {
    "a schema that does not resolve": OptionsCase("sound", {"avroSchema": json.dumps(UNRESOLVED)}),
    "outdated, exception": OptionsCase("outdated", {"datetimeRebaseMode": "EXCEPTION"}, where="n < 40"),
    "a mode that Spark does not know": OptionsCase("sound", {"datetimeRebaseMode": "corrected"}, where="n < 40"),
    "damaged": OptionsCase("damaged", where="k >= 0"),
    "damaged, permissive": OptionsCase("damaged", {"mode": "PERMISSIVE"}, where="k >= 0"),
    "damaged, failfast": OptionsCase("damaged", {"mode": "FAILFAST"}, where="k >= 0"),
}
"""Rejected by both readers."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("options")
    (root / "reader.avsc").write_text(json.dumps(READER))
    for data in ("sound", "outdated", "damaged", *WRITERS):
        (root / data).mkdir()
        day = 15_000 if data in ("sound", "damaged") else OUTDATED
        for number, name in enumerate(("a.avro", "b.avro", "c.other")):
            _write(root / data / name, number * ROWS, day, WRITERS.get(data, {}))
    damaged_path = root / "damaged" / "b.avro"
    content = damaged_path.read_bytes()
    middle = len(content) // 2
    damaged_path.write_bytes(content[:middle] + b"\xff" * 60 + content[middle + 60 :])
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


def options_of(files: Path, case: OptionsCase) -> dict[str, str]:
    return {key: text.replace("READER", (files / "reader.avsc").as_uri()) for key, text in case.options.items()}


def spark_frame(spark: SparkSession, files: Path, case: OptionsCase) -> DataFrame:
    """Return the rows of Spark's Avro source."""
    reader = spark.read.format(AVRO).options(**options_of(files, case))
    return (reader.schema(case.schema) if case.schema else reader).load(str(files / case.data))


def scan(spark: SparkSession, files: Path, case: OptionsCase, reader: str) -> PushdownResult:
    session = PushdownSession(spark)
    source = {"path": str(files / case.data), "schema": case.schema, "options": options_of(files, case)}
    session.add_source("t", format="avro", reader=reader, **source)
    return session.scan("t", where=case.where)


def compare(spark: SparkSession, files: Path, case: OptionsCase, reader: str) -> SourceReport:
    """Assert that a reader returns the rows of Spark's Avro source. Return its report."""
    with pushdown_off(spark, "avro"):
        frame = spark_frame(spark, files, case)
        expected = (frame.where(case.where) if case.where else frame).toArrow()
        result = scan(spark, files, case, reader)
        actual = result.run(lambda frame: frame.toArrow())
    assert count_rows(actual) == count_rows(expected)
    assert actual.num_rows > 0
    report = result.report()["t"]
    assert report.reason
    return report


@pytest.mark.parametrize("name", PUSHDOWN)
def test_options_that_the_pushdown_reader_supports_return_sparks_rows(
    spark: SparkSession, files: Path, name: str
) -> None:
    assert compare(spark, files, PUSHDOWN[name], "pushdown").reader == "pushdown"


def test_a_setting_of_the_session_may_be_in_lower_case(spark: SparkSession, files: Path) -> None:
    """Spark converts the setting to upper case, but not the option."""
    with session_settings(spark, {"spark.sql.avro.datetimeRebaseModeInRead": "corrected"}):
        assert compare(spark, files, PUSHDOWN["outdated"], "pushdown").reader == "pushdown"


@pytest.mark.parametrize("name", SPARK)
def test_options_that_only_spark_supports_use_spark(spark: SparkSession, files: Path, name: str) -> None:
    assert compare(spark, files, SPARK[name], "pushdown").reader == "spark"


@pytest.mark.nightly
@pytest.mark.parametrize("name", [*PUSHDOWN, *SPARK])
def test_options_return_sparks_rows_with_the_reader_that_auto_chooses(
    spark: SparkSession, files: Path, name: str
) -> None:
    compare(spark, files, {**PUSHDOWN, **SPARK}[name], "auto")


@pytest.mark.parametrize("reader", ["pushdown", pytest.param("auto", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", FAILING)
def test_files_that_spark_rejects_with_these_options_fail(
    spark: SparkSession, files: Path, name: str, reader: str
) -> None:
    with pushdown_off(spark, "avro"):
        with pytest.raises(SPARK_ERRORS):
            spark_frame(spark, files, FAILING[name]).toArrow()
        with pytest.raises((*SPARK_ERRORS, PushdownError)):
            scan(spark, files, FAILING[name], reader).run(lambda frame: frame.toArrow())
