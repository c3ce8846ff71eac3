"""End of a driver whose JVM was killed. A cluster does not end the Python process of the driver."""

from __future__ import annotations

import os
import signal
import threading
import time

_GATEWAY = "PYSPARK_GATEWAY_PORT"
"""The variable that a JVM sets for the Python program that it starts."""
_POLL_SECONDS = 1.0
_NOTICE_SECONDS = 5.0
"""The time that the program itself usually needs to notice the end of its JVM."""
_CLEANUP_SECONDS = 20.0


def watch_parent() -> None:
    """Let this process end soon after the JVM that started it. Return at once."""
    if _GATEWAY in os.environ:
        parent = os.getppid()
        threading.Thread(target=_end_after, args=(parent,), name="parent-watch", daemon=True).start()


def _end_after(parent: int) -> None:
    """Wait for the end of the parent, then interrupt the program, and end it if that does not help.

    A statement of a database may run for long without noticing a signal.
    """
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    time.sleep(_NOTICE_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_CLEANUP_SECONDS)
    os._exit(1)
