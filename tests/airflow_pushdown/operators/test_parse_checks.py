"""Mistakes that show when Airflow parses the DAG file, and values that only the run can judge."""

from __future__ import annotations

from datetime import datetime

import pytest
from airflow.sdk import DAG, BaseOperator
from refusals import refusal

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import (
    LazyOrcScanOperator,
    PushdownJoinOperator,
    PushdownScanOperator,
    RemoteScanOperator,
)
from airflow_pushdown.operators.values import naming_parameters
from pushdown_spark.contract import JobSpec

FILES = {"path": "/data/{{ ds }}", "format": "json"}
TABLE = {"source_conn_id": "shop"}
FLIGHTS = {"path": "/data/{{ ds }}", "format": "json"}


@pytest.mark.parametrize(
    ("operator", "parameters", "message"),
    [
        (PushdownScanOperator, {**FILES, "checks": {"min_rows": 1}}, "checks: they apply to written rows"),
        (PushdownScanOperator, {**FILES, "limit": -1}, "limit: Input should be greater than or equal to 0 (got -1)"),
        (PushdownScanOperator, {**FILES, "reader": "fast", "limit": "{{ params.n }}"}, "reader: Input should be "),
        (
            PushdownScanOperator,
            {**FILES, "application": "mine.py"},
            "application: PushdownScanOperator submits its own",
        ),
        (
            PushdownScanOperator,
            {**FILES, "output": "/out/{{ ds }}", "output_mode": "overwrite_partitions"},
            "partition_by: mode overwrite_partitions needs the columns",
        ),
        (
            PushdownScanOperator,
            {**FILES, "format": "orc", "max_malformed": 3},
            "max_malformed: only lines of json and csv",
        ),
        (LazyOrcScanOperator, {"path": "{{ x }}", "use_selected": True}, "use_selected=True needs reader='pushdown'"),
        (RemoteScanOperator, {**TABLE, "table": "orders", "query": "SELECT 1"}, "table: give either a `table` or a"),
        (RemoteScanOperator, {**TABLE, "table": "shop.{{ x }}", "lower_bound": 1}, "lower_bound: give both"),
        (PushdownJoinOperator, {"sources": {"f": {**FLIGHTS, "reader": "?"}}, "query": "q"}, "sources.f.reader: Input"),
        (PushdownJoinOperator, {"sources": {}, "query": "SELECT 1"}, "sources: declare at least one source"),
    ],
)
def test_the_constructor_names_the_parameter(
    operator: type[BaseOperator], parameters: dict[str, object], message: str
) -> None:
    assert str(refusal(operator, task_id="scan", **parameters)).startswith(message)


@pytest.mark.parametrize(
    ("operator", "parameters"),
    [
        (PushdownScanOperator, {**FILES, "format": "{{ params.format }}", "reader": "?"}),
        (PushdownScanOperator, {**FILES, "checks": {"min_rows": 1}, "output": "{{ params.out }}"}),
        (PushdownScanOperator, {**FILES, "checks": {"min_rows": 1}, "output": "/out", "limit": "{{ params.n }}"}),
        (
            PushdownScanOperator,
            {**FILES, "output": "/out", "output_mode": "overwrite_partitions", "partition_by": "{{ params.by }}"},
        ),
        (RemoteScanOperator, {**TABLE, "table": "{{ params.table }}", "query": "{{ params.query }}"}),
        (RemoteScanOperator, {**TABLE, "table": "{{ params.table }}", "query": "SELECT 1"}),
        (RemoteScanOperator, {**TABLE, "table": "t", "lower_bound": "{{ params.first }}", "upper_bound": 5}),
        (LazyOrcScanOperator, {"path": "/x", "use_selected": True, "reader": "{{ params.reader }}"}),
        (PushdownJoinOperator, {"sources": {"f": {**FLIGHTS, "reader": "{{ params.reader }}"}}, "query": "q"}),
    ],
)
def test_values_with_templates_are_left_to_the_run(operator: type[BaseOperator], parameters: dict[str, object]) -> None:
    operator(task_id="scan", **parameters)


def test_results_of_other_tasks_are_left_to_the_run() -> None:
    with DAG("dependent", schedule=None, start_date=datetime(2026, 1, 1)):
        first = BaseOperator(task_id="first")
        scan = PushdownScanOperator(
            task_id="scan", path=first.output, format="json", limit=first.output, checks={"min_rows": 1}, output="/out"
        )
        PushdownJoinOperator(task_id="join", sources=first.output, query="SELECT 1")
        assert scan.upstream_task_ids == {"first"}
        with pytest.raises(ConfigError, match=r"^reader: "):
            PushdownScanOperator(task_id="other", path=first.output, format="json", reader="?")


def test_mapped_tasks_are_checked_when_they_run() -> None:
    with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1)):
        PushdownScanOperator.partial(task_id="scan", format="json", checks={"min_rows": 1}).expand(path=["/a", "/b"])


def test_subclasses_with_their_own_parameters_are_not_checked_too_early() -> None:
    class Scan(PushdownScanOperator):
        def __init__(self, *, day: str, **kwargs: object) -> None:
            super().__init__(**kwargs)
            self.day = day

        def file_fields(self) -> dict[str, object]:
            return {**super().file_fields(), "path": (self.day,)}

    assert Scan(task_id="scan", day="/1", **FILES).build_spec("k").sources["source"].path == ("/1",)


def test_an_error_has_one_problem_for_each_mistake() -> None:
    with pytest.raises(ConfigError) as error, naming_parameters({}):
        JobSpec.model_validate({"run_key": "k", "sources": {}, "query": {"limit": -1}, "conf": 5})
    assert len(error.value.problems) == 3
    assert str(error.value) == "; ".join(error.value.problems)
    with pytest.raises(ConfigError) as error, naming_parameters({}):
        JobSpec.model_validate(
            {"run_key": "k", "sources": {"a b": {"path": ["/in"], "format": "json"}}, "scans": {"a b": {}}}
        )
    (problem,) = error.value.problems
    assert problem.startswith("scans: 'a b' cannot be the name of a scan; use letters")
