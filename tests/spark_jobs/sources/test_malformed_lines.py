"""Malformed lines are counted by Spark's parser over whole lines, and the rows do not change."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_rows import sorted_rows

from pushdown_spark.contract import JobSpec, SourceSpec
from pushdown_spark.job import JobRun
from pushdown_spark.result import PushdownResult
from pushdown_spark.session import PushdownSession

SCHEMA = "id int, t string, s struct<x: int>"
JSON_LINES = [
    '{"id": 1, "t": "a", "s": {"x": 1}}',
    '{"id": "one", "t": "b"}',
    '{"id": 3, "t": "c", "s": {"x": "y"}}',
    '{"id": 4, "t": "d"',
    "not json",
    '{"id": null, "t": "e"}',
]
CSV_LINES = ["1,a,2026-01-01", "x,b,2026-01-01", "3,c", "4,d,2026-13-01", "5,e,2026-01-01,more", ",f,"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "a.json").write_text("\n".join(JSON_LINES))
    (tmp_path / "a.csv").write_text("\n".join(CSV_LINES))
    return tmp_path


def scan(spark: SparkSession, files: Path, kind: str, limit: int | None, **query: object) -> PushdownResult:
    session = PushdownSession(spark)
    schema = SCHEMA if kind == "json" else "id int, t string, d date"
    fields = {"format": kind, "path": (str(files / f"a.{kind}"),), "schema": schema, "max_malformed": limit}
    session.add("lines", SourceSpec.model_validate(fields))
    return session.scan("lines", **query)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "malformed"), [("json", 4), ("csv", 4)])
@pytest.mark.parametrize("query", [{}, {"columns": ["t"]}, {"columns": ["id"], "where": "t = 'a'"}, {"columns": []}])
def test_the_count_does_not_depend_on_columns_and_predicate(
    spark: SparkSession, files: Path, kind: str, malformed: int, query: dict[str, object]
) -> None:
    with_count, without_count = (scan(spark, files, kind, limit, **query) for limit in (0, None))
    rows = [result.run(sorted_rows) for result in (with_count, without_count)]
    assert rows[0] == rows[1]
    report = with_count.report()["lines"]
    assert report.malformed_lines == malformed
    assert report.reader == "spark"
    assert without_count.report()["lines"].malformed_lines is None


def test_nothing_is_counted_before_a_run(spark: SparkSession, files: Path) -> None:
    result = scan(spark, files, "json", 0, where="t = 'a'")
    assert result.report()["lines"].malformed_lines is None
    assert "max_malformed must parse every line to count malformed lines" in result.explain()


def test_a_corrupt_record_column_in_the_users_schema_is_kept(spark: SparkSession, files: Path) -> None:
    session = PushdownSession(spark)
    fields = {"format": "json", "path": (str(files / "a.json"),), "schema": f"{SCHEMA}, _corrupt_record string"}
    session.add("lines", SourceSpec.model_validate({**fields, "max_malformed": 9}))
    result = session.scan("lines", columns=["_corrupt_record"], where="_corrupt_record IS NOT NULL")
    assert len(result.run(lambda frame: frame.collect())) == 4
    assert result.report()["lines"].malformed_lines == 4


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "orc"}, "only lines of json and csv can be malformed"),
        ({"options": {"Mode": "FAILFAST"}}, "needs the option mode=PERMISSIVE"),
        ({"max_malformed": -1}, "greater than or equal to 0"),
    ],
)
def test_invalid_bounds_of_malformed_lines_raise(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SourceSpec.model_validate({"format": "json", "path": ("/a",), "max_malformed": 0, **fields})


@pytest.mark.parametrize(("limit", "passes"), [(3, False), (4, True)])
def test_a_job_fails_if_it_has_too_many_malformed_lines(
    spark: SparkSession, files: Path, limit: int, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The job would stop the session of all tests.
    monkeypatch.setattr("pushdown_spark.job.stop_spark", lambda _spark: None)
    source = {"format": "json", "path": [str(files / "a.json")], "schema": SCHEMA, "max_malformed": limit}
    spec = {"run_key": "run", "sources": {"lines": source}, "query": {"source": "lines"}}
    output = {"path": str(files / "out"), "checks": {"min_rows": 1}}
    result = JobRun(JobSpec.model_validate({**spec, "output": output})).execute()
    assert [check.passed for check in result.checks] == ([True, True] if passes else [False])
    assert result.checks[0].found == "4"
    assert (files / "out").exists() is passes
    if passes:
        assert result.error is None
        assert result.output_summary is not None
        assert result.output_summary.columns == {"id": "int", "t": "string", "s": "struct<x:int>"}
    else:
        assert result.error is not None
        assert result.error.code == "check_failed"
        assert not result.error.retryable
        assert "max_malformed: lines requires at most 3 malformed lines, found 4" in result.error.message
