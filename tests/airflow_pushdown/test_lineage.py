"""Lineage of a task in OpenLineage and Airflow's assets: datasets, columns and row counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from airflow.models.asset import AssetEvent, AssetModel
from airflow.sdk import DAG, Asset, AssetAlias, Context
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_pushdown.datasets import Dataset, file_dataset, table_dataset
from airflow_pushdown.hooks.submission import Submission
from airflow_pushdown.lineage import Origin, column_origins, job_lineage
from airflow_pushdown.operators import PushdownJoinOperator, PushdownScanOperator, RemoteScanOperator
from pushdown_spark.contract import (
    DatabaseKind,
    JobResult,
    JobSpec,
    OutputFormat,
    OutputMode,
    OutputSummary,
    QuerySpec,
    RemoteConnection,
    ScanReport,
    SecretValues,
    SourceReport,
)

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors.base import OperatorLineage

START = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = RemoteConnection(
    kind=DatabaseKind.POSTGRESQL, host="db.example", database="shop", user="reader", password="not-for-lineage"
)


@pytest.mark.parametrize(
    ("path", "namespace", "name", "uri"),
    [
        ("s3a://events/2026/*/x.json", "s3://events", "2026", "s3://events/2026"),
        ("s3://events/a/b/", "s3://events", "a/b", "s3://events/a/b"),
        ("gs://b/{x,y}/z", "gs://b", "/", "gs://b/"),
        ("hdfs://name:8020/data/x", "hdfs://name:8020", "/data/x", "hdfs://name:8020/data/x"),
        ("abfss://box@account.dfs.core.windows.net/d", "abfss://box@account.dfs.core.windows.net", "/d", None),
        ("sftp://me:secret@host/d", "sftp://host", "/d", "sftp://host/d"),
        ("/data/year=2026/part?.orc", "file", "/data/year=2026", "file:///data/year=2026"),
        ("/*/x.json", "file", "/", "file:///"),
        ("file:/data/x", "file", "/data/x", "file:///data/x"),
        ("file:///data/x", "file", "/data/x", "file:///data/x"),
    ],
)
def test_paths_get_openlineage_dataset_names(path: str, namespace: str, name: str, uri: str | None) -> None:
    place = file_dataset(path)
    assert place == Dataset(namespace, name)
    assert uri is None or place.uri == uri


@pytest.mark.parametrize("path", ["data/x.json", "*.json", "s3a:"])
def test_a_relative_path_has_no_dataset_name(path: str) -> None:
    assert file_dataset(path) is None


def test_the_dataset_name_of_a_table_has_no_user() -> None:
    dataset = table_dataset(SHOP, "public.orders")
    assert (dataset.namespace, dataset.name) == ("postgres://db.example:5432", "shop.public.orders")
    assert dataset.uri == "postgres://db.example:5432/shop/public/orders"
    mysql = SHOP.model_copy(update={"kind": DatabaseKind.MYSQL})
    assert table_dataset(mysql, "orders") == Dataset("mysql://db.example:3306", "shop.orders", is_table=True)
    assert table_dataset(mysql, "other.orders") == Dataset("mysql://db.example:3306", "other.orders", is_table=True)
    sqlite = RemoteConnection(kind=DatabaseKind.SQLITE, database="/d/x.db")
    assert table_dataset(sqlite, "t") == Dataset("file", "/d/x.db/t")


@pytest.mark.parametrize(
    ("query", "origins"),
    [
        (
            QuerySpec(
                source="s", columns=("id", "event.type", "event.type AS kind", "arr[0]", "dir0 as day", "m(a, b)")
            ),
            {
                "id": "s.id",
                "type": "s.event.type",
                "kind": "s.event.type",
                "arr[0]": "s.arr[0]",
                "day": "s.dir0",
                "m": "s.m(a, b)",
            },
        ),
        (
            QuerySpec(source="s", columns=("price AS `unit price`", "`a.b`", "`x y`.z", "*", "from.city", "to.City")),
            {
                "unit price": "s.price",
                "a.b": "s.`a.b`",
                "z": "s.`x y`.z",
                "from.city": "s.from.city",
                "to.City": "s.to.City",
            },
        ),
        (QuerySpec(source="s"), {"a": "s.a", "b": "s.b"}),
        (
            QuerySpec(
                sql="SELECT x.name AS airline, max(f.d + f.e) AS late FROM f JOIN x ON f.c = x.c GROUP BY x.name"
            ),
            {"airline": "x.name", "late": "f.d, f.e"},
        ),
        (QuerySpec(sql="SELECT ((("), {}),
    ],
)
def test_column_lineage_names_the_source_columns(query: QuerySpec, origins: dict[str, str]) -> None:
    actual = column_origins(query, {"s": ("a", "b")})
    assert {
        name: ", ".join(f"{origin.source}.{origin.column}" for origin in sorted(column, key=lambda one: one.column))
        for name, column in actual.items()
    } == origins
    assert all(isinstance(origin, Origin) for column in actual.values() for origin in column)


class DoneScan(PushdownScanOperator):
    """A scan operator that returns a given result without running a job."""

    result: ClassVar[JobResult]

    def _run(self, context: Context) -> JobResult:
        self._submission = Submission(spec=self.build_spec("k"))
        return self.result.model_copy(update={"output": self.output_path})


class DoneJoin(PushdownJoinOperator):
    """The same as `DoneScan` for a join of files with a database table."""

    def _run(self, context: Context) -> JobResult:
        self._submission = Submission(spec=self.build_spec("k"), secrets=SecretValues(remote={"o": SHOP}))
        summary = OutputSummary(
            mode=OutputMode.OVERWRITE, format=OutputFormat.ORC, columns={"order_no": "bigint"}, files=2, bytes=99
        )
        return JobResult(
            rows=3,
            output=self.output_path,
            output_summary=summary,
            sources={
                "o": SourceReport(reader="remote", reason="a table", columns=("id", "total")),
                "e": SourceReport(reader="pushdown", reason="smaller", columns=("order_id", "ts")),
            },
        )


def result() -> JobResult:
    source = SourceReport(
        reader="pushdown", reason="smaller", columns=("user_id", "event"), bytes_total=1000, bytes_read=10
    )
    return JobResult(rows=7, seconds=2.0, application_id="app-1", sources={"source": source})


def test_asset_events_have_rows_and_bytes(register_dag: Callable[[DAG], None]) -> None:
    DoneScan.result = result()
    arguments = {"path": ["/in/a/*.json", "s3a://b/{{ ds }}"], "format": "json", "assets": True}
    with DAG("assets", schedule=None, start_date=START) as dag:
        fixed = DoneScan(task_id="fixed", output="s3a://marts/fixed", **arguments)
        dated = DoneScan(task_id="dated", output="s3a://marts/{{ ds }}", outlets=[Asset("mine")], **arguments)
        off = DoneScan(task_id="off", output="s3a://marts/off", path="/in/a", format="json")
    assert fixed.inlets == [Asset(uri="file:///in/a")]
    assert fixed.outlets == [Asset(uri="s3://marts/fixed")]
    assert dated.outlets == [Asset("mine"), AssetAlias("assets.dated")]
    assert (off.inlets, off.outlets) == ([], [])
    register_dag(dag)
    assert dag.test(logical_date=START).state == "success"
    with create_session() as session:
        rows = session.execute(
            select(AssetModel.uri, AssetEvent.extra).join(AssetEvent, AssetEvent.asset_id == AssetModel.id)
        )
        events = dict(rows.all())
    facets = {"rows": 7, "bytes_read": 10, "bytes_total": 1000, "seconds": 2.0, "application_id": "app-1"}
    assert facets.items() <= events["s3://marts/fixed"].items()
    assert facets.items() <= events["s3://marts/2026-01-01"].items()
    assert "s3://marts/off" not in events


class DoneTable(DoneScan):
    """The same as `DoneScan` for a table of a database."""

    connection: ClassVar[RemoteConnection] = SHOP

    def _run(self, context: Context) -> JobResult:
        self._submission = Submission(spec=self.build_spec("k"), secrets=SecretValues(output=self.connection))
        summary = OutputSummary(mode=OutputMode.APPEND, columns={"id": "int"}, table="sales.orders")
        return self.result.model_copy(update={"output": self.output_table, "output_summary": summary})


def test_tables_are_outlets(register_dag: Callable[[DAG], None]) -> None:
    DoneTable.result = result()
    with DAG("table_assets", schedule=None, start_date=START) as dag:
        task = DoneTable(
            task_id="scan", path="/in", format="json", output_conn_id="shop", output_table="orders", assets=True
        )
    assert task.outlets == [AssetAlias("table_assets.scan")]
    register_dag(dag)
    assert dag.test(logical_date=START + timedelta(days=2)).state == "success"
    with create_session() as session:
        assert "postgres://db.example:5432/shop/sales/orders" in session.scalars(select(AssetModel.uri)).all()


def test_openlineage_has_the_table() -> None:
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    DoneTable.result = result()
    task = DoneTable(task_id="scan", path="/in", format="json", output_conn_id="shop", output_table="orders")
    task._result = task._run({})  # type: ignore[typeddict-item]
    lineage = DefaultExtractor(task).extract_on_complete(None)
    assert lineage is not None
    (output,) = lineage.outputs
    assert (output.namespace, output.name) == ("postgres://db.example:5432", "shop.sales.orders")
    assert output.outputFacets["outputStatistics"].rowCount == 7


class DoneCatalogTable(DoneScan):
    """The same as `DoneScan` for a table of Spark's catalog."""

    def _run(self, context: Context) -> JobResult:
        self._submission = Submission(spec=self.build_spec("k"), secrets=SecretValues())
        summary = OutputSummary(
            mode=OutputMode.APPEND, columns={"id": "int"}, table="sales.daily", location="s3a://lake/sales.db/daily"
        )
        return self.result.model_copy(update={"output": self.output_table, "output_summary": summary})


