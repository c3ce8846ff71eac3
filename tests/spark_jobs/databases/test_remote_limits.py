"""Resources of a remote scan: bounded batches, few connections, and no connection after its worker ended."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from databases import Server, wait_until
from every_type import sqlite_file

from pushdown_spark.contract import DatabaseKind, RemoteConnection, RemoteSourceSpec
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, address_of, connect, describe_table
from pushdown_spark.databases.read.partition_splits import MAX_CONNECTIONS, plan_splits

ROWS, WIDTH = 30_000, 1000
FIELDS = (pa.field("k", pa.int64()), pa.field("s", pa.string()))
STATEMENT = "SELECT k, s FROM heavy"
SLOW = {
    "postgresql": "SELECT seq AS k, repeat('x', 4000) || pg_sleep(0.01)::text AS s FROM {numbers}",
    "mysql": "SELECT seq AS k, concat(repeat('x', 4000), sleep(0.01)) AS s FROM {numbers}",
}
OPEN = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'airflow_pushdown'",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%sleep(0.01)%' "
    "AND id <> connection_id()",
}
WORKER = """
import json, sys
import pyarrow as pa
from pushdown_spark.databases.client import DatabaseAddress, ConnectionSettings, connect
address, statement = json.load(sys.stdin)
fields = (pa.field("k", pa.int64()), pa.field("s", pa.string()))
for _ in connect(DatabaseAddress(**address), ConnectionSettings()).batches(statement, fields):
    pass
"""


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    database: Server = request.getfixturevalue(request.param)
    return database


def address_from(connection: dict[str, object]) -> DatabaseAddress:
    return address_of(RemoteConnection.model_validate(connection))


def count_connections(server: Server) -> int:
    """Return the number of reading connections that the server reports."""
    return int(server.execute(OPEN[server.kind]).strip())


def batches_of(address: DatabaseAddress, settings: ConnectionSettings) -> list[tuple[int, int]]:
    client = connect(address, settings)
    try:
        return [(batch.num_rows, batch.nbytes) for batch in client.batches(STATEMENT, FIELDS)]
    finally:
        client.close()


def assert_bounded(batches: list[tuple[int, int]], most_bytes: int) -> None:
    assert sum(rows for rows, _ in batches) == ROWS
    assert max(size for _, size in batches) <= most_bytes < ROWS * WIDTH / 2


def test_rows_of_servers_arrive_in_bounded_batches(server: Server) -> None:
    server.execute(
        "DROP TABLE IF EXISTS heavy",
        "CREATE TABLE heavy (k bigint, s text)",
        f"INSERT INTO heavy SELECT seq, repeat('x', {WIDTH}) FROM {server.numbers(ROWS)}",
    )
    address = address_from(server.connection())
    assert_bounded(batches_of(address, ConnectionSettings()), 8 << 20)
    assert_bounded(batches_of(address, ConnectionSettings(has_few_rows=True, fetch_size=1000)), 8 << 20)


def test_rows_of_sqlite_arrive_in_bounded_batches(tmp_path: Path) -> None:
    connection = sqlite_file(
        tmp_path,
        "CREATE TABLE heavy (k integer, s text)",
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) "
        f"INSERT INTO heavy SELECT i, hex(zeroblob({WIDTH // 2})) FROM n",
    )
    assert_bounded(batches_of(address_from(connection), ConnectionSettings(fetch_size=1000)), 2 << 20)


def test_the_default_number_of_connections_is_small(postgresql_server: Server) -> None:
    postgresql_server.execute(
        "DROP TABLE IF EXISTS keyed", "CREATE TABLE keyed AS SELECT i AS k FROM generate_series(1, 1000) i"
    )
    client = connect(address_from(postgresql_server.connection()), ConnectionSettings())
    try:
        for number, expected in ((None, MAX_CONNECTIONS), (20, 20)):
            spec = RemoteSourceSpec(table="keyed", partition_column="k", num_partitions=number)
            table = describe_table(client, DatabaseKind.POSTGRESQL, spec)
            assert len(plan_splits(client, table, spec, "SELECT k FROM keyed", 100).conditions) == expected
    finally:
        client.close()


def test_connections_of_a_killed_worker_are_closed(server: Server, project: Path) -> None:
    worker = subprocess.Popen([sys.executable, "-c", WORKER], stdin=subprocess.PIPE, cwd=project, text=True)
    assert worker.stdin is not None
    with worker.stdin:
        json.dump(
            [asdict(address_from(server.connection())), SLOW[server.kind].format(numbers=server.numbers(100_000))],
            worker.stdin,
        )
    assert wait_until(lambda: count_connections(server) > 0)
    worker.send_signal(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    assert wait_until(lambda: count_connections(server) == 0)
