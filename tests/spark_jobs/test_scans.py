"""Jobs with several scans: one Spark application, an outcome for each scan, and retries after a failure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from job_process import LOCAL, result_of, run_command
from pydantic import ValidationError

from pushdown_spark.contract import ErrorCode, JobResult, JobSpec
from pushdown_spark.contract.report_text import render_text

pytestmark = pytest.mark.starts

SCHEMA = "id int, t string"
ROWS = '{"id": 1, "t": "x"}\n{"id": 2, "t": "y"}\n{"id": 3, "t": "y"}\n'


def source(path: Path) -> dict[str, object]:
    return {"format": "json", "path": [str(path)], "schema": SCHEMA}


def four_scans(directory: Path) -> dict[str, Any]:
    """Return a job of four scans. The third one fails, because its files are missing."""
    for name in ("a", "b", "d"):
        (directory / "in" / name).mkdir(parents=True)
        (directory / "in" / name / "rows.json").write_text(ROWS)
    out = directory / "out"
    return {
        "run_key": "dag/task/run/-1",
        "generation": "0 first",
        "sources": {name: source(directory / "in" / name) for name in ("a", "b", "c", "d")},
        "scans": {
            "a": {"where": "t = 'y'", "output": {"path": str(out / "a"), "format": "json"}},
            "b": {"output": {"path": str(out / "b"), "format": "json", "mode": "append"}},
            "c": {"output": {"path": str(out / "c"), "format": "json"}},
            "d": {"columns": ["id"], "where": "id > 1", "limit": 1},
        },
        "conf": LOCAL,
        "result_path": str(directory / "result.json"),
    }


def run(spec: dict[str, Any], tmp_path: Path) -> tuple[JobResult, str]:
    """Run a job. Return its result and the output of the process."""
    done, result = run_command("run", spec, tmp_path), result_of(spec)
    assert done.returncode == (0 if result.error is None else 1), done.stderr
    return result, done.stdout + done.stderr


@dataclass(frozen=True)
class Try:
    """The result of one try of a job, its log, and the rows and files of its outputs after it."""

    result: JobResult
    log: str
    rows: dict[str, list[int]]
    files: dict[str, list[str]]

    @classmethod
    def run(cls, spec: dict[str, Any], directory: Path) -> Try:
        result, log = run(spec, directory)
        outputs = [path for path in (directory / "out").iterdir() if not path.name.startswith(".")]
        files = {output.name: sorted(path.name for path in output.iterdir()) for output in outputs}
        return cls(result, log, {output.name: rows(output) for output in outputs}, files)


def rows(output: Path) -> list[int]:
    lines = [line for part in output.glob("part-*") for line in part.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scans")


@pytest.fixture(scope="module")
def tries(directory: Path) -> tuple[Try, Try]:
    """Run a job of which one scan fails, add files to its sources `a` and `c`, and retry it."""
    job = four_scans(directory)
    first = Try.run(job, directory)
    (directory / "in" / "a" / "more.json").write_text('{"id": 9, "t": "y"}\n')
    (directory / "in" / "c").mkdir()
    (directory / "in" / "c" / "rows.json").write_text(ROWS)
    return first, Try.run(job, directory)


@pytest.fixture(scope="module")
def first(tries: tuple[Try, Try]) -> Try:
    return tries[0]


@pytest.fixture(scope="module")
def retry(tries: tuple[Try, Try]) -> Try:
    return tries[1]


def test_a_failed_scan_fails_the_job_with_a_retryable_error_that_names_all_scans(first: Try) -> None:
    error = first.result.error
    assert error is not None
    assert (error.code, error.retryable) == (ErrorCode.MISSING_PATH, True)
    assert error.message.startswith("1 of 4 scans failed: c: ")
    assert error.message.endswith(". Completed: a, b, d")


def test_the_scans_share_one_application(first: Try) -> None:
    assert first.log.count("airflow_pushdown: application ") == 1


def test_the_other_scans_are_completed_although_one_fails(first: Try) -> None:
    assert {name: scan.rows for name, scan in first.result.scans.items()} == {"a": 2, "b": 3, "c": None, "d": 1}
    assert first.result.rows == 6
    assert first.rows == {"a": [2, 3], "b": [1, 2, 3]}


def test_a_retry_leaves_the_rows_of_one_run(first: Try, retry: Try) -> None:
    assert retry.result.error is None
    assert {name: scan.rows for name, scan in retry.result.scans.items()} == {"a": 2, "b": 3, "c": 3, "d": 1}
    assert retry.rows == {"a": [2, 3], "b": [1, 2, 3], "c": [1, 2, 3]}
    assert retry.files["a"] == first.files["a"], "files that arrive between the tries change no committed output"


def test_a_retry_reports_the_output_of_the_earlier_try_without_reading_again(retry: Try) -> None:
    summary = retry.result.scans["a"].output_summary
    assert summary is not None
    assert (summary.is_from_earlier_try, summary.files, summary.columns) == (True, 1, {"id": "int", "t": "string"})
    assert retry.result.of_scan("a").sources == {}
    assert "a: 2 rows written to " in render_text(retry.result)


def test_a_try_after_a_complete_job_finds_its_outputs(directory: Path, retry: Try) -> None:
    """Airflow starts one if it did not learn that the task has succeeded."""
    assert retry.result.error is None
    second = Try.run(json.loads((directory / "spec.json").read_text()), directory)
    assert second.result.error is None
    assert (second.rows, second.files["c"]) == (retry.rows, retry.files["c"])


def test_the_result_of_several_scans_is_read_back_from_xcom(directory: Path, retry: Try) -> None:
    assert JobResult.from_xcom(retry.result.as_xcom()) == retry.result
    assert retry.result.of_scan("c").output == str(directory / "out" / "c")


def output(path: str, mode: str = "overwrite") -> dict[str, object]:
    return {"output": {"path": path, "mode": mode}}


@pytest.mark.parametrize(
    ("scans", "problem"),
    [
        ({"a": output("/out/x"), "b": output("/out/x/")}, "'a' and 'b' write to one output"),
        ({"a": output("/out/x"), "b": output("file:///out/x/y")}, "'a' and 'b' write to one output"),
        ({"a": output("/out/./x"), "b": output("file:/out/y/..//x")}, "'a' and 'b' write to one output"),
        ({"a": output("/in/b/c"), "b": output("/out/b")}, "'b' reads /in/b, where 'a' writes"),
        ({"a": output("/out/a"), "return_value": output("/out/b")}, "cannot be the name of a scan"),
        ({"a": output("/out/a"), "x y": output("/out/b")}, "cannot be the name of a scan"),
    ],
)
def test_scans_that_depend_on_each_other_are_rejected(scans: dict[str, object], problem: str) -> None:
    sources = {name: source(Path("/in") / name) for name in scans}
    with pytest.raises(ValidationError, match=problem):
        JobSpec.model_validate({"run_key": "k", "sources": sources, "scans": scans})


def test_scans_may_append_to_one_directory(tmp_path: Path) -> None:
    scans = {name: output("/out/x", "append") for name in ("a", "b")}
    sources = {name: source(tmp_path / name) for name in scans}
    job = JobSpec.model_validate({"run_key": "k", "sources": sources, "scans": scans})
    assert [job.job_of(name).run_key for name in scans] == ["k/a", "k/b"]


@pytest.mark.parametrize("parts", [{}, {"query": {"source": "a"}, "scans": {"a": {}}}])
def test_a_job_has_either_a_query_or_scans(parts: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="give either `query` or `scans`"):
        JobSpec.model_validate({"run_key": "k", "sources": {"a": source(Path("/in"))}, **parts})