def test_tables_of_the_catalog_are_outlets_by_their_directory(register_dag: Callable[[DAG], None]) -> None:
    DoneCatalogTable.result = result()
    with DAG("catalog_assets", schedule=None, start_date=START) as dag:
        task = DoneCatalogTable(task_id="scan", path="/in", format="json", output_table="daily", assets=True)
    assert task.outlets == [AssetAlias("catalog_assets.scan")]
    register_dag(dag)
    assert dag.test(logical_date=START + timedelta(days=2)).state == "success"
    with create_session() as session:
        assert "s3://lake/sales.db/daily" in session.scalars(select(AssetModel.uri)).all()


def test_openlineage_has_the_directory_and_the_name_of_a_catalog_table() -> None:
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    DoneCatalogTable.result = result()
    task = DoneCatalogTable(task_id="scan", path="/in", format="json", output_table="daily")
    task._result = task._run({})  # type: ignore[typeddict-item]
    lineage = DefaultExtractor(task).extract_on_complete(None)
    assert lineage is not None
    (output,) = lineage.outputs
    assert (output.namespace, output.name) == ("s3://lake", "sales.db/daily")
    (symlink,) = output.facets["symlinks"].identifiers
    assert (symlink.name, symlink.type) == ("sales.daily", "TABLE")


