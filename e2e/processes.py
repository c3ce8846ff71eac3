"""The programs of a run, each with its own log. They are ended together with all processes that they started."""

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
"""The variable that identifies the run in the environment of all its processes."""

_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.2


class E2eError(Exception):
    """A failed check. The message has the reason and where to look."""


@dataclass(frozen=True)
class Program:
    """A started program."""

    name: str
    process: psutil.Popen
    log: Path

    def tree(self) -> list[psutil.Process]:
        """Return the program and all its descendants."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self.process, *self.process.children(recursive=True)]
        return []

    def check(self) -> None:
        """Raise `E2eError` with the end of the log if the program has ended."""
        if (code := self.process.poll()) is not None:
            tail = "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:])
            raise E2eError(f"{self.name} ended with exit code {code}; the end of {self.log}:\n{tail}")


class Programs:
    """The programs of one run. Each has its own session, so that Ctrl-C does not reach them."""

    def __init__(self, run: Path, environment: Mapping[str, str]) -> None:
        """Set the directory of the run, which has the logs in `logs`."""
        self._run = run
        self._environment = {**environment, RUN_VARIABLE: str(run)}
        self.logs = run / "logs"
        self.logs.mkdir(exist_ok=True)
        self._started: list[Program] = []
        self._sessions: set[int] = set()

    def start(self, name: str, command: Sequence[str], **variables: str) -> Program:
        """Start a program. `variables` are added to the environment of the run."""
        log = self.logs / f"{name}.log"
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
        """Run a program to its end. Raises `E2eError` if it fails."""
        program = self.start(name, command, **variables)
        try:
            if program.process.wait():
                program.check()
        finally:
            self._started.remove(program)

    def by_name(self, name: str) -> Program:
        """Return the running program with a name."""
        return next(program for program in self._started if program.name == name)

    def kill(self, program: Program) -> None:
        """Kill a program with SIGKILL, but not its descendants. `check` ignores it from now on."""
        program.process.kill()
        program.process.wait()
        self._started.remove(program)

    def kill_machine(self, name: str) -> None:
        """Kill a program and all its descendants, as when a machine is lost."""
        program = self.by_name(name)
        descendants = program.tree()[1:]
        self.kill(program)
        for process in descendants:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def check(self) -> None:
        """Raise `E2eError` if one of the programs has ended."""
        for program in self._started:
            program.check()

    def stop(self) -> None:
        """End all programs in reverse order, then all other processes of the run."""
        for program in reversed(self._started):
            _end(program.tree(), program.process)
        self._started.clear()
        _end(list(self.members()), None)

    def members(self) -> Iterator[psutil.Process]:
        """Yield every running process of the run."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if process.pid != os.getpid() and self._is_ours(process):
                    yield process

    def _is_ours(self, process: psutil.Process) -> bool:
        """Return whether a process belongs to the run, by its session or its environment.

        Airflow's processes overwrite their environment with their title.
        """
        if os.getsid(process.pid) in self._sessions:
            return True
        return bool(process.environ().get(RUN_VARIABLE) == str(self._run))


def wait_for(
    what: str,
    is_done: Callable[[], bool],
    seconds: float,
    watch: Callable[[], None] = lambda: None,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Wait until `is_done` returns true. Raises `E2eError` after `seconds`, and any error of `watch`."""
    deadline = time.monotonic() + seconds
    while not is_done():
        watch()
        if time.monotonic() > deadline:
            raise E2eError(f"{what}: not done within {seconds:.0f} s")
        time.sleep(poll_seconds)


def _end(processes: list[psutil.Process], first: psutil.Process | None) -> None:
    """Send SIGTERM to the first process, or to all if there is none, then SIGKILL to the remaining ones."""
    for process in [first] if first is not None else processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=_STOP_SECONDS)
    for process in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=_STOP_SECONDS)
