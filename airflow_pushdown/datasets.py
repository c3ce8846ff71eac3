"""Names of the data that jobs read and write, for OpenLineage and Airflow's assets."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pushdown_spark.contract import DatabaseKind, JobResult, RemoteConnection

_URI = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*)?$")
_GLOB = re.compile(r"[*?\[{]")
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}
"""Schemes of object stores with their names in lineage. Names of objects have no leading slash."""


@dataclass(frozen=True)
class Dataset:
    """A dataset by OpenLineage's naming rules: a namespace, and a name in it. The parts of a table's name have dots."""

    namespace: str
    name: str
    is_table: bool = False

    @property
    def uri(self) -> str:
        """The URI of the dataset for Airflow's assets, with a path for each part of the name of a table."""
        if self.namespace == "file":
            return f"file://{self.name}"
        path = self.name.replace(".", "/") if self.is_table else self.name.lstrip("/")
        return f"{self.namespace}/{path}"


def file_dataset(path: str) -> Dataset | None:
    """Return the dataset of a path, for a glob of the directory before its wildcards, or None for a relative path."""
    directory = _without_glob(path)
    if directory.startswith("/"):
        return Dataset("file", directory)
    parts = _URI.match(directory)
    if parts is None or not (parts["authority"] or parts["path"]):
        return None
    scheme, authority, below = parts["scheme"].lower(), parts["authority"] or "", parts["path"] or "/"
    if scheme == "file":
        return Dataset("file", below)
    if scheme in _STORES:
        return Dataset(f"{_STORES[scheme]}://{authority}", below.lstrip("/") or "/")
    # The part before `@` may have a password. In Azure URIs, it is the container instead.
    public_authority = authority if scheme.startswith("abfs") else authority.rpartition("@")[2]
    return Dataset(f"{scheme}://{public_authority}", below)


def output_dataset(result: JobResult, connection: RemoteConnection | None) -> Dataset | None:
    """Return the dataset that a job has written, or None if it has written nothing.

    With a `connection`, it is a table of that database, otherwise files or the directory of a table in Spark's catalog.
    """
    if result.output is None or result.rows is None:
        return None
    summary = result.output_summary
    if connection is None:
        return file_dataset(result.output if summary is None else summary.location or result.output)
    return table_dataset(connection, result.output if summary is None else summary.table or result.output)


def table_dataset(connection: RemoteConnection, table: str) -> Dataset:
    """Return the dataset of a database table."""
    if connection.kind is DatabaseKind.SQLITE:
        return Dataset("file", f"{connection.database}/{table}")
    # In MySQL, the schema of a table is the database.
    has_database = connection.kind is DatabaseKind.MYSQL and "." in table
    name = table if has_database else f"{connection.database}.{table}"
    return Dataset(connection.server_uri, name, is_table=True)


def _without_glob(path: str) -> str:
    """Return the path before its first part with a wildcard, without a trailing slash."""
    parts = path.split("/")
    depth = next((position for position, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    directory = "/".join(parts[:depth]).rstrip("/")
    return directory or ("/" if path.startswith("/") else "")
