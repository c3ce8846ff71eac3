"""Free loopback ports for the services of a run. Like `e2e.compose`, this module needs only Python."""

from __future__ import annotations

import socket
from contextlib import ExitStack

HOST = "127.0.0.1"


def free_port() -> int:
    """Return a port on which no process listens."""
    [port] = free_ports(1)
    return port


def free_ports(number: int) -> list[int]:
    """Return different ports on which no process listens. Two calls may return the same port."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(number)]
        for probe in probes:
            probe.bind((HOST, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
