"""The processes of a job: output, exit code, and kills that reach all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from airflow_pushdown.packaging import job_program
from airflow_pushdown.spark_submit.processes import DRIVER_PROGRAM, JobProcess, session_members, wait_for_end
from e2e.processes import wait_for

# A parent with two children that ignore SIGTERM. One has its own process group, like Spark's Python workers.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for own_group in (True, False):
    if os.fork() == 0:
        if own_group:
            os.setpgid(0, 0)
        time.sleep(600)
print("ready", flush=True)
time.sleep(600)
"""


# A launcher that starts the driver and waits for it.
LAUNCHER = """
import subprocess, sys
subprocess.run([sys.executable, sys.argv[1], "--spec", "job.json"])
"""


# A driver that takes a moment to stop after SIGTERM, and then prints whether its launcher still runs.
DRIVER = """
import os, signal, sys, time
def stop(*_):
    time.sleep(0.5)
    os.write(1, b"with" if os.getppid() == launcher else b"without")
    sys.exit()
launcher = os.getppid()
signal.signal(signal.SIGTERM, stop)
os.write(1, b"ready\\n")
time.sleep(600)
"""


# A user without rights who ends a session.
POWERLESS = """
import os, sys
from airflow_pushdown.spark_submit import processes
processes._KILL_SECONDS = 0.2
os.setuid(65534)
processes.end_session(int(sys.argv[1]), 0.1)
"""


# A task that runs the job above with a private directory, prints its session, and waits for it.
TASK = """
import os, sys
from pathlib import Path
from airflow_pushdown.spark_submit.processes import JobProcess
job = JobProcess([sys.executable, "-c", sys.argv[1]], {"PATH": os.defpath}, [Path(sys.argv[2])])
next(job.lines())
print(job.session, flush=True)
job.wait()
"""


def start(code: str, **environment: str) -> JobProcess:
    return JobProcess([sys.executable, "-c", code], {"PATH": os.defpath, **environment})


@pytest.fixture
def stubborn() -> Iterator[JobProcess]:
    job = start(STUBBORN)
    wait_for("the children", lambda: len(session_members(job.session)) == 3, 30)
    yield job
    job.kill()
    job.wait()


def test_stdout_and_stderr_are_one_stream_with_indentation() -> None:
    job = start("import sys; print('out'); sys.stdout.flush(); print('  err ', file=sys.stderr)")
    assert list(job.lines()) == ["out", "  err"]
    assert job.wait() == 0


def test_output_that_is_not_utf8_is_read() -> None:
    job = start("import sys; sys.stdout.buffer.write(b'a\\xff\\n')")
    assert list(job.lines()) == ["a\N{REPLACEMENT CHARACTER}"]


def test_a_process_has_only_the_given_environment() -> None:
    job = start("import os; print(sorted(set(os.environ) - {'LC_CTYPE'}))", ONLY="this")
    assert list(job.lines()) == ["['ONLY', 'PATH']"]


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_the_exit_code_is_that_of_the_first_process(code: str, expected: int) -> None:
    job = start(code)
    list(job.lines())
    assert job.wait() == expected


def test_a_kill_ends_processes_in_other_groups_and_with_signal_handlers(stubborn: JobProcess) -> None:
    lines = stubborn.lines()
    assert next(lines) == "ready"
    assert len(session_members(stubborn.session)) == 3
    stubborn.kill()
    assert session_members(stubborn.session) == []
    assert list(lines) == []
    assert stubborn.wait() == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process that the test must not end")
