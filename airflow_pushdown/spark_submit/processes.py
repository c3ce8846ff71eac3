"""Execution of spark-submit in a separate session, so that all processes of the job can be stopped.

A task that is killed with SIGKILL cannot stop its job. For each job, a watchdog process runs this module as a program.
It waits for the end of a pipe that only the task holds open, then ends the session and deletes the job's private files.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import psutil  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

TERM_GRACE_SECONDS = 3.0
"""The time that a killed job has to stop. Airflow's supervisor kills the task 5 seconds after its SIGTERM."""

LEFTOVER_GRACE_SECONDS = 2.0
"""The time that workers may run after spark-submit has ended."""

DRIVER_PROGRAM = "job.py"
"""The program of the driver. It gets SIGTERM first, so that it can stop the job and delete staged rows."""

_DRIVER_SHARE = 0.7
"""The share of the grace time for the driver, before the other processes get a signal."""

_KILL_SECONDS = 30.0
"""The time that processes have to end after SIGKILL. A process that waits for a lost file system takes longer."""

_POLL_SECONDS = 0.05
_LOADER = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONHOME")
"""Variables without which some Python programs do not start."""
_DISMISSAL = "done"
"""The line that ends the watchdog of a job that has ended."""


def session_members(session: int) -> list[int]:
    """Return the ids of the running processes of a session, without zombies."""
    return [pid for pid in psutil.pids() if _session_of(pid) == session and not _is_zombie(pid)]


def end_session(session: int, grace_seconds: float) -> None:
    """End all processes of a session: SIGTERM, to the driver first, then SIGKILL after `grace_seconds`.

    A process group is not sufficient, because Spark's Python worker daemon creates its own group in the same session.
    """
    deadline = time.monotonic() + grace_seconds
    if drivers := [pid for pid in session_members(session) if _is_driver(pid)]:
        _signal_all(drivers, signal.SIGTERM)
        _wait_until(lambda: not any(_is_driver(pid) for pid in drivers), grace_seconds * _DRIVER_SHARE)
    _signal_all(session_members(session), signal.SIGTERM)
    if wait_for_end(session, deadline - time.monotonic()):
        return
    # A process may fork before it is killed, so the signal is repeated.
    deadline = time.monotonic() + _KILL_SECONDS
    while members := session_members(session):
        if time.monotonic() > deadline:
            numbers = ", ".join(map(str, members))
            log.warning(
                "Processes %s of the job do not end after SIGKILL; end them on %s", numbers, os.uname().nodename
            )
            return
        _signal_all(members, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def wait_for_end(session: int, seconds: float) -> bool:
    """Wait at most `seconds` for the end of a session, and return whether it has ended."""
    return _wait_until(lambda: not session_members(session), seconds)


class JobProcess:
    """A running spark-submit and all processes that it started.

    As a context manager, it ends them if the block raises: a job must not continue without its task, for example after
    a timeout or an interrupt.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], private: Sequence[Path] = ()) -> None:
        """Start a command with this environment only. Standard output and standard error are one stream.

        The directories `private` are deleted if this process is killed before the job ends.
        """
        self._watchdog = _Watchdog()
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
            self._watchdog.dismiss()
            raise
        self._watchdog.watch(self.popen.pid, private)
        self._reaper = threading.Thread(target=self._reap, name="spark-submit-reaper", daemon=True)
        self._reaper.start()

    @property
    def session(self) -> int:
        """The id of the session, which is also the process id of spark-submit."""
        return self.popen.pid

    def lines(self) -> Iterator[str]:
        """Yield the lines of output until the last process that can write has ended."""
        if self.popen.stdout is None:
            return
        with self.popen.stdout as stream:
            for line in stream:
                yield line.decode("utf-8", errors="replace").rstrip()

    def wait(self) -> int:
        """Wait for the end of the session, and return the exit code of spark-submit, negative for a signal."""
        self._reaper.join()
        return self.popen.returncode

    def kill(self) -> None:
        """End spark-submit, driver, JVM and Python workers, with SIGKILL after the grace time.

        Signal handlers may call it, because it takes no lock that the interrupted code may hold.
        """
        # After the end of the session, another one may get its id.
        if self._reaper.is_alive():
            end_session(self.session, TERM_GRACE_SECONDS)

    def __enter__(self) -> JobProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if problem is not None:
            self.kill()

    def _reap(self) -> None:
        """Wait for spark-submit, then end the remaining processes, so that the output stream ends."""
        self.popen.wait()
        if not wait_for_end(self.session, LEFTOVER_GRACE_SECONDS):
            end_session(self.session, LEFTOVER_GRACE_SECONDS)
        self._watchdog.dismiss()


class _Watchdog:
    """A process that ends a session and deletes private directories if the task is killed."""

    def __init__(self) -> None:
        # Without the worker's other variables, which may have credentials.
        loader = {name: os.environ[name] for name in _LOADER if name in os.environ}
        self._popen = subprocess.Popen(  # noqa: S603 - this very file
            [sys.executable, "-P", str(Path(__file__))],
            env={**loader, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self._reporter = threading.Thread(target=self._report_failure, name="watchdog-reporter", daemon=True)
        self._reporter.start()

    def watch(self, session: int, private: Sequence[Path]) -> None:
        """Send the session to end, and the directories to delete."""
        self._send(_lines(session, *private))

    def dismiss(self) -> None:
        """Tell the watchdog that the job has ended, and wait until it ends."""
        self._send(_lines(_DISMISSAL))
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.close()
        self._reporter.join()

    def _send(self, message: bytes) -> None:
        assert self._popen.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(message)
            self._popen.stdin.flush()

    def _report_failure(self) -> None:
        """Wait for the end of the watchdog, and log a warning if it could not run until the end of the job."""
        assert self._popen.stderr is not None
        with self._popen.stderr as stream:
            lines = stream.read().decode("utf-8", errors="replace").splitlines()
        if returncode := self._popen.wait():
            log.warning(
                "A SIGKILL of this task would not end its job, because the watchdog %s has ended with exit code %d: %s",
                sys.executable,
                returncode,
                lines[-1] if lines else "it printed no lines",
            )


def watch(orders: BinaryIO) -> None:
    """End the session in the first line of `orders`, and delete the directories in the others.

    Do nothing if the stream ends with the line that dismisses the watchdog.
    """
    lines = [os.fsdecode(line) for line in orders.read().splitlines()]
    if not lines or lines[-1] == _DISMISSAL:
        return
    end_session(int(lines[0]), TERM_GRACE_SECONDS)
    for directory in lines[1:]:
        shutil.rmtree(directory, ignore_errors=True)


def _lines(*words: object) -> bytes:
    return b"".join(os.fsencode(f"{word}\n") for word in words)


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait at most `seconds` for a condition, and return whether it was met."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _is_driver(pid: int) -> bool:
    """Return whether a process runs the driver's program, which spark-submit only has as an argument."""
    try:
        return [Path(argument).name for argument in psutil.Process(pid).cmdline()[1:2]] == [DRIVER_PROGRAM]
    except psutil.Error:
        return False


def _session_of(pid: int) -> int | None:
    """Return the session of a process, or None if it has ended."""
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_zombie(pid: int) -> bool:
    """Return whether a process has ended, even if its parent has not reaped it."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    """Send a signal to each process that is still running and belongs to this user."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


if __name__ == "__main__":
    watch(sys.stdin.buffer)
