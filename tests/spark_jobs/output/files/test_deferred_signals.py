"""Signals that arrive while a move is made are handled after it, and the handlers are restored."""

from __future__ import annotations

import os
import subprocess
import sys

MOVES = """
import os, signal
from pushdown_spark.output.files.journal import hold_signals

is_moving, interrupts, lost = False, 0, 0

def stop(number, frame):
    pass

def interrupt(number, frame):
    global is_moving
    if is_moving:
        is_moving = False
        raise KeyboardInterrupt

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, interrupt)
parent = os.getpid()
child = os.fork()
if child == 0:
    while os.getppid() == parent:
        os.kill(parent, signal.SIGINT)
    os._exit(0)
for _ in range(2_000):
    try:
        is_moving = True
        with hold_signals():
            pass
        is_moving = False
    except KeyboardInterrupt:
        interrupts += 1
    if signal.getsignal(signal.SIGTERM) is not stop:
        lost += 1
        signal.signal(signal.SIGTERM, stop)
os.kill(child, signal.SIGKILL)
print(interrupts > 0, lost)
"""


def test_handlers_are_restored_if_one_of_them_raises() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", MOVES]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (process.stdout, process.stderr) == ("True 0\n", "")