def test_a_process_that_cannot_be_ended_is_reported() -> None:
    job = start("import time; print('ready', flush=True); time.sleep(600)")
    next(job.lines())
    process = subprocess.run([sys.executable, "-c", POWERLESS, str(job.session)], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert f"Processes {job.session} of the job do not end after SIGKILL" in process.stderr
    job.kill()


def test_a_process_that_ends_on_sigterm_gets_no_sigkill() -> None:
    job = start("import time; print('ready', flush=True); time.sleep(600)")
    lines = job.lines()
    next(lines)
    job.kill()
    assert job.wait() == -signal.SIGTERM


def test_the_driver_stops_before_its_launcher(tmp_path: Path) -> None:
    driver = tmp_path / DRIVER_PROGRAM
    driver.write_text(DRIVER)
    assert job_program().name == DRIVER_PROGRAM
    job = JobProcess([sys.executable, "-c", LAUNCHER, str(driver)], {"PATH": os.defpath})
    lines = job.lines()
    assert next(lines) == "ready"
    job.kill()
    assert list(lines) == ["with"]
    assert session_members(job.session) == []


def test_orphaned_processes_are_ended_and_the_output_closes() -> None:
    job = start("import os, time\nif os.fork() == 0:\n  print('child', flush=True); time.sleep(600)\ntime.sleep(.5)")
    assert list(job.lines()) == ["child"]
    assert job.wait() == 0
    assert session_members(job.session) == []


def test_an_exception_of_the_task_ends_its_job() -> None:
    job = start("import time; time.sleep(600)")
    with pytest.raises(KeyboardInterrupt), job:
        raise KeyboardInterrupt
    assert session_members(job.session) == []


def test_a_kill_works_while_another_thread_reads_the_output(stubborn: JobProcess) -> None:
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(stubborn.lines()))
    reader.start()
    wait_for("the first line", lambda: bool(lines), 30)
    stubborn.kill()
    reader.join()
    assert session_members(stubborn.session) == []


def test_wait_for_end_returns_whether_the_session_has_ended(stubborn: JobProcess) -> None:
    assert wait_for_end(stubborn.session, 0.1) is False
    stubborn.kill()
    assert wait_for_end(stubborn.session, 0.1) is True


def test_sigkill_of_a_task_ends_its_job_and_deletes_its_private_files(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir()
    (private / "secrets.json").touch()
    task = subprocess.Popen([sys.executable, "-c", TASK, STUBBORN, str(private)], stdout=subprocess.PIPE)
    assert task.stdout is not None
    session = int(task.stdout.readline())
    assert len(session_members(session)) == 3

    task.kill()
    task.communicate()

    assert wait_for_end(session, 10), session_members(session)
    wait_for("the end of the watchdog", lambda: not private.exists(), 10)


def test_a_kill_after_the_end_of_a_job_spares_the_session_that_got_its_id(stubborn: JobProcess) -> None:
    job = start("print('done')")
    list(job.lines())
    assert job.wait() == 0
    job.popen.pid = stubborn.session
    job.kill()
    assert len(session_members(stubborn.session)) == 3


def test_no_watchdog_remains_after_a_job() -> None:
    job = start("print('done')")
    list(job.lines())
    assert job.wait() == 0
    assert not [child for child in psutil.Process().children() if "processes.py" in " ".join(child.cmdline())]


def test_a_watchdog_that_cannot_run_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'libpython.so: cannot open shared object file' >&2\nexit 127\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    job = JobProcess(["echo", "done"], {"PATH": os.defpath})
    assert list(job.lines()) == ["done"]
    assert job.wait() == 0
    assert "A SIGKILL of this task would not end its job" in caplog.text
    assert "exit code 127: libpython.so: cannot open shared object file" in caplog.text


def test_the_watchdog_finds_the_libraries_of_its_python_and_gets_no_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nenv > {tmp_path}/variables\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/python/lib")
    monkeypatch.setenv("AIRFLOW_CONN_MINE", "hush-9")
    job = JobProcess(["echo", "done"], {"PATH": os.defpath})
    assert job.wait() == 0
    variables = (tmp_path / "variables").read_text()
    assert "LD_LIBRARY_PATH=/opt/python/lib" in variables
    assert "hush-9" not in variables
