"""The scan operator up to its job spec: templates, mapping and validation. Nothing is submitted."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.mappedoperator import MappedOperator
from refusals import refusal

from airflow_pushdown.exceptions import ConfigError, DriverKilledError
from airflow_pushdown.operators import PushdownScanOperator
from pushdown_spark.contract import (
    CatalogOutputSpec,
    DatabaseKind,
    JobSpec,
    OrcOptions,
    OutputChecks,
    OutputMode,
    OutputSpec,
    ReaderChoice,
    RemoteConnection,
    SourceFormat,
    SourceSpec,
    TableOutputSpec,
    TableSourceSpec,
)


def spec(**parameters: object) -> JobSpec:
    arguments = {"path": "/data/*.json", "format": "json", **parameters}
    return PushdownScanOperator(task_id="scan", **arguments).build_spec("d/t/r/-1")


def test_the_parameters_become_the_job() -> None:
    job = spec(
        path=["/a", "/b"],
        format="csv",
        schema="a int, b string",
        options={"header": True, "sep": ";", "quote": None, "maxColumns": 7},
        columns=["a", "dir0"],
        where="a > 1",
        limit=10,
        filter_pushdown=False,
        reader="pushdown",
        output="/out",
        output_format="json",
        output_mode="overwrite",
        output_options={"compression": "gzip"},
        partition_by=["b"],
        nested_pruning=False,
    )
    source = job.sources[job.query.source or ""]
    assert source.path == ("/a", "/b")
    assert source.format is SourceFormat.CSV
    assert source.schema_ddl == "a int, b string"
    assert source.options == {"header": "true", "sep": ";", "maxColumns": "7"}
    assert source.reader is ReaderChoice.PUSHDOWN
    assert source.filter_pushdown is False
    assert (job.query.columns, job.query.where, job.query.limit) == (("a", "dir0"), "a > 1", 10)
    assert isinstance(job.output, OutputSpec)
    assert (job.output.path, job.output.format, job.output.mode) == ("/out", "json", OutputMode.OVERWRITE)
    assert (job.output.options, job.output.partition_by) == ({"compression": "gzip"}, ("b",))
    assert job.conf == {
        "spark.sql.csv.filterPushdown.enabled": "false",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
        "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
        "spark.sql.python.filterPushdown.enabled": "true",
    }


def test_a_table_of_the_catalog_may_replace_the_path() -> None:
    operator = PushdownScanOperator(
        task_id="scan", table="db.events", options={"versionAsOf": 3}, reader="pushdown", where="a > 1"
    )
    job = operator.build_spec("d/t/r/-1")
    (source,) = job.sources.values()
    assert source == TableSourceSpec(
        table="db.events", options={"versionAsOf": "3"}, reader="pushdown", orc=OrcOptions()
    )
    assert JobSpec.model_validate_json(job.model_dump_json(by_alias=True)) == job


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"path": "/a", "table": "t", "format": "csv"}, "path: give either `path` or `table`"),
        ({"table": "t", "format": "csv"}, "format: the catalog knows the files of table t; leave format out"),
        ({"table": "t", "schema": "a int"}, "schema: the catalog knows"),
        ({"table": "t", "on_missing_column": "error"}, "on_missing_column: the catalog knows"),
        ({"table": "t", "max_malformed": 1}, "max_malformed: the catalog knows"),
        ({"table": ""}, "table: String should have at least 1 character"),
        ({"path": "/a", "format": "table"}, "format: a table of the catalog has no path"),
        ({"path": ["/a", "/b"], "format": "delta"}, "path: format delta reads the table in one directory, not 2 paths"),
        ({"path": "/a", "format": "iceberg", "schema": "a int"}, "schema: format iceberg does not have it"),
        ({"table": "t", "conf": {"spark.hadoop.orc.filter.use.selected": "true"}}, "conf: spark.hadoop.orc.filter"),
    ],
)
def test_contradictory_sources_are_refused_with_the_parameter(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        PushdownScanOperator(task_id="scan", **parameters).build_spec("d/t/r/-1")
    assert str(error.value).startswith(message)


def test_checks_and_the_bound_of_malformed_lines_become_part_of_the_job() -> None:
    checks = {"min_rows": "1", "not_null": ["id"], "unique": ["id", ["day", "user"]]}
    job = spec(
        output="/out", output_mode="overwrite_partitions", partition_by=["day"], checks=checks, max_malformed="3"
    )
    assert job.output is not None
    assert job.output.mode is OutputMode.OVERWRITE_PARTITIONS
    assert (job.output.checks.min_rows, job.output.checks.not_null) == (1, ("id",))
    assert job.output.checks.unique == (("id",), ("day", "user"))
    source = job.sources["source"]
    assert isinstance(source, SourceSpec)
    assert source.max_malformed == 3


def test_a_table_becomes_the_output_of_the_job() -> None:
    arguments = {"output_conn_id": "shop", "output_table": "sales.daily"}
    day = "day = DATE '2026-01-01'"
    job = spec(**arguments, output_mode="overwrite_partitions", replace_where=day, checks={"min_rows": 1})
    assert job.output == TableOutputSpec(
        table="sales.daily",
        mode=OutputMode.OVERWRITE_PARTITIONS,
        replace_where=day,
        checks=OutputChecks(min_rows=1),
    )
    merge = spec(**arguments, output_mode="merge", merge_keys=["id", "day"])
    assert merge.output == TableOutputSpec(table="sales.daily", mode=OutputMode.MERGE, merge_keys=("id", "day"))


def test_a_table_without_a_connection_is_one_of_the_catalog() -> None:
    job = spec(
        output_table="sales.daily",
        output_format="csv",
        output_mode="overwrite_partitions",
        output_options={"header": True},
        partition_by=["day"],
    )
    assert job.output == CatalogOutputSpec(
        catalog_table="sales.daily",
        format="csv",
        mode=OutputMode.OVERWRITE_PARTITIONS,
        options={"header": "true"},
        partition_by=("day",),
    )
    assert JobSpec.model_validate_json(job.model_dump_json()).output == job.output
    merge = spec(output_table="lake.db.t", output_format="Iceberg", output_mode="merge", merge_keys=["id"])
    assert merge.output == CatalogOutputSpec(
        catalog_table="lake.db.t", format="iceberg", mode=OutputMode.MERGE, merge_keys=("id",)
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"output_table": "t", "output_mode": "merge"}, "merge_keys: mode merge needs the columns"),
        ({"output_table": "t", "output_format": "hudi"}, "output_format: a table can be created with one of these"),
        ({"output_table": "t", "replace_where": "a = 1"}, "replace_where: only mode overwrite_partitions uses it"),
        ({"output_table": "t", "output_options": {"path": "/x"}}, "options: the directory of a new table"),
        ({"output_conn_id": "shop"}, "output_conn_id: only tables have it; set output_table"),
        ({"output": "/out", "merge_keys": ["id"]}, "merge_keys: only tables have it"),
        ({"output": "/out", "replace_where": "id = 1"}, "replace_where: only tables have it"),
        (
            {"output": "/out", "output_mode": "merge"},
            "output_mode: files cannot be merged",
        ),
        ({"output_table": "t", "output_conn_id": "shop", "output": "/out"}, "output: it is for files"),
        (
            {"output_table": "t", "output_conn_id": "shop", "output_options": {"a": 1}},
            "output_options: they are for files",
        ),
        ({"output_table": "t", "output_conn_id": "shop", "partition_by": ["day"]}, "partition_by: it is for files"),
        ({"output_table": "t", "output_conn_id": "shop", "output_mode": "merge"}, "merge_keys: mode merge needs"),
        (
            {"output_table": "t", "output_conn_id": "shop", "output_mode": "overwrite_partitions"},
            "replace_where: mode overwrite_partitions needs",
        ),
    ],
)
def test_a_mixed_output_is_one_line_that_names_the_parameter(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        spec(**parameters)
    assert "\n" not in str(error.value)


def test_the_connection_of_the_table_is_only_in_the_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"conn_type": "mysql", "host": "db", "login": "me", "password": "hush-2", "schema": "shop"}
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps(settings))
    task = PushdownScanOperator(
        task_id="scan", path="/in", format="json", output_conn_id="shop", output_table="t", output_mode="append"
    )
    connection = task._output_secrets()["output"]
    assert isinstance(connection, RemoteConnection)
    assert (connection.kind, connection.password) == (DatabaseKind.MYSQL, "hush-2")
    assert "hush-2" not in task.build_spec("k").model_dump_json()
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", json.dumps({"conn_type": "http", "host": "db"}))
    with pytest.raises(ConfigError, match="output_conn_id: connection 'shop' has type http"):
        task._output_secrets()


def test_a_scan_without_options_pushes_filters_and_counts_rows() -> None:
    job = spec()
    assert job.output is None
    assert job.sources["source"].filter_pushdown is True
    assert job.conf["spark.sql.json.filterPushdown.enabled"] == "true"


def test_a_conf_entry_also_configures_the_pushdown_readers() -> None:
    job = spec(conf={"spark.sql.json.filterPushdown.enabled": False})
    assert job.sources["source"].filter_pushdown is False
    assert job.conf["spark.sql.json.filterPushdown.enabled"] == "false"


def test_rendered_template_strings_are_converted() -> None:
    job = spec(limit="5", filter_pushdown="False", nested_pruning="true")
    assert job.query.limit == 5
    assert job.sources["source"].filter_pushdown is False
    assert job.conf["spark.sql.optimizer.nestedSchemaPruning.enabled"] == "true"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"format": "xls"}, "format: "),
        ({"format": ["json"]}, "format: "),
        ({"path": []}, "path: "),
        ({"path": 3}, "path: "),
        ({"limit": -1}, "limit: "),
        ({"limit": "many"}, "limit: "),
        ({"columns": "a, b"}, "columns: "),
        ({"where": 3}, "where: "),
        ({"schema": ["a int"]}, "schema: "),
        ({"options": "header=true"}, "options: "),
        ({"conf": "a=b"}, "conf: "),
        ({"reader": "fastest"}, "reader: "),
        ({"filter_pushdown": "perhaps"}, "filter_pushdown: "),
        ({"nested_pruning": "perhaps"}, "nested_pruning: "),
        ({"output": "/o", "output_mode": "replace"}, "output_mode: "),
        ({"output": 3}, "output: "),
        ({"output": "/o", "output_format": None}, "output_format: "),
        ({"output": "/o", "output_format": "jdbc", "output_mode": "append"}, "output_format: must be one of parquet"),
        ({"output": "/o", "output_format": "delta"}, "output_format: must be one of parquet"),
        ({"output": "/o", "output_options": [1]}, "output_options: "),
        ({"output": "/o", "partition_by": "day"}, "partition_by: "),
        (
            {"output": "/o", "output_mode": "overwrite_partitions"},
            "partition_by: mode overwrite_partitions needs the columns whose partitions it replaces",
        ),
        ({"output": "/o", "checks": {"min_row": 1}}, "checks.min_row: "),
        ({"output": "/o", "checks": {"min_rows": "many"}}, "checks.min_rows: "),
        ({"checks": {"min_rows": 1}}, "checks: they apply to written rows; set output or output_table as well"),
        ({"format": "orc", "max_malformed": 0}, "max_malformed: only lines of json and csv"),
        ({"application": "mine.py"}, "application: "),
        ({"application_args": ["x"]}, "application_args: "),
        ({"java_class": "a.B"}, "java_class: "),
    ],
)
def test_a_wrong_parameter_is_one_line_that_names_it(parameters: dict[str, object], message: str) -> None:
    assert str(refusal(spec, **parameters)).startswith(message)


def test_the_error_for_an_unknown_format_lists_the_file_formats() -> None:
    with pytest.raises(ConfigError, match=r"^format: Input should be .*'iceberg' or 'delta' \(got 'jsn'\)$") as error:
        spec(format="jsn")
    assert "remote" not in str(error.value)
    # The log would show Pydantic's own error, with an address of its pages.
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__


@pytest.mark.parametrize("missing", ["path", "format"])
def test_a_missing_required_parameter_raises_in_the_constructor(missing: str) -> None:
    arguments = {"path": "/x", "format": "json"}
    del arguments[missing]
    with pytest.raises(TypeError, match=f"missing keyword argument '{missing}'"):
        PushdownScanOperator(task_id="scan", **arguments)


@pytest.mark.parametrize("value", [None, ""])
@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize("name", ["output", "output_conn_id", "output_table", "replace_where"])
def test_a_template_of_the_output_that_renders_to_nothing_is_an_error(
    name: str, is_native: bool, value: str | None
) -> None:
    """Without it, the rows would only be counted, or go to another table."""
    with DAG("d", render_template_as_native_obj=is_native):
        task = PushdownScanOperator(task_id="scan", path="/in", format="json", **{name: "{{ v }}"})  # type: ignore[arg-type]
    task.render_template_fields({"v": value, "ti": {"dag_id": "d", "task_id": "scan"}})  # type: ignore[typeddict-item]
    with pytest.raises(ConfigError, match=f"^{name}: its template rendered to (None|'None'|'')"):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]


def test_templates_are_rendered_in_every_parameter() -> None:
    task = PushdownScanOperator(
        task_id="scan",
        path=["/in/{{ ds }}", "/in/{{ v }}"],
        format="{{ v }}",
        options={"sep": "{{ v }}"},
        where="day = '{{ ds }}'",
        columns=["{{ v }}"],
        output="/out/{{ ds }}",
        output_options={"{{ v }}": "{{ v }}"},
        conf={"spark.x": "{{ v }}"},
    )
    task.render_template_fields({"ds": "2026-01-02", "v": "V", "ti": {"dag_id": "d", "task_id": "scan"}})  # type: ignore[typeddict-item]
    assert task.path == ["/in/2026-01-02", "/in/V"]
    assert (task.format, task.options, task.where) == ("V", {"sep": "V"}, "day = '2026-01-02'")
    assert (task.columns, task.output_path, task.conf) == (["V"], "/out/2026-01-02", {"spark.x": "V"})
    assert task.name == "d.scan"


def test_the_output_of_the_task_is_its_xcom() -> None:
    task = PushdownScanOperator(task_id="scan", path="/x", format="json", output="/out")
    assert task.output.operator is task
    assert task.output_path == "/out"


def test_default_arguments_reach_parameters_of_both_classes() -> None:
    defaults = {"reader": "spark", "output_mode": "append", "conn_id": "mine", "executor_memory": "3g", "name": "n"}
    with DAG("defaults", default_args=defaults, schedule=None):
        task = PushdownScanOperator(task_id="scan", path="/x", format="json")
    assert (task.reader, task.output_mode, task._conn_id, task._executor_memory, task.name) == tuple(defaults.values())


class CountingScan(PushdownScanOperator):
    """An operator that returns its job spec instead of submitting it."""

    def execute(self, context) -> dict[str, object]:  # type: ignore[no-untyped-def, override]
        return self.build_spec("k").model_dump(mode="json")


def test_a_mapped_task_takes_parameters_of_both_classes(register_dag: Callable[[DAG], None]) -> None:
    with DAG("mapped", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)) as dag:
        task = CountingScan.partial(
            task_id="scan", format="json", limit=3, reader="spark", output_mode="append"
        ).expand(path=["/a/{{ ds }}", ["/b", "/c"]], output=["/out/1"])
    assert isinstance(task, MappedOperator)
    register_dag(dag)
    run = dag.test(logical_date=datetime(2026, 1, 1, tzinfo=UTC))
    assert run.state == "success"
    jobs = [
        json.loads(json.dumps(instance.xcom_pull(task_ids="scan", map_indexes=instance.map_index)))
        for instance in sorted(run.get_task_instances(), key=lambda ti: ti.map_index)
    ]
    assert [job["sources"]["source"]["path"] for job in jobs] == [["/a/2026-01-01"], ["/b", "/c"]]
    assert {job["output"]["path"] for job in jobs} == {"/out/1"}
    assert {job["output"]["mode"] for job in jobs} == {"append"}
    assert {job["query"]["limit"] for job in jobs} == {3}


class RunningTask:
    """The part of a running task instance that `execute` uses."""

    dag_id, task_id, run_id, map_index = "d", "scan", "r", -1

    def xcom_push(self, key: str, value: str) -> None:
        """Accept the task's links."""


def test_a_task_that_is_killed_before_it_submits_does_not_submit(local_spark: str, spark_python: str) -> None:
    task = PushdownScanOperator(task_id="scan", path="/x", format="json", spark_python=spark_python)
    task.on_kill()
    with pytest.raises(DriverKilledError, match="the task was killed"):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]


@pytest.mark.parametrize("connection", ["no_such_store", "spark_default"])
def test_the_error_names_a_connection_without_credentials(connection: str, local_spark: str, spark_python: str) -> None:
    task = PushdownScanOperator(
        task_id="scan", path="/x", format="json", spark_python=spark_python, source_conn_id=connection
    )
    with pytest.raises(ConfigError, match=f"source_conn_id: .*'{connection}'"):
        task.execute({"ti": RunningTask()})  # type: ignore[typeddict-item]


def test_mapping_over_an_unknown_parameter_raises() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'paths'"):
        PushdownScanOperator.partial(task_id="scan", format="json", paths=["/x"])
