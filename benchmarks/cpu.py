"""CPU seconds and bytes read of a process tree: this process, its JVM, and the JVM's Python workers."""

from __future__ import annotations

import psutil


def tree_seconds() -> float:
    """Return user and system seconds of this process and all descendants, including ended ones."""
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
    """Return the bytes that running processes have read by system calls, from files, the page cache and pipes."""
    me = psutil.Process()
    total = 0
    for process in (me, *me.children(recursive=True)):
        try:
            total += process.io_counters().read_chars
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
