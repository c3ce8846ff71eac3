"""The check that no two scans of a job write to one place under different names.

The job spec compares the paths and the names of its outputs as text. Links, the search path of a database, the current
database of the catalog and the case of names let two spellings mean one place. The scan that runs last would replace
the rows of the other one, and the job would report both as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from pushdown_spark.contract import (
    CatalogOutputSpec,
    JobSpec,
    OutputMode,
    OutputSpec,
    RemoteConnection,
    RemoteSourceSpec,
    SecretValues,
    TableOutputSpec,
    TableSourceSpec,
)
from pushdown_spark.databases.client import address_of
from pushdown_spark.databases.sql.remote_table import parse_table_name
from pushdown_spark.databases.write.write_connection import connect_to_write
from pushdown_spark.errors import BadSpecError, PushdownError
from pushdown_spark.output.catalog.catalog_targets import qualified_name, table_directory
from pushdown_spark.output.database.target_table import find_target
from pushdown_spark.runtime.file_systems.file_paths import canonical_path
from pushdown_spark.runtime.file_systems.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class _ScanTarget:
    """What a scan writes or reads: a table of a database, a table of the catalog, or a directory.

    `name` is as the user gave it. `mode` is None for a source.
    """

    scan: str
    name: str
    mode: OutputMode | None
    connection: RemoteConnection | None = None
    table: tuple[str, ...] = ()
    directory: str | None = None

    def may_be(self, other: _ScanTarget) -> bool:
        """Return whether two names may mean the same table of a database. Only the database knows for certain."""
        if self.connection is None or other.connection is None:
            return False
        mine, theirs = (parse_table_name(target.name)[-1].casefold() for target in (self, other))
        return self.connection.kind == other.connection.kind and mine == theirs

    def is_in(self, other: _ScanTarget) -> bool:
        """Return whether the directory is that of another target, or inside it."""
        if self.directory is None or other.directory is None:
            return False
        return f"{self.directory}/".startswith(f"{other.directory}/")


def check_shared_targets(spark: SparkSession, spec: JobSpec, secrets: SecretValues) -> None:
    """Raise BadSpecError if a scan of a job writes what another one writes or reads, unless both append.

    It connects to databases only if two names may mean the same table. Raises their errors now, because the first scan
    would already have written its rows when the second one fails.
    """
    outputs = list(_outputs(spark, spec, secrets))
    for one, other in combinations(outputs, 2):
        appends = one.mode is other.mode is OutputMode.APPEND
        is_same = _is_same_table(one, other) or (one.is_in(other) and other.is_in(one))
        if (is_same and not appends) or one.is_in(other) != other.is_in(one):
            raise BadSpecError(
                f"scans: {one.scan!r} and {other.scan!r} write to one place ({one.name}, {other.name}); give each an "
                "output of its own, or let both append to the same one"
            )
    tables = [output for output in outputs if output.table or output.connection is not None]
    for source in _source_tables(spark, spec, secrets) if tables else ():
        for output in tables:
            if output.scan != source.scan and _is_same_table(source, output):
                raise BadSpecError(
                    f"scans: {source.scan!r} reads {source.name}, which {output.scan!r} writes; give one of them a "
                    "task of its own"
                )


def _is_same_table(one: _ScanTarget, other: _ScanTarget) -> bool:
    if one.table and one.table == other.table:
        return True
    return one.may_be(other) and _table_in_database(one) == _table_in_database(other)


def _table_in_database(table: _ScanTarget) -> tuple[str, ...]:
    """Return the server, the schema and the name of a table, in the spelling of the database."""
    assert table.connection is not None
    with closing(connect_to_write(address_of(table.connection))) as connection:
        target = find_target(connection, table.name)
        return connection.server_id(), target.schema, target.key


def _outputs(spark: SparkSession, spec: JobSpec, secrets: SecretValues) -> Iterator[_ScanTarget]:
    for scan, part in spec.scans.items():
        match part.output:
            case OutputSpec(path=path, mode=mode):
                yield _ScanTarget(scan, path, mode, directory=_directory(spark, path))
            case TableOutputSpec(table=table, mode=mode):
                # A scan without its connection fails when it opens its output.
                yield _ScanTarget(scan, table, mode, connection=secrets.outputs.get(scan))
            case CatalogOutputSpec(catalog_table=table, mode=mode):
                yield _catalog_target(spark, scan, table, mode)
            case None:
                pass


def _source_tables(spark: SparkSession, spec: JobSpec, secrets: SecretValues) -> Iterator[_ScanTarget]:
    for scan, source in spec.sources.items():
        if isinstance(source, RemoteSourceSpec) and source.table is not None:
            yield _ScanTarget(scan, source.table, None, connection=secrets.remote.get(scan))
        elif isinstance(source, TableSourceSpec):
            yield _catalog_target(spark, scan, source.table, None)


def _catalog_target(spark: SparkSession, scan: str, table: str, mode: OutputMode | None) -> _ScanTarget:
    name: tuple[str, ...] = ()
    directory = None
    # The scan reports a name that is wrong.
    with suppress(PushdownError, Py4JJavaError):
        name = qualified_name(spark, table)
        directory = None if mode is None else table_directory(spark, table)
    return _ScanTarget(
        scan, table, mode, table=name, directory=None if directory is None else _directory(spark, directory)
    )


def _directory(spark: SparkSession, path: str) -> str:
    # A store that cannot be opened has no links, and its scan fails.
    with suppress(Py4JJavaError):
        path = HadoopFiles(spark).qualify(path)
    return canonical_path(path)
