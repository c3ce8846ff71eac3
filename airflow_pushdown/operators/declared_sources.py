"""Sources that a user declares as dicts by name: files, tables of Spark's catalog, and tables of databases."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_pushdown.assets import as_list
from airflow_pushdown.connections.credentials import airflow_connection
from airflow_pushdown.connections.database_connections import database_connection
from airflow_pushdown.exceptions import config_error
from airflow_pushdown.operators.values import naming_parameters
from pushdown_spark.contract import AnySourceSpec, RemoteConnection, RemoteSourceSpec, SourceSpec, TableSourceSpec

_CONNECTION = "source_conn_id"


def declared_paths(sources: object) -> list[object]:
    """Return the paths of all file sources. The sources are not validated before the task runs."""
    declarations = sources.values() if isinstance(sources, Mapping) else ()
    return [path for source in declarations if isinstance(source, Mapping) for path in as_list(source.get("path"))]


def declared_source(parameter: str, declaration: Mapping[str, object]) -> AnySourceSpec:
    """Return the spec of one source. A path may be a string or a list.

    Raises `ConfigError` with the name of the invalid field after `parameter`.
    """
    fields = {field: value for field, value in declaration.items() if field != _CONNECTION}
    if "path" in fields and _CONNECTION in declaration:
        raise config_error(
            f"{parameter}.{_CONNECTION}: in a source, it names a database, but this source has a path; for the "
            "credentials of an object store, set source_conn_id of the operator"
        )
    if "path" in fields and "table" in fields:
        raise config_error(f"{parameter}: give either path or table")
    if _CONNECTION in declaration:
        names = {field: f"{parameter}.{field}" for field in (*RemoteSourceSpec.model_fields, *fields)}
        with naming_parameters({"": parameter, **names}):
            return RemoteSourceSpec.model_validate(fields)
    if isinstance(fields.get("path"), str):
        fields["path"] = (fields["path"],)
    spec = TableSourceSpec if "table" in fields and "path" not in fields else SourceSpec
    names = {field: f"{parameter}.{field}" for field in (*spec.model_fields, "schema", *fields)}
    with naming_parameters({"": parameter, **names}):
        return spec.model_validate(fields)


def source_connections(parameter: str, sources: Mapping[str, Mapping[str, object]]) -> dict[str, RemoteConnection]:
    """Return the connections of the database sources by the names of the sources."""
    return {
        name: database_connection(
            airflow_connection(f"{parameter}.{name}.{_CONNECTION}", str(declaration[_CONNECTION]))
        )
        for name, declaration in sources.items()
        if _CONNECTION in declaration
    }
