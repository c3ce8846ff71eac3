"""CPU seconds and bytes read of a process tree: this process, the JVM it drives, the Python workers of that JVM."""

from __future__ import annotations

import psutil


def tree_seconds() -> float:
    """User and system seconds used so far by this process and all its descendants, finished ones included."""
    me = psutil.Process()
    total = 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def tree_bytes() -> int:
    """Bytes that the processes alive now have read by system calls: from files, whether cached or not, and pipes."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.io_counters().read_chars
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
