"""Names the places that jobs read and write, as OpenLineage and Airflow's assets have them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pushdown_spark.contract import DatabaseKind, RemoteConnection

_URI = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*)?$")
_GLOB = re.compile(r"[*?\[{]")
_STORES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs"}
"""Schemes of object stores, whose objects have names without a leading slash, and what lineage calls them."""
_DATABASES = {DatabaseKind.POSTGRESQL: ("postgres", 5432), DatabaseKind.MYSQL: ("mysql", 3306)}


@dataclass(frozen=True)
class Dataset:
    """A place with data, by OpenLineage's rules: where it lies, and its name there."""

    namespace: str
    name: str

    @property
    def uri(self) -> str:
        """The same as one address, as Airflow's assets have it."""
        if self.namespace == "file":
            return f"file://{self.name}"
        return f"{self.namespace}/{self.name.lstrip('/')}"


def file_dataset(path: str) -> Dataset | None:
    """Where files lie: of a glob the directory above its first wildcard; None for a path that is not absolute."""
    fixed = _without_glob(path)
    if fixed.startswith("/"):
        return Dataset("file", fixed)
    parts = _URI.match(fixed)
    if parts is None or not (parts["authority"] or parts["path"]):
        return None
    scheme, authority, below = parts["scheme"].lower(), parts["authority"] or "", parts["path"] or "/"
    if scheme == "file":
        return Dataset("file", below)
    if scheme in _STORES:
        return Dataset(f"{_STORES[scheme]}://{authority}", below.lstrip("/") or "/")
    # A password in an address is nobody else's business; the container of an Azure store stands in its place.
    shown = authority if scheme.startswith("abfs") else authority.rpartition("@")[2]
    return Dataset(f"{scheme}://{shown}", below)


def table_dataset(connection: RemoteConnection, table: str) -> Dataset:
    """Where a table of a database lies."""
    if connection.kind is DatabaseKind.SQLITE:
        return Dataset("file", f"{connection.database}/{table}")
    scheme, port = _DATABASES[connection.kind]
    return Dataset(f"{scheme}://{connection.host}:{connection.port or port}", f"{connection.database}.{table}")


def _without_glob(path: str) -> str:
    """The path up to its first part with a wildcard, without a slash at its end."""
    parts = path.split("/")
    fixed = next((place for place, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    kept = "/".join(parts[:fixed]).rstrip("/")
    return kept or ("/" if path.startswith("/") else "")
