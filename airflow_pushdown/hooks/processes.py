"""Runs spark-submit in a session of its own, and ends every process of that session when the job must go.

A task that is killed outright can end nothing. So a guard, which is this module as a program, waits beside every job
for the end of a pipe that the task alone holds open.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import psutil  # type: ignore[import-untyped]

TERM_GRACE_SECONDS = 3.0
"""How long a killed job may take to stop by itself; Airflow's supervisor kills the task 5 seconds after its SIGTERM."""

LEFTOVER_GRACE_SECONDS = 2.0
"""How long workers may outlive a spark-submit that ended by itself."""

DRIVER_PROGRAM = "job.py"
"""The driver's program: told to stop while its JVM still runs, it stops the job and deletes what was staged."""

_DRIVER_SHARE = 0.7
"""How much of a job's grace is the driver's, before the other processes are told."""

_POLL_SECONDS = 0.05


def session_members(session: int) -> list[int]:
    """Ids of the living processes of a session; zombies do not count."""
    return [pid for pid in psutil.pids() if _session_of(pid) == session and not _is_zombie(pid)]


def end_session(session: int, grace_seconds: float) -> None:
    """End every process of `session`: SIGTERM, to the driver first, then SIGKILL to those there after `grace_seconds`.

    Process groups would not do: Spark's Python worker daemon moves to a group of its own, but stays in the session.
    """
    deadline = time.monotonic() + grace_seconds
    if drivers := [pid for pid in session_members(session) if _is_driver(pid)]:
        _signal_all(drivers, signal.SIGTERM)
        _wait_until(lambda: not any(_is_driver(pid) for pid in drivers), grace_seconds * _DRIVER_SHARE)
    _signal_all(session_members(session), signal.SIGTERM)
    if wait_for_end(session, deadline - time.monotonic()):
        return
    # Repeated, because a process that forks while it is being killed leaves a child behind.
    while members := session_members(session):
        _signal_all(members, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def wait_for_end(session: int, seconds: float) -> bool:
    """Wait at most `seconds` until no process of `session` lives; whether that was reached."""
    return _wait_until(lambda: not session_members(session), seconds)


class JobProcess:
    """A running spark-submit with everything that it started."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start `command` with exactly `environment`; output and errors come as one stream, as they are printed."""
        self._guard = _Guard()
        try:
            self.popen = subprocess.Popen(  # noqa: S603 - the command is built by us, no shell is involved
                list(command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError:
            self._guard.dismiss()
            raise
        self._guard.watch(self.popen.pid)
        self._reaper = threading.Thread(target=self._reap, name="spark-submit-reaper", daemon=True)
        self._reaper.start()

    @property
    def session(self) -> int:
        """Id of the session, which is also the process id of spark-submit."""
        return self.popen.pid

    def lines(self) -> Iterator[str]:
        """Lines of output until the last process that could write one has gone."""
        if self.popen.stdout is None:
            return
        with self.popen.stdout as stream:
            for line in stream:
                yield line.decode("utf-8", errors="replace").rstrip()

    def wait(self) -> int:
        """Wait for the end of the whole session; the exit code of spark-submit, negative for a signal."""
        self._reaper.join()
        return self.popen.returncode

    def kill(self) -> None:
        """End spark-submit, driver, JVM and Python workers within the grace time and the moment SIGKILL takes.

        Callable from a signal handler: it takes no lock that the interrupted code may hold.
        """
        end_session(self.session, TERM_GRACE_SECONDS)

    def _reap(self) -> None:
        """Wait for spark-submit, then end what it left behind, so that the output stream comes to its end."""
        self.popen.wait()
        if not wait_for_end(self.session, LEFTOVER_GRACE_SECONDS):
            end_session(self.session, LEFTOVER_GRACE_SECONDS)
        self._guard.dismiss()


class _Guard:
    """A process that ends a session of processes when the one that started it is gone without a word."""

    def __init__(self) -> None:
        self._popen = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-P", str(Path(__file__))],
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, session: int) -> None:
        """Name the session to end."""
        self._tell(f"{session}\n".encode())

    def dismiss(self) -> None:
        """Say that there is nothing to end, and wait for the guard to go."""
        self._tell(_DISMISSED)
        with contextlib.suppress(BrokenPipeError):
            self._popen.communicate()

    def _tell(self, message: bytes) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(message)
            self._popen.stdin.flush()


_DISMISSED = b"done\n"


def guard(orders: BinaryIO) -> None:
    """End the session that is named in the first line of `orders`, unless a second line follows before their end."""
    session, dismissed = orders.readline(), orders.readline()
    if session and not dismissed:
        end_session(int(session), TERM_GRACE_SECONDS)


def _wait_until(reached: Callable[[], bool], seconds: float) -> bool:
    """Wait at most `seconds` until `reached` holds; whether it came to that."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_driver(pid: int) -> bool:
    """Whether a living process runs the driver's program; spark-submit, whose arguments name it as well, does not."""
    try:
        return [Path(argument).name for argument in psutil.Process(pid).cmdline()[1:2]] == [DRIVER_PROGRAM]
    except psutil.Error:
        return False


def _session_of(pid: int) -> int | None:
    """Session of a process, or None when it has gone."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and only waits to be reaped (or has been)."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    guard(sys.stdin.buffer)
