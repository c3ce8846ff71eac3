"""Lost connections are reopened before the first row, and fail the task after it. A real relay interrupts them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pyarrow as pa
import pytest
from databases import HOST, Server

from pushdown_spark.contract import RemoteConnection
from pushdown_spark.databases.client import ConnectionSettings, DatabaseAddress, address_of
from pushdown_spark.databases.read.partition_reader import PartitionMetrics, PartitionReader
from pushdown_spark.errors import LostConnectionError

ROWS = 400_000
FIELDS = (pa.field("k", pa.int64()), pa.field("s", pa.string()))
STATEMENT = "SELECT k, s FROM relayed"


class Relay:
    """A relay to a server. It closes connections that have a budget after that number of bytes."""

    def __init__(self, port: int, budgets: list[int | None]) -> None:
        self._port = port
        self._budgets = budgets
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            budget = self._budgets.pop(0) if self._budgets else None
            server = socket.create_connection((HOST, self._port))
            threading.Thread(target=_pump, args=(client, server, None), daemon=True).start()
            threading.Thread(target=_pump, args=(server, client, budget), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket, budget: int | None) -> None:
    """Forward bytes until either end closes or the budget is used up, then close both ends."""
    with suppress(OSError):
        while (budget is None or budget > 0) and (data := source.recv(1 << 16)):
            target.sendall(data if budget is None else data[:budget])
            budget = None if budget is None else budget - len(data)
    for end in (source, target):
        # Closing alone does not wake the other thread that waits at this end.
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture(params=["postgresql_server", "mariadb_server", "mysql_server"])
def server(request: pytest.FixtureRequest) -> Server:
    """Return a server with a table of many rows."""
    database: Server = request.getfixturevalue(request.param)
    database.execute(
        "DROP TABLE IF EXISTS relayed",
        "CREATE TABLE relayed (k bigint, s text)",
        f"INSERT INTO relayed SELECT seq, concat('row ', seq) FROM {database.numbers(ROWS)}",
    )
    return database


@contextmanager
def relay(server: Server, *budgets: int | None) -> Iterator[DatabaseAddress]:
    relay = Relay(server.port, list(budgets))
    yield address_of(
        RemoteConnection.model_validate(server.connection(port=relay.port, tls={"mode": "disable"}, connect_timeout=5))
    )
    relay.close()


def reading(address: DatabaseAddress, counts: list[PartitionMetrics]) -> Callable[[], Iterator[pa.RecordBatch]]:
    reader = PartitionReader(
        address, (STATEMENT,), FIELDS, ConnectionSettings(), lambda number, count: counts.append(count)
    )
    return lambda: reader(iter([pa.RecordBatch.from_pydict({"id": [0]})]))


def test_a_connection_lost_before_the_first_row_is_reopened(server: Server) -> None:
    counts: list[PartitionMetrics] = []
    with relay(server, 1, 60) as address:
        batches = list(reading(address, counts)())
    keys = sorted(key for batch in batches for key in batch.column(0).to_pylist())
    assert keys == list(range(1, ROWS + 1))
    (count,) = counts
    assert (count.rows, count.retries) == (ROWS, 2)


def test_a_connection_that_is_lost_every_time_raises(server: Server) -> None:
    with relay(server, 1, 1, 1, 1) as address, pytest.raises(LostConnectionError) as error:
        list(reading(address, [])())
    assert "\n" not in str(error.value)
    assert server.password not in str(error.value)


def test_a_connection_lost_after_the_first_row_fails_the_task(server: Server) -> None:
    """Rows that were returned must not be repeated: Spark restarts the partition."""
    counts: list[PartitionMetrics] = []
    # PostgreSQL's driver asks for the types of the database over a separate connection.
    before = (None,) if server.kind == "postgresql" else ()
    with relay(server, *before, 6_000_000) as address:
        batches = reading(address, counts)()
        assert next(batches).num_rows
        with pytest.raises(LostConnectionError):
            list(batches)
    assert counts == []
