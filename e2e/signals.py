"""Signals that end a run. Like `e2e.ports`, this module needs only Python."""

from __future__ import annotations

import signal
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def interrupt_on_signals() -> None:
    """Raise KeyboardInterrupt at SIGINT and SIGTERM, but only once, so that a second signal cannot stop the cleanup."""
    for number in _SIGNALS:
        signal.signal(number, _interrupt)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt
