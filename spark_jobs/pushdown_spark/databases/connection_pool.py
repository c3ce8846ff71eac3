"""The driver's connections to one database.

A new connection costs PostgreSQL 10 ms with TLS and a password, and it has to read the catalog again. The connection
that planned a query therefore stays open for a few seconds, for the query to read its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pushdown_spark.contract import RemoteSourceSpec
from pushdown_spark.databases.client import Address, Client, ConnectionSettings
from pushdown_spark.databases.dialects import connect
from pushdown_spark.errors import PushdownError

IDLE_SECONDS = 5.0
"""How long an idle connection stays open. A query that runs right after planning needs no longer."""


class ConnectionPool:
    """A source of connections for small results. At most one connection is idle, for `IDLE_SECONDS`."""

    def __init__(self, address: Address, spec: RemoteSourceSpec) -> None:
        self.address = address
        self._settings = ConnectionSettings(spec.fetch_size, spec.statement_timeout, few=True)
        self._lock = threading.Lock()
        self._idle: Client | None = None
        self._timer: threading.Timer | None = None

    def open(self) -> Client:
        """Return a connection that the caller closes. Raises what a new connection raises."""
        idle = self._take_idle()
        if idle is not None:
            try:
                idle.rows("SELECT 1")
            except PushdownError:
                idle.close()
            else:
                return idle
        return connect(self.address, self._settings)

    @contextmanager
    def lease(self) -> Iterator[Client]:
        """Lend a connection, which becomes the idle one afterwards."""
        client = self.open()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._make_idle(client)

    def _make_idle(self, client: Client) -> None:
        self._expire()
        if self.address.kind == "sqlite":
            # Opening a file takes no time, and an open file cannot be replaced on every system.
            client.close()
            return
        with self._lock:
            self._idle = client
            self._timer = threading.Timer(IDLE_SECONDS, self._expire)
            self._timer.daemon = True
            self._timer.start()

    def _take_idle(self) -> Client | None:
        with self._lock:
            client, self._idle = self._idle, None
            if self._timer is not None:
                self._timer.cancel()
            return client

    def _expire(self) -> None:
        client = self._take_idle()
        if client is not None:
            client.close()
