"""The driver's own connections to a database, of which one waits a moment after planning for whoever reads.

Connecting with TLS and a password takes PostgreSQL 10 ms, and a new connection has to read the catalogue anew: a needle
is found in less.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pushdown_spark.contract import RemoteSourceSpec
from pushdown_spark.databases.address import Address, Settings
from pushdown_spark.databases.client import Client, connect
from pushdown_spark.errors import PushdownError

WAITING_SECONDS = 5.0
"""Whoever plans and runs takes the connection at once; whoever does not is to hold none."""


class Connections:
    """Opens connections for small answers; at most one of them is idle, and that for some seconds only."""

    def __init__(self, address: Address, spec: RemoteSourceSpec) -> None:
        self.address = address
        self._settings = Settings(spec.fetch_size, spec.statement_timeout, few=True)
        self._lock = threading.Lock()
        self._idle: Client | None = None
        self._clock: threading.Timer | None = None

    def opened(self) -> Client:
        """A connection that is the caller's to close. Raises what a new connection raises."""
        idle = self._taken()
        if idle is not None:
            try:
                idle.rows("SELECT 1")
            except PushdownError:
                idle.close()
            else:
                return idle
        return connect(self.address, self._settings)

    @contextmanager
    def lent(self) -> Iterator[Client]:
        """A connection for a moment, which then waits for the next who wants one."""
        client = self.opened()
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._keep(client)

    def _keep(self, client: Client) -> None:
        self._expire()
        if self.address.kind == "sqlite":
            # To open a file takes no time, and an open one is in the way of whoever wants to replace it.
            client.close()
            return
        with self._lock:
            self._idle = client
            self._clock = threading.Timer(WAITING_SECONDS, self._expire)
            self._clock.daemon = True
            self._clock.start()

    def _taken(self) -> Client | None:
        with self._lock:
            client, self._idle = self._idle, None
            if self._clock is not None:
                self._clock.cancel()
            return client

    def _expire(self) -> None:
        client = self._taken()
        if client is not None:
            client.close()
