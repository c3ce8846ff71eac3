"""Free loopback ports for the services of a run. Like `e2e.compose`, this module needs only Python."""

from __future__ import annotations

import socket

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
