"""All processes of a run end with it."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

from e2e.processes import Programs, wait_for


def test_orphaned_processes_are_ended_at_the_end_of_the_run(tmp_path: Path) -> None:
    programs = Programs(tmp_path, dict(os.environ))
    # Airflow's processes overwrite their environment with their title, so this process has none either.
    program = programs.start("parent", ["sh", "-c", "env -i sleep 600 & wait"])
    wait_for("the child", lambda: len(program.tree()) == 2, 30)
    (child,) = program.tree()[1:]
    wait_for("its program", lambda: child.name() == "sleep", 30)
    programs.kill(program)
    assert child.is_running()
    assert child.environ() == {}
    programs.stop()
    assert not psutil.pid_exists(child.pid) or child.status() == psutil.STATUS_ZOMBIE