def test_a_mapped_task_emits_no_asset_events(register_dag: Callable[[DAG], None]) -> None:
    DoneScan.result = result()
    with DAG("mapped_assets", schedule=None, start_date=START) as dag:
        DoneScan.partial(task_id="scan", format="json", assets=True, output="/out/mapped").expand(path=["/a", "/b"])
    register_dag(dag)
    assert dag.test(logical_date=START + timedelta(days=1)).state == "success"


@pytest.fixture(scope="module")
def join_lineage() -> OperatorLineage:
    """Return the lineage of a join of a database table and files, which writes to a store."""
    from airflow.providers.openlineage.extractors.base import DefaultExtractor

    task = DoneJoin(
        task_id="mart",
        sources={
            "o": {"source_conn_id": "shop", "table": "public.orders"},
            "e": {"path": "s3a://events/*/x.json", "format": "json"},
        },
        query="SELECT o.id AS order_no, max(e.ts) AS latest FROM o JOIN e ON o.id = e.order_id GROUP BY o.id",
        output="s3a://marts/latest",
    )
    assert task.get_openlineage_facets_on_complete(None) is None
    task._result = task._run({})  # type: ignore[typeddict-item]
    lineage = DefaultExtractor(task).extract_on_complete(None)
    assert lineage is not None
    return lineage


