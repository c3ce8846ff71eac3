"""Starts the programs of a run, each with a log of its own, and ends them all with whatever they started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

RUN_VARIABLE = "PUSHDOWN_E2E_RUN"
"""Names the run in the environment of all that it starts, so that nothing of it can be lost from sight."""

_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.2


class E2eError(Exception):
    """Something is not as it must be; the message says what and where to look."""


@dataclass(frozen=True)
class Program:
    """A started program."""

    name: str
    process: psutil.Popen
    log: Path

    def tree(self) -> list[psutil.Process]:
        """The program and all its descendants."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def check(self) -> None:
        """Raise `E2eError` with the end of its log when the program has ended."""
        if (code := self.process.poll()) is not None:
            tail = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise E2eError(f"{self.name} ended with exit code {code}; the end of {self.log}:\n{tail}")


class Programs:
    """The programs of one run, in a session of their own each: Ctrl-C reaches whoever waits for them, not them."""

    def __init__(self, run: Path, environment: Mapping[str, str]) -> None:
        """`run` is the directory of the run, whose logs go to `logs` in it."""
        self._run = run
        self._environment = {**environment, RUN_VARIABLE: str(run)}
        self._logs = run / "logs"
        self._logs.mkdir(exist_ok=True)
        self._started: list[Program] = []
        self._sessions: set[int] = set()

    def start(self, name: str, command: Sequence[str], **variables: str) -> Program:
        """Start a program; `variables` are added to the environment of the run."""
        log = self._logs / f"{name}.log"
        with log.open("ab") as output:
            process = psutil.Popen(
                list(command),
                env={**self._environment, **variables},
                cwd=self._run,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        program = Program(name, process, log)
        self._started.append(program)
        self._sessions.add(process.pid)
        return program

    def run(self, name: str, command: Sequence[str], **variables: str) -> None:
        """Run a program to its end; raises `E2eError` when it fails."""
        program = self.start(name, command, **variables)
        try:
            if program.process.wait():
                program.check()
        finally:
            self._started.remove(program)

    def named(self, name: str) -> Program:
        """The running program of a name."""
        return next(program for program in self._started if program.name == name)

    def kill(self, program: Program) -> None:
        """End a program at once, as the kernel would, without its descendants; it is not missed from now on."""
        program.process.kill()
        program.process.wait()
        self._started.remove(program)

    def check(self) -> None:
        """Raise `E2eError` when one of the programs has ended."""
        for program in self._started:
            program.check()

    def stop(self) -> None:
        """End all programs, the last first, then everything else that belongs to the run."""
        for program in reversed(self._started):
            _end(program.tree(), program.process)
        self._started.clear()
        _end(list(self.members()), None)

    def members(self) -> Iterator[psutil.Process]:
        """Every living process of the run, whoever started it."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if process.pid != os.getpid() and self._is_ours(process):
                    yield process

    def _is_ours(self, process: psutil.Process) -> bool:
        """By its session, or by its environment: Airflow's processes write their title over the latter."""
        if os.getsid(process.pid) in self._sessions:
            return True
        return bool(process.environ().get(RUN_VARIABLE) == str(self._run))


def wait_for(
    what: str,
    reached: Callable[[], bool],
    seconds: float,
    watch: Callable[[], None] = lambda: None,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Wait until `reached` holds; raises `E2eError` after `seconds`, and whatever `watch` raises meanwhile."""
    deadline = time.monotonic() + seconds
    while not reached():
        watch()
        if time.monotonic() > deadline:
            raise E2eError(f"{what}: not reached within {seconds:.0f} s")
        time.sleep(poll_seconds)


def _end(processes: list[psutil.Process], first: psutil.Process | None) -> None:
    """SIGTERM to the first of a tree (to all where there is none), then SIGKILL to those that remain."""
    for process in [first] if first is not None else processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_STOP_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_STOP_SECONDS)
