"""The end of a driver whose JVM was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SECONDS = 60.0
CHILD = """
import os, pathlib, signal, sys, time
from pushdown_spark.driver import parent_watch
parent_watch._POLL_SECONDS = parent_watch._NOTICE_SECONDS = parent_watch._CLEANUP_SECONDS = 0.1
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
parent_watch.watch_parent()
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
time.sleep(600)
"""
PARENT = "import subprocess, sys, time; subprocess.Popen(sys.argv[1:]); time.sleep(600)"


def start_parent(file: Path, kind: str, **variables: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a parent with a child that watches it. Return the parent and the id of the child."""
    command = [sys.executable, "-c", PARENT, sys.executable, "-c", CHILD, str(file), kind]
    paths = os.pathsep.join(filter(None, sys.path))
    parent = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths, **variables})
    deadline = time.monotonic() + SECONDS
    while not (file.is_file() and file.read_text()):
        assert time.monotonic() < deadline, "the child did not start"
        time.sleep(0.05)
    return parent, int(file.read_text())


def has_ended(pid: int, seconds: float) -> bool:
    """Wait for the end of a process, which may remain as a zombie without a parent that waits for it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


def test_a_program_ends_after_its_jvm_even_if_it_ignores_signals(tmp_path: Path) -> None:
    for kind in ("ready", "deaf"):
        parent, child = start_parent(tmp_path / kind, kind, PYSPARK_GATEWAY_PORT="1")
        parent.kill()
        parent.wait()
        assert has_ended(child, SECONDS)


def test_a_program_that_starts_its_jvm_itself_outlives_its_parent(tmp_path: Path) -> None:
    parent, child = start_parent(tmp_path / "own", "ready")
    parent.kill()
    parent.wait()
    assert not has_ended(child, 1.0)
    os.kill(child, signal.SIGKILL)
