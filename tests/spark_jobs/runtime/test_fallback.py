"""If the pushdown reader fails, Spark's reader takes the scan and the report names the exception."""

from __future__ import annotations

import gzip
import json
from datetime import date
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.errors import BadPredicateError, BadSpecError
from pushdown_spark.scan.packing import Task
from pushdown_spark.session import PushdownSession

SCHEMA = "id bigint, name string, day date"
FORMATS = ("json", "csv", "orc", "avro")
WHERE = "id >= 10 AND id < 12 AND part = 1"

EVERY = (
    "pushdown_spark.scan_planner.with_directories",
    "pushdown_spark.scan.partition_directories._directory_values",
    "pushdown_spark.scan.tasks.constants_by_task",
    "pushdown_spark.scan.tasks.packing",
)
"""Planning steps of all readers."""
TEXT = (
    "pushdown_spark.scan_planner.plan_text",
    "pushdown_spark.formats.text.planner.storage_for",
    "pushdown_spark.formats.text.planner.listed_files",
    "pushdown_spark.formats.text.planner.text_options",
    "pushdown_spark.formats.text.planner.check_settings",
    "pushdown_spark.formats.text.line_patterns.facts_of",
    "pushdown_spark.formats.text.planner.Searcher",
    "pushdown_spark.formats.text.planner.LineSampler",
    "pushdown_spark.formats.worker_scan.WorkerScan.__init__",
    "pushdown_spark.formats.worker_scan.with_constants_by_task",
)
COLUMNAR = ("pushdown_spark.formats.bound_predicate.bind", "pushdown_spark.formats.bound_predicate.check_meaning")
STEPS = {
    "json": (
        *EVERY,
        *TEXT,
        "pushdown_spark.formats.text.line_patterns.json_patterns",
        "pushdown_spark.formats.text.planner.ambiguous_json",
    ),
    "csv": (
        *EVERY,
        *TEXT,
        "pushdown_spark.formats.text.line_patterns.csv_patterns",
        "pushdown_spark.formats.text.planner.ambiguous_csv",
    ),
    "orc": (
        *EVERY,
        *COLUMNAR,
        "pushdown_spark.formats.columnar_scan.storage_for",
        "pushdown_spark.formats.columnar_scan.listed_files",
        "pushdown_spark.formats.orc.planner.orc_arrow_schema",
        "pushdown_spark.formats.orc.planner.OrcPlan.task_class",
        "pushdown_spark.formats.worker_scan.with_constants_by_task",
    ),
    "avro": (
        *EVERY,
        *COLUMNAR,
        "pushdown_spark.formats.avro.planner.check_avro_options",
        "pushdown_spark.formats.columnar_scan.storage_for",
        "pushdown_spark.formats.avro.planner.read_header",
        "pushdown_spark.formats.avro.decoder.parse_schema",
        "pushdown_spark.formats.avro.decoder.block_patterns",
        "pushdown_spark.formats.worker_scan.with_constants_by_task",
    ),
}
ESTIMATES = {
    "orc": ("pushdown_spark.formats.orc.planner.estimate", "pushdown_spark.formats.orc.cost.open_orc"),
    "avro": ("pushdown_spark.formats.avro.planner.estimate", "pushdown_spark.formats.avro.cost.open_avro"),
}
"""Planning steps of reader='auto'."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Path:
    """Write the same rows in every format, in two partitions."""
    from pushdown_spark.runtime.spark_internals import spark_format

    folder = tmp_path_factory.mktemp("fallback")
    rows = [(number, f"name {number}", date(2024, 1, 1 + number % 28), number % 2) for number in range(40)]
    frame = spark.createDataFrame(rows, f"{SCHEMA}, part int").coalesce(1)
    for name in FORMATS:
        writer = frame.write.partitionBy("part").format(spark_format(name))
        writer.save(str(folder / name))
    return folder


def _session(spark: SparkSession, path: Path, source_format: str, reader: str) -> PushdownSession:
    session = PushdownSession(spark)
    session.add_source("data", path=str(path / source_format), format=source_format, schema=SCHEMA, reader=reader)
    return session


def _cases() -> list[tuple[str, str, str]]:
    expected = [(name, step, "pushdown") for name in FORMATS for step in STEPS[name]]
    return expected + [(name, step, "auto") for name, steps in ESTIMATES.items() for step in steps]


@pytest.mark.parametrize(("source_format", "step", "reader"), _cases())
def test_spark_reads_the_source_if_planning_fails(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, source_format: str, step: str, reader: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise LookupError("an unexpected error")

    monkeypatch.setattr(step, fails)
    result = _session(spark, folder, source_format, reader).scan("data", columns=["id", "part"], where=WHERE)
    report = result.report()["data"]
    assert report.reader == "spark"
    assert report.reason == (
        "the pushdown reader failed while it planned the scan: unexpected LookupError: an unexpected error"
    )
    assert result.run(sorted_rows) == ["Row(id=11, part=1)"]


@pytest.mark.parametrize("source_format", FORMATS)
def test_spark_reads_the_source_if_a_task_fails(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, source_format: str
) -> None:
    monkeypatch.setattr("pushdown_spark.formats.worker_scan.tasks_of", lambda *_, **__: (Task(("no split",)),))
    result = _session(spark, folder, source_format, "pushdown").scan("data", columns=["id"], where="id = 11")
    assert result.report()["data"].reader == "pushdown"
    assert result.run(sorted_rows) == ["Row(id=11)"]
    assert result.report()["data"].reader == "spark"
    assert "unexpected AttributeError" in result.report()["data"].reason


def test_user_errors_and_signals_are_raised_without_a_fallback(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = _session(spark, folder, "json", "pushdown")
    with pytest.raises(BadPredicateError):
        session.scan("data", where="id = = 3")
    for kind in (BadSpecError, KeyboardInterrupt):

        def fails(*_: object, kind: type[BaseException] = kind) -> None:
            raise kind("as it is")

        monkeypatch.setattr("pushdown_spark.scan_planner.plan_text", fails)
        with pytest.raises(kind, match="as it is"):
            session.scan("data", where="id = 3")


@pytest.mark.parametrize(
    ("schema", "options", "settings", "where", "ids"),
    [
        ("id int, d date", {"dateFormat": "dd/MM/yyyy"}, {}, "d >= DATE'2020-01-03' AND d < DATE'2020-01-05'", [2, 3]),
        (
            "id int, t timestamp",
            {"timestampFormat": "dd/MM/yyyy HH"},
            {},
            "t >= TIMESTAMP'2020-01-03 00:00:00' AND t < TIMESTAMP'2020-01-05 00:00:00'",
            [2, 3],
        ),
        (
            "id int, l date",
            {},
            {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
            "l >= DATE'2020-01-03' AND l < DATE'2020-01-05'",
            [2, 3],
        ),
        ("id int, x double", {}, {}, "x > -1e300 AND x < 1e300", list(range(9))),
        ("id int, x double", {}, {}, "x > -1e300 AND x < 1e300 AND x < 1e301 AND id = 3", [3]),
    ],
)
@pytest.mark.parametrize("reader", ["auto", "pushdown"])
def test_ranges_without_a_byte_pattern_return_the_matching_rows(
    spark: SparkSession,
    tmp_path: Path,
    schema: str,
    options: dict[str, str],
    settings: dict[str, str],
    where: str,
    ids: list[int],
    reader: str,
) -> None:
    records = (
        {"id": n, "d": f"{n + 1:02}/01/2020", "t": f"{n + 1:02}/01/2020 10", "l": f"2020-01-{n + 1:02}", "x": n / 2}
        for n in range(9)
    )
    (tmp_path / "a.json.gz").write_bytes(gzip.compress("".join(json.dumps(each) + "\n" for each in records).encode()))
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        session = PushdownSession(spark)
        session.add_source("data", path=str(tmp_path), format="json", schema=schema, options=options, reader=reader)
        result = session.scan("data", columns=["id"], where=where)
        assert "reader failed" not in result.report()["data"].reason
        assert result.report()["data"].reader == ("pushdown" if reader == "pushdown" else "spark")
        assert result.run(sorted_rows) == [f"Row(id={number})" for number in ids]
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
