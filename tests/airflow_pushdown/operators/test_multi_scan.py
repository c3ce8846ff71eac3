"""The operator of several scans up to its job spec, and what it does with the result. Nothing is submitted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG, Asset, AssetAlias
from refusals import refusal

from airflow_pushdown.exceptions import InputError
from airflow_pushdown.operators import PushdownMultiScanOperator
from pushdown_spark.contract import (
    IntervalSpec,
    JobError,
    JobResult,
    JobSpec,
    OutputChecks,
    OutputMode,
    OutputSpec,
    RemoteSourceSpec,
    ScanReport,
    ScanSpec,
    SourceFormat,
    SourceReport,
    SourceSpec,
    TableOutputSpec,
    TableSourceSpec,
)
from pushdown_spark.errors import ErrorCode

Scans = dict[str, dict[str, object]]
SCANS: Scans = {
    "orders": {"path": "/in/orders", "format": "json", "options": {"multiLine": False}, "where": "id > 1"},
    "users": {"table": "db.users", "columns": ["id"], "limit": "5", "output": "/elsewhere", "output_mode": "append"},
}


def task(scans: object = SCANS, **parameters: Any) -> PushdownMultiScanOperator:
    return PushdownMultiScanOperator(task_id="extract", scans=scans, **parameters)  # type: ignore[arg-type]


def spec(scans: object = SCANS, **parameters: Any) -> JobSpec:
    return task(scans, **parameters).build_spec("d/t/r/-1", "0")


def test_each_scan_becomes_a_source_and_a_query_with_its_output() -> None:
    job = spec(output="/lake/", output_mode="overwrite", output_format="orc", nested_pruning=False)
    assert job.sources == {
        "orders": SourceSpec(format=SourceFormat.JSON, path=("/in/orders",), options={"multiLine": "false"}),
        "users": TableSourceSpec(table="db.users"),
    }
    assert job.query is None
    assert job.scans == {
        "orders": ScanSpec(
            where="id > 1", output=OutputSpec(path="/lake/orders", mode=OutputMode.OVERWRITE, format="orc")
        ),
        "users": ScanSpec(
            columns=("id",), limit=5, output=OutputSpec(path="/elsewhere", mode=OutputMode.APPEND, format="orc")
        ),
    }
    assert job.conf["spark.sql.optimizer.nestedSchemaPruning.enabled"] == "false"


def test_defaults_apply_to_the_kind_of_output_that_they_are_for() -> None:
    job = spec(
        {
            "files": {"path": "/in/a", "format": "csv", "output": "/out/a"},
            "table": {"path": "/in/b", "format": "csv", "output_table": "public.b", "output_conn_id": "shop"},
            "counted": {"path": "/in/c", "format": "csv"},
        },
        output_mode="append",
        partition_by=["day"],
        checks={"min_rows": 1},
    )
    checks = OutputChecks(min_rows=1)
    assert [scan.output for scan in job.scans.values()] == [
        OutputSpec(path="/out/a", mode=OutputMode.APPEND, partition_by=("day",), checks=checks),
        TableOutputSpec(table="public.b", mode=OutputMode.APPEND, checks=checks),
        None,
    ]


def test_a_database_is_a_source() -> None:
    job = spec({"orders": {"source_conn_id": "shop", "table": "orders", "where": "id = 1"}})
    assert job.sources == {"orders": RemoteSourceSpec(table="orders")}


def test_templates_are_rendered_in_scans() -> None:
    extract = task({"orders": {"path": "/in/{{ ds }}", "format": "csv", "output": "/out/{{ ds }}"}})
    extract.render_template_fields({"ds": "2026-01-02", "ti": {"dag_id": "d", "task_id": "t"}})  # type: ignore[typeddict-item]
    job = extract.build_spec("k")
    assert job.sources["orders"].path == ("/in/2026-01-02",)  # type: ignore[union-attr]
    assert job.scans["orders"].output == OutputSpec(path="/out/2026-01-02")


def test_the_scans_may_come_from_another_task() -> None:
    with DAG("d", schedule=None):
        extract = task("{{ ti.xcom_pull('list') }}")
        mapped_task = PushdownMultiScanOperator.partial(task_id="m", output="/out").expand(scans=[SCANS])
    extract.scans = SCANS
    assert set(extract.build_spec("k").scans) == {"orders", "users"}
    assert mapped_task.operator_class is PushdownMultiScanOperator


def test_scans_have_the_interval_of_the_run() -> None:
    extract = task({"orders": {"path": "/in", "format": "csv", "data_interval": "time"}, "users": SCANS["users"]})
    start, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    extract._read_interval({"data_interval_start": start, "data_interval_end": end})  # type: ignore[typeddict-item]
    job = extract.build_spec("k")
    assert job.scans["orders"].interval == IntervalSpec(column="time", start=start, end=end)
    assert job.scans["users"].interval is None


@pytest.mark.parametrize(
    ("scans", "problem"),
    [
        ({}, "scans: declare at least one scan"),
        ([SCANS["orders"]], "scans: Input should be a valid dictionary"),
        ({"orders": {"path": "/in", "format": "jsn"}}, "scans.orders.format: "),
        ({"orders": {"path": "/in", "format": "json", "wher": "a = 1"}}, "scans.orders.wher: unknown parameter"),
        ({"orders": {"path": "/in", "format": "json", "limit": -1}}, "scans.orders.limit: "),
        (
            {"orders": {"path": "/in", "format": "json", "checks": {"min_rows": 1}}},
            "scans.orders.checks: they apply to written rows",
        ),
        (
            {"orders": {"path": "/in", "format": "json", "output": "/o", "output_mode": "merge"}},
            "scans.orders.output_mode: files cannot be merged",
        ),
        (
            {"orders": {"path": "/in", "format": "json", "output_table": "t", "output": "/o"}},
            "scans.orders.output: it is for files",
        ),
        ({"o/1": {"path": "/in", "format": "json"}}, "scans: 'o/1' cannot be the name of a scan"),
        ({"a tuple": {"path": "/in", "format": "json"}}, "scans: 'a tuple' cannot be the name of a scan"),
        (
            {name: {"path": f"/in/{name}", "format": "json", "output": "/out"} for name in ("a", "b")},
            "scans: 'a' and 'b' write to one output (/out)",
        ),
        (
            {
                name: {"path": "/in", "format": "json", "output_table": "t", "output_conn_id": "shop"}
                for name in ("a", "b")
            },
            "scans: 'a' and 'b' write to one table (t)",
        ),
    ],
)
def test_errors_name_the_scan_when_airflow_parses_the_file(scans: object, problem: str) -> None:
    assert problem in str(refusal(spec, scans))


def test_every_output_is_an_asset() -> None:
    extract = task(SCANS, output="/lake", assets=True)
    assert extract.inlets == [Asset(uri="file:///in/orders")]
    assert extract.outlets == [Asset(uri="file:///lake/orders"), Asset(uri="file:///elsewhere")]
    with DAG("d", schedule=None):
        templated = task({"orders": {**SCANS["orders"], "output": "/lake/{{ ds }}"}}, assets=True)
    assert templated.outlets == [AssetAlias("d.extract.orders")]


def test_each_scan_has_an_xcom_value_of_its_own() -> None:
    xcoms: dict[str, Any] = {}

    class Instance:
        def xcom_push(self, key: str, value: object) -> None:
            xcoms[key] = value

    missing = JobError(code=ErrorCode.MISSING_PATH, message="path: there is no /in", retryable=True)
    source = SourceReport(reader="spark", reason="small")
    result = JobResult(
        rows=3,
        sources={"orders": source},
        scans={"orders": ScanReport(rows=3, output="/lake/orders"), "users": ScanReport(error=missing)},
        error=missing,
    )
    task()._push_results({"ti": Instance()}, result)  # type: ignore[typeddict-item]
    assert {name: JobResult.from_xcom(value) for name, value in xcoms.items()} == {
        "orders": JobResult(rows=3, output="/lake/orders", sources={"source": source}),
        "users": JobResult(error=missing),
        "return_value": result,
    }


def test_a_result_that_airflow_does_not_store_does_not_replace_the_error_of_the_job() -> None:
    class Instance:
        def xcom_push(self, key: str, value: object) -> None:
            raise ConnectionError("the API server restarts")

    missing = JobError(code=ErrorCode.MISSING_PATH, message="path: there is no /in", retryable=True)
    result = JobResult(scans={"orders": ScanReport(error=missing)}, error=missing)
    with pytest.raises(InputError, match="there is no /in"):
        task()._finish({"ti": Instance()}, result)  # type: ignore[typeddict-item]
