"""OpenLineage datasets and column lineage of a job. The module needs Airflow's OpenLineage provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow.providers.openlineage.extractors import OperatorLineage
from openlineage.client.event_v2 import Dataset as LineageDataset
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import DatasetFacet, JobFacet
from openlineage.client.generated.column_lineage_dataset import ColumnLineageDatasetFacet, Fields, InputField
from openlineage.client.generated.output_statistics_output_dataset import OutputStatisticsOutputDatasetFacet
from openlineage.client.generated.schema_dataset import SchemaDatasetFacet, SchemaDatasetFacetFields
from openlineage.client.generated.sql_job import SQLJobFacet
from openlineage.client.generated.symlinks_dataset import Identifier, SymlinksDatasetFacet
from openlineage_sql import parse

from airflow_pushdown.datasets import Dataset, file_dataset, output_dataset, table_dataset
from pushdown_spark.contract import (
    JobResult,
    JobSpec,
    QuerySpec,
    RemoteConnection,
    RemoteSourceSpec,
    SecretValues,
    TableSourceSpec,
)
from pushdown_spark.projection.paths import output_names, parse_paths, render_steps

JobLineage = OperatorLineage[LineageDataset, JobFacet]
"""The datasets of a job and its query."""


@dataclass(frozen=True)
class Origin:
    """An input column of an output column: the name of the source in the query, and the column of the source."""

    source: str
    column: str


def job_lineage(spec: JobSpec, secrets: SecretValues, result: JobResult) -> JobLineage:
    """Return the inputs with the columns read, the output with its column lineage, and the query.

    `secrets` have the connections of databases. Users and passwords are not included.
    """
    if spec.scans:
        parts = [job_lineage(spec.job_of(name), secrets.of_scan(name), result.of_scan(name)) for name in result.scans]
        return OperatorLineage(
            inputs=[dataset for part in parts for dataset in part.inputs],
            outputs=[dataset for part in parts for dataset in part.outputs],
        )
    sources = {name: _datasets(spec, name, secrets.remote) for name in spec.sources}
    inputs: list[LineageDataset] = [
        InputDataset(namespace=dataset.namespace, name=dataset.name, facets={"schema": _schema(_columns(result, name))})
        for name, datasets in sources.items()
        for dataset in datasets
    ]
    sql = None if spec.query is None else spec.query.sql
    facets: dict[str, JobFacet] = {} if sql is None else {"sql": SQLJobFacet(query=sql)}
    return OperatorLineage(inputs=inputs, outputs=_outputs(spec, sources, result, secrets.output), job_facets=facets)


def column_origins(query: QuerySpec, columns: Mapping[str, Iterable[str]]) -> dict[str, tuple[Origin, ...]]:
    """Return the input columns of each output column, as far as known. `columns` are the columns read by source."""
    if query.sql is not None:
        return _origins_in_sql(query.sql)
    source = query.source or ""
    if query.columns is None:
        return {name: (Origin(source, name),) for name in columns.get(source, ())}
    paths = [path for path in parse_paths(query.columns) if not path.is_wildcard]
    names = output_names(paths, str.lower)
    return {name: (Origin(source, render_steps(path.steps)),) for name, path in zip(names, paths, strict=True)}


def _origins_in_sql(sql: str) -> dict[str, tuple[Origin, ...]]:
    """Return the origins of the columns of a query from OpenLineage's parser, or none if it cannot parse the query."""
    result = parse([sql], dialect="databricks")
    if result is None or result.errors:
        return {}
    return {
        column.descendant.name: tuple(Origin(c.origin.name, c.name) for c in column.lineage if c.origin is not None)
        for column in result.column_lineage
    }


def _datasets(spec: JobSpec, name: str, connections: Mapping[str, RemoteConnection]) -> tuple[Dataset, ...]:
    """Return the datasets of a source: its paths or its table, or none for a query in the database.

    A table of Spark's catalog has none either, because only Spark knows the address of the catalog.
    """
    source = spec.sources[name]
    if isinstance(source, RemoteSourceSpec):
        connection = connections.get(name)
        return (table_dataset(connection, source.table),) if connection is not None and source.table else ()
    if isinstance(source, TableSourceSpec):
        return ()
    return tuple(dict.fromkeys(dataset for path in source.path if (dataset := file_dataset(path)) is not None))


def _columns(result: JobResult, name: str) -> tuple[str, ...]:
    return result.sources[name].columns if name in result.sources else ()


def _schema(columns: Iterable[str]) -> SchemaDatasetFacet:
    return SchemaDatasetFacet(fields=[SchemaDatasetFacetFields(name=column) for column in columns])


def _output_facets(result: JobResult) -> dict[str, DatasetFacet]:
    """Return the schema of the output, and the table of a directory, if the result has them."""
    summary = result.output_summary
    if summary is None:
        return {}
    fields = [SchemaDatasetFacetFields(name=name, type=kind) for name, kind in summary.columns.items()]
    facets: dict[str, DatasetFacet] = {"schema": SchemaDatasetFacet(fields=fields)}
    if summary.table is not None and summary.location is not None:
        # Spark's own listener names the table in this way, too.
        dataset = file_dataset(summary.location)
        namespace = summary.location if dataset is None else dataset.namespace
        name = Identifier(namespace=namespace, name=summary.table, type="TABLE")
        facets["symlinks"] = SymlinksDatasetFacet(identifiers=[name])
    return facets


def _outputs(
    spec: JobSpec, sources: Mapping[str, tuple[Dataset, ...]], result: JobResult, connection: RemoteConnection | None
) -> list[LineageDataset]:
    """Return the output with its row count and column lineage, or none if nothing was written."""
    dataset, summary = output_dataset(result, connection), result.output_summary
    if dataset is None:
        return []
    columns = {name: report.columns for name, report in result.sources.items()}
    origins = {} if spec.query is None else column_origins(spec.query, columns)
    fields = {column: Fields(inputFields=_input_fields(inputs, sources)) for column, inputs in origins.items()}
    return [
        OutputDataset(
            namespace=dataset.namespace,
            name=dataset.name,
            facets={
                **({"columnLineage": ColumnLineageDatasetFacet(fields=fields)} if fields else {}),
                **_output_facets(result),
            },
            outputFacets={
                "outputStatistics": OutputStatisticsOutputDatasetFacet(
                    rowCount=result.rows,
                    size=None if summary is None else summary.bytes,
                    fileCount=None if summary is None else summary.files,
                )
            },
        )
    ]


def _input_fields(origins: Iterable[Origin], sources: Mapping[str, tuple[Dataset, ...]]) -> list[InputField]:
    return [
        InputField(namespace=dataset.namespace, name=dataset.name, field=origin.column)
        for origin in origins
        for dataset in sources.get(origin.source, ())
    ]