def test_openlineage_inputs_are_the_sources_with_the_columns_read(join_lineage: OperatorLineage) -> None:
    assert {
        (dataset.namespace, dataset.name): [field.name for field in dataset.facets["schema"].fields]
        for dataset in join_lineage.inputs
    } == {
        ("postgres://db.example:5432", "shop.public.orders"): ["id", "total"],
        ("s3://events", "/"): ["order_id", "ts"],
    }


def test_the_openlineage_output_has_rows_bytes_files_and_schema(join_lineage: OperatorLineage) -> None:
    (output,) = join_lineage.outputs
    assert (output.namespace, output.name) == ("s3://marts", "latest")
    statistics = output.outputFacets["outputStatistics"]
    assert (statistics.rowCount, statistics.size, statistics.fileCount) == (3, 99, 2)
    assert [(field.name, field.type) for field in output.facets["schema"].fields] == [("order_no", "bigint")]


def test_openlineage_names_the_source_column_of_each_output_column(join_lineage: OperatorLineage) -> None:
    columns = join_lineage.outputs[0].facets["columnLineage"].fields
    assert {name: [(f.namespace, f.field) for f in column.inputFields] for name, column in columns.items()} == {
        "order_no": [("postgres://db.example:5432", "id")],
        "latest": [("s3://events", "ts")],
    }


def test_openlineage_events_have_the_query_and_no_secret(join_lineage: OperatorLineage) -> None:
    assert join_lineage.job_facets["sql"].query.startswith("SELECT o.id")
    assert "not-for-lineage" not in repr(join_lineage)
    assert "reader" not in repr(join_lineage.inputs)


def test_a_remote_scan_names_its_table_only() -> None:
    scan = RemoteScanOperator(task_id="scan", source_conn_id="shop", table="t", assets=True, output="/out/t")
    assert (scan.inlets, scan.outlets) == ([], [Asset(uri="file:///out/t")])


def test_each_scan_has_its_inputs_and_outputs() -> None:
    spec = JobSpec.model_validate(
        {
            "run_key": "k",
            "sources": {"events": {"format": "json", "path": ["/in"]}, "orders": {"format": "remote", "table": "o"}},
            "scans": {
                "events": {"columns": ["id AS key"], "output": {"path": "/lake/events"}},
                "orders": {"output": {"table": "copies.o"}},
            },
        }
    )
    result = JobResult(
        sources={name: SourceReport(reader="r", reason="w", columns=("id",)) for name in spec.scans},
        scans={
            "events": ScanReport(rows=3, output="/lake/events"),
            "orders": ScanReport(rows=4, output="copies.o"),
        },
    )
    lineage = job_lineage(spec, SecretValues(remote={"orders": SHOP}, outputs={"orders": SHOP}), result)
    assert [place.name for place in lineage.inputs] == ["/in", "shop.o"]
    assert [place.name for place in lineage.outputs] == ["/lake/events", "shop.copies.o"]
    (column,) = lineage.outputs[0].facets["columnLineage"].fields.items()
    assert (column[0], [(field.name, field.field) for field in column[1].inputFields]) == ("key", [("/in", "id")])
