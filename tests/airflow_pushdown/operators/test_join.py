"""The join operator up to its job spec: sources, query and rejected parameters. Nothing is submitted."""

from __future__ import annotations

import pytest
from refusals import refusal

from airflow_pushdown.exceptions import ConfigError
from airflow_pushdown.operators import PushdownJoinOperator
from pushdown_spark.contract import (
    ErrorCode,
    JobSpec,
    JoinOptions,
    OrcOptions,
    QuerySpec,
    RemoteSourceSpec,
    SourceFormat,
    SourceSpec,
    TableSourceSpec,
)

QUERY = "SELECT o.id FROM o JOIN c ON o.customer = c.id"
SOURCES: dict[str, dict[str, object]] = {
    "o": {"path": "/o/*.json", "format": "json", "schema": "id int, customer int", "options": {"multiLine": False}},
    "c": {"path": ["/c1", "/c2"], "format": "orc", "reader": "pushdown", "orc": {"partial_reads": 2}},
}


def spec(**parameters: object) -> JobSpec:
    arguments = {"sources": SOURCES, "query": QUERY, **parameters}
    return PushdownJoinOperator(task_id="join", **arguments).build_spec("d/t/r/-1")  # type: ignore[arg-type]


def test_the_parameters_become_the_job() -> None:
    job = spec(
        join_reorder="false",
        join_reorder_dp_threshold="7",
        join_reorder_min_bytes="1000",
        star_schema_detection=True,
        output="/out",
    )
    assert job.sources == {
        "o": SourceSpec(
            format=SourceFormat.JSON,
            path=("/o/*.json",),
            schema_ddl="id int, customer int",
            options={"multiLine": "false"},
        ),
        "c": SourceSpec(
            format=SourceFormat.ORC, path=("/c1", "/c2"), reader="pushdown", orc=OrcOptions(partial_reads=2)
        ),
    }
    joins = JoinOptions(reorder=False, dp_threshold=7, min_bytes=1_000, star_schema=True)
    assert job.query == QuerySpec(sql=QUERY, joins=joins)
    assert job.output is not None


def test_by_default_joins_are_reordered() -> None:
    assert spec().query.joins == JoinOptions()
    assert spec().query.joins.reorder


def test_templates_are_rendered_in_sources_and_query() -> None:
    task = PushdownJoinOperator(
        task_id="join", sources={"o": {"path": "/in/{{ ds }}", "format": "csv"}}, query="SELECT '{{ ds }}' FROM o"
    )
    task.render_template_fields({"ds": "2026-01-02", "ti": {"dag_id": "d", "task_id": "join"}})  # type: ignore[typeddict-item]
    job = task.build_spec("k")
    assert job.sources["o"].path == ("/in/2026-01-02",)  # type: ignore[union-attr]
    assert job.query.sql == "SELECT '2026-01-02' FROM o"


def test_a_remote_table_may_be_among_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", '{"conn_type": "sqlite", "host": "/data/shop.db"}')
    remote: dict[str, object] = {"source_conn_id": "shop", "table": "customers", "fetch_size": 5}
    task = PushdownJoinOperator(task_id="join", sources={"o": SOURCES["o"], "c": remote}, query=QUERY)
    assert task.build_spec("k").sources["c"] == RemoteSourceSpec(table="customers", fetch_size=5)
    assert {name: address.database for name, address in task._source_secrets().remote.items()} == {"c": "/data/shop.db"}


def test_a_table_of_the_catalog_may_be_among_the_sources() -> None:
    table: dict[str, object] = {"table": "db.c", "reader": "spark", "options": {"mergeSchema": True}}
    job = spec(sources={"o": SOURCES["o"], "c": table})
    assert job.sources["c"] == TableSourceSpec(table="db.c", reader="spark", options={"mergeSchema": "true"})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sources": {"o": {"table": "t", "schema": "a int"}}}, "sources.o.schema: "),
        ({"sources": {"o": {"table": "t", "path": "/x", "format": "csv"}}}, "sources.o: give either path or table"),
        ({"sources": {}}, "sources: declare at least one"),
        ({"sources": ["/x"]}, "sources: "),
        ({"sources": {"o": {"path": "/x", "format": "xls"}}}, "sources.o.format: "),
        ({"sources": {"o": {"format": "csv"}}}, "sources.o.path: "),
        ({"sources": {"o": {"path": "/x", "format": "csv", "sep": ";"}}}, "sources.o.sep: "),
        ({"sources": {"o": {"path": "/x", "format": "csv", "options": "x"}}}, "sources.o.options: "),
        ({"sources": {"o": {"source_conn_id": "shop", "table": "t", "fetch_size": 0}}}, "sources.o.fetch_size: "),
        ({"sources": {"o": {"source_conn_id": "shop"}}}, "sources.o: table: give either"),
        ({"query": None}, "query: "),
        ({"join_reorder": "perhaps"}, "join_reorder: "),
        ({"join_reorder_dp_threshold": 1}, "join_reorder_dp_threshold: "),
    ],
)
def test_errors_name_the_parameter(parameters: dict[str, object], message: str) -> None:
    error = refusal(spec, **parameters)
    assert error.code is ErrorCode.BAD_SPEC
    assert str(error).startswith(message)


def test_an_unsafe_setting_of_any_source_raises() -> None:
    conf = {"spark.hadoop.orc.filter.use.selected": "true"}
    with pytest.raises(ConfigError, match="returns no rows") as error:
        spec(conf=conf)
    assert error.value.code is ErrorCode.UNSAFE_SETTING
    assert spec(conf=conf, sources={"o": SOURCES["o"]}).conf
