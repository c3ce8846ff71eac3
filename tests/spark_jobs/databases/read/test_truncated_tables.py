"""Tables of PostgreSQL that are truncated or replaced during a read: an older snapshot has none of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import psycopg
import pyarrow as pa
import pytest
from databases import DATABASE, HOST, USER, Server, wait_until

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import ConnectionSettings, address_of, connect
from pushdown_spark.databases.clients.postgresql import PostgresqlClient
from pushdown_spark.databases.read.partition_reader import PartitionMetrics, PartitionReader
from pushdown_spark.errors import LostConnectionError

FIELDS = (pa.field("k", pa.int64()),)
NEW = [7, 8, 9]
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%truncated%'"


@pytest.fixture
def writer(postgresql_server: Server) -> Iterator[psycopg.Connection]:
    """Return a connection whose transaction has a new table."""
    login = {"host": HOST, "port": postgresql_server.port, "user": USER, "password": postgresql_server.password}
    with psycopg.connect(**login, dbname=DATABASE) as connection:
        connection.execute("CREATE TABLE truncated AS SELECT generate_series(1::bigint, 1000) AS k")
        connection.execute("CREATE VIEW truncated_view AS SELECT * FROM truncated")
        connection.commit()
        yield connection
        connection.rollback()
        connection.execute("DROP TABLE truncated CASCADE")


def replace_rows(writer: psycopg.Connection) -> None:
    """Replace the rows, without a commit."""
    writer.execute("TRUNCATE truncated")
    writer.execute("INSERT INTO truncated SELECT unnest(%s::bigint[])", [NEW])


def replace_table(writer: psycopg.Connection) -> None:
    """Give the name to a new table, without a commit."""
    writer.execute("DROP VIEW truncated_view")
    writer.execute("ALTER TABLE truncated RENAME TO truncated_before")
    writer.execute("CREATE TABLE truncated AS SELECT unnest(%s::bigint[]) AS k", [NEW])
    writer.execute("CREATE VIEW truncated_view AS SELECT * FROM truncated")
    writer.execute("DROP TABLE truncated_before")


REPLACING = pytest.mark.parametrize("replace", [replace_rows, replace_table])


def read(server: Server, settings: ConnectionSettings, retries: list[int], relation: str = "truncated") -> list[int]:
    address = address_of(RemoteConnection.model_validate(server.connection()))

    def report(_number: int, metrics: PartitionMetrics) -> None:
        retries.append(metrics.retries)

    reader = PartitionReader(address, (f"SELECT k FROM {relation}",), FIELDS, settings, report)
    batches = reader(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    return [key for batch in batches for key in batch.column(0).to_pylist()]


@REPLACING
@pytest.mark.parametrize("relation", ["truncated", "truncated_view"])
@pytest.mark.parametrize("few", [True, False], ids=["csv", "binary"])
def test_a_read_that_waits_for_replaced_rows_returns_the_new_ones(
    postgresql_server: Server,
    writer: psycopg.Connection,
    few: bool,
    relation: str,
    replace: Callable[[psycopg.Connection], None],
) -> None:
    """COPY takes its snapshot before it waits for the lock of the table."""
    replace(writer)
    retries: list[int] = []
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(read, postgresql_server, ConnectionSettings(has_few_rows=few), retries, relation)
        assert wait_until(lambda: postgresql_server.execute(WAITING).strip() != "0")
        writer.commit()
        assert rows.result(timeout=120) == NEW
    assert retries == [1]


@contextmanager
def exported_snapshot(server: Server) -> Iterator[ConnectionSettings]:
    address = address_of(RemoteConnection.model_validate(server.connection()))
    with closing(connect(address, ConnectionSettings())) as exporter:
        assert isinstance(exporter, PostgresqlClient)
        yield ConnectionSettings(snapshot=exporter.export_snapshot())


@REPLACING
def test_snapshot_from_before_other_rows_is_an_error(
    postgresql_server: Server, writer: psycopg.Connection, replace: Callable[[psycopg.Connection], None]
) -> None:
    with exported_snapshot(postgresql_server) as settings:
        assert len(read(postgresql_server, settings, [])) == 1000
        replace(writer)
        writer.commit()
        with pytest.raises(LostConnectionError, match="truncated was truncated or replaced during the read"):
            read(postgresql_server, settings, [])


def test_snapshot_from_before_a_refresh_is_an_error(postgresql_server: Server, writer: psycopg.Connection) -> None:
    writer.execute("CREATE MATERIALIZED VIEW refreshed AS SELECT k FROM truncated")
    writer.commit()
    with exported_snapshot(postgresql_server) as settings:
        assert len(read(postgresql_server, settings, [], "refreshed")) == 1000
        writer.execute("DELETE FROM truncated WHERE k > 3")
        writer.execute("REFRESH MATERIALIZED VIEW refreshed")
        writer.commit()
        with pytest.raises(LostConnectionError, match="refreshed was truncated or replaced"):
            read(postgresql_server, settings, [], "refreshed")


@pytest.mark.parametrize(
    ("change", "is_error"),
    [
        ("ALTER TABLE parted DETACH PARTITION parted_1", True),
        ("DROP TABLE parted_1", True),
        ("ALTER TABLE parted DETACH PARTITION parted_1; ALTER TABLE parted ATTACH PARTITION other DEFAULT", True),
        ("CREATE TABLE parted_3 PARTITION OF parted FOR VALUES IN (3)", False),
        ("CREATE INDEX ON parted (k)", False),
        ("INSERT INTO parted VALUES (1), (2)", False),
    ],
)
def test_a_snapshot_from_before_partitions_were_removed_raises(
    postgresql_server: Server, writer: psycopg.Connection, change: str, is_error: bool
) -> None:
    """Rows of a partition that has gone are missing. New partitions had no rows at the time of the snapshot."""
    writer.execute("CREATE TABLE parted (k bigint) PARTITION BY LIST (k)")
    writer.execute("CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)")
    writer.execute("CREATE TABLE parted_2 PARTITION OF parted FOR VALUES IN (2)")
    writer.execute("INSERT INTO parted VALUES (1), (2)")
    writer.execute("CREATE TABLE other (k bigint)")
    writer.commit()
    try:
        with exported_snapshot(postgresql_server) as settings:
            assert sorted(read(postgresql_server, settings, [], "parted")) == [1, 2]
            writer.execute(change.encode())
            writer.commit()
            if is_error:
                with pytest.raises(LostConnectionError, match="parted was truncated or replaced"):
                    read(postgresql_server, settings, [], "parted")
            else:
                assert sorted(read(postgresql_server, settings, [], "parted")) == [1, 2]
    finally:
        writer.execute("DROP TABLE IF EXISTS parted, parted_1, other")
        writer.commit()


@pytest.mark.parametrize("few", [True, False], ids=["csv", "binary"])
def test_truncate_before_the_snapshot_is_not_retried(
    postgresql_server: Server, writer: psycopg.Connection, few: bool
) -> None:
    replace_rows(writer)
    writer.commit()
    retries: list[int] = []
    assert read(postgresql_server, ConnectionSettings(has_few_rows=few), retries) == NEW
    assert retries == [0]
