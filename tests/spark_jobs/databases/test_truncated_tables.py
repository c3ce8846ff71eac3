"""Tables of PostgreSQL that are truncated during a read: a snapshot from before the TRUNCATE has none of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pyarrow as pa
import pytest
from databases import DATABASE, HOST, USER, Server, wait_until

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import ConnectionSettings, address_of, connect
from pushdown_spark.databases.partition_reader import PartitionMetrics, PartitionReader
from pushdown_spark.databases.postgresql import PostgresqlClient
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


def read(server: Server, settings: ConnectionSettings, retries: list[int], relation: str = "truncated") -> list[int]:
    address = address_of(RemoteConnection.model_validate(server.connection()))

    def report(_number: int, metrics: PartitionMetrics) -> None:
        retries.append(metrics.retries)

    reader = PartitionReader(address, (f"SELECT k FROM {relation}",), FIELDS, settings, report)
    batches = reader(iter([pa.RecordBatch.from_pydict({"id": [0]})]))
    return [key for batch in batches for key in batch.column(0).to_pylist()]


@pytest.mark.parametrize("relation", ["truncated", "truncated_view"])
@pytest.mark.parametrize("few", [True, False], ids=["csv", "binary"])
def test_read_that_waits_for_a_truncate_returns_the_new_rows(
    postgresql_server: Server, writer: psycopg.Connection, few: bool, relation: str
) -> None:
    """COPY takes its snapshot before it waits for the lock of the table."""
    replace_rows(writer)
    retries: list[int] = []
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(read, postgresql_server, ConnectionSettings(few=few), retries, relation)
        assert wait_until(lambda: postgresql_server.execute(WAITING).strip() != "0")
        writer.commit()
        assert rows.result(timeout=120) == NEW
    assert retries == [1]


def test_snapshot_from_before_a_truncate_is_an_error(postgresql_server: Server, writer: psycopg.Connection) -> None:
    address = address_of(RemoteConnection.model_validate(postgresql_server.connection()))
    with closing(connect(address, ConnectionSettings())) as exporter:
        assert isinstance(exporter, PostgresqlClient)
        settings = ConnectionSettings(snapshot=exporter.export_snapshot())
        assert len(read(postgresql_server, settings, [])) == 1000
        replace_rows(writer)
        writer.commit()
        with pytest.raises(LostConnectionError, match="truncated was truncated or rewritten during the read"):
            read(postgresql_server, settings, [])


@pytest.mark.parametrize("few", [True, False], ids=["csv", "binary"])
def test_truncate_before_the_snapshot_is_no_error(
    postgresql_server: Server, writer: psycopg.Connection, few: bool
) -> None:
    replace_rows(writer)
    writer.commit()
    retries: list[int] = []
    assert read(postgresql_server, ConnectionSettings(few=few), retries) == NEW
    assert retries == [0]
