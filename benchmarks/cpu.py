"""CPU seconds and bytes read of a process tree: this process, its JVM, and the JVM's Python workers."""

from __future__ import annotations

import ctypes
from collections.abc import Set

import psutil

_SET_CHILD_SUBREAPER = 36
"""The option of Linux's `prctl` that makes a process the parent of descendants whose own parent has ended."""


def adopt_orphans() -> None:
    """Become the parent of descendants whose parent ends before them, such as Python workers at the end of a JVM."""
    ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def reap_orphans(known: Set[int]) -> None:
    """Wait for all children but the known ones, by their process ids, so that the CPU seconds of orphans count."""
    for process in psutil.Process().children():
        if process.pid not in known:
            process.wait()


def child_ids() -> Set[int]:
    """Return the process ids of the running children."""
    return {process.pid for process in psutil.Process().children()}


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
